// SPDX-License-Identifier: Apache-2.0
//! Two engines, and the path between them.

use std::future::Future;
use std::time::{Duration, Instant};
use xfer::{
    Access, Endpoint, Engine, EngineOptions, Error, Memory, Notice, Notices, Operation, Ref,
    Region, RegionOptions, Result, Status,
};

pub const PATIENCE: Duration = Duration::from_secs(20);
pub const ALL: Access = Access(Access::READ.0 | Access::WRITE.0 | Access::ATOMIC.0);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Path {
    Tcp,
    Local,
    Loopback, // one engine with itself
}

impl Path {
    pub fn transports(self) -> &'static str {
        match self {
            Path::Tcp => "tcp",
            Path::Local => "tcp,shm",
            Path::Loopback => "loopback",
        }
    }

    pub fn options(self) -> EngineOptions {
        Engine::options().transports(self.transports()).unwrap()
    }

    pub fn engine(self) -> Engine {
        self.options().open().unwrap()
    }
}

/// What fails in there says by which path.
pub fn on(paths: &[Path], test: impl Fn(Path)) {
    for path in paths {
        eprintln!("by {path:?}");
        test(*path);
    }
}

pub fn on_both(test: impl Fn(Path)) {
    on(&[Path::Tcp, Path::Local], test);
}

pub fn on_all(test: impl Fn(Path)) {
    on(&[Path::Tcp, Path::Local, Path::Loopback], test);
}

pub struct Pair {
    pub server: Engine,
    pub client: Engine,
    pub ep: Endpoint,
    pub region: Region,
    pub pool: Ref,
}

impl Pair {
    pub fn open(path: Path, length: usize) -> Self {
        Self::with(path, length, path.options())
    }

    /// The client is opened with these options.
    pub fn with(path: Path, length: usize, client: EngineOptions) -> Self {
        let server = path.engine();
        let options = RegionOptions::named("pool", ALL);
        let region = server.region(Memory::zeroed(length), &options).unwrap();
        let (client, ep) = if path == Path::Loopback {
            let ep = server.dial_peer(None, Some(&server.id().unwrap())).unwrap();
            (server.clone(), ep)
        } else {
            let client = client.open().unwrap();
            let ep = client.dial(&server.listen("tcp://127.0.0.1:0").unwrap()).unwrap();
            (client, ep)
        };
        let pool = end(ep.lookup("pool")).unwrap().name;
        Pair { server, client, ep, region, pool }
    }

    /// What the region has there now.
    pub fn seen(&self, offset: usize, length: usize) -> Vec<u8> {
        self.region.memory().slice(offset..offset + length).to_vec()
    }
}

/// The result, within patience.
pub fn end<T>(mut operation: Operation<T>) -> T {
    operation.wait_for(PATIENCE).expect("it ends within patience")
}

pub fn run<F: Future>(engine: &Engine, future: F) -> F::Output {
    engine.block_on_for(PATIENCE, future).expect("it ends within patience")
}

/// Takes events until that is so.
pub fn until(engine: &Engine, what: &str, mut so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !so() {
        assert!(begin.elapsed() < PATIENCE, "not within patience: {what}");
        engine.poll(Some(Duration::from_millis(20))).unwrap();
    }
}

/// The next notice of which `find` makes something.
pub fn noticed<T>(notices: &mut Notices, find: impl Fn(Notice) -> Option<T>) -> T {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(found) = notices.wait_for(PATIENCE).and_then(&find) {
            return found;
        }
    }
    panic!("no such notice came");
}

pub fn status<T>(result: Result<T>) -> Status {
    result.err().map_or(Status::OK, |error| error.status())
}

pub fn failed<T>(result: Result<T>) -> Error {
    result.err().expect("it fails")
}

pub fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 251 + seed) as u8).collect()
}
