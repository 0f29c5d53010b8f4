// SPDX-License-Identifier: Apache-2.0
//! The other process of some tests: the same program, asked to serve.

use crate::path::ALL;
use std::io::{BufRead, BufReader, Read};
use std::process::{exit, Child, Command, Stdio};
use xfer::{Engine, Match, Memory, RegionOptions};

pub const SIZE: usize = 16 << 20;
const ASKED: &str = "XFER_TEST_PEER";

/// Serves if this process was started for that: until its standard input ends.
#[test]
fn serves_if_asked() {
    let Ok(transports) = std::env::var(ASKED) else { return };
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        exit(0); // with all of it open
    });
    let engine = Engine::options().transports(&transports).unwrap().open().unwrap();
    let options = RegionOptions::named("pool", ALL);
    let _region = engine.region(Memory::zeroed(SIZE), &options).unwrap();
    println!("\n{}", engine.listen("tcp://127.0.0.1:0").unwrap());
    let _ = engine.take(0, &Match::tag(u64::MAX)).wait(); // nobody sends that
}

pub struct Peer {
    child: Child,
    pub uri: String,
}

impl Peer {
    pub fn start(transports: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["peer::serves_if_asked", "--exact", "--nocapture"])
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

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal("-CONT");
            drop(self.child.stdin.take());
            let status = self.child.wait().unwrap();
            assert!(std::thread::panicking() || status.success());
        }
    }
}
