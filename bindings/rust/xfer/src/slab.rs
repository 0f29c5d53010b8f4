// SPDX-License-Identifier: Apache-2.0
//! What is under way, by the word that its event will carry. Free of foreign functions.

use std::any::Any;
use std::mem::replace;
use std::task::Waker;

/// What an operation was lent, and gives back.
pub(crate) type Lent = Box<dyn Any + Send>;

const BITS: u32 = 24; // of an index, and of a generation
const MOST: u32 = (1 << BITS) - 1;

/// The word of a group of operations, in the bits of [`GROUP_MASK`].
pub(crate) fn group_word(group: u16) -> u64 {
    u64::from(group) << (2 * BITS)
}

pub(crate) const GROUP_MASK: u64 = 0xffff << (2 * BITS);

struct Slot<E> {
    generation: u32,
    state: State<E>,
}

enum State<E> {
    Free,
    Pending { lent: Lent, waker: Option<Waker>, abandoned: bool },
    Done { end: E, lent: Lent },
}

/// A word is a group, how often the slot was used, and the slot; no word is 0 or comes twice.
pub(crate) struct Slab<E> {
    slots: Vec<Slot<E>>,
    free: Vec<u32>,
    taken: usize,
}

impl<E> Slab<E> {
    pub const fn new() -> Self {
        Slab { slots: Vec::new(), free: Vec::new(), taken: 0 }
    }

    /// How many are taken.
    pub fn len(&self) -> usize {
        self.taken
    }

    /// Gives `lent` back if there are no more words.
    pub fn insert(&mut self, group: u16, lent: Lent) -> Result<u64, Lent> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() as u64 > u64::from(MOST) => return Err(lent),
            None => {
                self.slots.push(Slot { generation: 0, state: State::Free });
                (self.slots.len() - 1) as u32
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.generation += 1;
        slot.state = State::Pending { lent, waker: None, abandoned: false };
        self.taken += 1;
        Ok(group_word(group) | u64::from(slot.generation) << BITS | u64::from(index))
    }

    fn slot(&mut self, word: u64) -> Option<&mut Slot<E>> {
        let slot = self.slots.get_mut((word & u64::from(MOST)) as usize)?;
        (u64::from(slot.generation) == word >> BITS & u64::from(MOST)).then_some(slot)
    }

    fn clear(&mut self, word: u64) -> State<E> {
        let Some(slot) = self.slot(word) else { return State::Free };
        let state = replace(&mut slot.state, State::Free);
        if !matches!(state, State::Free) {
            let used_up = slot.generation == MOST; // such a slot is never used again
            self.taken -= 1;
            if !used_up {
                self.free.push((word & u64::from(MOST)) as u32);
            }
        }
        state
    }

    /// Takes back what no event will come for.
    pub fn refuse(&mut self, word: u64) -> Option<Lent> {
        match self.clear(word) {
            State::Pending { lent, .. } => Some(lent),
            State::Free | State::Done { .. } => None,
        }
    }

    /// The event came. What is returned is to be woken, or to be dropped, without a lock.
    pub fn complete(&mut self, word: u64, end: E) -> (Option<Waker>, Option<Lent>) {
        let Some(slot) = self.slot(word) else { return (None, None) };
        match replace(&mut slot.state, State::Free) {
            State::Pending { lent, waker, abandoned: false } => {
                slot.state = State::Done { end, lent };
                (waker, None)
            }
            state => {
                slot.state = state;
                (None, self.refuse(word))
            }
        }
    }

    /// The end, if it came; else the waker is kept for it. The one that was kept before is to be
    /// dropped without a lock.
    pub fn poll(&mut self, word: u64, waker: &Waker) -> (Option<(E, Lent)>, Option<Waker>) {
        if let Some(Slot { state: State::Pending { waker: kept, .. }, .. }) = self.slot(word) {
            return match kept {
                Some(kept) if kept.will_wake(waker) => (None, None),
                kept => (None, kept.replace(waker.clone())),
            };
        }
        match self.clear(word) {
            State::Done { end, lent } => (Some((end, lent)), None),
            State::Free | State::Pending { .. } => (None, None),
        }
    }

    /// Nobody waits any more. Whether the event is still to come, and what is to be dropped without
    /// a lock.
    pub fn abandon(&mut self, word: u64) -> (bool, Option<Lent>, Option<Waker>) {
        if let Some(Slot { state: State::Pending { abandoned, waker, .. }, .. }) = self.slot(word) {
            *abandoned = true;
            return (true, None, waker.take());
        }
        match self.clear(word) {
            State::Done { lent, .. } => (false, Some(lent), None),
            State::Free | State::Pending { .. } => (false, None, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{group_word, Slab, GROUP_MASK, MOST};
    use std::sync::Arc;
    use std::task::{Wake, Waker};

    #[test]
    fn ends_reach_the_word_that_began() {
        let mut slab = Slab::new();
        let first = slab.insert(0, Box::new(1)).unwrap();
        assert!(slab.poll(first, &waker()).0.is_none());
        assert!(slab.complete(first, "first").0.is_some());
        assert_eq!(slab.poll(first, &waker()).0.unwrap().0, "first");
        let second = slab.insert(0, Box::new(2)).unwrap();
        assert_ne!(first, second);
        assert!(slab.complete(first, "late").0.is_none());
        assert!(slab.poll(second, &waker()).0.is_none());
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn what_is_abandoned_stays_until_its_end() {
        let mut slab = Slab::new();
        let word = slab.insert(0, Box::new(7)).unwrap();
        let (pending, dropped, _) = slab.abandon(word);
        assert!(pending && dropped.is_none() && slab.len() == 1);
        let (waker, lent) = slab.complete(word, ());
        assert!(waker.is_none() && *lent.unwrap().downcast::<i32>().unwrap() == 7);
        assert_eq!(slab.len(), 0);
    }

    #[test]
    fn an_end_that_nobody_takes_is_dropped() {
        let mut slab = Slab::new();
        let word = slab.insert(0, Box::new(7)).unwrap();
        slab.complete(word, ());
        let (pending, lent, _) = slab.abandon(word);
        assert!(!pending && lent.is_some() && slab.len() == 0);
        assert!(slab.refuse(word).is_none());
    }

    #[test]
    fn a_group_is_in_the_high_bits() {
        let mut slab = Slab::<()>::new();
        let words = [1, u16::MAX].map(|group| slab.insert(group, Box::new(())).unwrap());
        assert_eq!(words.map(|word| word & GROUP_MASK), [group_word(1), group_word(u16::MAX)]);
        assert!(words.into_iter().all(|word| slab.refuse(word).is_some()));
    }

    #[test]
    fn a_slot_that_is_used_up_is_left_alone() {
        let mut slab = Slab::<()>::new();
        let word = slab.insert(0, Box::new(())).unwrap();
        slab.slots[0].generation = MOST;
        let last = word | u64::from(MOST) << 24;
        assert!(slab.refuse(last).is_some());
        assert_eq!(slab.insert(0, Box::new(())).unwrap() & u64::from(MOST), 1);
    }

    fn waker() -> Waker {
        struct Nobody;
        impl Wake for Nobody {
            fn wake(self: Arc<Self>) {}
        }
        Arc::new(Nobody).into()
    }
}
