// SPDX-License-Identifier: Apache-2.0
//! What is under way, by the word that its event will carry. Free of foreign functions.

use std::any::Any;
use std::task::Waker;

/// What an operation was lent, and gives back.
pub(crate) type Lent = Box<dyn Any + Send>;

struct Slot<E> {
    generation: u32,
    state: State<E>,
}

enum State<E> {
    Free,
    Pending { lent: Lent, waker: Option<Waker>, abandoned: bool },
    Done { end: E, lent: Lent },
}

/// A word is the index of a slot and how often the slot was used; no word is 0 or comes twice.
pub(crate) struct Slab<E> {
    slots: Vec<Slot<E>>,
    free: Vec<u32>,
}

impl<E> Slab<E> {
    pub const fn new() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }

    /// How many are taken.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn insert(&mut self, lent: Lent) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, state: State::Free });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.generation += 1;
        slot.state = State::Pending { lent, waker: None, abandoned: false };
        u64::from(slot.generation) << 32 | u64::from(index)
    }

    fn slot(&mut self, word: u64) -> Option<&mut Slot<E>> {
        let slot = self.slots.get_mut(word as u32 as usize)?;
        (u64::from(slot.generation) == word >> 32).then_some(slot)
    }

    fn clear(&mut self, word: u64) -> State<E> {
        let Some(slot) = self.slot(word) else { return State::Free };
        let state = std::mem::replace(&mut slot.state, State::Free);
        if !matches!(state, State::Free) && slot.generation < u32::MAX {
            self.free.push(word as u32);
        }
        state
    }

    /// Takes back what a call has refused.
    pub fn refuse(&mut self, word: u64) -> Option<Lent> {
        match self.clear(word) {
            State::Pending { lent, .. } => Some(lent),
            _ => None,
        }
    }

    /// The event came. What is returned is to be woken, or to be dropped, without a lock.
    pub fn complete(&mut self, word: u64, end: E) -> (Option<Waker>, Option<Lent>) {
        match self.slot(word).map(|slot| &slot.state) {
            Some(State::Pending { abandoned: true, .. }) => (None, self.refuse(word)),
            Some(State::Pending { .. }) => {
                let slot = self.slot(word).expect("it is there");
                match std::mem::replace(&mut slot.state, State::Free) {
                    State::Pending { lent, waker, .. } => {
                        slot.state = State::Done { end, lent };
                        (waker, None)
                    }
                    _ => unreachable!("it is pending"),
                }
            }
            _ => (None, None),
        }
    }

    /// The end, if it came; else the waker is kept for it.
    pub fn poll(&mut self, word: u64, waker: &Waker) -> Option<(E, Lent)> {
        if let State::Pending { waker: kept, .. } = &mut self.slot(word)?.state {
            *kept = Some(waker.clone());
            return None;
        }
        match self.clear(word) {
            State::Done { end, lent } => Some((end, lent)),
            _ => None,
        }
    }

    /// Nobody waits any more. Whether the event is still to come, and what is to be dropped.
    pub fn abandon(&mut self, word: u64) -> (bool, Option<Lent>) {
        if let Some(Slot { state: State::Pending { abandoned, .. }, .. }) = self.slot(word) {
            *abandoned = true;
            return (true, None);
        }
        match self.clear(word) {
            State::Done { lent, .. } => (false, Some(lent)),
            _ => (false, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Slab;
    use std::task::Waker;

    #[test]
    fn ends_reach_the_word_that_began() {
        let mut slab = Slab::new();
        let first = slab.insert(Box::new(1));
        assert!(slab.poll(first, &waker()).is_none());
        assert!(slab.complete(first, "first").0.is_some());
        assert_eq!(slab.poll(first, &waker()).unwrap().0, "first");
        let second = slab.insert(Box::new(2));
        assert_ne!(first, second);
        assert!(slab.complete(first, "late").0.is_none());
        assert!(slab.poll(second, &waker()).is_none());
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn what_is_abandoned_stays_until_its_end() {
        let mut slab = Slab::new();
        let word = slab.insert(Box::new(7));
        let (pending, dropped) = slab.abandon(word);
        assert!(pending && dropped.is_none() && slab.len() == 1);
        let (waker, lent) = slab.complete(word, ());
        assert!(waker.is_none() && *lent.unwrap().downcast::<i32>().unwrap() == 7);
        assert_eq!(slab.len(), 0);
    }

    #[test]
    fn an_end_that_nobody_takes_is_dropped() {
        let mut slab = Slab::new();
        let word = slab.insert(Box::new(7));
        slab.complete(word, ());
        let (pending, lent) = slab.abandon(word);
        assert!(!pending && lent.is_some() && slab.len() == 0);
        assert!(slab.refuse(word).is_none());
    }

    fn waker() -> Waker {
        struct Nobody;
        impl std::task::Wake for Nobody {
            fn wake(self: std::sync::Arc<Self>) {}
        }
        std::sync::Arc::new(Nobody).into()
    }
}
