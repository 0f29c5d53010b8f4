// SPDX-License-Identifier: Apache-2.0

use crate::buffer::{lend, lend_mut};
use crate::operation::{End, Operation};
use crate::{Endpoint, Lend, LendMut, Ref, Result};
use std::ptr::null_mut;
use xfer_sys as sys;

/// The bytes that moved, and what was lent.
pub(crate) fn moved<B>(end: End, buffer: B) -> (Result<u64>, B) {
    (end.result().map(|()| end.bytes), buffer)
}

/// The word before, as of an atomic.
fn before(end: End, (): ()) -> Result<u64> {
    end.result().map(|()| end.index)
}

/// One atomic: what it does to the word.
#[derive(Clone, Copy)]
pub(crate) struct Atomic {
    pub op: u32,
    pub operand: u64,
    pub compare: u64,
}

impl Atomic {
    pub fn add(value: u64) -> Self {
        Atomic { op: sys::XFER_ATOMIC_ADD, operand: value, compare: 0 }
    }

    pub fn swap(expected: u64, value: u64) -> Self {
        Atomic { op: sys::XFER_ATOMIC_CAS, operand: value, compare: expected }
    }
}

impl Endpoint {
    /// Writes `data` to `offset`, in bytes, of what `remote` names; it comes back with the number of
    /// bytes. `Ok` says that all of them are there.
    ///
    /// Errors: `ERANGE` past the end; `EACCESS` if `remote` does not allow it; `EINVAL`, `EVERSION`
    /// if it is no ref, or a later library's; `EIDENTITY` if it is another peer's; `ESTALE` if its
    /// region is closed, `EREVOKED` if its grant has ended; `EAGAIN` if the endpoint is full, until
    /// [`Room`](crate::Notice::Room); `ECHECKSUM` if bytes changed on their way; `ETIMEDOUT`,
    /// `ECANCELED`, `EPEERLOST`, `EMEMKIND`, `ECLOSED`. Of these [`is_fenced`](crate::Error::is_fenced)
    /// says whether bytes may still land.
    pub fn put<B: Lend>(&self, data: B, remote: &Ref, offset: u64) -> Operation<(Result<u64>, B)> {
        let (data, start, length) = lend(data);
        let (remote, options) = (remote.raw(), self.call.options(0));
        // SAFETY: the data is lent until the event.
        self.begin_with(data, moved, |raw, word, _| unsafe {
            sys::xfer_put(raw, start, &remote, offset, length, word, &options)
        })
    }

    /// The same with a copy of at most 4,096 bytes, which are the caller's again at once.
    ///
    /// Errors: as [`put`](Self::put); `ETOOBIG`.
    pub fn put_copy(&self, data: &[u8], remote: &Ref, offset: u64) -> Operation<Result<u64>> {
        let (remote, options) = (remote.raw(), self.call.options(sys::XFER_FLAG_COPY));
        let (start, length) = (data.as_ptr().cast(), data.len() as u64);
        let finish = |end: End, ()| end.result().map(|()| end.bytes);
        // SAFETY: the data is copied by the call.
        self.begin(finish, |raw, word, _| unsafe {
            sys::xfer_put(raw, start, &remote, offset, length, word, &options)
        })
    }

    /// Fills `buffer` from `offset` of what `remote` names; it comes back with the number of bytes.
    ///
    /// Errors: as [`put`](Self::put). What is shared cannot be filled, nor what is not contiguous:
    ///
    /// ```compile_fail,E0277
    /// # fn example(peer: &xfer::Endpoint, name: &xfer::Ref) {
    /// let shared: std::sync::Arc<[u8]> = vec![0; 8].into();
    /// drop(peer.get(shared, name, 0)); // read-only
    /// # }
    /// ```
    /// ```compile_fail,E0277
    /// # fn example(peer: &xfer::Endpoint, name: &xfer::Ref) {
    /// let ring = std::collections::VecDeque::from(vec![0u8; 8]);
    /// drop(peer.put(ring, name, 0)); // two pieces
    /// # }
    /// ```
    pub fn get<B: LendMut>(
        &self,
        buffer: B,
        remote: &Ref,
        offset: u64,
    ) -> Operation<(Result<u64>, B)> {
        let (buffer, start, length) = lend_mut(buffer);
        let (remote, options) = (remote.raw(), self.call.options(0));
        // SAFETY: the buffer is lent until the event.
        self.begin_with(buffer, moved, |raw, word, _| unsafe {
            sys::xfer_get(raw, start, &remote, offset, length, word, &options)
        })
    }

    /// Adds to the 8 bytes at `offset`, modulo 2^64, in the owner's byte order; the result is what
    /// they were. It is never done twice; an error says by
    /// [`is_fenced`](crate::Error::is_fenced) that it was not done.
    ///
    /// Errors: as [`put`](Self::put); `EINVAL` also of an offset that is not divisible by 8.
    pub fn fetch_add(&self, remote: &Ref, offset: u64, value: u64) -> Operation<Result<u64>> {
        self.atomic(Atomic::add(value), remote, offset)
    }

    /// Stores `value` there if the word equals `expected`; the result is what it was.
    ///
    /// Errors: as [`fetch_add`](Self::fetch_add).
    pub fn compare_and_swap(
        &self,
        remote: &Ref,
        offset: u64,
        expected: u64,
        value: u64,
    ) -> Operation<Result<u64>> {
        self.atomic(Atomic::swap(expected, value), remote, offset)
    }

    fn atomic(&self, atomic: Atomic, remote: &Ref, offset: u64) -> Operation<Result<u64>> {
        let (remote, options) = (remote.raw(), self.call.options(0));
        let Atomic { op, operand, compare } = atomic;
        // SAFETY: all are live during the call; the result is in the event.
        self.begin(before, |raw, word, _| unsafe {
            let result = null_mut();
            sys::xfer_atomic(raw, op, result, &remote, offset, operand, compare, word, &options)
        })
    }
}
