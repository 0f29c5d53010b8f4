// SPDX-License-Identifier: Apache-2.0
//! A thread that waits for a future, and takes the engine's events if nobody else does. Free of
//! foreign functions.

use crate::sync::{current, park, AtomicU8, Thread};
use crate::turns::Turns;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Where events come from.
pub(crate) trait Events: Send + Sync + 'static {
    /// Whose turn it is to take them.
    fn turns(&self) -> &Turns;

    /// No event comes any more.
    fn have_ended(&self) -> bool;

    /// Delivers the events that are there; waits for the first one, so long at most.
    fn take(self: &Arc<Self>, limit: Option<Duration>);

    /// The `take` that waits, or the next one, returns.
    fn interrupt(&self);
}

// What the thread of a Waiter does. One word: a wake-up is seen by the thread before it sleeps, or
// sees how the thread sleeps.
const RUNS: u8 = 0;
const PARKS: u8 = 1;
const TAKES: u8 = 2; // events
const WOKEN: u8 = 3; // and has not seen that yet

struct Waiter<E> {
    state: AtomicU8,
    thread: Thread,
    events: Weak<E>,
}

impl<E: Events> Wake for Waiter<E> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match self.state.swap(WOKEN, AcqRel) {
            PARKS => self.thread.unpark(),
            // Else it was an event that this thread has taken: it looks when it has taken all.
            TAKES if self.thread.id() != current().id() => {
                self.events.upgrade().into_iter().for_each(|events| events.interrupt());
            }
            _ => {}
        }
    }
}

/// Runs a future in this thread; `None` if `until` comes first.
pub(crate) fn wait<E: Events, F: Future>(
    events: &Arc<E>,
    future: F,
    until: Option<Instant>,
) -> Option<F::Output> {
    let (state, thread) = (AtomicU8::new(WOKEN), current());
    let waiter = Arc::new(Waiter { state, thread, events: Arc::downgrade(events) });
    let (waker, mut future) = (Waker::from(waiter.clone()), pin!(future));
    let (seat, mut turn) = (events.turns().seat(), None);
    loop {
        while waiter.state.swap(RUNS, AcqRel) == WOKEN {
            if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Some(value);
            }
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return None;
        }
        if events.have_ended() {
            turn = None; // the future is of something else
        } else if turn.is_none() {
            turn = seat.take_or_wait(&waker);
        }
        let sleeps = if turn.is_some() { TAKES } else { PARKS };
        if waiter.state.compare_exchange(RUNS, sleeps, AcqRel, Acquire).is_err() {
            continue;
        }
        match turn {
            Some(_) => events.take(left),
            None => park(left),
        }
    }
}
