// SPDX-License-Identifier: Apache-2.0

use crate::handle::Handle;
use crate::operation::{End, Operation};
use crate::{Engine, Result};
use std::mem::size_of;
use std::ptr::null_mut;
use xfer_sys as sys;

/// What a counter has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// `ETIMEDOUT` if its deadline came first, `ECANCELED` if the engine's close did; the text says how
    /// many of how many had come.
    pub result: Result<()>,
    /// How many had come: with `Ok` as many as were expected.
    pub count: u64,
}

/// Counts notifications of one key, from whatever peer: those of batches as well as those of
/// [`Endpoint::notify`](crate::Endpoint::notify). What it counts is no notice, nor is what comes after
/// its end. Dropped, it is closed: later ones are [notices](crate::Notice::Notified) again, as failed
/// ones always are.
pub struct Counter {
    handle: Handle<sys::xfer_counter_t>,
    ended: Operation<Counted>,
}

impl Engine {
    /// Counts notifications with `key` up to `expected`, which is not 0, within the deadline of
    /// [`within`](Self::within) from now; without that there is none, but the engine's.
    ///
    /// # Errors
    /// `EEXIST` if the key has a counter, `EINVAL`, `ECLOSED`.
    pub fn counter(&self, key: u64, expected: u64) -> Result<Counter> {
        let mut options = sys::xfer_counter_options_t {
            size: size_of::<sys::xfer_counter_options_t>() as u32,
            timeout_ms: self.call.timeout_ms,
            ..Default::default()
        };
        let finish = |end: End, ()| Counted { result: end.result(), count: end.index };
        let mut raw = null_mut();
        let ended = Operation::begin(&self.inner, 0, Box::new(()), finish, |word, detail| {
            options.user = word;
            let engine = self.inner.raw;
            // SAFETY: all are live during the call.
            unsafe { sys::xfer_counter_open(engine, key, expected, &options, &mut raw, detail) }
        })
        .accepted()?;
        // SAFETY: the handle was just opened.
        let handle = unsafe { Handle::new(raw, sys::xfer_counter_close) };
        Ok(Counter { handle, ended })
    }
}

impl Counter {
    /// Its end, to be waited for once.
    pub fn ended(&mut self) -> &mut Operation<Counted> {
        &mut self.ended
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.handle.close();
        self.ended.engine.under_way.refuse(self.ended.word); // no event need come any more
    }
}
