// SPDX-License-Identifier: Apache-2.0
//! A proxy between two engines over TCP, which can change one bit of what passes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::thread;

pub struct Proxy {
    pub uri: String,
    flip_at: Arc<AtomicU64>,
}

const NEVER: u64 = u64::MAX;

/// Copies until either side ends. Past so many bytes one bit changes, once.
fn pump(mut from: TcpStream, mut to: TcpStream, flip_at: &AtomicU64) {
    let (mut buffer, mut passed) = (vec![0; 65536], 0);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let at = flip_at.load(SeqCst);
        if (passed..passed + count as u64).contains(&at) {
            buffer[(at - passed) as usize] ^= 1;
            flip_at.store(NEVER, SeqCst);
        }
        passed += count as u64;
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

impl Proxy {
    /// To the engine that listens at `server`; its threads end with the connections.
    pub fn start(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let uri = format!("tcp://{}", listener.local_addr().unwrap());
        let server = server.strip_prefix("tcp://").unwrap().to_owned();
        let flip_at = Arc::new(AtomicU64::new(NEVER));
        let flips = flip_at.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&server) else { return };
                let ends = [(&client, &server), (&server, &client)];
                let [to_server, to_client] =
                    ends.map(|(from, to)| (from.try_clone().unwrap(), to.try_clone().unwrap()));
                let flips = flips.clone();
                thread::spawn(move || pump(to_server.0, to_server.1, &flips));
                thread::spawn(move || pump(to_client.0, to_client.1, &AtomicU64::new(NEVER)));
            }
        });
        Proxy { uri, flip_at }
    }

    /// On the way to the server, past `at` bytes of the first connection that carries so many.
    pub fn flip(&self, at: u64) {
        self.flip_at.store(at, SeqCst);
    }

    pub fn has_flipped(&self) -> bool {
        self.flip_at.load(SeqCst) == NEVER
    }
}
