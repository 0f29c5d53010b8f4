// SPDX-License-Identifier: Apache-2.0
//! A handle of the library, which calls of several threads share and a close takes.

use std::ptr::null_mut;
use std::sync::{PoisonError, RwLock};
use xfer_sys::{xfer_status_t, XFER_ECLOSED};

type Close<T> = unsafe extern "C" fn(*mut T) -> xfer_status_t;

pub(crate) struct Handle<T> {
    raw: RwLock<*mut T>, // NULL once it is closed
    close: Close<T>,
}

// SAFETY: any thread may call with a handle of the library, and no call overlaps its close.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

impl<T> Handle<T> {
    /// # Safety
    /// `raw` is live and nobody else closes it; `close` is the function that does.
    pub unsafe fn new(raw: *mut T, close: Close<T>) -> Self {
        Handle { raw: RwLock::new(raw), close }
    }

    /// What `call` returns of the live handle, or `XFER_ECLOSED`.
    pub fn call(&self, call: impl FnOnce(*mut T) -> xfer_status_t) -> xfer_status_t {
        let raw = self.raw.read().unwrap_or_else(PoisonError::into_inner);
        if raw.is_null() {
            XFER_ECLOSED
        } else {
            call(*raw)
        }
    }

    /// Closes it, after the calls that are under way; `XFER_ECLOSED` the second time.
    pub fn close(&self) -> xfer_status_t {
        let mut raw = self.raw.write().unwrap_or_else(PoisonError::into_inner);
        let taken = std::mem::replace(&mut *raw, null_mut());
        if taken.is_null() {
            return XFER_ECLOSED;
        }
        // SAFETY: `taken` was live, and is in nobody's hands any more.
        unsafe { (self.close)(taken) }
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        self.close();
    }
}
