// SPDX-License-Identifier: Apache-2.0

use crate::endpoint::{Endpoint, EpInner};
use crate::operation::{End, Operation};
use crate::slab::Slab;
use crate::Error;
use std::collections::HashMap;
use std::ffi::{c_char, CStr, CString};
use std::future::Future;
use std::mem::{size_of, size_of_val};
use std::os::fd::RawFd;
use std::pin::pin;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::task::{Context, Poll, Wake};
use std::time::Duration;
use xfer_sys::*;

const BURST: usize = 64; // events taken with one poll

type OnNotice = Box<dyn Fn(Notice) + Send + Sync>;

/// An event that ends no operation, such as a peer's notification.
pub struct Notice {
    /// `sys::XFER_EVENT_*`.
    pub kind: u32,
    /// Why, of a peer that is down or a notification that failed.
    pub status: i32,
    /// `sys::XFER_RECONNECTED` and the like.
    pub flags: u32,
    /// The peer; of one that came, its handle lives as long as a clone of this.
    pub peer: Option<Endpoint>,
    /// The key of a notification.
    pub tag: u64,
    /// What came with it.
    pub data: Vec<u8>,
}

/// What was received.
pub struct Message {
    /// Of the whole message.
    pub length: u64,
    /// The sender's tag.
    pub tag: u64,
    /// Where to answer, unless it is gone.
    pub peer: Option<Endpoint>,
    /// The message, or the buffer that it was received into.
    pub data: Vec<u8>,
}

pub(crate) struct Inner {
    pub raw: *mut xfer_engine_t,
    pub slab: Mutex<Slab<Result<End, Error>>>,
    pub endpoints: Mutex<HashMap<u64, Weak<EpInner>>>, // until CLOSED, by the user of their events
    pub next_dialed: AtomicU64,
    polling: Mutex<()>, // held while data of events is read
    on_notice: Option<OnNotice>,
}

// SAFETY: any thread may call with an engine's handle.
unsafe impl Send for Inner {}
// SAFETY: as above; polls are one at a time by `polling`.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: all that has the handle has an Arc of this. What was lent is dropped afterwards.
        unsafe { xfer_engine_join(self.raw, XFER_NONE) };
    }
}

/// An engine. Clones are the same one; the last one that is dropped, with all that was made by it,
/// ends it, and waits until the library is through.
#[derive(Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

pub(crate) fn text(text: &str) -> CString {
    CString::new(text).expect("a text without NUL")
}

impl Engine {
    /// Opens an engine, with options as xfer_engine_option_set has them.
    pub fn open(options: &[(&str, &str)]) -> Result<Self, Error> {
        Self::open_with(options, None)
    }

    /// The same; `on_notice` is called from within poll. Peers that come are its own.
    pub fn with_notices(
        options: &[(&str, &str)],
        on_notice: impl Fn(Notice) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Self::open_with(options, Some(Box::new(on_notice)))
    }

    fn open_with(options: &[(&str, &str)], on_notice: Option<OnNotice>) -> Result<Self, Error> {
        let mut given = xfer_engine_options_t {
            size: size_of::<xfer_engine_options_t>() as u32,
            dispatch: XFER_DISPATCH_POLL,
            ..Default::default()
        };
        if on_notice.is_some() {
            given.flags = XFER_ENGINE_OWN_PEERS;
        }
        let (mut raw, mut detail) = (null_mut(), xfer_error_t::default());
        let texts: Vec<_> = options.iter().map(|(name, value)| (text(name), text(value))).collect();
        for (name, value) in &texts {
            // SAFETY: the texts live until the engine is open.
            let status = unsafe {
                xfer_engine_option_set(&mut given, name.as_ptr(), value.as_ptr(), &mut detail)
            };
            Error::detailed(status, &detail)?;
        }
        // SAFETY: all three arguments are live during the call.
        let status = unsafe { xfer_engine_open(&given, &mut raw, &mut detail) };
        Error::detailed(status, &detail)?;
        let (slab, endpoints) = (Mutex::new(Slab::new()), Mutex::default());
        let (polling, next_dialed) = (Mutex::new(()), AtomicU64::new(1));
        Ok(Engine(Arc::new(Inner { raw, slab, endpoints, next_dialed, polling, on_notice })))
    }

    /// The descriptor that is readable when poll has something to do: for a reactor.
    pub fn fd(&self) -> Result<RawFd, Error> {
        let mut fd = -1;
        // SAFETY: the handle is live.
        Error::check(unsafe { xfer_engine_fd(self.0.raw, &mut fd) }).map(|()| fd)
    }

