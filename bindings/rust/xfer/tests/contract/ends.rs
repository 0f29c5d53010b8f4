// SPDX-License-Identifier: Apache-2.0
//! How operations, handles and waits end.

use crate::path::{bytes, end, failed, on_all, on_both, run, status, until, Pair, Path, PATIENCE};
use crate::process::alone;
use std::future::Future;
use std::net::TcpListener;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};
use xfer::{
    Access, Batch, Endpoint, Engine, Grant, GrantOptions, Match, Memory, Notices, Operation,
    Region, RegionOptions, Status, Submit,
};

/// A message that nobody receives: it stays under way.
fn unreceived(p: &Pair) -> Operation<(xfer::Result<u64>, Vec<u8>)> {
    p.ep.send_sync(bytes(1, 100_000), 99)
}

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Polls once, and wakes nobody.
fn once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&Arc::new(Nobody).into()))
}

#[test]
fn deadline_expires() {
    on_both(|path| {
        let p = Pair::open(path, 64);
        let soon = p.ep.within(Duration::from_millis(100));
        let (expired, back) = end(soon.send_sync(bytes(1, 100_000), 99));
        assert!(failed(expired).is_timed_out() && back == bytes(1, 100_000));
        let stats = p.ep.stats().unwrap().send;
        assert_eq!((stats.expired, stats.failed, stats.canceled), (1, 0, 0));
        assert!(failed(end(soon.lookup_wait("never"))).is_timed_out());
        let receive = p.client.within(Duration::from_millis(1)).take(8, &Match::tag(1));
        assert!(failed(end(receive)).is_timed_out());
    });
}

#[test]
fn wait_is_not_deadline() {
    on_both(|path| {
        let p = Pair::open(path, 64);
        let mut sent = unreceived(&p);
        assert!(sent.wait_for(Duration::from_millis(20)).is_none());
        assert!(p.client.block_on_for(Duration::from_millis(20), &mut sent).is_none());
        let (message, _) = end(p.server.take(100_000, &Match::tag(99))).unwrap();
        assert_eq!(message.length, 100_000);
        assert_eq!(end(sent).0.unwrap(), 100_000);
        assert_eq!(p.ep.stats().unwrap().send.canceled, 0);
    });
}

#[test]
fn cancel_keeps_buffer() {
    on_both(|path| {
        let p = Pair::open(path, 64);
        let memory = Memory::of(bytes(1, 100_000));
        let mut sent = p.ep.send_sync(memory.whole(), 99);
        assert!(once(&mut sent).is_pending());
        let live = p.client.live();
        drop(sent); // asks for its end
        assert_eq!(p.client.live(), live);
        let memory = memory.into_inner::<Vec<u8>>().expect_err("it is still lent");
        until(&p.client, "the event", || p.client.live() == live - 1);
        assert!(memory.into_inner::<Vec<u8>>().is_ok());
        assert_eq!(p.ep.stats().unwrap().send.canceled, 1);

        let sent = unreceived(&p);
        sent.cancel();
        sent.cancel(); // asks no second time
        let (canceled, back) = end(sent);
        assert!(failed(canceled).is_canceled() && back == bytes(1, 100_000));

        let live = p.client.live();
        let waits: Vec<_> =
            (0..1000).map(|_| p.client.recv(vec![0u8; 8], &Match::tag(98))).collect();
        drop(waits);
        until(&p.client, "the events", || p.client.live() == live);
        end(p.ep.put(b"after".to_vec(), &p.pool, 0)).0.unwrap();
    });
}

#[test]
fn submit_after_close() {
    on_both(|path| {
        let p = Pair::open(path, 64);
        let batch = || {
            let mut batch = p.ep.batch().unwrap();
            batch.put(&Memory::zeroed(8).whole(), &p.pool, 0).unwrap();
            batch
        };
        let (first, second, clone) = (batch(), batch(), p.ep.clone());
        end(p.ep.close()).unwrap();
        let closed = |ep: &Endpoint| {
            let (refused, back) = end(ep.put(vec![1u8; 8], &p.pool, 0));
            assert!(failed(refused).is_closed() && back == [1; 8]);
            assert_eq!(status(end(ep.close())), Status::ECLOSED);
            assert_eq!(status(end(ep.lookup("pool"))), Status::ECLOSED);
            assert_eq!(status(end(ep.flush())), Status::ECLOSED);
            assert_eq!(status(ep.batch()), Status::ECLOSED);
            assert_eq!(status(ep.quiet().put(vec![1u8], &p.pool, 0)), Status::ECLOSED);
            assert_eq!(status(ep.peer()), Status::ECLOSED);
        };
        closed(&clone);
        closed(&p.ep);
        assert_eq!(status(end(first.submit(&Submit::default())).0), Status::ECLOSED);

        let other = p.client.dial("tcp://127.0.0.1:9").unwrap();
        end(p.client.close()).unwrap();
        assert_eq!(status(end(p.client.close())), Status::ECLOSED);
        closed(&other);
        assert_eq!(status(p.client.dial("tcp://127.0.0.1:9")), Status::ECLOSED);
        assert_eq!(status(p.client.listen("tcp://127.0.0.1:0")), Status::ECLOSED);
        assert_eq!(status(end(p.client.take(8, &Match::any()))), Status::ECLOSED);
        assert_eq!(status(p.client.counter(1, 1)), Status::ECLOSED);
        assert_eq!(status(end(second.submit(&Submit::default())).0), Status::ECLOSED);

        end(p.server.close()).unwrap();
        assert_eq!(status(p.region.name()), Status::ECLOSED);
        let options = GrantOptions { access: Access::READ, range: 0..8, lease: None };
        assert_eq!(status(p.region.grant(&options)), Status::ECLOSED);
        assert_eq!(end(p.region.close()).len(), 64);
    });
}

