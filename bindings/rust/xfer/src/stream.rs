// SPDX-License-Identifier: Apache-2.0

use crate::Status;
use std::ptr::{addr_of, null};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use xfer_sys as sys;

/// What has become of a batch on a stream, by its last run: the one of its submit, or in a graph each
/// launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamResult {
    /// OK before the first; why there was none, behind an early end.
    pub status: Status,
    /// Nothing of it can land any more; else treat the range as undefined.
    pub fenced: bool,
    /// That have ended since the submit.
    pub runs: u64,
    /// Of them, those that did not end with OK.
    pub failures: u64,
    /// Where it stands in memory of the host, for kernels behind the batch, until that is submitted
    /// again or closed.
    pub address: u64,
}

/// The result in the library's memory, until the next submit; NULL of a batch on no stream.
pub(crate) struct OnStream(Mutex<*const sys::xfer_cuda_result_t>);

// SAFETY: what it leads to may be read by any thread, and written by none of this process but the
// library's.
unsafe impl Send for OnStream {}
// SAFETY: as above.
unsafe impl Sync for OnStream {}

impl Default for OnStream {
    fn default() -> Self {
        OnStream(Mutex::new(null()))
    }
}

impl OnStream {
    fn lock(&self) -> MutexGuard<'_, *const sys::xfer_cuda_result_t> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn clear(&self) {
        *self.lock() = null();
    }

    /// By a submit. Where that is refused, the one before stays.
    pub fn replace(
        &self,
        submit: impl FnOnce(&mut *const sys::xfer_cuda_result_t) -> sys::xfer_status_t,
    ) -> sys::xfer_status_t {
        let mut found = null();
        let status = submit(&mut found);
        if status == sys::XFER_OK {
            *self.lock() = found;
        }
        status
    }

    pub fn read(&self) -> Option<StreamResult> {
        let at = self.lock();
        let address = *at;
        if address.is_null() {
            return None;
        }
        // SAFETY: lines of results are never unmapped, so that one of a submit before is at worst
        // another batch's; the library writes it by atomic stores: flags, status, failures, runs.
        let (runs, failures, status, flags) = unsafe {
            (
                AtomicU64::from_ptr(addr_of!((*address).runs).cast_mut()).load(Ordering::Acquire),
                AtomicU64::from_ptr(addr_of!((*address).failures).cast_mut())
                    .load(Ordering::Relaxed),
                AtomicI32::from_ptr(addr_of!((*address).status).cast_mut()).load(Ordering::Acquire),
                AtomicU32::from_ptr(addr_of!((*address).flags).cast_mut()).load(Ordering::Relaxed),
            )
        };
        let fenced = flags & sys::XFER_MAYBE_APPLIED == 0;
        Some(StreamResult {
            status: Status(status),
            fenced,
            runs,
            failures,
            address: address as u64,
        })
    }
}