    /// Takes events, and wakes whom they concern; waits for the first one, without limit if None.
    /// One thread at a time, else `XFER_EBUSY`.
    pub fn poll(&self, limit: Option<Duration>) -> Result<usize, Error> {
        let _alone = match self.0.polling.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(Error::of(XFER_EBUSY)),
            locked => locked.unwrap(),
        };
        let limit = limit.map_or(XFER_NONE, |limit| limit.as_millis().min(u32::MAX as u128) as u32);
        let (mut events, mut count) = ([xfer_event_t::default(); BURST], 0);
        // SAFETY: `events` has room for BURST events.
        Error::check(unsafe {
            let size = size_of::<xfer_event_t>() as u32;
            xfer_engine_poll(self.0.raw, events.as_mut_ptr(), size, BURST as u32, limit, &mut count)
        })?;
        for event in &events[..count as usize] {
            self.deliver(event);
        }
        Ok(count as usize)
    }

    /// Runs a future, and takes events while it waits.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let woken = Arc::new(Woken(AtomicBool::new(true), Arc::downgrade(&self.0)));
        let (waker, mut future) = (woken.clone().into(), pin!(future));
        loop {
            while woken.0.swap(false, Ordering::Acquire) {
                if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return value;
                }
            }
            self.poll(None).expect("nobody else takes events of this engine");
        }
    }

    /// How much is under way, or open, of this engine.
    pub fn live(&self) -> usize {
        self.0.slab.lock().unwrap().len() + self.0.endpoints.lock().unwrap().len()
    }

    fn deliver(&self, event: &xfer_event_t) {
        let data = match event.data_length {
            0 => Vec::new(),
            // SAFETY: that much is valid until the next poll, which `polling` keeps away.
            length => unsafe {
                std::slice::from_raw_parts(event.data.cast::<u8>(), length as usize).to_vec()
            },
        };
        let peer = match event.kind {
            XFER_EVENT_PEER => {
                self.0.on_notice.as_ref().map(|_| Endpoint::new(self, event.ep, event.user))
            }
            XFER_EVENT_RECV => self.known(event.index),
            _ => self.known(event.user),
        };
        match event.kind {
            XFER_EVENT_CLOSED if !event.ep.is_null() => {
                self.0.endpoints.lock().unwrap().remove(&event.user);
            }
            XFER_EVENT_PUT | XFER_EVENT_GET | XFER_EVENT_BATCH | XFER_EVENT_SEND
            | XFER_EVENT_RECV | XFER_EVENT_LOOKUP | XFER_EVENT_CONNECT | XFER_EVENT_NOTIFIED
            | XFER_EVENT_ATOMIC | XFER_EVENT_FLUSH | XFER_EVENT_CLOSED => {
                let (bytes, tag, index) = (event.bytes, event.tag, event.index);
                let end = End { bytes, tag, index, data, peer };
                let end = if event.status == XFER_OK { Ok(end) } else { Err(failure(event, end)) };
                let (waker, lent) = self.0.slab.lock().unwrap().complete(event.user, end);
                drop(lent);
                waker.into_iter().for_each(|waker| waker.wake());
            }
            XFER_EVENT_PEER
            | XFER_EVENT_PEER_UP
            | XFER_EVENT_PEER_DOWN
            | XFER_EVENT_REGION_GONE
            | XFER_EVENT_NOTIFY
            | XFER_EVENT_ROOM => {
                if let Some(on_notice) = &self.0.on_notice {
                    let (kind, status, flags) = (event.kind, event.status, event.flags);
                    on_notice(Notice { kind, status, flags, peer, tag: event.tag, data });
                }
            }
            _ => {} // of a later version
        }
    }

    /// The endpoint of that handle, if it has one.
    fn known(&self, user: u64) -> Option<Endpoint> {
        let endpoints = self.0.endpoints.lock().unwrap();
        endpoints.get(&user).and_then(Weak::upgrade).map(Endpoint::of)
    }

    /// Accepts peers at `uri`; the address that they can dial.
    pub fn listen(&self, uri: &str) -> Result<String, Error> {
        let (uri, mut detail) = (text(uri), xfer_error_t::default());
        let mut bound = [0 as c_char; 256];
        // SAFETY: all arguments are live during the call, and what it writes ends with NUL.
        unsafe {
            let (address, size) = (bound.as_mut_ptr(), size_of_val(&bound) as u64);
            let status =
                xfer_engine_listen(self.0.raw, uri.as_ptr(), null(), address, size, &mut detail);
            Error::detailed(status, &detail)?;
            Ok(CStr::from_ptr(bound.as_ptr()).to_string_lossy().into_owned())
        }
    }

    /// Lends memory to peers, as `access` (`sys::XFER_READ` and the like) says.
    pub fn lend(&self, mut memory: Vec<u8>, name: &str, access: u32) -> Result<Region, Error> {
        let (start, length) = (memory.as_mut_ptr(), memory.len());
        let (name, mut detail) = (text(name), xfer_error_t::default());
        let mut raw = null_mut();
        let closed = Operation::begin(
            &self.0,
            memory,
            |_, memory| memory,
            |user| {
                let options = xfer_region_options_t {
                    size: size_of::<xfer_region_options_t>() as u32,
                    access,
                    name: if name.is_empty() { null() } else { name.as_ptr() },
                    user,
                    ..Default::default()
                };
                // SAFETY: the memory is kept by the operation until the region's CLOSED.
                unsafe {
                    let (start, length) = (start.cast(), length as u64);
                    xfer_region_open(self.0.raw, &options, start, length, &mut raw, &mut detail)
                }
            },
        );
        Ok(Region { raw, start, length, closed: Some(closed.accepted(&detail)?) })
    }

    /// Receives into `buffer` the next message whose tag equals `tag` in the bits of `mask`.
    pub fn recv(
        &self,
        mut buffer: Vec<u8>,
        tag: u64,
        mask: u64,
    ) -> Operation<(Result<Message, Error>, Vec<u8>)> {
        let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len() as u64);
        let finish = |end: Result<End, Error>, buffer| (end.map(|end| end.message()), buffer);
        Operation::begin(&self.0, buffer, finish, |word| {
            // SAFETY: the buffer is kept by the operation until its event.
            unsafe { xfer_recv(self.0.raw, null_mut(), start, length, tag, mask, word, null()) }
        })
    }

    /// Receives a message of at most `most` bytes, whose length need not be known.
    pub fn take(&self, most: u64, tag: u64, mask: u64) -> Operation<Result<Message, Error>> {
        let options = xfer_op_options_t {
            size: size_of::<xfer_op_options_t>() as u32,
            flags: XFER_FLAG_TAKE,
            ..Default::default()
        };
        Operation::begin(
            &self.0,
            (),
            |end, ()| end.map(|end| end.message()),
            |word| {
                // SAFETY: there is no buffer.
                unsafe {
                    xfer_recv(self.0.raw, null_mut(), null_mut(), most, tag, mask, word, &options)
                }
            },
        )
    }
}

