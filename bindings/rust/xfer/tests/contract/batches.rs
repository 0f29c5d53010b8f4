// SPDX-License-Identifier: Apache-2.0
//! Batches.

use crate::path::{bytes, end, failed, noticed, on_all, on_both, status, Pair, Path, ALL};
use xfer::{
    Access, Error, GrantOptions, Match, Memory, Notice, Op, PageBase, Pages, RegionOptions, Span,
    Status, Strided, Submit,
};

#[test]
fn batch_resubmitted() {
    on_all(|path| {
        let p = Pair::open(path, 1 << 20);
        let local = Memory::zeroed(64 << 10);
        let mut batch = p.ep.batch().unwrap();
        let spans = [(0, 100), (1000, 24)];
        let spans = spans.map(|(at, length)| Span { local: at, offset: 2 * at, length });
        batch.spans(Op::Put, &local, &p.pool, &spans).unwrap();
        let strided = Strided {
            memory: &local,
            local: 4096,
            local_stride: 512,
            remote: &p.pool,
            offset: 8192,
            remote_stride: 256,
            length: 128,
            count: 8,
        };
        batch.strided(Op::Put, &strided).unwrap();
        let base = PageBase { memory: &local, local: 32768, remote: &p.pool, offset: 65536 };
        batch.pages(Op::Put, &Pages::new(1024, &[0, 7, 3], &[5i32, 1, 2], &[base])).unwrap();
        assert_eq!(batch.len(), 2 + 8 + 3);
        let mut wanted = vec![0; 1 << 20]; // also of what lies between
        for round in 1..=3 {
            let now = bytes(round, 64 << 10);
            local.write(0, &now);
            let (moved, back) = end(batch.submit(&Submit::default()));
            batch = back;
            assert_eq!(moved.unwrap(), 124 + 8 * 128 + 3 * 1024);
            let mut copy = |from: usize, to: usize, length: usize| {
                wanted[to..to + length].copy_from_slice(&now[from..from + length]);
            };
            copy(0, 0, 100);
            copy(1000, 2000, 24);
            (0..8).for_each(|i| copy(4096 + 512 * i, 8192 + 256 * i, 128));
            for (here, there) in [(0, 5), (7, 1), (3, 2)] {
                copy(32768 + 1024 * here, 65536 + 1024 * there, 1024);
            }
            assert!(p.seen(0, 1 << 20) == wanted);
            assert_eq!(batch.entries().unwrap(), [Status::OK; 13]);
        }
        let info = batch.watch().info().unwrap();
        assert!(!info.in_flight && info.status == Status::OK && info.entries == 13);
        batch.reset().unwrap();
        assert!(batch.is_empty());
    });
}

/// What is outside of the memory of this process is refused before the library sees it.
#[test]
fn local_ranges_are_checked() {
    let p = Pair::open(Path::Loopback, 4096);
    let local = Memory::zeroed(4096);
    let mut batch = p.ep.batch().unwrap();
    let refused = |result: Result<(), Error>| assert_eq!(status(result), Status::ERANGE);
    for (at, length) in [(4090, 7), (u64::MAX, 2), (0, 4097)] {
        refused(batch.spans(Op::Get, &local, &p.pool, &[Span { local: at, offset: 0, length }]));
    }
    let strided = |local_stride, count| Strided {
        memory: &local,
        local: 0,
        local_stride,
        remote: &p.pool,
        offset: 0,
        remote_stride: 0,
        length: 64,
        count,
    };
    refused(batch.strided(Op::Get, &strided(64, 65)));
    refused(batch.strided(Op::Get, &strided(u64::MAX / 2, 4)));
    let base = [PageBase { memory: &local, local: 0, remote: &p.pool, offset: 0 }];
    for page in [-1, 4, i32::MAX] {
        refused(batch.pages(Op::Get, &Pages::new(1024, &[page], &[0], &base)));
    }
    let rows = Pages { rows: 3, local_row_stride: Some(2048), ..Pages::new(8, &[0], &[0], &base) };
    refused(batch.pages(Op::Get, &rows));
    assert!(batch.is_empty());
}

