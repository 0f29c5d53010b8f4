// SPDX-License-Identifier: Apache-2.0
//! The futures against another process, which is stopped, killed and comes back.

mod peer;

use peer::{Peer, Seen, ANSWER, ECHO, RENEW, SIZE};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};
use xfer::{sys::*, Endpoint, Engine, Error, Notice, Ref};

const LOCAL: &str = "tcp,shm";
const NETWORK: &str = "tcp";
const PATIENCE: Duration = Duration::from_secs(20);
const EXACT: u64 = u64::MAX;

#[test]
fn serves_if_asked() {
    peer::serve_if_asked();
}

struct Client {
    engine: Engine,
    ep: Endpoint,
    pool: Ref,
    peer: Peer,
    seen: Seen,
}

fn client(transports: &str) -> Client {
    let (peer, seen) = (Peer::start(transports), Seen::default());
    let told = seen.clone();
    let options = [("transports", transports)];
    let engine = Engine::with_notices(&options, move |notice| {
        told.lock().unwrap().push(Notice { peer: None, ..notice }); // an endpoint here were a cycle
    })
    .unwrap();
    let ep = engine.dial(&peer.uri).unwrap().within(PATIENCE);
    let pool = engine.block_on(ep.lookup("pool", false)).unwrap().name;
    Client { engine, ep, pool, peer, seen }
}

impl Client {
    /// Takes events until that is so.
    fn until(&self, what: &str, mut so: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !so() {
            assert!(begin.elapsed() < PATIENCE, "not within patience: {what}");
            self.engine.poll(Some(Duration::from_millis(100))).unwrap();
        }
    }

    fn noticed(&self, kind: u32) -> Notice {
        let find = || self.seen.lock().unwrap().iter().position(|notice| notice.kind == kind);
        self.until("a notice", || find().is_some());
        let found = find().unwrap();
        self.seen.lock().unwrap().remove(found)
    }

    /// Takes what comes for a while, in which a stopped peer stays so.
    fn some_turns(&self) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(50) {
            self.engine.poll(Some(Duration::from_millis(10))).unwrap();
        }
    }
}

fn status<T>(result: Result<T, Error>) -> i32 {
    result.err().map_or(XFER_OK, |error| error.status)
}

/// Polls once, and wakes nobody.
fn once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    struct Nobody;
    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }
    Pin::new(future).poll(&mut Context::from_waker(&Arc::new(Nobody).into()))
}

fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251 + seed) as u8).collect()
}

#[test]
fn echo_put_get() {
    let c = client(LOCAL);
    c.engine.block_on(async {
        let (moved, sent) = c.ep.put(bytes(1, 1 << 20), &c.pool, 4096).await;
        assert_eq!(moved.unwrap(), 1 << 20);
        let (moved, back) = c.ep.get(vec![0; 1 << 20], &c.pool, 4096).await;
        assert!(moved.is_ok() && back == sent);
        assert_eq!(status(c.ep.put(Vec::new(), &c.pool, 0).await.0), XFER_OK);
        let (refused, sent) = c.ep.put(sent, &c.pool, SIZE as u64 - 1).await;
        assert!(status(refused) == XFER_ERANGE && sent.len() == 1 << 20);
    });
}

#[test]
fn lookup_missing() {
    let c = client(LOCAL);
    assert_eq!(status(c.engine.block_on(c.ep.lookup("nothing", false))), XFER_ENOTFOUND);
    let soon = c.ep.within(Duration::from_millis(50));
    assert_eq!(status(c.engine.block_on(soon.lookup("nothing", true))), XFER_ETIMEDOUT);
}

#[test]
fn messages() {
    let c = client(LOCAL);
    c.engine.block_on(async {
        let answer = c.engine.recv(vec![0; 400_000], ANSWER, EXACT);
        let (sent, long) = c.ep.send(bytes(2, 300_000), ECHO).await;
        sent.unwrap();
        let (message, buffer) = answer.await;
        let message = message.unwrap();
        assert!(message.length == 300_000 && buffer[..300_000] == long);
        assert!(message.peer.unwrap().same(&c.ep));
        c.ep.send(b"short".to_vec(), ECHO).await.0.unwrap();
        assert_eq!(c.engine.take(100, ANSWER, EXACT).await.unwrap().data, b"short");
    });
    let (told, into) = std::sync::mpsc::channel();
    let own = [("transports", LOCAL)];
    let server = Engine::with_notices(&own, move |n| told.send((n.kind, n.peer)).unwrap()).unwrap();
    let ep = c.engine.dial(&server.listen("tcp://127.0.0.1:0").unwrap()).unwrap();
    c.engine.block_on(ep.send(Vec::new(), ECHO)).0.unwrap();
    let sender = server.block_on(server.take(0, ECHO, EXACT)).unwrap().peer.unwrap();
    for kind in [XFER_EVENT_PEER, XFER_EVENT_PEER_UP] {
        let (told, peer) = into.recv().unwrap();
        assert!(told == kind && peer.unwrap().same(&sender));
    }
}

