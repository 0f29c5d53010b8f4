// SPDX-License-Identifier: Apache-2.0
//! Grants.

use crate::path::{bytes, end, failed, on_both, status, Pair, PATIENCE};
use std::time::Duration;
use xfer::{Access, GrantOptions, Status};

/// A use past its end is `EREVOKED`, as the header has it.
#[test]
fn grant_lease() {
    on_both(|path| {
        let p = Pair::open(path, 4096);
        let lease = Some(Duration::from_millis(300));
        let options = GrantOptions { access: Access::WRITE, range: 100..200, lease };
        let mut grant = p.region.grant(&options).unwrap();
        grant.renew(Some(PATIENCE)).unwrap(); // it must not end during what follows
        let name = grant.name();
        end(p.ep.put(vec![5u8; 100], &name, 0)).0.unwrap();
        assert!(p.seen(100, 100) == [5; 100] && p.seen(0, 100) == [0; 100]);
        assert_eq!(status(end(p.ep.put(vec![5u8; 101], &name, 0)).0), Status::ERANGE);
        assert_eq!(status(end(p.ep.get(vec![5u8; 1], &name, 0)).0), Status::EACCESS);
        grant.renew(lease).unwrap();
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

#[test]
fn grant_revoked() {
    const SIZE: usize = 32 << 20;
    on_both(|path| {
        let p = Pair::open(path, SIZE);
        let options = GrantOptions { access: Access::WRITE, range: 0..SIZE as u64, lease: None };
        let mut grant = p.region.grant(&options).unwrap();
        let name = grant.name();
        let put = p.ep.put(bytes(1, SIZE), &name, 0);
        grant.revoke().unwrap();
        grant.ended().wait_for(PATIENCE).unwrap().unwrap();
        let quiet = p.seen(0, SIZE);
        let (moved, _) = end(put);
        assert!(matches!(status(moved), Status::OK | Status::EREVOKED));
        assert_eq!(status(end(p.ep.put(bytes(2, 100), &name, 0)).0), Status::EREVOKED);
        assert!(p.seen(0, SIZE) == quiet, "something landed after the revocation");
    });
}
