// SPDX-License-Identifier: Apache-2.0
//! Messages.

use crate::path::{bytes, end, failed, on_all, on_both, status, until, Pair};
use std::time::Duration;
use xfer::{Match, Memory, Status};

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

/// The message is there before its receive, so it matches at once; the cancel finds it anywhere on
/// its way. Both sides say the same of it: received, or canceled.
#[test]
fn message_canceled_late() {
    const SIZE: usize = 8 << 20;
    on_both(|path| {
        let p = Pair::open(path, 64);
        let (message, buffer) = (Memory::of(bytes(5, SIZE)), Memory::zeroed(SIZE));
        let (sent, blank) = (bytes(5, SIZE), vec![0; SIZE]);
        let (mut round, mut canceled) = (0, 0);
        while round < 30 || canceled == 0 {
            assert!(round < 1000, "no cancel came in time");
            let which = Match::tag(round);
            buffer.write(0, &blank);
            let send = p.ep.send(message.whole(), round);
            until(&p.server, "the message", || p.server.peek(&which).unwrap().is_some());
            let receive = p.server.recv(buffer.whole(), &which);
            for _ in 0..round / 3 % 10 {
                p.client.poll(Some(Duration::ZERO)).unwrap();
                p.server.poll(Some(Duration::ZERO)).unwrap();
            }
            receive.cancel();
            let received = match end(receive).0 {
                Ok(message) => {
                    assert!(message.length == SIZE as u64 && buffer.whole().to_vec() == sent);
                    Status::OK
                }
                Err(error) => error.status(),
            };
            assert!(matches!(received, Status::OK | Status::ECANCELED), "{received}");
            assert_eq!(status(end(send).0), received);
            canceled += usize::from(received == Status::ECANCELED);
            round += 1;
        }
    });
}

/// The endpoint that a receive names stays open for it; and a limit may be as long as any.
#[test]
fn receive_from_an_endpoint_that_is_let_go() {
    on_both(|path| {
        let p = Pair::open(path, 64);
        let server = p.server.id().unwrap();
        let mut take = p
            .client
            .take(8, &Match::any().sender(&p.client.dial_peer(None, Some(&server)).unwrap()));
        end(p.ep.send_copy(b"first", 1)).unwrap();
        let (message, _) = end(p.server.take(8, &Match::any())).unwrap();
        end(message.peer.unwrap().send_copy(b"answer", 1)).unwrap();
        assert_eq!(take.wait_for(Duration::MAX).unwrap().unwrap().1, b"answer");
    });
}
