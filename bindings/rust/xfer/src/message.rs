// SPDX-License-Identifier: Apache-2.0

use crate::buffer::{lend, lend_mut};
use crate::endpoint::done;
use crate::operation::{End, Operation};
use crate::reference::Id;
use crate::transfer::moved;
use crate::{Endpoint, Engine, Error, Lend, LendMut, Result};
use std::mem::size_of;
use std::ptr::null_mut;
use xfer_sys as sys;

/// Which messages a receive takes: those whose tag equals `tag` in the bits of `mask`.
#[derive(Clone, Copy)]
pub struct Match<'a> {
    tag: u64,
    mask: u64,
    from: Option<&'a Endpoint>,
}

impl<'a> Match<'a> {
    /// Those with that tag, from whatever peer.
    pub fn tag(tag: u64) -> Self {
        Match { tag, mask: u64::MAX, from: None }
    }

    /// All of them, from whatever peer.
    pub fn any() -> Self {
        Match { tag: 0, mask: 0, from: None }
    }

    /// Only these bits of the tag count.
    #[must_use]
    pub fn mask(self, mask: u64) -> Self {
        Match { mask, ..self }
    }

    /// Only of that peer, by whichever of its endpoints.
    #[must_use]
    pub fn sender(self, peer: &'a Endpoint) -> Self {
        Match { from: Some(peer), ..self }
    }

    fn call(
        &self,
        call: impl FnOnce(*mut sys::xfer_ep_t) -> sys::xfer_status_t,
    ) -> sys::xfer_status_t {
        match self.from {
            Some(endpoint) => endpoint.handle().call(call),
            None => call(null_mut()),
        }
    }
}

/// What was received.
#[derive(Clone)]
pub struct Message {
    /// Of the whole message.
    pub length: u64,
    /// The sender's.
    pub tag: u64,
    /// Who sent it.
    pub sender: Id,
    /// Where to answer, unless it is gone.
    pub peer: Option<Endpoint>,
}

/// A message that waits to be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Of the whole message.
    pub length: u64,
    /// The sender's.
    pub tag: u64,
    /// Who sent it.
    pub sender: Id,
}

/// The message, and what comes behind the sender's id in the data.
fn message(mut end: End) -> Result<(Message, Vec<u8>)> {
    end.result()?;
    let sender = Id::split_from(&mut end.data).unwrap_or_default();
    let message = Message { length: end.bytes, tag: end.tag, sender, peer: end.peer.take() };
    Ok((message, end.data))
}

impl Engine {
    /// Receives into `buffer` the first message that matches; receives are served in their order.
    /// Without a deadline it waits for ever.
    ///
    /// Errors: `ETRUNC` if the message was longer, which [`bytes`](Error::bytes) tells in full;
    /// `EPEERLOST` if the sender was lost with it; `EAGAIN` if 65,536 wait; `ETIMEDOUT`,
    /// `ECANCELED`, `ECLOSED`.
    pub fn recv<B: LendMut>(
        &self,
        buffer: B,
        which: &Match<'_>,
    ) -> Operation<(Result<Message>, B)> {
        let (buffer, start, length) = lend_mut(buffer);
        let options = self.call.options(0);
        let finish = |end, buffer| (message(end).map(|(message, _)| message), buffer);
        let mut operation =
            Operation::begin(&self.inner, self.call.group, buffer, finish, |word, _| {
                which.call(|ep| {
                    let (raw, tag, mask) = (self.inner.raw, which.tag, which.mask);
                    // SAFETY: the buffer is lent until the event.
                    unsafe { sys::xfer_recv(raw, ep, start, length, tag, mask, word, &options) }
                })
            });
        operation.endpoint = which.from.cloned(); // whose close would end it
        operation
    }