#[test]
fn close_with_inflight() {
    on_both(|path| {
        let p = Pair::open(path, 1 << 20);
        let sends: Vec<_> = (0..10).map(|_| unreceived(&p)).collect();
        let puts: Vec<_> = (0..50).map(|i| p.ep.put(bytes(i, 65536), &p.pool, 0)).collect();
        let receives: Vec<_> =
            (0..50).map(|_| p.client.recv(vec![0u8; 8], &Match::tag(98))).collect();
        let waiting = p.ep.lookup_wait("never");
        let ended = end(p.client.close());
        let ready = |result| matches!(result, Status::OK | Status::ECANCELED);
        // The engine's is the last event: so all of them are there.
        for mut send in sends {
            let Poll::Ready((result, back)) = once(&mut send) else { panic!("no result") };
            assert!(failed(result).is_canceled() && back.len() == 100_000);
        }
        for (i, mut put) in puts.into_iter().enumerate() {
            let Poll::Ready((result, back)) = once(&mut put) else { panic!("no result") };
            assert!(ready(status(result)) && back == bytes(i, 65536));
        }
        for mut receive in receives {
            let Poll::Ready((result, _)) = once(&mut receive) else { panic!("no result") };
            assert!(failed(result).is_canceled());
        }
        assert!(failed(end(waiting)).is_canceled());
        assert!(ended.is_ok() && p.client.poll(Some(Duration::ZERO)).unwrap() == 0);
    });
}

#[test]
fn drop_without_close() {
    alone("ends::drop_without_close", || {
        on_both(|path| {
            for order in 0..4 {
                let p = Pair::open(path, 1 << 20);
                let address = p.client.listen("tcp://127.0.0.1:0").unwrap();
                let lent = Memory::zeroed(4096);
                let region = p.client.region(lent.clone(), &RegionOptions::default()).unwrap();
                let allocated = p.client.region_alloc(4096, &RegionOptions::default()).unwrap();
                let mut batch = p.ep.batch().unwrap();
                batch.put(&allocated.memory().whole(), &p.pool, 0).unwrap();
                let submitted = batch.submit(&Submit::default());
                let (sent, notices) = (unreceived(&p), p.client.notices().unwrap());
                let quiet = p.ep.quiet().put(allocated.memory().whole(), &p.pool, 0);
                quiet.unwrap();
                let counter = p.client.counter(1, 1).unwrap();
                let Pair { client, ep, server, .. } = p;
                match order {
                    0 => drop((client, region, submitted, allocated, notices, counter, ep, sent)),
                    1 => drop((sent, ep, counter, notices, allocated, submitted, region, client)),
                    2 => drop((counter, allocated, client, ep, sent, region, notices, submitted)),
                    _ => drop((notices, submitted, sent, region, ep, client, allocated, counter)),
                }
                // The last of that engine has ended it: its address is free, and the memory too.
                server.listen(&address).unwrap();
                assert!(lent.into_inner::<Vec<u64>>().is_ok());
            }
        });
        // And some is left to the end of the program.
        let p = Pair::open(Path::Tcp, 64);
        std::mem::forget(unreceived(&p));
        std::mem::forget(p);
    });
}

#[test]
fn waits_canceled() {
    on_both(|path| {
        let p = Pair::open(path, 64);
        let silent = TcpListener::bind("127.0.0.1:0").unwrap(); // takes connections, and says nothing
        let nobody = p.client.dial(&format!("tcp://{}", silent.local_addr().unwrap())).unwrap();
        // On a machine that has other things to do one of them may be late, but not all.
        let mut least = [Duration::MAX; 3];
        for _ in 0..10 {
            let (mut connect, mut lookup, mut probe) =
                (nobody.connect(), p.ep.lookup_wait("never"), nobody.probe());
            assert!(connect.wait_for(Duration::from_millis(5)).is_none());
            let begin = Instant::now();
            connect.cancel();
            lookup.cancel();
            probe.cancel();
            let mut ended = |index: usize, result: Status| {
                assert_eq!(result, Status::ECANCELED);
                least[index] = least[index].min(begin.elapsed());
            };
            ended(0, status(connect.wait_for(PATIENCE).unwrap()));
            ended(1, status(lookup.wait_for(PATIENCE).unwrap()));
            ended(2, status(probe.wait_for(PATIENCE).unwrap()));
        }
        assert!(least.into_iter().all(|least| least < Duration::from_millis(100)), "{least:?}");
    });
}

