// SPDX-License-Identifier: Apache-2.0
//! Peers: finding them, losing them, letting them in, and the way to them.

use crate::path::{
    bytes, end, failed, noticed, on_all, on_both, status, until, Pair, Path, ALL, PATIENCE,
};
use crate::peer::{Peer, SIZE};
use crate::process::alone;
use std::net::TcpListener;
use xfer::{Match, Memory, Notice, Origin, PeerState, RegionOptions, Status};

#[test]
fn lookup_waits() {
    on_all(|path| {
        let p = Pair::open(path, 64);
        let mut waits = p.ep.lookup_wait("later");
        assert!(waits.wait_for(std::time::Duration::from_millis(20)).is_none());
        let options = RegionOptions { blob: b"f16".to_vec(), ..RegionOptions::named("later", ALL) };
        let region = p.server.region(Memory::zeroed(8), &options).unwrap();
        let found = end(waits).unwrap();
        assert!(found.name == region.name().unwrap() && found.blob == b"f16");
    });
}

#[test]
fn lookup_missing() {
    on_all(|path| {
        let p = Pair::open(path, 64);
        let error = failed(end(p.ep.lookup("nothing")));
        assert!(error.status() == Status::ENOTFOUND && error.name() == "XFER_ENOTFOUND");
        assert!(error.text().contains("\"nothing\""), "{error}"); // which region
        assert_eq!(status(end(p.ep.lookup("a\0b"))), Status::EINVAL);
    });
}

#[test]
fn region_gone() {
    on_both(|path| {
        let p = Pair::open(path, 64);
        let mut notices = p.client.notices().unwrap();
        assert_eq!(end(p.region.close()).into_inner::<Vec<u64>>().ok().unwrap().len(), 8);
        let (peer, name) = noticed(&mut notices, |notice| match notice {
            Notice::RegionGone { peer, name } => Some((peer, name)),
            _ => None,
        });
        assert!(peer.same(&p.ep) && name == p.pool);
        assert_eq!(status(end(p.ep.put(b"late".to_vec(), &p.pool, 0)).0), Status::ESTALE);
        let again = p.server.region_alloc(64, &RegionOptions::named("pool", ALL)).unwrap();
        let name = end(p.ep.lookup("pool")).unwrap().name;
        end(p.ep.put(b"new".to_vec(), &name, 0)).0.unwrap();
        assert_eq!(again.memory().slice(0..3).to_vec(), b"new");
        // Memory of the library's stays as long as somebody has it, and its region too.
        let part = again.memory().slice(0..3);
        let closed = again.close();
        assert_eq!(part.to_vec(), b"new");
        drop(part);
        end(closed);
        assert_eq!(status(end(p.ep.put(b"late".to_vec(), &name, 0)).0), Status::ESTALE);
    });
}

#[test]
fn peer_killed() {
    on_both(|path| {
        let (mut peer, client) = (Peer::start(path.transports()), path.engine());
        let mut notices = client.notices().unwrap();
        let ep = client.dial(&peer.uri).unwrap();
        let pool = end(ep.lookup("pool")).unwrap().name;
        end(ep.put(bytes(1, SIZE), &pool, 0)).0.unwrap();
        peer.stop();
        // A local peer need not run for a put: so a message is under way beside it.
        let (put, sent) = (ep.put(bytes(1, SIZE), &pool, 0), ep.send_sync(bytes(2, SIZE), 1));
        peer.kill();
        let (lost, back) = end(sent);
        assert!(failed(lost).status() == Status::EPEERLOST && back == bytes(2, SIZE));
        match (path, end(put).0) {
            (Path::Tcp, lost) => assert_eq!(status(lost), Status::EPEERLOST),
            (_, ended) => assert!(matches!(status(ended), Status::OK | Status::EPEERLOST)),
        }
        noticed(&mut notices, |notice| matches!(notice, Notice::Down { .. }).then_some(()));

        let next = Peer::start(path.transports());
        ep.add_address(&next.uri).unwrap();
        assert_eq!(status(end(ep.put(b"old".to_vec(), &pool, 0)).0), Status::ESTALE);
        let pool = end(ep.lookup("pool")).unwrap().name;
        end(ep.put(bytes(3, SIZE), &pool, 0)).0.unwrap();
        assert_eq!(end(ep.get(vec![0u8; SIZE], &pool, 0)).1, bytes(3, SIZE));
    });
}

#[test]
fn fork_refused() {
    extern "C" {
        fn fork() -> i32;
        fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(code: i32) -> !;
    }
    alone("peers::fork_refused", || {
        on_both(|path| {
            let p = Pair::open(path, 64);
            // SAFETY: the child calls the library, and exits.
            let child = unsafe { fork() };
            if child == 0 {
                let refused = [
                    status(p.ep.put(vec![1u8; 8], &p.pool, 0).wait().0),
                    status(p.client.poll(None)),
                    status(p.client.listen("tcp://127.0.0.1:0")),
                    status(p.region.name()),
                    status(p.ep.batch()),
                    status(p.client.close().wait()),
                    status(p.client.describe()),
                ];
                let all = refused.iter().all(|status| *status == Status::EFORKED);
                // SAFETY: nothing of the parent's is run.
                unsafe { _exit(i32::from(!all)) };
            }
            let mut code = -1;
            // SAFETY: the status is live during the call.
            assert_eq!(unsafe { waitpid(child, &mut code, 0) }, child);
            assert_eq!(code, 0, "not all calls were refused");
            end(p.ep.put(vec![1u8; 8], &p.pool, 0)).0.unwrap();
        });
    });
}

