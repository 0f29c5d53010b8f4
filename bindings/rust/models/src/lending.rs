// SPDX-License-Identifier: Apache-2.0
//! What is lent, with a thread in the place of the library: for Miri, which sees whether pointers
//! are used as Rust allows, and what is never freed.

use crate::buffer::{lend, lend_mut, Lend, LendMut};
use crate::memory::Memory;
use crate::slab::Lent;
use crate::sync::lock;
use crate::table::Table;
use crate::turns::Turns;
use crate::waiting::{wait, Events};
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// Completes words in the order in which they come, with the byte that was written first.
struct Library {
    turns: Turns,
    table: Table<u8>,
    posted: Mutex<Posted>,
    readable: Condvar,
}

#[derive(Default)]
struct Posted {
    events: Vec<(u64, u8)>,
    interrupted: bool,
}

impl Events for Library {
    fn turns(&self) -> &Turns {
        &self.turns
    }

    fn have_ended(&self) -> bool {
        false
    }

    fn take(self: &Arc<Self>, limit: Option<Duration>) {
        let events = {
            let nothing = |posted: &mut Posted| posted.events.is_empty() && !posted.interrupted;
            let limit = limit.unwrap_or(Duration::MAX);
            let waited = self.readable.wait_timeout_while(lock(&self.posted), limit, nothing);
            let mut posted = waited.expect("no test panics under the lock").0;
            posted.interrupted = false;
            std::mem::take(&mut posted.events)
        };
        events.into_iter().for_each(|(word, end)| self.table.complete(word, end));
    }

    fn interrupt(&self) {
        lock(&self.posted).interrupted = true;
        self.readable.notify_all();
    }
}

impl Library {
    fn new() -> Arc<Self> {
        Arc::new(Library {
            turns: Turns::default(),
            table: Table::new(),
            posted: Mutex::default(),
            readable: Condvar::new(),
        })
    }

    fn post(&self, word: u64, end: u8) {
        lock(&self.posted).events.push((word, end));
        self.readable.notify_all();
    }

    fn end(self: &Arc<Self>, word: u64) -> (u8, Lent) {
        let end = poll_fn(|context| match self.table.poll(word, context.waker()) {
            Some(end) => Poll::Ready(end),
            None => Poll::Pending,
        });
        wait(self, end, None).expect("it waits without limit")
    }
}

/// A pointer that a thread of the library has.
struct Lease<T>(*mut T, u64);

// SAFETY: who has it is lent the bytes.
unsafe impl<T> Send for Lease<T> {}

impl Lease<u8> {
    fn fill(&self, value: u8) {
        for i in 0..self.1 as usize {
            // SAFETY: the bytes are lent, and nobody else touches them.
            unsafe { *self.0.add(i) = value };
        }
    }

    fn first(&self) -> u8 {
        // SAFETY: the bytes are lent.
        unsafe { *self.0 }
    }
}

/// Gets into `buffer`, of which a thread fills every byte, and gives it back.
fn get<B: LendMut>(buffer: B) -> B {
    let library = Library::new();
    let (buffer, start, length) = lend_mut(buffer);
    let word = library.table.insert(0, buffer).expect("there is room");
    let (lease, there) = (Lease(start.cast::<u8>(), length), library.clone());
    let thread = thread::spawn(move || {
        lease.fill(7);
        there.post(word, lease.first());
    });
    let (end, lent) = library.end(word);
    assert_eq!(end, 7);
    thread.join().expect("it has not panicked");
    *lent.downcast().expect("what was lent comes back")
}

fn put<B: Lend>(data: B) -> (u8, B) {
    let library = Library::new();
    let (data, start, length) = lend(data);
    let word = library.table.insert(0, data).expect("there is room");
    let (lease, there) = (Lease(start.cast::<u8>().cast_mut(), length), library.clone());
    let thread = thread::spawn(move || there.post(word, lease.first()));
    let (end, lent) = library.end(word);
    thread.join().expect("it has not panicked");
    (end, *lent.downcast().expect("what was lent comes back"))
}