#[test]
fn batch_entry_statuses() {
    on_both(|path| {
        let p = Pair::open(path, 4096);
        let grant = GrantOptions { access: Access::WRITE, range: 0..4096, lease: None };
        let mut grant = p.region.grant(&grant).unwrap();
        let local = Memory::of(bytes(1, 4096));
        let mut batch = p.ep.batch().unwrap();
        for i in 0..10u64 {
            let name = if i == 4 { grant.name() } else { p.pool };
            let from = 100 * i as usize;
            batch.put(&local.slice(from..from + 100), &name, 100 * i).unwrap();
        }
        grant.revoke().unwrap();
        grant.ended().wait_for(crate::path::PATIENCE).unwrap().unwrap();
        let (refused, batch) = end(batch.submit(&Submit::default()));
        let error = failed(refused);
        assert_eq!((error.status(), error.entry()), (Status::EREVOKED, Some(4)));
        let statuses = batch.entries().unwrap();
        assert_eq!((statuses.len(), statuses[4]), (10, Status::EREVOKED));
        for (i, entry) in statuses.into_iter().enumerate().filter(|(i, _)| *i != 4) {
            assert!(matches!(entry, Status::OK | Status::ECANCELED), "{i}: {entry}");
            if entry == Status::OK {
                assert_eq!(p.seen(100 * i, 100), bytes(1, 4096)[100 * i..100 * (i + 1)]);
            }
        }
        assert_eq!(p.seen(400, 100), [0; 100]);
    });
}

/// Statuses are those of the last submit, whatever was added since.
#[test]
fn entries_of_the_last_submit() {
    on_both(|path| {
        let p = Pair::open(path, 4096);
        let grant = GrantOptions { access: Access::WRITE, range: 0..4096, lease: None };
        let mut grant = p.region.grant(&grant).unwrap();
        let local = Memory::of(bytes(1, 100));
        let mut batch = p.ep.batch().unwrap();
        assert_eq!(status(batch.entries()), Status::EINVAL);
        batch.put(&local.whole(), &p.pool, 0).unwrap();
        batch.put(&local.whole(), &grant.name(), 100).unwrap();
        grant.revoke().unwrap();
        grant.ended().wait_for(crate::path::PATIENCE).unwrap().unwrap();
        let (refused, mut batch) = end(batch.submit(&Submit::default()));
        assert_eq!(status(refused), Status::EREVOKED);
        let statuses = batch.entries().unwrap();
        assert_eq!((statuses.len(), statuses[1]), (2, Status::EREVOKED));

        batch.put(&local.whole(), &p.pool, 200).unwrap();
        assert_eq!((batch.entries().unwrap(), batch.len()), (statuses, 3));
        batch.reset().unwrap();
        batch.put(&local.whole(), &p.pool, 300).unwrap();
        assert_eq!(status(batch.entries()), Status::EINVAL);
        let (moved, batch) = end(batch.submit(&Submit::default()));
        assert_eq!((moved.unwrap(), batch.entries().unwrap()), (100, vec![Status::OK]));
    });
}

#[test]
fn batch_ordered() {
    const SIZE: usize = 4 << 20;
    on_both(|path| {
        let p = Pair::open(path, 2 * SIZE);
        let before = p.ep.put(bytes(2, SIZE), &p.pool, 0);
        let local = Memory::zeroed(SIZE);
        let mut batch = p.ep.batch().unwrap();
        batch.get(&local.whole(), &p.pool, 0).unwrap(); // sees what was put before
        let ordered = Submit { ordered: true, ..Submit::default() };
        let (moved, _) = end(batch.submit(&ordered));
        assert!(moved.is_ok() && local.whole().to_vec() == bytes(2, SIZE));
        end(before).0.unwrap();

        let mut batch = p.ep.batch().unwrap();
        local.write(0, &bytes(3, SIZE));
        batch.put(&local.whole(), &p.pool, SIZE as u64).unwrap();
        let first = batch.submit(&ordered);
        let back = Memory::zeroed(SIZE);
        let mut next = p.ep.batch().unwrap();
        next.get(&back.whole(), &p.pool, SIZE as u64).unwrap();
        end(next.submit(&ordered)).0.unwrap();
        assert!(back.whole().to_vec() == bytes(3, SIZE) && end(first).0.is_ok());
    });
}

