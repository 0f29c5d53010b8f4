// SPDX-License-Identifier: Apache-2.0
//! Messages.

use crate::path::{bytes, end, failed, on_all, on_both, Pair};
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

#[test]
fn message_canceled_late() {
    const SIZE: usize = 8 << 20;
    on_both(|path| {
        let p = Pair::open(path, 64);
        for round in 0..8 {
            let receive = p.server.recv(vec![0; SIZE], &Match::tag(1));
            let sent = p.ep.send(bytes(round, SIZE), 1);
            // It matches as soon as the message is here; the more rounds, the later the cancel.
            let mut receive = receive;
            let early = receive.wait_for(std::time::Duration::from_millis(round as u64));
            receive.cancel();
            let (received, data) = early.unwrap_or_else(|| end(receive));
            let taken = match received {
                Ok(message) => message.length == SIZE as u64 && data == bytes(round, SIZE),
                Err(error) => {
                    assert!(error.is_canceled(), "{error}");
                    false
                }
            };
            let mut sent = sent;
            if !taken && p.server.peek(&Match::tag(1)).unwrap().is_some() {
                // It was canceled before the message had come: that one is still to be received.
                let (received, data) = end(p.server.take(SIZE as u64, &Match::tag(1))).unwrap();
                assert!(received.length == SIZE as u64 && data == bytes(round, SIZE));
                sent.wait().0.unwrap();
                continue;
            }
            match sent.wait_for(std::time::Duration::from_secs(1)) {
                Some((end_of_send, _)) if taken => assert!(end_of_send.is_ok()),
                Some((end_of_send, _)) => assert!(failed(end_of_send).is_canceled()),
                None => {
                    // As above, but it came only now.
                    assert!(!taken, "received, and still being sent");
                    end(p.server.take(SIZE as u64, &Match::tag(1))).unwrap();
                    end(sent).0.unwrap();
                }
            }
        }
    });
}
