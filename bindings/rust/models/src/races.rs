// SPDX-License-Identifier: Apache-2.0
//! All ways in which threads may meet: loom fails a model in which one of them waits for ever.

use crate::queue::Queue;
use crate::slab::Lent;
use crate::sync::{lock, Mutex};
use crate::table::Table;
use crate::turns::Turns;
use crate::waiting::{wait, Events};
use loom::future::block_on;
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use loom::sync::Condvar;
use loom::thread;
use std::future::{poll_fn, Future};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Few enough changes of thread where nobody waits that a model ends soon, and enough for the known
/// ways to lose a wake-up.
fn model(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(5);
    builder.check(model);
}

/// An engine whose events come from a thread.
struct Library {
    turns: Turns,
    table: Table<u8>,
    posted: Mutex<(Vec<u64>, bool)>, // words that have ended; whether it was interrupted
    readable: Condvar,
}

impl Events for Library {
    fn turns(&self) -> &Turns {
        &self.turns
    }

    fn have_ended(&self) -> bool {
        false
    }

    fn take(self: &Arc<Self>, _limit: Option<Duration>) {
        let words = {
            let mut posted = lock(&self.posted);
            while posted.0.is_empty() && !posted.1 {
                posted = self.readable.wait(posted).expect("no model panics under the lock");
            }
            posted.1 = false;
            std::mem::take(&mut posted.0)
        };
        words.into_iter().for_each(|word| self.table.complete(word, 1));
    }

    fn interrupt(&self) {
        lock(&self.posted).1 = true;
        self.readable.notify_one();
    }
}

impl Library {
    fn new() -> Arc<Self> {
        let (posted, readable) = (Mutex::new((Vec::new(), false)), Condvar::new());
        Arc::new(Library { turns: Turns::default(), table: Table::new(), posted, readable })
    }

    fn post(&self, word: u64) {
        lock(&self.posted).0.push(word);
        self.readable.notify_one();
    }
}

/// The end of an operation, as `Operation` waits for it.
fn end<E>(table: &Table<E>, word: u64) -> impl Future<Output = (E, Lent)> + '_ {
    poll_fn(move |context| match table.poll(word, context.waker()) {
        Some(end) => Poll::Ready(end),
        None => Poll::Pending,
    })
}

/// Counts its drops, each without the table's lock.
struct Buffer(Arc<(Table<u8>, AtomicUsize)>);

impl Drop for Buffer {
    fn drop(&mut self) {
        self.0 .0.len();
        self.0 .1.fetch_add(1, SeqCst);
    }
}

fn begun() -> (Arc<(Table<u8>, AtomicUsize)>, u64) {
    let shared = Arc::new((Table::new(), AtomicUsize::new(0)));
    let word = shared.0.insert(0, Box::new(Buffer(shared.clone()))).expect("there is room");
    (shared, word)
}

#[test]
fn a_completion_meets_a_poll() {
    model(|| {
        let (shared, word) = begun();
        let there = shared.clone();
        let thread = thread::spawn(move || there.0.complete(word, 7));
        let (end, lent) = block_on(end(&shared.0, word));
        thread.join().expect("it has not panicked");
        assert_eq!((end, shared.1.load(SeqCst)), (7, 0));
        drop(lent);
        assert_eq!((shared.1.load(SeqCst), shared.0.len()), (1, 0));
    });
}

#[test]
fn a_completion_meets_a_drop() {
    model(|| {
        let (shared, word) = begun();
        let there = shared.clone();
        let thread = thread::spawn(move || there.0.complete(word, 7));
        shared.0.abandon(word);
        thread.join().expect("it has not panicked");
        assert_eq!((shared.1.load(SeqCst), shared.0.len()), (1, 0));
    });
}

#[test]
fn a_completion_meets_a_poll_and_then_a_drop() {
    model(|| {
        let (shared, word) = begun();
        let there = shared.clone();
        let thread = thread::spawn(move || there.0.complete(word, 7));
        let taken = block_on(poll_fn(|context| Poll::Ready(shared.0.poll(word, context.waker()))));
        if taken.is_none() {
            shared.0.abandon(word);
        }
        thread.join().expect("it has not panicked");
        drop(taken);
        assert_eq!((shared.1.load(SeqCst), shared.0.len()), (1, 0));
    });
}

#[test]
fn one_takes_the_events_of_all_that_wait() {
    model(|| {
        let library = Library::new();
        let words = [0; 2].map(|_| library.table.insert(0, Box::new(())).expect("there is room"));
        let waits = |word| {
            let library = library.clone();
            move || drop(wait(&library, end(&library.table, word), None).expect("it has no limit"))
        };
        let other = thread::spawn(waits(words[1]));
        library.post(words[0]);
        library.post(words[1]);
        waits(words[0])();
        other.join().expect("it has not panicked");
        assert!(library.turns.take().is_some() && library.table.len() == 0);
    });
}

#[test]
fn who_has_its_end_leaves_the_turn_to_the_other() {
    model(|| {
        let library = Library::new();
        let words = [0; 2].map(|_| library.table.insert(0, Box::new(())).expect("there is room"));
        let there = library.clone();
        let other = thread::spawn(move || {
            drop(wait(&there, end(&there.table, words[0]), None).expect("it has no limit"));
            there.post(words[1]); // comes when this thread takes no events any more
        });
        library.post(words[0]);
        drop(wait(&library, end(&library.table, words[1]), None).expect("it has no limit"));
        other.join().expect("it has not panicked");
        assert!(library.turns.take().is_some() && library.table.len() == 0);
    });
}

#[test]
fn a_poll_leaves_the_turn_to_who_waits() {
    model(|| {
        let library = Library::new();
        let word = library.table.insert(0, Box::new(())).expect("there is room");
        library.post(word);
        let there = library.clone();
        let thread = thread::spawn(move || drop(there.turns.take())); // as Engine::poll
        drop(wait(&library, end(&library.table, word), None).expect("it has no limit"));
        thread.join().expect("it has not panicked");
        assert!(library.turns.take().is_some());
    });
}

#[test]
fn who_takes_events_is_woken_by_another_thread() {
    model(|| {
        let (library, queue) = (Library::new(), Arc::new(Queue::new()));
        let there = queue.clone();
        let thread = thread::spawn(move || {
            there.push(7);
            there.end();
        });
        let next = || wait(&library, poll_fn(|context| queue.poll_next(context)), None);
        assert_eq!((next().flatten(), next().flatten()), (Some(7), None));
        thread.join().expect("it has not panicked");
    });
}

#[test]
fn a_driver_is_told_when_a_thread_has_left() {
    model(|| {
        let library = Library::new();
        let word = library.table.insert(0, Box::new(())).expect("there is room");
        library.post(word);
        let there = library.clone();
        let thread = thread::spawn(move || {
            drop(wait(&there, end(&there.table, word), None).expect("it has no limit"));
        });
        let turns = &library.turns;
        let turn = block_on(poll_fn(|context| match turns.take_or_tell(context.waker()) {
            Some(turn) => Poll::Ready(turn),
            None => Poll::Pending,
        }));
        if library.table.len() > 0 {
            let words = std::mem::take(&mut lock(&library.posted).0);
            words.into_iter().for_each(|word| library.table.complete(word, 1));
        }
        drop(turn);
        thread.join().expect("it has not panicked");
    });
}
