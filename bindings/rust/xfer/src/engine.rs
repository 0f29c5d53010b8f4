// SPDX-License-Identifier: Apache-2.0

use crate::call::{views, Call};
use crate::dispatch::BURST;
use crate::endpoint::Peers;
use crate::ledger::Ledger;
use crate::notice::Notice;
use crate::operation::{End, Operation};
use crate::queue::Queue;
use crate::slab::{group_word, GROUP_MASK};
use crate::sync::Mutex;
use crate::table::Table;
use crate::turns::Turns;
use crate::waiting::{wait, Events};
use crate::{lock, text, EngineOptions, EngineStats, Error, Id, ListenOptions, Result, Version};
use std::ffi::{c_char, CStr};
use std::future::Future;
use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::{Duration, Instant};
use xfer_sys as sys;

/// What all handles of one engine share. What the library is lent is kept here, and holds no handle
/// of the engine: else it would never end.
pub(crate) struct Inner {
    pub raw: *mut sys::xfer_engine_t,
    pub under_way: Table<End>,
    pub peers: Mutex<Peers>,
    pub ledger: Mutex<Ledger>,
    pub turns: Turns,
    pub notices: Mutex<Weak<Queue<Notice>>>,
    pub closing: Mutex<Option<u64>>, // the word that the engine's CLOSED completes
    pub ended: AtomicBool,           // it came
    pub driver: Mutex<Option<Waker>>, // told of the end
    pub asks: bool,
}

// SAFETY: any thread may call with an engine's handle.
unsafe impl Send for Inner {}
// SAFETY: as above; polls are one at a time by `turns`.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: all that has the handle has an Arc of this. What was lent is dropped afterwards.
        unsafe { sys::xfer_engine_join(self.raw, sys::XFER_NONE) };
        lock(&self.driver).take().into_iter().for_each(Waker::wake);
    }
}

impl Events for Inner {
    fn turns(&self) -> &Turns {
        &self.turns
    }

    fn have_ended(&self) -> bool {
        self.ended.load(SeqCst)
    }

    fn take(self: &Arc<Self>, limit: Option<Duration>) {
        self.take_events(limit).expect("the engine's events can be taken");
    }

    fn interrupt(&self) {
        // SAFETY: the handle is live.
        unsafe { sys::xfer_engine_wake(self.raw) };
    }
}

/// One member of those that move bytes. Clones are the same engine, also in other threads: any thread
/// may call any method, several at once; [`poll`](Self::poll) alone is one at a time.
///
/// The last handle that is dropped, of the engine or of anything that it made, ends it and waits
/// until the library is through with what it was lent. Not a handle, and safe: the memory itself.
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<Inner>,
    pub(crate) call: Call,
}

views!(Engine);

impl Engine {
    /// Opens an engine with the default options.
    ///
    /// # Errors
    /// As [`EngineOptions::open`].
    pub fn open() -> Result<Self> {
        EngineOptions::new().open()
    }

    /// Options to be set before the open.
    pub fn options() -> EngineOptions {
        EngineOptions::new()
    }

    pub(crate) fn open_with(mut options: EngineOptions) -> Result<Self> {
        Version::of_library().check()?;
        options.checked()?;
        let (mut raw, mut detail) = (null_mut(), sys::xfer_error_t::default());
        // SAFETY: all three arguments, and what the options point to, are live during the call.
        let status = unsafe { sys::xfer_engine_open(&options.raw, &mut raw, &mut detail) };
        Error::detailed(status, &detail)?;
        let inner = Inner {
            raw,
            under_way: Table::new(),
            peers: Mutex::default(),
            ledger: Mutex::default(),
            turns: Turns::default(),
            notices: Mutex::default(),
            closing: Mutex::default(),
            ended: AtomicBool::new(false),
            driver: Mutex::default(),
            asks: options.raw.flags & sys::XFER_ENGINE_ASK != 0,
        };
        Ok(Engine { inner: Arc::new(inner), call: Call::default() })
    }

