// SPDX-License-Identifier: Apache-2.0
//! The engine's events inside a tokio runtime.
#![cfg(feature = "tokio")]

use std::time::Duration;
use xfer::{Access, Driver, Engine, Match, Memory, Notice, RegionOptions};

const PATIENCE: Duration = Duration::from_secs(20);

fn in_runtime(test: impl std::future::Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, test).await.expect("in time") });
}

fn open() -> (Engine, tokio::task::JoinHandle<std::io::Result<()>>) {
    let engine = Engine::open().unwrap();
    let driver = tokio::spawn(Driver::new(&engine).unwrap());
    (engine, driver)
}

#[test]
fn tasks_of_two_engines() {
    in_runtime(async {
        let ((server, server_driver), (client, client_driver)) = (open(), open());
        let options = RegionOptions::named("pool", Access::READ | Access::WRITE);
        let region = server.region(Memory::zeroed(1 << 20), &options).unwrap();
        let mut notices = server.notices().unwrap();
        let ep = client.dial(&server.listen("tcp://127.0.0.1:0").unwrap()).unwrap();
        let pool = ep.lookup("pool").await.unwrap().name;
        let tasks: Vec<_> = (0..100u64)
            .map(|i| {
                let ep = ep.clone();
                tokio::spawn(async move {
                    let (moved, sent) = ep.put(vec![i as u8; 1000], &pool, 1000 * i).await;
                    assert_eq!(moved.unwrap(), 1000);
                    let (_, back) = ep.get(vec![0u8; 1000], &pool, 1000 * i).await;
                    assert_eq!(sent, back);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(region.memory().slice(99_000..100_000).to_vec(), [99; 1000]);
        loop {
            if let Notice::Up { id, .. } = notices.next().await.unwrap() {
                break assert_eq!(id, client.id().unwrap());
            }
        }
        client.close().await.unwrap();
        client_driver.await.unwrap().unwrap(); // ends with its engine
        drop((notices, region, server));
        server_driver.await.unwrap().unwrap(); // or with the last handle of it
    });
}

#[test]
fn threads_wait_beside_it() {
    in_runtime(async {
        let (engine, _driver) = open();
        let ep = engine.dial_peer(None, Some(&engine.id().unwrap())).unwrap();
        let thread = {
            let (engine, ep) = (engine.clone(), ep.clone());
            tokio::task::spawn_blocking(move || {
                for _ in 0..100 {
                    let receive = engine.take(8, &Match::tag(1));
                    ep.send_copy(b"thread", 1).wait().unwrap();
                    assert_eq!({ receive }.wait().unwrap().1, b"thread");
                }
            })
        };
        for _ in 0..100 {
            let receive = engine.take(8, &Match::tag(2));
            ep.send_copy(b"task", 2).await.unwrap();
            assert_eq!(receive.await.unwrap().1, b"task");
        }
        thread.await.unwrap();
    });
}

#[test]
fn a_task_that_gave_up_leaves_the_operation_alone() {
    in_runtime(async {
        let (engine, _driver) = open();
        let ep = engine.dial_peer(None, Some(&engine.id().unwrap())).unwrap();
        let mut receive = engine.take(8, &Match::tag(1));
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut receive).await.is_err());
        ep.send_copy(b"later", 1).await.unwrap();
        assert_eq!(receive.await.unwrap().1, b"later");
    });
}