#[test]
fn notify() {
    let c = client(LOCAL);
    c.engine.block_on(c.ep.notify(b"abc", 40)).unwrap();
    let notice = c.noticed(XFER_EVENT_NOTIFY);
    assert!(notice.data == b"abc" && notice.tag == 41);
}

#[test]
fn atomics() {
    let c = client(LOCAL);
    c.engine.block_on(async {
        for before in [0, 5, 10] {
            assert_eq!(c.ep.add(&c.pool, 8, 5).await.unwrap(), before);
        }
        assert_eq!(c.ep.compare_and_swap(&c.pool, 8, 15, 1).await.unwrap(), 15);
        assert_eq!(status(c.ep.add(&c.pool, 4, 1).await), XFER_EINVAL);
    });
}

#[test]
fn batch_resubmitted() {
    let c = client(LOCAL);
    let mut batch = c.ep.batch().unwrap();
    for i in 0..10 {
        batch.put(vec![0; 4096], &c.pool, i * 4096).unwrap();
    }
    assert_eq!(status(batch.put(vec![0], &c.pool, SIZE as u64)), XFER_ERANGE);
    for value in 1..=3 {
        batch.memory(9).fill(value);
        let (end, back) = c.engine.block_on(batch.submit(Some((70, b"layer"))));
        end.unwrap();
        batch = back;
        let (_, page) = c.engine.block_on(c.ep.get(vec![0; 4096], &c.pool, 9 * 4096));
        let notice = c.noticed(XFER_EVENT_NOTIFY);
        assert!(page == [value; 4096] && notice.tag == 71 && notice.data == b"layer");
    }
    assert_eq!(batch.entries().unwrap(), [XFER_OK; 10]);
}

#[test]
fn thousand_at_once() {
    let c = client(LOCAL);
    let at = |i: usize| 1024 * i as u64;
    c.engine.block_on(async {
        let puts: Vec<_> = (0..1000).map(|i| c.ep.put(bytes(i, 1024), &c.pool, at(i))).collect();
        c.ep.flush().await.unwrap();
        for mut put in puts {
            assert!(matches!(once(&mut put), Poll::Ready((Ok(1024), _))));
        }
        let gets: Vec<_> = (0..1000).map(|i| c.ep.get(vec![0; 1024], &c.pool, at(i))).collect();
        for (i, get) in gets.into_iter().enumerate() {
            assert!(get.await.1 == bytes(i, 1024));
        }
        let last = SIZE as u64 - 8;
        let adds: Vec<_> = (0..1000).map(|_| c.ep.add(&c.pool, last, 1)).collect();
        for add in adds {
            add.await.unwrap();
        }
        assert_eq!(c.ep.add(&c.pool, last, 0).await.unwrap(), 1000);
    });
    assert_eq!(c.engine.live(), 1); // the endpoint
}

#[test]
fn region_gone() {
    let c = client(LOCAL);
    c.engine.block_on(async {
        c.ep.send(Vec::new(), RENEW).await.0.unwrap();
        c.engine.take(0, ANSWER, EXACT).await.unwrap();
        assert_eq!(status(c.ep.put(b"late".to_vec(), &c.pool, 0).await.0), XFER_ESTALE);
        let pool = c.ep.lookup("pool", false).await.unwrap().name;
        c.ep.put(b"new".to_vec(), &pool, 0).await.0.unwrap();
    });
    assert_eq!(c.noticed(XFER_EVENT_REGION_GONE).data, c.pool.0);
}

