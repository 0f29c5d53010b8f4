// SPDX-License-Identifier: Apache-2.0
//! A thread that waits for a future, and takes the engine's events if nobody else does.

use crate::engine::Inner;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;
use xfer_sys::xfer_engine_wake;

struct Waiter {
    woken: AtomicBool,
    takes_events: AtomicBool,
    thread: Thread,
    engine: Weak<Inner>,
}

impl Wake for Waiter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, SeqCst);
        if self.thread.id() == thread::current().id() {
            return;
        }
        if !self.takes_events.load(SeqCst) {
            self.thread.unpark();
        } else if let Some(engine) = self.engine.upgrade() {
            // SAFETY: the handle is live; the poll that waits, or the next one, returns at once.
            unsafe { xfer_engine_wake(engine.raw) };
        }
    }
}

impl Inner {
    /// Runs a future in this thread; `None` if `until` comes first.
    pub fn wait<F: Future>(
        self: &Arc<Self>,
        future: F,
        until: Option<Instant>,
    ) -> Option<F::Output> {
        let waiter = Arc::new(Waiter {
            woken: AtomicBool::new(true),
            takes_events: AtomicBool::new(false),
            thread: thread::current(),
            engine: Arc::downgrade(self),
        });
        let (waker, mut future) = (Waker::from(waiter.clone()), pin!(future));
        let (seat, mut turn) = (self.turns.seat(), None);
        loop {
            while waiter.woken.swap(false, SeqCst) {
                if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return Some(value);
                }
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            if turn.is_none() && !self.ended.load(SeqCst) {
                turn = seat.take_or_wait(&waker);
            }
            if turn.is_none() || self.ended.load(SeqCst) {
                turn = None; // no event comes any more: the future is of something else
                match left {
                    Some(left) => thread::park_timeout(left),
                    None => thread::park(),
                }
                continue;
            }
            waiter.takes_events.store(true, SeqCst);
            if !waiter.woken.load(SeqCst) {
                self.take_events(left).expect("the engine's events can be taken");
            }
            waiter.takes_events.store(false, SeqCst);
        }
    }
}