#[test]
fn cancel_by_mask() {
    on_both(|path| {
        let p = Pair::open(path, 64);
        let request = |group: u16| {
            let (ep, engine) = (p.ep.grouped(group), p.client.grouped(group));
            let receive = engine.take(8, &Match::tag(group.into()));
            (ep.lookup_wait("later"), ep.send_sync(vec![1u8; 8], 99), receive)
        };
        let (one, mut other) = (request(7), request(0x8007));
        p.client.cancel_group(7).unwrap();
        assert!(failed(end(one.0)).is_canceled());
        assert!(failed(end(one.1).0).is_canceled());
        assert!(failed(end(one.2)).is_canceled());
        assert!(once(&mut other.0).is_pending() && once(&mut other.2).is_pending());
        let options = RegionOptions::named("later", Access::READ);
        let _later = p.server.region(Memory::zeroed(8), &options).unwrap();
        assert!(end(other.0).is_ok());
        end(p.server.take(8, &Match::tag(99))).unwrap();
        assert!(end(other.1).0.is_ok());
    });
}

/// A waker is the user's code that runs when an event comes.
#[test]
fn exception_in_callback() {
    struct Throws;
    impl Wake for Throws {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new("of the user's"));
        }
    }
    on_both(|path| {
        let p = Pair::open(path, 1000);
        let mut puts: Vec<_> =
            (0..10).map(|i| p.ep.put(vec![7u8; 100], &p.pool, 100 * i)).collect();
        let waker = Arc::new(Throws).into();
        assert!(Pin::new(&mut puts[3]).poll(&mut Context::from_waker(&waker)).is_pending());
        let begin = Instant::now();
        let thrown = loop {
            assert!(begin.elapsed() < PATIENCE);
            let poll = || p.client.poll(Some(Duration::from_millis(20))).unwrap();
            if let Err(thrown) = catch_unwind(AssertUnwindSafe(poll)) {
                break thrown;
            }
        };
        assert_eq!(thrown.downcast_ref(), Some(&"of the user's"));
        puts.into_iter().for_each(|put| assert_eq!(end(put).0.unwrap(), 100));
        assert_eq!(p.seen(0, 1000), [7; 1000]);
    });
}

/// All handles may be used from any thread; where calls come one at a time (a batch) the type says
/// so, and a batch under way is out of reach, as its documentation shows.
#[test]
fn wrong_thread() {
    fn any_thread<T: Send + Sync>() {}
    fn one_at_a_time<T: Send>() {}
    any_thread::<(Engine, Endpoint, Region, Memory, Grant)>();
    one_at_a_time::<(Batch, Notices, Operation<Batch>)>();
    on_all(|path| {
        let p = Pair::open(path, 8 * 4096);
        let told = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for i in 0..8 {
                let (p, told) = (&p, &told);
                // All wait at once: one of them takes the events of all.
                scope.spawn(move || {
                    for round in 0..50 {
                        let sent = bytes(i + round, 4096);
                        let (moved, sent) = end(p.ep.put(sent, &p.pool, 4096 * i as u64));
                        assert!(moved.is_ok() && p.seen(4096 * i, 4096) == sent);
                    }
                    told.lock().unwrap().push(i);
                });
            }
        });
        assert_eq!(told.lock().unwrap().len(), 8);
        let put = p.ep.put(bytes(1, 100), &p.pool, 0); // begun here, ended elsewhere
        let ended = std::thread::scope(|scope| scope.spawn(|| end(put)).join().unwrap());
        assert!(ended.0.is_ok());
    });
}

#[test]
fn drain() {
    on_both(|path| {
        let p = Pair::open(path, 1 << 20);
        let puts: Vec<_> = (0..50).map(|i| p.ep.put(bytes(i, 65536), &p.pool, 0)).collect();
        let drained = p.client.drain();
        assert_eq!(status(end(p.ep.put(vec![1u8; 8], &p.pool, 0)).0), Status::ECLOSED);
        assert_eq!(status(end(p.client.drain())), Status::EBUSY);
        run(&p.client, async {
            for put in puts {
                assert_eq!(put.await.0.unwrap(), 65536);
            }
            drained.await.unwrap();
        });
        assert_eq!(status(p.client.dial("tcp://127.0.0.1:9")), Status::ECLOSED);
        end(p.client.close()).unwrap();
    });
}
