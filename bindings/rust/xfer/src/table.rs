// SPDX-License-Identifier: Apache-2.0
//! What is under way, for the threads that begin it, take events and wait. Free of foreign
//! functions.

use crate::slab::{Lent, Slab};
use crate::sync::{lock, Mutex};
use std::task::Waker;

/// What was lent and wakers are the user's: they are dropped, and woken, without the lock.
pub(crate) struct Table<E>(Mutex<Slab<E>>);

impl<E> Table<E> {
    pub fn new() -> Self {
        Table(Mutex::new(Slab::new()))
    }

    /// How much is under way.
    pub fn len(&self) -> usize {
        lock(&self.0).len()
    }

    /// The word of what is about to begin; gives `lent` back if there are no more words.
    pub fn insert(&self, group: u16, lent: Lent) -> Result<u64, Lent> {
        lock(&self.0).insert(group, lent)
    }

    /// Takes back what no event will come for.
    pub fn refuse(&self, word: u64) -> Option<Lent> {
        lock(&self.0).refuse(word)
    }

    /// The event came. Nobody waits for word 0.
    pub fn complete(&self, word: u64, end: E) {
        let (waker, lent) = lock(&self.0).complete(word, end);
        drop(lent);
        waker.into_iter().for_each(Waker::wake);
    }

    /// The end, if it came; else the waker is kept for it.
    pub fn poll(&self, word: u64, waker: &Waker) -> Option<(E, Lent)> {
        let (end, before) = lock(&self.0).poll(word, waker);
        drop(before);
        end
    }

    /// Nobody waits any more. Whether the event is still to come.
    pub fn abandon(&self, word: u64) -> bool {
        let (pending, lent, waker) = lock(&self.0).abandon(word);
        drop((lent, waker));
        pending
    }
}

#[cfg(test)]
mod tests {
    use super::Table;
    use std::sync::{Arc, Weak};
    use std::task::{Wake, Waker};

    /// Of a task that looks at the table when it is dropped, as one does that has operations.
    struct Task(Weak<Table<()>>);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Task {
        fn drop(&mut self) {
            self.0.upgrade().expect("the table outlives its tasks").len();
        }
    }

    #[test]
    fn what_is_the_users_is_dropped_without_the_lock() {
        let table = Arc::new(Table::new());
        let task = || Waker::from(Arc::new(Task(Arc::downgrade(&table))));
        let words = [0; 2].map(|_| {
            let lent = Box::new(Task(Arc::downgrade(&table)));
            table.insert(0, lent).expect("there is room")
        });
        for word in words {
            assert!(table.poll(word, &task()).is_none());
            assert!(table.poll(word, &task()).is_none()); // in the first one's place
        }
        table.complete(words[0], ());
        assert!(table.poll(words[0], &task()).is_some());
        assert!(table.abandon(words[1]));
        table.complete(words[1], ());
        assert_eq!(table.len(), 0);
    }
}
