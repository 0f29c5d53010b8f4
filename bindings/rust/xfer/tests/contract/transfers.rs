// SPDX-License-Identifier: Apache-2.0
//! Puts, gets and atomics.

use crate::path::{
    bytes, end, failed, noticed, on_all, on_both, run, status, until, Pair, Path, ALL, PATIENCE,
};
use crate::proxy::Proxy;
use std::sync::Arc;
use xfer::{Access, Engine, Match, Memory, Notice, Ref, RegionOptions, Status};

const MIB: usize = 1 << 20;

#[test]
fn echo_put_get() {
    on_all(|path| {
        let p = Pair::open(path, 2 * MIB);
        let (moved, sent) = end(p.ep.put(bytes(1, MIB), &p.pool, 4096));
        assert!(moved.unwrap() == MIB as u64 && p.seen(4096, MIB) == sent);
        let (moved, back) = end(p.ep.get(vec![0; MIB], &p.pool, 4096));
        assert!(moved.unwrap() == MIB as u64 && back == sent);
        assert_eq!(end(p.ep.put_copy(b"copied", &p.pool, 0)).unwrap(), 6);
        assert_eq!(p.seen(0, 6), b"copied");
        let rtt = end(p.ep.probe()).unwrap();
        assert!(rtt > std::time::Duration::ZERO && rtt < PATIENCE);
    });
}

#[test]
fn zero_length() {
    on_all(|path| {
        let p = Pair::open(path, 64);
        let before = p.client.stats().unwrap().events;
        let (put, get) =
            (p.ep.put(Vec::<u8>::new(), &p.pool, 64), p.ep.get(vec![0u8; 0], &p.pool, 0));
        assert_eq!((end(put).0.unwrap(), end(get).0.unwrap()), (0, 0));
        assert_eq!(p.client.stats().unwrap().events, before + 2);
    });
}

#[test]
fn buffer_kept_alive() {
    on_both(|path| {
        let p = Pair::open(path, 16 * MIB);
        let memory = Memory::of(bytes(5, 16 * MIB));
        let put = p.ep.put(memory.whole(), &p.pool, 0);
        drop(memory); // the operation has the last of it
        let (moved, part) = end(put);
        assert!(moved.is_ok() && p.seen(0, 16 * MIB) == bytes(5, 16 * MIB));
        assert!(part.memory().clone().into_inner::<Vec<u8>>().is_err()); // the slice has it too
    });
}

/// What cannot be lent does not compile, as the documentation of `Endpoint::get` shows; what can is
/// lent without a copy.
#[test]
fn buffer_kinds() {
    on_both(|path| {
        let p = Pair::open(path, 4096);
        let shared: Arc<[u8]> = bytes(6, 100).into();
        end(p.ep.put(shared.clone(), &p.pool, 0)).0.unwrap();
        assert_eq!(p.seen(0, 100), *shared);
        end(p.ep.put("static", &p.pool, 0)).0.unwrap();
        end(p.ep.put(vec![1u64, 2], &p.pool, 8)).0.unwrap();
        let (moved, words) = end(p.ep.get(vec![0u64; 2].into_boxed_slice(), &p.pool, 8));
        assert!(moved.unwrap() == 16 && *words == [1, 2]);
        let sent = vec![7u8; 10];
        let start = sent.as_ptr();
        assert_eq!(end(p.ep.put(sent, &p.pool, 0)).1.as_ptr(), start);
    });
}

#[test]
fn range_refused() {
    on_all(|path| {
        let p = Pair::open(path, 4096);
        for offset in [4096 - 7, 4097, u64::MAX - 3] {
            let (refused, sent) = end(p.ep.put(bytes(1, 8), &p.pool, offset));
            assert!(failed(refused).is_fenced() && sent == bytes(1, 8));
            let (refused, back) = end(p.ep.get(vec![9; 8], &p.pool, offset));
            assert!(status(refused) == Status::ERANGE && back == [9; 8]);
        }
        assert_eq!(p.seen(0, 4096), [0; 4096]);
    });
}

#[test]
fn access_refused() {
    on_all(|path| {
        let p = Pair::open(path, 64);
        let options = RegionOptions::named("to be read", Access::READ);
        let region = p.server.region(Memory::of(vec![3u8; 64]), &options).unwrap();
        let name = end(p.ep.lookup("to be read")).unwrap().name;
        assert_eq!(status(end(p.ep.put(vec![1u8; 8], &name, 0)).0), Status::EACCESS);
        assert_eq!(status(end(p.ep.fetch_add(&name, 0, 1))), Status::EACCESS);
        assert_eq!(end(p.ep.get(vec![0u8; 64], &name, 0)).1, [3; 64]);
        assert_eq!(region.memory().whole().to_vec(), [3; 64]);
    });
}

#[test]
fn ref_as_bytes() {
    on_all(|path| {
        let p = Pair::open(path, 64);
        let sent = p.region.name().unwrap();
        let carried = Ref::from_bytes(sent.to_bytes());
        assert_eq!(carried.to_string().parse::<Ref>().unwrap(), carried);
        end(p.ep.put(b"by bytes".to_vec(), &carried, 0)).0.unwrap();
        assert_eq!(p.seen(0, 8), b"by bytes");
        let info = carried.info().unwrap();
        assert!(info.length == 64 && info.access == ALL && info.owner == p.server.id().unwrap());
        assert_eq!(info.owner.to_string().parse::<xfer::Id>().unwrap(), info.owner);
        for at in 0..sent.to_bytes().len() {
            let mut changed = sent.to_bytes();
            changed[at] ^= 1;
            let refused = status(end(p.ep.put_copy(b"astray", &Ref::from_bytes(changed), 0)));
            assert!(matches!(refused, Status::EINVAL | Status::EVERSION), "byte {at}: {refused}");
        }
        assert_eq!(p.seen(0, 8), b"by bytes");
    });
}

