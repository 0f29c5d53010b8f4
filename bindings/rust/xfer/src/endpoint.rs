// SPDX-License-Identifier: Apache-2.0

use crate::engine::{text, Engine, Inner};
use crate::operation::{Ended, Operation};
use crate::Error;
use std::mem::size_of;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;
use xfer_sys::*;

/// Names a peer's region, or a part of it; carried as bytes by any means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ref(pub [u8; 96]);

impl Ref {
    pub(crate) fn raw(&self) -> xfer_ref_t {
        xfer_ref_t { bytes: self.0 }
    }
}

/// What a lookup has found.
pub struct Found {
    /// Of the region.
    pub name: Ref,
    /// What its owner shows of it.
    pub blob: Vec<u8>,
}

pub(crate) struct EpInner {
    pub engine: Arc<Inner>,
    pub raw: *mut xfer_ep_t,
}

// SAFETY: any thread may call with an endpoint's handle.
unsafe impl Send for EpInner {}
// SAFETY: as above.
unsafe impl Sync for EpInner {}

impl Drop for EpInner {
    fn drop(&mut self) {
        // SAFETY: the last one that has the handle. It is in the table until its CLOSED event.
        unsafe { xfer_ep_close(self.raw) };
    }
}

/// A peer that was dialed, or that came. Clones are the same one; the last that is dropped closes it.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) inner: Arc<EpInner>,
    timeout_ms: u32,
}

type Moved = (Result<u64, Error>, Vec<u8>);

fn moved(end: Ended, buffer: Vec<u8>) -> Moved {
    (end.map(|end| end.bytes), buffer)
}

fn done(end: Ended, (): ()) -> Result<(), Error> {
    end.map(|_| ())
}

impl Engine {
    /// The peer at `uri`; its first use connects.
    pub fn dial(&self, uri: &str) -> Result<Endpoint, Error> {
        let (uri, mut detail, mut raw) = (text(uri), xfer_error_t::default(), null_mut());
        let user = self.0.next_dialed.fetch_add(1, Ordering::Relaxed); // PEER events: from 2^63 on
        let options = xfer_ep_options_t {
            size: size_of::<xfer_ep_options_t>() as u32,
            user,
            ..Default::default()
        };
        // SAFETY: all arguments are live during the call.
        let status =
            unsafe { xfer_ep_open(self.0.raw, uri.as_ptr(), &options, &mut raw, &mut detail) };
        Error::detailed(status, &detail).map(|()| Endpoint::new(self, raw, user))
    }
}

impl Endpoint {
    /// The handle is ours, as that of a PEER event is; `user` is in its events.
    pub(crate) fn new(engine: &Engine, raw: *mut xfer_ep_t, user: u64) -> Self {
        let inner = Arc::new(EpInner { engine: engine.0.clone(), raw });
        engine.0.endpoints.lock().unwrap().insert(user, Arc::downgrade(&inner));
        Self::of(inner)
    }

    pub(crate) fn of(inner: Arc<EpInner>) -> Self {
        Endpoint { inner, timeout_ms: 0 }
    }

    /// The same peer, for operations that have such a deadline.
    pub fn within(&self, limit: Duration) -> Self {
        let limit = limit.as_millis().clamp(1, u128::from(XFER_NONE - 1)) as u32;
        Endpoint { inner: self.inner.clone(), timeout_ms: limit }
    }

    fn options(&self) -> xfer_op_options_t {
        xfer_op_options_t {
            size: size_of::<xfer_op_options_t>() as u32,
            timeout_ms: self.timeout_ms,
            ..Default::default()
        }
    }

    pub(crate) fn timeout_ms(&self) -> u32 {
        self.timeout_ms
    }

    /// Whether both are handles for one peer, of one open.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Adds an address, such as where the peer was restarted.
    pub fn add_address(&self, uri: &str) -> Result<(), Error> {
        let (uri, mut detail) = (text(uri), xfer_error_t::default());
        // SAFETY: all arguments are live during the call.
        let status = unsafe { xfer_ep_add_address(self.inner.raw, uri.as_ptr(), &mut detail) };
        Error::detailed(status, &detail)
    }

    /// Connects now, so that the first operation need not.
    pub fn connect(&self) -> Operation<Result<(), Error>> {
        // SAFETY: the handle is live.
        Operation::begin(&self.inner.engine, (), done, |word| unsafe {
            xfer_ep_connect(self.inner.raw, word, &self.options())
        })
    }