    /// Receives a message of at most `capacity` bytes, whose length need not be known, into memory
    /// of that length which is the caller's.
    ///
    /// Errors: as [`recv`](Self::recv).
    pub fn take(&self, capacity: u64, which: &Match<'_>) -> Operation<Result<(Message, Vec<u8>)>> {
        let options = self.call.options(sys::XFER_FLAG_TAKE);
        let finish = |end, ()| message(end);
        let mut operation =
            Operation::begin(&self.inner, self.call.group, Box::new(()), finish, |word, _| {
                which.call(|ep| {
                    let (raw, tag, mask) = (self.inner.raw, which.tag, which.mask);
                    // SAFETY: there is no buffer.
                    unsafe {
                        sys::xfer_recv(raw, ep, null_mut(), capacity, tag, mask, word, &options)
                    }
                })
            });
        operation.endpoint = which.from.cloned();
        operation
    }

    /// The message that such a receive would get now, if there is one. It stays where it is.
    ///
    /// # Errors
    /// `ECLOSED`, `EFORKED`.
    pub fn peek(&self, which: &Match<'_>) -> Result<Option<Waiting>> {
        let mut info = sys::xfer_message_info_t::default();
        let size = size_of::<sys::xfer_message_info_t>() as u32;
        let status = which.call(|ep| {
            // SAFETY: `info` has room for `size` bytes.
            unsafe { sys::xfer_peek(self.inner.raw, ep, which.tag, which.mask, &mut info, size) }
        });
        if status == sys::XFER_ENOTFOUND {
            return Ok(None);
        }
        Error::check(status)?;
        let sender = Id::of(&info.sender);
        Ok(Some(Waiting { length: info.length, tag: info.tag, sender }))
    }
}

impl Endpoint {
    /// Sends a message; ends when it was received, or is held by the peer's engine. `data` comes
    /// back with its number of bytes.
    ///
    /// Errors: `ECANCELED`, of origin peer, if its receive was canceled; `EAGAIN`, `ETIMEDOUT`,
    /// `EPEERLOST`, `ECLOSED`.
    pub fn send<B: Lend>(&self, data: B, tag: u64) -> Operation<(Result<u64>, B)> {
        self.send_with(data, tag, 0)
    }

    /// The same; ends when it was received.
    ///
    /// Errors: as [`send`](Self::send).
    pub fn send_sync<B: Lend>(&self, data: B, tag: u64) -> Operation<(Result<u64>, B)> {
        self.send_with(data, tag, sys::XFER_FLAG_SYNC)
    }

    fn send_with<B: Lend>(&self, data: B, tag: u64, flags: u32) -> Operation<(Result<u64>, B)> {
        let (data, start, length) = lend(data);
        let options = self.call.options(flags);
        // SAFETY: the data is lent until the event.
        self.begin_with(data, moved, |raw, word, _| unsafe {
            sys::xfer_send(raw, start, length, tag, word, &options)
        })
    }

    /// As [`send`](Self::send), with a copy of at most 4,096 bytes.
    ///
    /// Errors: as [`send`](Self::send); `ETOOBIG`.
    pub fn send_copy(&self, data: &[u8], tag: u64) -> Operation<Result<()>> {
        let (start, length) = (data.as_ptr().cast(), data.len() as u64);
        let options = self.call.options(sys::XFER_FLAG_COPY);
        // SAFETY: the data is copied by the call.
        self.begin(done, |raw, word, _| unsafe {
            sys::xfer_send(raw, start, length, tag, word, &options)
        })
    }

    /// Raises a [`Notified`](crate::Notice::Notified) at the peer, with a key and a copy of at most
    /// 1,024 bytes; ends when the peer's engine has it.
    ///
    /// Errors: `ETOOBIG`, `EAGAIN`, `ETIMEDOUT`, `EPEERLOST`, `ECLOSED`.
    pub fn notify(&self, data: &[u8], key: u64) -> Operation<Result<()>> {
        let (start, length) = (data.as_ptr().cast(), data.len() as u64);
        let options = self.call.options(0);
        // SAFETY: the data is copied by the call.
        self.begin(done, |raw, word, _| unsafe {
            sys::xfer_notify(raw, start, length, key, word, &options)
        })
    }
}
