// SPDX-License-Identifier: Apache-2.0

use crate::buffer::{lend, lend_mut};
use crate::transfer::Atomic;
use crate::{lock, Endpoint, Lend, LendMut, Operation, Ref, Result};
use std::ptr::null_mut;
use xfer_sys as sys;

/// Operations that end without an event if they end well: [`flush`](Self::flush) tells that all
/// have ended, and the first failure.
///
/// What they are lent is kept until a flush that was begun later has ended, or the endpoint was
/// closed, and then dropped; so flush now and then. What a failed one was lent is dropped when the
/// event of its failure is taken. Lend a [`Slice`](crate::Slice) to see the bytes afterwards. Any
/// thread may call, several at once: a flush covers the calls that had returned before it.
pub struct Quiet<'a> {
    endpoint: &'a Endpoint,
}

impl Endpoint {
    /// Its operations that end without an event.
    pub fn quiet(&self) -> Quiet<'_> {
        Quiet { endpoint: self }
    }
}

impl Quiet<'_> {
    fn begin<L: Send + 'static>(
        &self,
        lent: Box<L>,
        call: impl FnOnce(*mut sys::xfer_ep_t, u64, &sys::xfer_op_options_t) -> sys::xfer_status_t,
    ) -> Result<()> {
        let options = self.endpoint.call.options(sys::XFER_FLAG_QUIET);
        let operation = self
            .endpoint
            .begin_with(lent, |_, _| (), |raw, word, _| call(raw, word, &options))
            .accepted()?;
        // Only now: a flush waits for what was begun by calls that have returned.
        lock(&self.endpoint.engine().ledger).begun(self.endpoint.word(), operation.word);
        operation.detach();
        Ok(())
    }

    /// As [`Endpoint::put`].
    ///
    /// # Errors
    /// As there, of the call; `data` is dropped then. Later ones are the flush's.
    pub fn put<B: Lend>(&self, data: B, remote: &Ref, offset: u64) -> Result<()> {
        let (data, start, length) = lend(data);
        let remote = remote.raw();
        // SAFETY: the data is lent until the operation has ended.
        self.begin(data, |raw, word, options| unsafe {
            sys::xfer_put(raw, start, &remote, offset, length, word, options)
        })
    }

    /// As [`Endpoint::get`].
    ///
    /// # Errors
    /// As there, of the call; `buffer` is dropped then. Later ones are the flush's.
    pub fn get<B: LendMut>(&self, buffer: B, remote: &Ref, offset: u64) -> Result<()> {
        let (buffer, start, length) = lend_mut(buffer);
        let remote = remote.raw();
        // SAFETY: the buffer is lent until the operation has ended.
        self.begin(buffer, |raw, word, options| unsafe {
            sys::xfer_get(raw, start, &remote, offset, length, word, options)
        })
    }

    /// As [`Endpoint::fetch_add`], without the word before.
    ///
    /// # Errors
    /// As there, of the call. Later ones are the flush's.
    pub fn add(&self, remote: &Ref, offset: u64, value: u64) -> Result<()> {
        let (remote, Atomic { op, operand, compare }) = (remote.raw(), Atomic::add(value));
        // SAFETY: all are live during the call.
        self.begin(Box::new(()), |raw, word, options| unsafe {
            let result = null_mut();
            sys::xfer_atomic(raw, op, result, &remote, offset, operand, compare, word, options)
        })
    }

    /// As [`Endpoint::send`].
    ///
    /// # Errors
    /// As there, of the call; `data` is dropped then. Later ones are the flush's.
    pub fn send<B: Lend>(&self, data: B, tag: u64) -> Result<()> {
        let (data, start, length) = lend(data);
        // SAFETY: the data is lent until the operation has ended.
        self.begin(data, |raw, word, options| unsafe {
            sys::xfer_send(raw, start, length, tag, word, options)
        })
    }

    /// As [`Endpoint::notify`].
    ///
    /// # Errors
    /// As there, of the call. Later ones are the flush's.
    pub fn notify(&self, data: &[u8], key: u64) -> Result<()> {
        let (start, length) = (data.as_ptr().cast(), data.len() as u64);
        // SAFETY: the data is copied by the call.
        self.begin(Box::new(()), |raw, word, options| unsafe {
            sys::xfer_notify(raw, start, length, key, word, options)
        })
    }

    /// As [`Endpoint::flush`]: its error is the first failure.
    pub fn flush(&self) -> Operation<Result<()>> {
        self.endpoint.flush()
    }
}