impl End {
    fn message(mut self) -> Message {
        let data = self.data.split_off(self.data.len().min(size_of::<xfer_id_t>()));
        Message { length: self.bytes, tag: self.tag, peer: self.peer, data }
    }
}

/// What a failed event says; of some kinds, data is a sentence.
fn failure(event: &xfer_event_t, end: End) -> Error {
    let mut error = Error {
        origin: event.origin,
        native_code: event.native_code,
        fenced: event.flags & XFER_MAYBE_APPLIED == 0,
        ..Error::of(event.status)
    };
    if let XFER_EVENT_PUT | XFER_EVENT_GET | XFER_EVENT_ATOMIC | XFER_EVENT_SEND
    | XFER_EVENT_NOTIFIED | XFER_EVENT_FLUSH | XFER_EVENT_CONNECT = event.kind
    {
        if !end.data.is_empty() {
            error.text = String::from_utf8_lossy(&end.data).into_owned();
        }
    }
    error
}

struct Woken(AtomicBool, Weak<Inner>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
        if let Some(engine) = self.1.upgrade() {
            // SAFETY: the handle is live; a poll that waits in another thread returns.
            unsafe { xfer_engine_wake(engine.raw) };
        }
    }
}

/// Memory that peers may use; dropped, it is closed, and the memory with it.
pub struct Region {
    raw: *mut xfer_region_t,
    start: *mut u8,
    length: usize,
    closed: Option<Operation<Vec<u8>>>,
}

// SAFETY: any thread may call with a region's handle.
unsafe impl Send for Region {}

impl Region {
    /// Copies what the memory holds now; a peer may be writing there meanwhile.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        assert!(offset <= self.length && into.len() <= self.length - offset, "outside the region");
        // SAFETY: inside of what the operation keeps, by the line above.
        unsafe { self.start.add(offset).copy_to(into.as_mut_ptr(), into.len()) }
    }

    /// Takes the memory back: it comes when nobody uses it any more.
    pub fn close(mut self) -> Operation<Vec<u8>> {
        // SAFETY: the handle is closed once: `closed` is taken here.
        unsafe { xfer_region_close(self.raw) };
        self.closed.take().expect("a region is closed once")
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.closed.is_some() {
            // SAFETY: as in close.
            unsafe { xfer_region_close(self.raw) };
        }
    }
}
