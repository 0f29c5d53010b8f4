// SPDX-License-Identifier: Apache-2.0
//! A trainer puts its new weights into the memory of three workers. Here each is an engine and a
//! thread of one process; between processes only the workers' addresses have to be known.

use std::{error::Error, process, thread, time::Duration};
use xfer::{Access, Engine, Memory, RegionOptions};

const WORKERS: usize = 3;
const SIZE: usize = 8 << 20;
const CHUNK: usize = 1 << 20;
const ALL_THERE: u64 = 7; // the key of the notification, as trainer and workers have agreed
const LIMIT: Duration = Duration::from_secs(20);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn weights() -> Vec<u8> {
    (0..SIZE).map(|i| (i * 7 + i / 251 + 1) as u8).collect()
}

fn train(engine: &Engine, uris: &[String]) -> Result<()> {
    let memory = Memory::of(weights());
    let mut workers = Vec::new();
    for uri in uris {
        let worker = engine.dial(uri)?;
        let found = worker.lookup_wait("weights").wait()?; // the worker may not have it yet
        for start in (0..SIZE).step_by(CHUNK) {
            // Quiet: nobody looks at the end of each, and what fails is told by the flush.
            let chunk = memory.slice(start..start + CHUNK);
            worker.quiet().put(chunk, &found.name, start as u64)?;
        }
        workers.push((worker.flush(), worker)); // no wait yet: all workers are served at once
    }
    for (mut flushed, worker) in workers {
        // Only when the flush has said that every put went well may the worker use them: what is
        // merely ordered behind the puts would be told of failed ones too.
        flushed.wait()?;
        worker.notify(b"", ALL_THERE).wait()?;
    }
    Ok(())
}

fn work(engine: &Engine) -> Result<()> {
    // Before the region: who finds that may notify at once. The count of one has its deadline.
    let mut told = engine.within(LIMIT).counter(ALL_THERE, 1)?;
    let memory = Memory::zeroed(SIZE);
    let _region = engine.region(memory.clone(), &RegionOptions::named("weights", Access::WRITE))?;
    let counted = told.ended().wait();
    counted.result?;
    if memory.whole().to_vec() != weights() {
        return Err("worker: the weights are not those of the trainer".into());
    }
    Ok(())
}

fn run() -> Result<()> {
    // The deadline of every operation of these engines. They stay until all threads are through.
    let open = |_| Engine::options().timeout(Some(LIMIT)).open();
    let (trainer, workers) = (open(0)?, (0..WORKERS).map(open).collect::<xfer::Result<Vec<_>>>()?);
    let listen = |worker: &Engine| worker.listen("tcp://127.0.0.1:0");
    let uris = workers.iter().map(listen).collect::<xfer::Result<Vec<_>>>()?;
    thread::scope(|scope| {
        let workers: Vec<_> = workers.iter().map(|one| scope.spawn(|| work(one))).collect();
        train(&trainer, &uris)?;
        workers.into_iter().try_for_each(|one| one.join().expect("it returns its errors"))
    })?;
    println!("{WORKERS} workers have the weights, {SIZE} bytes each");
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("weights: {error}");
        process::exit(1);
    }
    println!("ok");
}
