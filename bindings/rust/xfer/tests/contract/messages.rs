// SPDX-License-Identifier: Apache-2.0
//! Messages.

use crate::path::{bytes, end, failed, on_all, on_both, Pair, PATIENCE};
use std::time::{Duration, Instant};
use xfer::{Match, Status};

#[test]
fn message_tags() {
    on_all(|path| {
        let p = Pair::open(path, 64);
        let us = p.client.id().unwrap();
        let take = |which: &Match<'_>| end(p.server.take(100, which)).unwrap();
        for (tag, text) in [(0x17, "one"), (0x28, "two"), (0x27, "three"), (0x17, "four")] {
            end(p.ep.send(text, tag)).0.unwrap();
        }
        let waiting = p.server.peek(&Match::tag(0x28)).unwrap().unwrap();
        assert_eq!((waiting.length, waiting.tag, waiting.sender), (3, 0x28, us));
        let (message, data) = take(&Match::tag(0x07).mask(0x0f));
        assert!(message.tag == 0x17 && message.sender == us && data == b"one");
        assert_eq!(take(&Match::tag(0x17)).1, b"four");
        assert_eq!(take(&Match::any()).1, b"two");
        let (message, data) = take(&Match::any());
        assert!(message.tag == 0x27 && data == b"three");
        assert!(p.server.peek(&Match::any()).unwrap().is_none());
        // The answer goes to whoever sent it.
        end(message.peer.unwrap().send_copy(b"answer", 1)).unwrap();
        let (message, data) = end(p.client.take(100, &Match::tag(1).sender(&p.ep))).unwrap();
        assert!(message.sender == p.server.id().unwrap() && data == b"answer");
        assert!(message.peer.unwrap().same(&p.ep));
    });
}

#[test]
fn message_truncated() {
    on_all(|path| {
        let p = Pair::open(path, 64);
        for length in [200, 100_000] {
            let sent = p.ep.send(bytes(3, length), 1);
            let memory = xfer::Memory::of(vec![9u8; 200]);
            let (cut, _) = end(p.server.recv(memory.slice(0..100), &Match::tag(1)));
            let error = failed(cut);
            assert_eq!((error.status(), error.bytes()), (Status::ETRUNC, length as u64));
            assert_eq!(memory.slice(0..100).to_vec(), bytes(3, length)[..100]);
            assert_eq!(memory.slice(100..200).to_vec(), [9; 100]);
            end(sent).0.unwrap();
        }
    });
}

#[test]
fn message_unknown_length() {
    on_all(|path| {
        let p = Pair::open(path, 64);
        for length in [0, 1, 4088, 4089, 3_000_000] {
            let sent = p.ep.send(bytes(4, length), 1);
            let (message, data) = end(p.server.take(3_000_000, &Match::tag(1))).unwrap();
            assert!(message.length == length as u64 && data == bytes(4, length));
            end(sent).0.unwrap();
        }
        let sent = p.ep.send(bytes(4, 50), 1);
        let error = failed(end(p.server.take(49, &Match::tag(1))));
        assert_eq!((error.status(), error.bytes()), (Status::ETRUNC, 50));
        end(sent).0.unwrap();
    });
}

/// Both sides say the same of it: received, or canceled. One that came only after the cancel is
/// still to be received.
#[test]
fn message_canceled_late() {
    const SIZE: usize = 4 << 20;
    on_both(|path| {
        let p = Pair::open(path, 64);
        for round in 0..8 {
            let mut receive = p.server.recv(vec![0; SIZE], &Match::tag(1));
            let mut sent = p.ep.send(bytes(round, SIZE), 1);
            // The more rounds, the later the cancel.
            let early = receive.wait_for(Duration::from_millis(round as u64));
            receive.cancel();
            let (received, data) = early.unwrap_or_else(|| end(receive));
            let mut is_there = match received {
                Ok(message) => message.length == SIZE as u64 && data == bytes(round, SIZE),
                Err(error) => !error.is_canceled(),
            };
            let begin = Instant::now();
            let at_sender = loop {
                if let Some((ended, _)) = sent.wait_for(Duration::from_millis(5)) {
                    break ended;
                }
                assert!(begin.elapsed() < PATIENCE, "the sender is told nothing");
                if !is_there && p.server.peek(&Match::tag(1)).unwrap().is_some() {
                    let (_, data) = end(p.server.take(SIZE as u64, &Match::tag(1))).unwrap();
                    is_there = data == bytes(round, SIZE);
                }
            };
            match at_sender {
                Ok(length) => assert!(is_there && length == SIZE as u64),
                Err(error) => assert!(!is_there && error.is_canceled(), "{error}"),
            }
        }
    });
}