#[test]
fn pages_strides() {
    const ROW: usize = 64;
    let (here, there) = (256usize, 640usize); // strides of pages
    let (ours, theirs) = ([3i32, 0, 6], [1i32, 8, 4]);
    on_both(|path| {
        let p = Pair::open(path, 2 * 16384);
        let local = Memory::of(bytes(9, 8192));
        let bases = [(1024, 0), (4096, 16384)];
        let bases = bases.map(|(at, offset)| PageBase {
            memory: &local,
            local: at,
            remote: &p.pool,
            offset,
        });
        let pages = Pages {
            rows: 2,
            local_stride: Some(here as u64),
            remote_stride: Some(there as u64),
            local_row_stride: Some(128),
            remote_row_stride: Some(320),
            ..Pages::new(ROW as u64, &ours, &theirs, &bases)
        };
        let mut batch = p.ep.batch().unwrap();
        batch.pages(Op::Put, &pages).unwrap();
        assert_eq!(end(batch.submit(&Submit::default())).0.unwrap(), 2 * 3 * 2 * ROW as u64);
        let mut rows = Vec::new(); // where each lies at home, and at the peer
        for (at, offset) in [(1024, 0), (4096, 16384)] {
            for (our, their) in [(3, 1), (0, 8), (6, 4)] {
                for row in 0..2 {
                    rows.push((at + our * here + row * 128, offset + their * there + row * 320));
                }
            }
        }
        // All bytes are looked at: also those between the rows.
        let put = bytes(9, 8192);
        let mut wanted = vec![0; 2 * 16384];
        for &(at_home, at_peer) in &rows {
            wanted[at_peer..at_peer + ROW].copy_from_slice(&put[at_home..at_home + ROW]);
        }
        assert!(p.seen(0, 2 * 16384) == wanted);

        let (there, mut wanted) = (bytes(70, 2 * 16384), put);
        p.region.memory().write(0, &there);
        let mut batch = p.ep.batch().unwrap();
        batch.pages(Op::Get, &pages).unwrap();
        end(batch.submit(&Submit::default())).0.unwrap();
        for (at_home, at_peer) in rows {
            wanted[at_home..at_home + ROW].copy_from_slice(&there[at_peer..at_peer + ROW]);
        }
        assert!(local.whole().to_vec() == wanted);
    });
}

#[test]
fn notify_on_batch() {
    const SIZE: usize = 8 << 20;
    on_both(|path| {
        let p = Pair::open(path, SIZE);
        let mut notices = p.server.notices().unwrap();
        let mut batch = p.ep.batch().unwrap();
        let local = Memory::of(bytes(11, SIZE));
        for i in 0..8 {
            let at = i * SIZE / 8;
            batch.put(&local.slice(at..at + SIZE / 8), &p.pool, at as u64).unwrap();
        }
        let told = Submit { notify: Some((70, b"layer")), checksum: true, ..Submit::default() };
        let submitted = batch.submit(&told);
        let data = noticed(&mut notices, |notice| match notice {
            Notice::Notified { key: 70, data, .. } => Some(data),
            _ => None,
        });
        assert!(data.unwrap() == b"layer" && p.seen(0, SIZE) == bytes(11, SIZE));
        end(submitted).0.unwrap();
    });
}

#[test]
fn notify_on_failure() {
    on_both(|path| {
        let p = Pair::open(path, 4096);
        let mut notices = p.server.notices().unwrap();
        let grant = GrantOptions { access: Access::WRITE, range: 0..4096, lease: None };
        let grant = p.region.grant(&grant).unwrap();
        let local = Memory::of(bytes(1, 4096));
        let mut batch = p.ep.batch().unwrap();
        batch.put(&local.slice(0..100), &p.pool, 0).unwrap();
        batch.put(&local.slice(0..100), &grant.name(), 100).unwrap();
        drop(grant); // revoked
        let told = Submit { notify: Some((71, b"")), ..Submit::default() };
        let (refused, _) = end(batch.submit(&told));
        assert_eq!(status(refused), Status::EREVOKED);
        let data = noticed(&mut notices, |notice| match notice {
            Notice::Notified { key: 71, data, .. } => Some(data),
            _ => None,
        });
        assert_eq!(status(data), Status::EREVOKED);
    });
}

#[test]
fn rebound_to_another_region() {
    on_both(|path| {
        let p = Pair::open(path, 64);
        let local = Memory::of(bytes(1, 64));
        let mut batch = p.ep.batch().unwrap();
        batch.put(&local.whole(), &p.pool, 0).unwrap();
        let next = p.server.region(Memory::zeroed(64), &RegionOptions::named("next", ALL)).unwrap();
        let name = end(p.ep.lookup("next")).unwrap().name;
        assert_eq!(status(batch.rebind(&name, &p.pool)), Status::ENOTFOUND);
        batch.rebind(&p.pool, &name).unwrap();
        end(batch.submit(&Submit::default())).0.unwrap();
        assert_eq!(next.memory().whole().to_vec(), bytes(1, 64));
        assert_eq!(p.seen(0, 64), [0; 64]);
        assert!(p.server.peek(&Match::any()).unwrap().is_none());
    });
}