#[test]
fn buffers_are_written_where_they_are_and_come_back() {
    assert_eq!(get(vec![0u8; 9]), [7; 9]);
    assert_eq!(*get(vec![0u32; 3].into_boxed_slice()), [0x0707_0707; 3]);
    let forever: &'static mut [u16] = Box::leak(Box::new([0u16; 4]));
    let forever = get(forever);
    assert_eq!(*forever, [0x0707; 4]);
    // SAFETY: it was leaked above, and nobody has it any more.
    drop(unsafe { Box::from_raw(forever) });
    let memory = Memory::zeroed(10);
    let part = get(memory.slice(3..8));
    assert_eq!((part.to_vec(), memory.whole().to_vec()[8]), (vec![7; 5], 0));
}

#[test]
fn data_are_read_where_they_are_and_come_back() {
    assert_eq!(put(vec![3u8, 4]), (3, vec![3, 4]));
    assert_eq!(put(String::from("\u{5}")), (5, String::from("\u{5}")));
    assert_eq!(put("\u{6}"), (6, "\u{6}"));
    let shared: Arc<[u8]> = vec![8u8].into();
    assert_eq!(put(shared.clone()), (8, shared));
}

#[test]
fn what_is_abandoned_is_written_until_its_event() {
    let library = Library::new();
    let (buffer, start, length) = lend_mut(vec![0u8; 64]);
    let word = library.table.insert(0, buffer).expect("there is room");
    let lease = Lease(start.cast::<u8>(), length);
    assert!(library.table.abandon(word));
    let thread = thread::spawn(move || lease.fill(7));
    thread.join().expect("it has not panicked");
    library.post(word, 0);
    library.take(None);
    assert_eq!(library.table.len(), 0); // Miri sees that the buffer is freed
}

#[test]
fn memory_is_copied_while_a_peer_does_not_write() {
    let memory = Memory::of(vec![0u64; 4]);
    let threads = [1u8, 2].map(|value| {
        let memory = memory.clone();
        thread::spawn(move || {
            memory.write(usize::from(value), &[value; 9]);
            let mut bytes = [0; 12];
            memory.read(0, &mut bytes);
            bytes[usize::from(value)] != 0
        })
    });
    assert!(threads.into_iter().all(|thread| thread.join().expect("it has not panicked")));
    let bytes = memory.into_inner::<Vec<u64>>().ok().expect("nobody else has it");
    assert_ne!(bytes, [0; 4]);
}

#[test]
fn memory_of_others_lives_as_long_as_its_owner() {
    let owner: Arc<Mutex<[u8; 4]>> = Arc::default();
    let start = lock(&owner).as_mut_ptr();
    // SAFETY: the bytes are those of the owner, which nobody locks meanwhile.
    let memory = unsafe { Memory::of_other(start, 4, owner.clone()) };
    let part = memory.slice(1..3);
    memory.write(0, &[1, 2, 3, 4]);
    assert_eq!(Arc::strong_count(&owner), 2);
    drop(memory);
    assert_eq!(part.to_vec(), [2, 3]);
    drop(part);
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn memory_of_a_device_is_lent_but_not_touched() {
    let address = 0x7000_0000_0000u64; // where nothing is
    // SAFETY: nobody touches it.
    let memory = unsafe { Memory::of_device(address, 64, String::from("allocation")) };
    let library = Library::new();
    let (buffer, start, length) = lend_mut(memory.slice(16..48));
    assert_eq!((start as u64, length), (address + 16, 32));
    let word = library.table.insert(0, buffer).expect("there is room");
    let memory = memory.into_inner::<String>().err().expect("a slice of it is lent");
    library.post(word, 9);
    let (end, lent) = library.end(word);
    assert_eq!(end, 9);
    drop(lent);
    let copied = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| memory.whole().to_vec()));
    assert!(copied.is_err());
    let memory = memory.into_inner::<Vec<u8>>().err().expect("the owner is none");
    assert_eq!(memory.into_inner::<String>().ok().expect("nobody else has it"), "allocation");
}

#[test]
fn a_wait_ends_by_its_limit_or_by_another_thread() {
    let library = Library::new();
    let soon = Some(Instant::now() + Duration::from_millis(1));
    assert!(wait(&library, std::future::pending::<()>(), soon).is_none());
    let (sender, mut told) = (Arc::new(crate::queue::Queue::new()), None);
    let (there, mut thread) = (sender.clone(), None);
    let next = poll_fn(|context| {
        let value = sender.poll_next(context);
        let there = there.clone();
        thread.get_or_insert_with(|| thread::spawn(move || there.push(5)));
        value
    });
    told = wait(&library, next, None).flatten().or(told);
    assert_eq!(told, Some(5));
    thread.expect("it was begun").join().expect("it has not panicked");
}
