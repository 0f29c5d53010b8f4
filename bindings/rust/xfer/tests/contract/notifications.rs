// SPDX-License-Identifier: Apache-2.0
//! Notifications and counters.

use crate::path::{end, failed, noticed, on_all, on_both, status, Pair, PATIENCE};
use std::time::Duration;
use xfer::{Notice, Status};

#[test]
fn notify_bytes() {
    on_all(|path| {
        let p = Pair::open(path, 64);
        let mut notices = p.server.notices().unwrap();
        let sent = |i: u64| vec![i as u8; 64];
        let all: Vec<_> = (0..20).map(|i| p.ep.notify(&sent(i), 1000 + i)).collect();
        for i in 0..20 {
            let (peer, key, data) = noticed(&mut notices, |notice| match notice {
                Notice::Notified { peer, key, data } => Some((peer, key, data)),
                _ => None,
            });
            assert!(key == 1000 + i && data.unwrap() == sent(i) && peer.is_some());
        }
        all.into_iter().for_each(|one| end(one).unwrap());
        assert_eq!(status(end(p.ep.notify(&[0; 1025], 1))), Status::ETOOBIG);
    });
}

#[test]
fn counter_deadline() {
    on_both(|path| {
        let p = Pair::open(path, 64);
        let mut counter = p.server.counter(5, 3).unwrap();
        assert_eq!(status(p.server.counter(5, 1)), Status::EEXIST);
        for _ in 0..3 {
            end(p.ep.notify(b"", 5)).unwrap();
        }
        let counted = counter.ended().wait_for(PATIENCE).unwrap();
        assert!(counted.result.is_ok() && counted.count == 3);
        drop(counter);

        // The later deadlines are for a busy machine, where the notification may come too late.
        let short = |limit| {
            let mut counter = p.server.within(Duration::from_secs(limit)).counter(5, 3).unwrap();
            end(p.ep.notify(b"", 5)).unwrap();
            let counted = counter.ended().wait_for(PATIENCE).unwrap();
            let error = failed(counted.result);
            assert!(error.is_timed_out(), "{error}");
            assert!(error.text().contains(&format!("{} of 3", counted.count)), "{error}");
            counted.count == 1
        };
        assert!([1, 3, 10].into_iter().any(short));

        let live = p.server.live();
        drop(p.server.counter(5, 3).unwrap());
        assert_eq!(p.server.live(), live);
        let mut notices = p.server.notices().unwrap();
        end(p.ep.notify(b"seen", 5)).unwrap();
        noticed(&mut notices, |notice| matches!(notice, Notice::Notified { .. }).then_some(()));
    });
}