    /// Accepts peers at `uri`, such as `tcp://127.0.0.1:0`, until the end of the engine. Returns the
    /// address that they can dial.
    ///
    /// # Errors
    /// `EADDRINUSE` if somebody listens there, `EAUTH` beyond loopback without a key; `EADDR`,
    /// `EINVAL`, `EUNSUPPORTED`, `EACCESS`, `ENOFILES`, `EIO`, `ECLOSED`.
    pub fn listen(&self, uri: &str) -> Result<String> {
        self.listen_with(uri, &ListenOptions::default())
    }

    /// The same, with options.
    ///
    /// # Errors
    /// As [`listen`](Self::listen).
    pub fn listen_with(&self, uri: &str, options: &ListenOptions) -> Result<String> {
        let (uri, (options, _advertise)) = (text(uri)?, options.raw()?);
        let (mut bound, mut detail) = ([0 as c_char; 256], sys::xfer_error_t::default());
        // SAFETY: all arguments are live during the call, and what it writes ends with NUL.
        unsafe {
            let (start, size) = (bound.as_mut_ptr(), bound.len() as u64);
            let (raw, uri) = (self.inner.raw, uri.as_ptr());
            let status = sys::xfer_engine_listen(raw, uri, &options, start, size, &mut detail);
            Error::detailed(status, &detail)?;
            Ok(CStr::from_ptr(bound.as_ptr()).to_string_lossy().into_owned())
        }
    }

    /// What `call` writes, which tells how long it is.
    fn read_text(
        &self,
        call: unsafe extern "C" fn(*mut sys::xfer_engine_t, *mut c_char, u64, *mut u64) -> i32,
    ) -> Result<String> {
        let (mut buffer, mut needed) = (vec![0u8; 1024], 0);
        loop {
            let size = buffer.len() as u64;
            // SAFETY: the buffer has that room.
            let status =
                unsafe { call(self.inner.raw, buffer.as_mut_ptr().cast(), size, &mut needed) };
            if status == sys::XFER_ENOSPC {
                buffer.resize(needed as usize + 256, 0); // it may grow meanwhile
                continue;
            }
            Error::check(status)?;
            let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
            return Ok(text.to_string_lossy().into_owned());
        }
    }

    /// Where peers may dial this engine: a comma list that [`dial`](Self::dial) takes.
    ///
    /// # Errors
    /// `EFORKED`.
    pub fn addresses(&self) -> Result<String> {
        self.read_text(sys::xfer_engine_addresses)
    }

    /// The engine as JSON: options, counters, listeners, peers, paths, regions. Members may be added
    /// within one value of "schema".
    ///
    /// # Errors
    /// `EFORKED`.
    pub fn describe(&self) -> Result<String> {
        self.read_text(sys::xfer_engine_describe)
    }

    /// The identity of this engine.
    ///
    /// # Errors
    /// `EFORKED`.
    pub fn id(&self) -> Result<Id> {
        let mut id = sys::xfer_id_t::default();
        // SAFETY: both are live during the call.
        Error::check(unsafe { sys::xfer_engine_id(self.inner.raw, &mut id) })?;
        Ok(Id::of(&id))
    }

    /// The kinds of memory that it moves: bit `1 << sys::XFER_MEM_*` of each.
    ///
    /// # Errors
    /// `EFORKED`.
    pub fn kinds(&self) -> Result<u64> {
        let mut mask = 0;
        // SAFETY: both are live during the call.
        Error::check(unsafe { sys::xfer_engine_kinds(self.inner.raw, &mut mask) }).map(|()| mask)
    }

    /// The transports that it uses: bit `1 << sys::XFER_TRANSPORT_*` of each.
    ///
    /// # Errors
    /// `EFORKED`.
    pub fn transports(&self) -> Result<u64> {
        let mut mask = 0;
        // SAFETY: both are live during the call.
        let status = unsafe { sys::xfer_engine_transports(self.inner.raw, &mut mask) };
        Error::check(status).map(|()| mask)
    }

    /// Counters since the open, read one by one while they move.
    ///
    /// # Errors
    /// `EFORKED`.
    pub fn stats(&self) -> Result<EngineStats> {
        let mut stats = sys::xfer_engine_stats_t::default();
        let size = size_of::<sys::xfer_engine_stats_t>() as u32;
        // SAFETY: `stats` has room for `size` bytes.
        Error::check(unsafe { sys::xfer_engine_stats(self.inner.raw, &mut stats, size) })?;
        Ok(EngineStats::of(&stats))
    }

