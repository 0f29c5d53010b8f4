// SPDX-License-Identifier: Apache-2.0
//! The other process of these tests: the same program, asked to serve.

use std::io::{BufRead, BufReader, Read};
use std::process::{exit, Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use xfer::{sys::*, Endpoint, Engine};

pub const SIZE: usize = 16 << 20;
pub const ECHO: u64 = 1; // tags of what it is asked, and of its answers
pub const RENEW: u64 = 2;
pub const ANSWER: u64 = 3;
const ASKED: &str = "XFER_TEST_PEER";

/// Serves if this process was started for that: until its standard input ends.
pub fn serve_if_asked() {
    let Ok(transports) = std::env::var(ASKED) else { return };
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        exit(0); // with all of it open
    });
    let (peers, answers) = (Mutex::new(Vec::<Endpoint>::new()), Mutex::new(Vec::new()));
    let engine = Engine::with_notices(&[("transports", &transports)], move |notice| {
        let Some(peer) = notice.peer else { return };
        match notice.kind {
            XFER_EVENT_PEER => peers.lock().unwrap().push(peer),
            XFER_EVENT_NOTIFY => {
                let answer = peer.notify(&notice.data, notice.tag + 1);
                answers.lock().unwrap().push(answer); // dropped it would be canceled
            }
            _ => {}
        }
    })
    .unwrap();
    let lend = |memory| engine.lend(memory, "pool", XFER_READ | XFER_WRITE | XFER_ATOMIC).unwrap();
    let mut region = lend(vec![0; SIZE]);
    println!("\n{}", engine.listen("tcp://127.0.0.1:0").unwrap());
    engine.block_on(async {
        loop {
            let message = engine.take(SIZE as u64, 0, 0).await.unwrap();
            if message.tag == RENEW {
                region = lend(region.close().await);
            }
            let _ = message.peer.unwrap().send(message.data, ANSWER).await;
        }
    })
}

pub struct Peer {
    child: Child,
    pub uri: String,
}

impl Peer {
    pub fn start(transports: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["serves_if_asked", "--exact", "--nocapture"])
            .env(ASKED, transports)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let uri = lines.map_while(Result::ok).find(|line| line.starts_with("tcp://")).unwrap();
        Peer { child, uri }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    pub fn stop(&self) {
        self.signal("-STOP");
    }

    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.go_on();
            drop(self.child.stdin.take());
            let status = self.child.wait().unwrap();
            assert!(std::thread::panicking() || status.success());
        }
    }
}

pub type Seen = Arc<Mutex<Vec<xfer::Notice>>>;