#[test]
fn atomic_words() {
    on_all(|path| {
        let p = Pair::open(path, 64);
        let word = || u64::from_ne_bytes(p.seen(8, 8).try_into().unwrap());
        for before in [0, 5, 10] {
            assert_eq!(end(p.ep.fetch_add(&p.pool, 8, 5)).unwrap(), before);
        }
        assert_eq!(end(p.ep.compare_and_swap(&p.pool, 8, 15, 1)).unwrap(), 15);
        assert_eq!(word(), 1);
        assert_eq!(end(p.ep.compare_and_swap(&p.pool, 8, 15, 2)).unwrap(), 1);
        assert_eq!(end(p.ep.fetch_add(&p.pool, 8, u64::MAX)).unwrap(), 1);
        assert_eq!(word(), 0);
        assert_eq!(status(end(p.ep.fetch_add(&p.pool, 4, 1))), Status::EINVAL);
    });
}

#[test]
fn quiet_flush() {
    on_all(|path| {
        let p = Pair::open(path, MIB);
        let before = p.client.stats().unwrap().events;
        let quiet = p.ep.quiet();
        let memory = Memory::of(bytes(8, 100 * 1000));
        for i in 0..100 {
            let part = memory.slice(1000 * i..1000 * (i + 1));
            quiet.put(part, &p.pool, 1000 * i as u64).unwrap();
        }
        end(quiet.flush()).unwrap();
        assert_eq!(p.seen(0, 100 * 1000), bytes(8, 100 * 1000));
        assert!(p.client.stats().unwrap().events <= before + 1);
        assert!(memory.into_inner::<Vec<u8>>().is_ok(), "what was lent is still held");

        let lent = p.server.region(Memory::zeroed(64), &RegionOptions::named("soon", ALL)).unwrap();
        let stale = end(p.ep.lookup("soon")).unwrap().name;
        end(lent.close());
        quiet.add(&p.pool, 0, 0).unwrap();
        // The failed one has an event of its own, which gives back what was lent before any flush.
        let (live, memory) = (p.client.live(), Memory::of(vec![1u8; 8]));
        quiet.put(memory.whole(), &stale, 0).unwrap();
        assert_eq!(p.client.live(), live + 1);
        until(&p.client, "the event of the failed put", || p.client.live() == live);
        assert!(memory.into_inner::<Vec<u8>>().is_ok(), "what was lent is still held");
        assert_eq!(p.ep.stats().unwrap().put.failed, 1);
        quiet.put(vec![2u8; 8], &p.pool, 0).unwrap();
        assert_eq!(status(end(quiet.flush())), Status::ESTALE);
        assert_eq!(status(end(quiet.flush())), Status::OK);
        assert_eq!(p.seen(0, 8), [2; 8]);
    });
}

#[test]
fn thousand_concurrent() {
    on_both(|path| {
        let p = Pair::open(path, 1000 * 1024);
        let at = |i: usize| 1024 * i as u64;
        let live = p.client.live();
        let puts: Vec<_> = (0..1000).map(|i| p.ep.put(bytes(i, 1024), &p.pool, at(i))).collect();
        for (i, put) in puts.into_iter().enumerate() {
            let (moved, sent) = end(put);
            assert!(moved.unwrap() == 1024 && sent == bytes(i, 1024));
        }
        assert!((0..1000).all(|i| p.seen(1024 * i, 1024) == bytes(i, 1024)));
        assert_eq!((p.client.live(), p.ep.stats().unwrap().put.completed), (live, 1000));
    });
    on_both(|path| {
        let p = Pair::with(path, 64, path.options().max_operations(16));
        let mut notices = p.client.notices().unwrap();
        // Nobody receives them: so they stay under way, and the endpoint is full.
        let mut sends: Vec<_> = (0..16).map(|_| p.ep.send_sync(vec![1u8; 8], 5)).collect();
        let (refused, back) = end(p.ep.put(vec![1u8; 8], &p.pool, 0));
        assert!(failed(refused).is_again() && back == [1; 8]);
        end(p.server.take(8, &Match::tag(5))).unwrap();
        end(sends.remove(0)).0.unwrap();
        let peer = noticed(&mut notices, |notice| match notice {
            Notice::Room { peer } => Some(peer),
            _ => None,
        });
        assert!(peer.same(&p.ep));
        end(p.ep.put(vec![1u8; 8], &p.pool, 0)).0.unwrap();
    });
}

#[test]
fn checksum_mismatch() {
    const SIZE: usize = 4 << 20;
    let server = Path::Tcp.engine();
    let options = RegionOptions::named("pool", ALL);
    let region = server.region(Memory::zeroed(SIZE), &options).unwrap();
    let proxy = Proxy::start(&server.listen("tcp://127.0.0.1:0").unwrap());
    // All of it by one connection.
    let client: Engine = Path::Tcp.options().checksum(true).lanes(None).open().unwrap();
    let ep = client.dial(&proxy.uri).unwrap();
    run(&client, async {
        let pool = ep.lookup("pool").await.unwrap().name;
        proxy.flip(1 << 20); // far inside a long put nothing but payload is
        let (changed, sent) = ep.put(bytes(4, SIZE), &pool, 0).await;
        assert_eq!(status(changed), Status::ECHECKSUM);
        assert!(proxy.has_flipped());
        let (well, sent) = ep.put(sent, &pool, 0).await;
        assert!(well.is_ok() && region.memory().whole().to_vec() == sent);
    });
}