#[test]
fn error_detail() {
    on_both(|path| {
        let engine = path.engine();
        let taken = engine.listen("tcp://127.0.0.1:0").unwrap();
        let error = failed(engine.listen(&taken));
        assert_eq!((error.status(), error.origin()), (Status::EADDRINUSE, Origin::OS));
        assert_eq!(error.native_code(), 98); // EADDRINUSE of Linux
        assert!(error.text().contains(&taken) && error.to_string().contains("XFER_EADDRINUSE"));
        assert_eq!(error.native_text(), "Address already in use");
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::AddrInUse);
        assert!(engine.addresses().unwrap().contains(&taken));
    });
}

#[test]
fn no_listener() {
    on_both(|path| {
        let engine = path.engine();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let nobody = engine.dial(&format!("tcp://{free}")).unwrap().within(PATIENCE / 2);
        let error = failed(end(nobody.connect()));
        assert!(error.status() == Status::EUNREACHABLE && error.text().contains(&free.to_string()));
    });
}

#[test]
fn admit_and_refuse() {
    on_both(|path| {
        let server = path.options().ask(true).blob(b"the server").open().unwrap();
        let uri = server.listen("tcp://127.0.0.1:0").unwrap();
        let mut notices = server.notices().unwrap();
        let mut asked = || {
            noticed(&mut notices, |notice| match notice {
                Notice::Came { peer, asks: true, .. } => Some(peer),
                _ => None,
            })
        };
        let let_in = path.options().blob(b"a friend").open().unwrap();
        let ep = let_in.dial(&uri).unwrap();
        let connect = ep.connect();
        let peer = asked();
        assert_eq!(peer.peer().unwrap().blob, b"a friend");
        peer.admit().unwrap();
        end(connect).unwrap();
        assert_eq!(ep.peer().unwrap().blob, b"the server");
        assert_eq!(ep.state().unwrap(), PeerState::READY);

        let turned_away = path.engine();
        let connect = turned_away.dial(&uri).unwrap().connect();
        asked().refuse(Status::EACCESS).unwrap();
        let error = failed(end(connect));
        assert_eq!((error.status(), error.origin()), (Status::EACCESS, Origin::PEER));
    });
}

#[test]
fn peer_came_and_went() {
    on_both(|path| {
        let server = path.engine();
        let uri = server.listen("tcp://127.0.0.1:0").unwrap();
        let (mut notices, live) = (server.notices().unwrap(), server.live());
        let receive = server.take(100, &Match::tag(1));
        let client = path.engine();
        let id = client.id().unwrap();
        let ep = client.dial(&uri).unwrap();
        end(ep.send(b"here I was".to_vec(), 1)).0.unwrap();
        drop((ep, client)); // that is waited for
        let begin = std::time::Instant::now();
        while server.stats().unwrap().events_queued < 4 {
            assert!(begin.elapsed() < PATIENCE, "PEER, PEER_UP, RECV, PEER_DOWN");
            std::thread::yield_now();
        }
        let (message, data) = end(receive).unwrap();
        assert!(message.sender == id && data == b"here I was");
        let came = noticed(&mut notices, |notice| match notice {
            Notice::Came { peer, .. } => Some(peer),
            _ => None,
        });
        assert!(message.peer.is_some_and(|peer| peer.same(&came)));
        noticed(&mut notices, |notice| matches!(notice, Notice::Down { .. }).then_some(()));
        assert_eq!(came.peer().unwrap().id, id); // the handle is ours
        let away = came.within(std::time::Duration::from_millis(1));
        assert!(failed(end(away.send_copy(b"too late", 1))).is_timed_out());
        drop((away, came));
        until(&server, "its end", || server.live() == live);
    });
}

/// By which paths bytes have gone, as the engine describes itself.
fn has_local_path(engine: &xfer::Engine) -> bool {
    engine.describe().unwrap().contains("\"control\": \"local\"")
}

#[test]
fn same_host_path() {
    let p = Pair::open(Path::Local, 1 << 20);
    until(&p.client, "the local path", || {
        end(p.ep.put(vec![0u8; 8], &p.pool, 0)).0.unwrap(); // it is made on first use
        has_local_path(&p.client)
    });
    end(p.ep.put(bytes(1, 1 << 20), &p.pool, 0)).0.unwrap();
    assert_eq!(p.seen(0, 1 << 20), bytes(1, 1 << 20));
    // The server offers it, the client has left it out.
    let p = Pair::with(Path::Local, 1 << 20, Path::Tcp.options());
    end(p.ep.put(bytes(2, 1 << 20), &p.pool, 0)).0.unwrap();
    assert_eq!(p.seen(0, 1 << 20), bytes(2, 1 << 20));
    assert!(!has_local_path(&p.client));
    assert!(p.client.describe().unwrap().contains("no transport of ours shares memory"));
}
