// SPDX-License-Identifier: Apache-2.0
//! Who takes the events of an engine: one at a time, and while somebody waits, somebody does. Free
//! of foreign functions.

use crate::sync::{lock, Mutex};
use std::task::Waker;

#[derive(Default)]
struct State {
    taken: bool,
    next_seat: u64,
    waiting: Vec<(u64, Waker)>,
    told: Option<Waker>, // when nobody waits
}

#[derive(Default)]
pub(crate) struct Turns(Mutex<State>);

/// Events are this one's until it is dropped; then somebody who waits is woken to go on.
pub(crate) struct Turn<'a>(&'a Turns);

/// A place among those that wait for the turn; the one that is left goes to the next.
pub(crate) struct Seat<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Turns {
    pub fn take(&self) -> Option<Turn<'_>> {
        let mut state = lock(&self.0);
        let free = !state.taken;
        state.taken = true;
        free.then(|| Turn(self)) // not then_some: a Turn that is dropped is given back
    }

    /// A seat that is not waited in yet.
    pub fn seat(&self) -> Seat<'_> {
        let mut state = lock(&self.0);
        state.next_seat += 1;
        Seat { turns: self, number: state.next_seat }
    }

    /// The turn; or else `waker` is woken when it is free and nobody waits for it. One at a time.
    #[cfg(feature = "tokio")]
    pub fn take_or_tell(&self, waker: &Waker) -> Option<Turn<'_>> {
        let mut state = lock(&self.0);
        if state.taken {
            let before = state.told.replace(waker.clone());
            drop(state);
            drop(before); // without the lock: it may be anything
            return None;
        }
        state.taken = true;
        Some(Turn(self))
    }

    fn wake_next(state: &mut State) -> Option<Waker> {
        if state.taken {
            return None;
        }
        state.waiting.first().map(|(_, waker)| waker.clone()).or_else(|| state.told.take())
    }

    fn leave(&self, number: u64) {
        let next = {
            let mut state = lock(&self.0);
            state.waiting.retain(|(other, _)| *other != number);
            Self::wake_next(&mut state)
        };
        next.into_iter().for_each(Waker::wake);
    }
}

impl<'a> Seat<'a> {
    /// The turn; or else `waker` is woken when it is free.
    pub fn take_or_wait(&self, waker: &Waker) -> Option<Turn<'a>> {
        let mut state = lock(&self.turns.0);
        state.waiting.retain(|(other, _)| *other != self.number);
        if state.taken {
            state.waiting.push((self.number, waker.clone()));
            return None;
        }
        state.taken = true;
        Some(Turn(self.turns))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let next = {
            let mut state = lock(&self.0 .0);
            state.taken = false;
            Turns::wake_next(&mut state)
        };
        next.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.turns.leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::Turns;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::Arc;
    use std::task::{Wake, Waker};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn one_at_a_time_and_the_next_is_told() {
        let turns = Turns::default();
        let (first, second) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let turn = turns.take().unwrap();
        let (one, other) = (turns.seat(), turns.seat());
        assert!(one.take_or_wait(&Waker::from(first.clone())).is_none());
        assert!(other.take_or_wait(&Waker::from(second.clone())).is_none());
        assert!(turns.take().is_none());
        drop(turn);
        assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (1, 0));
        drop(one); // it was told, and leaves: so the other is
        assert_eq!(second.0.load(SeqCst), 1);
        assert!(other.take_or_wait(&Waker::from(second)).is_some());
        assert!(turns.take().is_some());
    }

    #[test]
    fn who_has_left_is_not_told() {
        let (turns, told) = (Turns::default(), Arc::new(Count::default()));
        let turn = turns.take().unwrap();
        let seat = turns.seat();
        assert!(seat.take_or_wait(&Waker::from(told.clone())).is_none());
        drop(seat);
        drop(turn);
        assert_eq!(told.0.load(SeqCst), 0);
    }
}