#[test]
fn drop_keeps_buffer() {
    let c = client(NETWORK);
    c.peer.stop();
    let mut put = c.ep.put(vec![0; SIZE], &c.pool, 0);
    assert!(once(&mut put).is_pending());
    c.some_turns();
    let live = c.engine.live();
    drop(put);
    assert_eq!(c.engine.live(), live);
    c.until("the event", || c.engine.live() == live - 1);
    c.peer.go_on();
    c.engine.block_on(c.ep.put(b"after".to_vec(), &c.pool, 0)).0.unwrap();
}

#[test]
fn cancel_gives_back() {
    let c = client(NETWORK);
    c.peer.stop();
    let put = c.ep.put(vec![0; SIZE], &c.pool, 0);
    c.some_turns();
    put.cancel();
    let (end, buffer) = c.engine.block_on(put);
    let error = end.unwrap_err();
    assert!(error.status == XFER_ECANCELED && !error.fenced && buffer.len() == SIZE);
    let waits: Vec<_> = (0..1000).map(|_| c.engine.recv(vec![0; 8], 99, EXACT)).collect();
    let later = c.ep.lookup("later", true);
    assert_eq!(c.engine.live(), 1002);
    drop((waits, later));
    c.until("the events", || c.engine.live() == 1);
}

#[test]
fn deadline_expires() {
    let c = client(NETWORK);
    c.peer.stop();
    let soon = c.ep.within(Duration::from_millis(100));
    let (end, buffer) = c.engine.block_on(soon.put(vec![0; SIZE], &c.pool, 0));
    let error = end.unwrap_err();
    assert!(error.status == XFER_ETIMEDOUT && !error.fenced && buffer.len() == SIZE);
}

#[test]
fn peer_killed() {
    let mut c = client(NETWORK);
    c.peer.stop();
    let put = c.ep.put(vec![0; SIZE], &c.pool, 0);
    c.some_turns();
    c.peer.kill();
    let error = c.engine.block_on(put).0.unwrap_err();
    assert!(error.status == XFER_EPEERLOST && !error.fenced);
    c.noticed(XFER_EVENT_PEER_DOWN);
    let next = Peer::start(NETWORK);
    c.ep.add_address(&next.uri).unwrap();
    c.engine.block_on(async {
        assert_eq!(status(c.ep.put(b"old".to_vec(), &c.pool, 0).await.0), XFER_ESTALE);
        let pool = c.ep.lookup("pool", false).await.unwrap().name;
        c.ep.put(b"new".to_vec(), &pool, 0).await.0.unwrap();
    });
}

#[test]
fn error_detail() {
    let engine = Engine::open(&[]).unwrap();
    let nobody = engine.dial("tcp://127.0.0.1:9").unwrap().within(PATIENCE);
    let error = engine.block_on(nobody.connect()).unwrap_err();
    assert!(error.status == XFER_EUNREACHABLE && error.text.contains("127.0.0.1:9"));
    let taken = engine.listen("tcp://127.0.0.1:0").unwrap();
    let error = engine.listen(&taken).unwrap_err();
    assert!(error.status == XFER_EADDRINUSE && error.to_string().contains("XFER_EADDRINUSE"));
    assert!(Engine::open(&[("no_such", "1")]).is_err_and(|e| e.status == XFER_ENOTFOUND));
}

#[test]
fn region_comes_back() {
    let engine = Engine::open(&[]).unwrap();
    let region = engine.lend(bytes(3, 4096), "mine", XFER_WRITE).unwrap();
    assert!(engine.lend(vec![0; 8], "mine", XFER_WRITE).is_err_and(|e| e.status == XFER_EEXIST));
    let mut some = [0; 8];
    region.read(8, &mut some);
    assert_eq!(some, bytes(3, 16)[8..]);
    assert_eq!(engine.block_on(region.close()), bytes(3, 4096));
}

#[test]
fn drop_without_close() {
    let c = client(NETWORK);
    c.peer.stop();
    let region = c.engine.lend(vec![0; 4096], "mine", XFER_READ).unwrap();
    let mut batch = c.ep.batch().unwrap();
    batch.put(vec![0; SIZE], &c.pool, 0).unwrap();
    let submitted = batch.submit(None);
    let put = c.ep.put(vec![0; SIZE], &c.pool, 0);
    let Client { engine, ep, peer, .. } = c;
    let here = engine.listen("tcp://127.0.0.1:0").unwrap();
    drop((engine, region, submitted, ep));
    drop(put); // the last of that engine: waits until the library is through
    Engine::open(&[]).unwrap().listen(&here).unwrap();
    peer.go_on();
}
