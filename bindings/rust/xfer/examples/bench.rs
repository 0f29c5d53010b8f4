// SPDX-License-Identifier: Apache-2.0
//! What this crate costs: `bench CASE URI SECONDS` prints one number. The peer lends 64 MiB by the
//! name "bench". CASE is bandwidth (bytes per second), rate (puts per second), latency (median in
//! microseconds) or pages (bytes per second).

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use std::{env, error::Error, process};
use xfer::{Endpoint, Engine, Memory, Op, Operation, PageBase, Pages, Ref, Submit};

const REGION: usize = 64 << 20; // of the peer
const PAGE: usize = 4096;
const PAGES: usize = 1000; // of each call
const TABLES: usize = 16; // that calls use in turn

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Counts what ends after the warm-up, which is a tenth of the time.
struct Clock {
    start: Instant,
    end: Option<Instant>, // since the warm-up
    seconds: Duration,
    done: u64,
}

impl Clock {
    fn start(seconds: Duration) -> Self {
        Clock { start: Instant::now() + seconds / 10, end: None, seconds, done: 0 }
    }

    /// One more has ended. Its rate per second when the time is over.
    fn count(&mut self) -> Option<f64> {
        let now = Instant::now();
        self.done += 1;
        match self.end {
            None if now >= self.start => {
                (self.start, self.end, self.done) = (now, Some(now + self.seconds), 0);
            }
            Some(end) if now >= end => {
                return Some(self.done as f64 / (now - self.start).as_secs_f64());
            }
            _ => {}
        }
        None
    }
}

/// A stream of puts.
struct Stream {
    length: usize,
    window: usize, // in flight
    places: usize, // that they walk over
}

impl Stream {
    /// Puts per second.
    async fn run(&self, peer: &Endpoint, name: &Ref, seconds: Duration) -> Result<f64> {
        let mut offsets = (0..self.places).cycle().map(|place| (place * self.length) as u64);
        let mut put = |data| peer.put(data, name, offsets.next().expect("it has no end"));
        let begin = |_| put(vec![2u8; self.length]);
        let mut in_flight: VecDeque<_> = (0..self.window).map(begin).collect();
        let mut clock = Clock::start(seconds);
        loop {
            let (moved, data) = in_flight.pop_front().expect("the window is not empty").await;
            moved?;
            in_flight.push_back(put(data)); // the buffer that came back
            if let Some(rate) = clock.count() {
                break wait_for_all(in_flight).await.map(|()| rate);
            }
        }
    }
}

async fn wait_for_all<T>(in_flight: VecDeque<Operation<(xfer::Result<u64>, T)>>) -> Result<()> {
    for put in in_flight {
        put.await.0?;
    }
    Ok(())
}

/// The median of the microseconds of one put.
async fn latency(peer: &Endpoint, name: &Ref, seconds: Duration) -> Result<f64> {
    let (mut data, mut times, mut clock) = (vec![2u8; 64], Vec::new(), Clock::start(seconds));
    let mut last = Instant::now();
    loop {
        let (moved, back) = peer.put(data, name, 0).await;
        moved?;
        data = back;
        let before = std::mem::replace(&mut last, Instant::now());
        if clock.end.is_some() {
            times.push(last - before);
        }
        if clock.count().is_some() {
            break;
        }
    }
    times.sort();
    Ok(times[times.len() / 2].as_secs_f64() * 1e6)
}

/// Calls per second, each of another page table, as each request has one.
async fn pages(peer: &Endpoint, name: &Ref, seconds: Duration) -> Result<f64> {
    let memory = Memory::of(vec![2u8; PAGES * PAGE]);
    // Without a divisor in common: each page is there once.
    let here: Vec<u32> = (0..PAGES).map(|i| ((i * 37 + 11) % PAGES) as u32).collect();
    let page = |i| ((i * 389 + 5) % (REGION / PAGE)) as u32;
    let there: Vec<Vec<u32>> =
        (0..TABLES).map(|table| (table * PAGES..).take(PAGES).map(page).collect()).collect();
    let bases = [PageBase { memory: &memory, local: 0, remote: name, offset: 0 }];
    let (mut batch, mut clock) = (peer.batch()?, Clock::start(seconds));
    for there in there.iter().cycle() {
        batch.reset()?;
        batch.pages(Op::Put, &Pages::new(PAGE as u64, &here, there, &bases))?;
        let (moved, back) = batch.submit(&Submit::default()).await;
        moved?;
        batch = back;
        if let Some(rate) = clock.count() {
            return Ok(rate);
        }
    }
    unreachable!("the tables are used in turn, without an end")
}

async fn measure(peer: &Endpoint, case: &str, seconds: Duration) -> Result<f64> {
    let name = &peer.lookup("bench").await?.name;
    let big = Stream { length: 1 << 20, window: 16, places: REGION >> 20 };
    let small = Stream { length: 64, window: 256, places: 256 };
    match case {
        "bandwidth" => Ok(big.run(peer, name, seconds).await? * big.length as f64),
        "rate" => small.run(peer, name, seconds).await,
        "latency" => latency(peer, name, seconds).await,
        "pages" => Ok(pages(peer, name, seconds).await? * (PAGES * PAGE) as f64),
        _ => Err(format!("no case of that name: {case}").into()),
    }
}

fn run(case: &str, uri: &str, seconds: &str) -> Result<f64> {
    let seconds = Duration::try_from_secs_f64(seconds.parse()?)?;
    let engine = Engine::options().io_threads(Some(1)).open()?;
    let peer = engine.dial(uri)?;
    engine.block_on(measure(&peer, case, seconds)) // this thread takes the events meanwhile
}

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [case, uri, seconds] = &arguments[..] else {
        eprintln!("usage: bench bandwidth|rate|latency|pages URI SECONDS");
        process::exit(2);
    };
    match run(case, uri, seconds) {
        Ok(number) => println!("{number:.3}"),
        Err(error) => {
            eprintln!("bench: {error}");
            process::exit(1);
        }
    }
}