    /// How much of this engine is under way, lent or open as this crate sees it; what was dropped
    /// counts until its event was taken.
    pub fn live(&self) -> usize {
        self.inner.under_way.len() + lock(&self.inner.peers).len()
    }

    /// The descriptor that is readable when [`poll`](Self::poll) has something to do: to be watched,
    /// not read. It stays the engine's; a duplicate can be watched as well.
    ///
    /// # Errors
    /// `ENOFILES`, `ENOMEM`, `EIO`.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        let mut fd = -1;
        // SAFETY: both are live during the call; the descriptor is as long as the engine.
        Error::check(unsafe { sys::xfer_engine_fd(self.inner.raw, &mut fd) })
            .map(|()| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Takes events, and wakes whom they concern; waits for the first one, without limit if None.
    /// Returns how many there were: less than 64 if no more are there.
    ///
    /// # Errors
    /// `EBUSY` if another thread takes them, or waits for one.
    ///
    /// # Panics
    /// With what a waker, or the drop of something lent, has panicked with: the other events were
    /// delivered all the same.
    pub fn poll(&self, limit: Option<Duration>) -> Result<usize> {
        match self.inner.turns.take() {
            Some(_turn) => self.inner.take_events(limit),
            None => Err(Error::of(sys::XFER_EBUSY)),
        }
    }

    /// Runs a future in this thread, which takes events meanwhile unless another thread does. Not
    /// for a task of an executor, whose thread it blocks.
    ///
    /// # Panics
    /// With what the future has panicked with; as [`poll`](Self::poll).
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        wait(&self.inner, future, None).expect("it waits without limit")
    }

    /// The same for so long at most; `None` says that the limit came first, and the future was
    /// dropped. Give it `&mut future` to keep it.
    ///
    /// # Panics
    /// As [`block_on`](Self::block_on).
    pub fn block_on_for<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        wait(&self.inner, future, Instant::now().checked_add(limit))
    }

    /// Asks for an early end of everything that was begun by views of that
    /// [group](Self::grouped); each result still comes. Group 0 is all that is in no other: also
    /// regions, counters and the ends of endpoints, which cannot be canceled and are left alone.
    ///
    /// # Errors
    /// `EFORKED`.
    pub fn cancel_group(&self, group: u16) -> Result<()> {
        let word = group_word(group);
        // SAFETY: the handle is live.
        Error::check(unsafe { sys::xfer_cancel(self.inner.raw, null_mut(), word, GROUP_MASK) })
    }

    /// Ends all work before the end of the engine: nothing new is begun, here or by peers, and what
    /// is under way ends.
    ///
    /// Errors: `ETIMEDOUT` if not all of it has ended; `EBUSY` the second time, `ECLOSED`.
    pub fn drain(&self) -> Operation<Result<()>> {
        let options = self.call.options(0);
        let finish = |end: End, ()| end.result();
        // SAFETY: all are live during the call.
        Operation::begin(&self.inner, self.call.group, Box::new(()), finish, |word, _| unsafe {
            sys::xfer_engine_drain(self.inner.raw, word, &options)
        })
    }

    /// Starts the end: what is under way is canceled, and all is closed; its result is the last
    /// event. The library is through with this engine when the last handle is dropped.
    ///
    /// Errors: `ECLOSED` the second time.
    pub fn close(&self) -> Operation<Result<()>> {
        let finish = |end: End, ()| end.result();
        Operation::begin(&self.inner, 0, Box::new(()), finish, |word, _| {
            let mut closing = lock(&self.inner.closing);
            // SAFETY: the handle is live.
            let status = unsafe { sys::xfer_engine_close(self.inner.raw) };
            if status == sys::XFER_OK {
                *closing = Some(word);
            }
            status
        })
    }
}

impl AsFd for Engine {
    /// As [`Engine::fd`].
    ///
    /// # Panics
    /// If that is an error.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd().expect("the engine has a descriptor")
    }
}

const _: () = assert!(BURST == 64, "as the text of Engine::poll has it");
