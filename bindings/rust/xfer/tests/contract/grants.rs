// SPDX-License-Identifier: Apache-2.0
//! Grants.

use crate::path::{bytes, end, failed, on_both, status, Pair, PATIENCE};
use std::time::Duration;
use xfer::{Access, GrantOptions, Memory, Status};

/// A use past its end is `EREVOKED`, as the header has it.
#[test]
fn grant_lease() {
    on_both(|path| {
        let p = Pair::open(path, 4096);
        let lease = Some(PATIENCE); // it must not end during what follows
        let options = GrantOptions { access: Access::WRITE, range: 100..200, lease };
        let mut grant = p.region.grant(&options).unwrap();
        let name = grant.name();
        end(p.ep.put(vec![5u8; 100], &name, 0)).0.unwrap();
        assert!(p.seen(100, 100) == [5; 100] && p.seen(0, 100) == [0; 100]);
        assert_eq!(status(end(p.ep.put(vec![5u8; 101], &name, 0)).0), Status::ERANGE);
        assert_eq!(status(end(p.ep.get(vec![5u8; 1], &name, 0)).0), Status::EACCESS);
        grant.renew(Some(Duration::from_millis(300))).unwrap();
        let ended = grant.ended().wait_for(PATIENCE).unwrap();
        assert!(failed(ended).is_timed_out());
        assert_eq!(status(end(p.ep.put(vec![6u8; 100], &name, 0)).0), Status::EREVOKED);
        assert_eq!(status(grant.renew(None)), Status::EREVOKED);
        assert_eq!(p.seen(100, 100), [5; 100]);
        let live = p.server.live();
        drop(grant);
        assert_eq!(p.server.live(), live);
    });
}

/// The owner writes its memory when the grant has ended: what landed later would be seen. The puts
/// may be quicker than the revocation in each of a few rounds.
#[test]
fn grant_revoked() {
    const SIZE: usize = 8 << 20;
    on_both(|path| {
        let p = Pair::open(path, SIZE);
        let options = GrantOptions { access: Access::WRITE, range: 0..SIZE as u64, lease: None };
        let (local, own) = (Memory::of(bytes(1, SIZE)), vec![0xee; SIZE]);
        let (mut round, mut cut) = (0, 0);
        while round < 10 || cut == 0 {
            assert!(round < 1000, "no revocation has cut a put");
            let mut grant = p.region.grant(&options).unwrap();
            let name = grant.name();
            let puts: Vec<_> = (0..4).map(|_| p.ep.put(local.whole(), &name, 0)).collect();
            for _ in 0..round % 10 {
                p.client.poll(Some(Duration::ZERO)).unwrap();
                p.server.poll(Some(Duration::ZERO)).unwrap();
            }
            grant.revoke().unwrap();
            grant.ended().wait_for(PATIENCE).unwrap().unwrap();
            p.region.memory().write(0, &own);
            for put in puts {
                let ended = status(end(put).0);
                assert!(matches!(ended, Status::OK | Status::EREVOKED), "{ended}");
                cut += usize::from(ended == Status::EREVOKED);
            }
            assert_eq!(status(end(p.ep.put_copy(b"late", &name, 0))), Status::EREVOKED);
            assert!(p.seen(0, SIZE) == own, "something landed after the revocation");
            round += 1;
        }
    });
}
