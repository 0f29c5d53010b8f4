// SPDX-License-Identifier: Apache-2.0

use crate::endpoint::{Endpoint, Ref};
use crate::operation::{Ended, Operation};
use crate::Error;
use std::mem::size_of;
use std::ptr::{null, null_mut};
use xfer_sys::*;

/// Puts and gets with one peer that are submitted together, as often as wanted.
pub struct Batch {
    ep: Endpoint,
    filled: Filled,
}

/// What the library has while the batch is under way.
struct Filled {
    raw: *mut xfer_batch_t,
    lent: Vec<Vec<u8>>, // one for each entry
}

// SAFETY: calls come from one thread at a time: all of them need the batch itself.
unsafe impl Send for Filled {}

impl Drop for Filled {
    fn drop(&mut self) {
        // SAFETY: the handle is here alone; under way it is kept until its event, or the join.
        unsafe { xfer_batch_close(self.raw) };
    }
}

impl Endpoint {
    /// An empty batch.
    pub fn batch(&self) -> Result<Batch, Error> {
        let (mut raw, mut detail) = (null_mut(), xfer_error_t::default());
        // SAFETY: the handle is live.
        let status = unsafe { xfer_batch_open(self.inner.raw, null(), &mut raw, &mut detail) };
        Error::detailed(status, &detail)?;
        Ok(Batch { ep: self.clone(), filled: Filled { raw, lent: Vec::new() } })
    }
}

impl Batch {
    /// Adds a put.
    pub fn put(&mut self, data: Vec<u8>, remote: &Ref, offset: u64) -> Result<(), Error> {
        let (start, length) = (data.as_ptr().cast(), data.len() as u64);
        // SAFETY: the data is kept as long as the batch.
        let status =
            unsafe { xfer_batch_put(self.filled.raw, start, &remote.raw(), offset, length) };
        Error::check(status).map(|()| self.filled.lent.push(data))
    }

    /// Adds a get.
    pub fn get(&mut self, mut buffer: Vec<u8>, remote: &Ref, offset: u64) -> Result<(), Error> {
        let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len() as u64);
        // SAFETY: the buffer is kept as long as the batch.
        let status =
            unsafe { xfer_batch_get(self.filled.raw, start, &remote.raw(), offset, length) };
        Error::check(status).map(|()| self.filled.lent.push(buffer))
    }

    /// The memory of an entry.
    pub fn memory(&mut self, entry: usize) -> &mut [u8] {
        &mut self.filled.lent[entry]
    }

    /// The status of each entry in the last submit.
    pub fn entries(&self) -> Result<Vec<i32>, Error> {
        let mut statuses = vec![0; self.filled.lent.len()];
        let count = statuses.len() as u64;
        // SAFETY: there is room for as many.
        let status =
            unsafe { xfer_batch_entries(self.filled.raw, 0, count, statuses.as_mut_ptr()) };
        Error::check(status).map(|()| statuses)
    }

    /// Starts it, with a notification (a key and bytes) behind all its data, if wanted. It comes
    /// back with the result.
    pub fn submit(self, notify: Option<(u64, &[u8])>) -> Operation<(Result<(), Error>, Batch)> {
        let mut options = xfer_submit_options_t {
            size: size_of::<xfer_submit_options_t>() as u32,
            timeout_ms: self.ep.timeout_ms(),
            ..Default::default()
        };
        if let Some((key, data)) = notify {
            options.flags = XFER_SUBMIT_NOTIFY;
            options.notify_key = key;
            options.notify_data = data.as_ptr().cast();
            options.notify_length = data.len() as u64;
        }
        let Batch { ep, filled } = self;
        let (engine, raw) = (ep.inner.engine.clone(), filled.raw);
        let finish = |end: Ended, filled| (end.map(|_| ()), Batch { ep, filled });
        // SAFETY: handle and memory are kept by the operation until its event.
        Operation::begin(&engine, filled, finish, |word| unsafe {
            xfer_batch_submit(raw, word, &options)
        })
    }
}