    /// Asks for the ref of the region `name`; `wait`: until there is one.
    pub fn lookup(&self, name: &str, wait: bool) -> Operation<Result<Found, Error>> {
        let name = text(name);
        let flags = if wait { XFER_FLAG_WAIT } else { 0 };
        let options = xfer_op_options_t { flags, ..self.options() };
        let finish = |end: Ended, ()| {
            end.map(|mut end| {
                let blob = end.data.split_off(size_of::<xfer_ref_t>());
                Found { name: Ref(end.data.try_into().expect("a ref comes first")), blob }
            })
        };
        // SAFETY: all arguments are live during the call.
        Operation::begin(&self.inner.engine, (), finish, |word| unsafe {
            xfer_ep_lookup(self.inner.raw, name.as_ptr(), word, &options, null_mut())
        })
    }

    /// Writes `data` to `offset` of what `remote` names; gives it back with the result.
    pub fn put(&self, data: Vec<u8>, remote: &Ref, offset: u64) -> Operation<Moved> {
        let (start, length) = (data.as_ptr().cast(), data.len() as u64);
        // SAFETY: the data is kept by the operation until its event.
        Operation::begin(&self.inner.engine, data, moved, |word| unsafe {
            let options = self.options();
            xfer_put(self.inner.raw, start, &remote.raw(), offset, length, word, &options)
        })
    }

    /// Fills `buffer` from `offset` of what `remote` names.
    pub fn get(&self, mut buffer: Vec<u8>, remote: &Ref, offset: u64) -> Operation<Moved> {
        let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len() as u64);
        // SAFETY: the buffer is kept by the operation until its event.
        Operation::begin(&self.inner.engine, buffer, moved, |word| unsafe {
            let options = self.options();
            xfer_get(self.inner.raw, start, &remote.raw(), offset, length, word, &options)
        })
    }

    /// Adds to a word of the peer's; the result is what it was.
    pub fn add(&self, remote: &Ref, offset: u64, value: u64) -> Operation<Result<u64, Error>> {
        self.atomic(XFER_ATOMIC_ADD, remote, offset, value, 0)
    }

    /// Stores `value` if the word of the peer's equals `expected`; the result is what it was.
    pub fn compare_and_swap(
        &self,
        remote: &Ref,
        offset: u64,
        expected: u64,
        value: u64,
    ) -> Operation<Result<u64, Error>> {
        self.atomic(XFER_ATOMIC_CAS, remote, offset, value, expected)
    }

    fn atomic(
        &self,
        op: u32,
        remote: &Ref,
        offset: u64,
        value: u64,
        expected: u64,
    ) -> Operation<Result<u64, Error>> {
        let finish = |end: Ended, ()| end.map(|end| end.index);
        // SAFETY: all arguments are live during the call.
        Operation::begin(&self.inner.engine, (), finish, |word| unsafe {
            let (remote, options, ep) = (remote.raw(), self.options(), self.inner.raw);
            xfer_atomic(ep, op, null_mut(), &remote, offset, value, expected, word, &options)
        })
    }

    /// Sends a message.
    pub fn send(&self, data: Vec<u8>, tag: u64) -> Operation<Moved> {
        let (start, length) = (data.as_ptr().cast(), data.len() as u64);
        // SAFETY: the data is kept by the operation until its event.
        Operation::begin(&self.inner.engine, data, moved, |word| unsafe {
            xfer_send(self.inner.raw, start, length, tag, word, &self.options())
        })
    }

    /// Raises a notice at the peer, with a key and at most 1,024 bytes.
    pub fn notify(&self, data: &[u8], key: u64) -> Operation<Result<(), Error>> {
        let (start, length) = (data.as_ptr().cast(), data.len() as u64);
        // SAFETY: the data is copied by the call.
        Operation::begin(&self.inner.engine, (), done, |word| unsafe {
            xfer_notify(self.inner.raw, start, length, key, word, &self.options())
        })
    }

    /// Waits for all that was begun with this handle before.
    pub fn flush(&self) -> Operation<Result<(), Error>> {
        // SAFETY: the handle is live.
        Operation::begin(&self.inner.engine, (), done, |word| unsafe {
            xfer_ep_flush(self.inner.raw, null_mut(), word, &self.options())
        })
    }
}
