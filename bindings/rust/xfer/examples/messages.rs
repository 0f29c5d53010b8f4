// SPDX-License-Identifier: Apache-2.0
//! A server answers the requests of two clients. Here each is an engine and a thread of one process;
//! between processes only the server's address has to be known.

use std::{collections::VecDeque, error::Error, process, thread, time::Duration};
use xfer::{Engine, Match};

const CLIENTS: usize = 2;
const REQUESTS: usize = 100; // of each client
const UNDER_WAY: usize = 8; // of each client at once
const LONGEST: usize = 3_000;
const LIMIT: Duration = Duration::from_secs(20);

// A tag is ours to divide: here the high half says what a message is, the low half who asks.
const REQUEST: u64 = 1 << 32;
const KIND: u64 = 0xffff_ffff << 32;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// No two are equal.
fn request(client: usize, i: usize) -> Vec<u8> {
    let length = 1 + (client * 500 + i * 911) % LONGEST;
    (0..length).map(|k| (client * REQUESTS + i + k) as u8).collect()
}

/// What the server makes of a request.
fn answer(request: &[u8]) -> Vec<u8> {
    request.iter().map(|byte| !byte).collect()
}

/// Returns the number of bytes that it was asked with.
fn serve(engine: &Engine) -> Result<u64> {
    let (mut bytes, mut answers) = (0, Vec::new());
    for _ in 0..CLIENTS * REQUESTS {
        // From whoever sends it, and of any length up to a bound: the memory comes with the message.
        let requests = Match::tag(REQUEST).mask(KIND);
        let (message, data) = engine.take(LONGEST as u64, &requests).wait()?;
        let client = message.peer.ok_or("server: a client is gone before its answer")?;
        answers.push(client.send(answer(&data), message.tag)); // no client waits for another's
        bytes += message.length;
    }
    for mut sent in answers {
        sent.wait().0?;
    }
    Ok(bytes)
}

fn ask(engine: &Engine, number: usize, uri: &str) -> Result<()> {
    let server = engine.dial(uri)?; // the first send connects
    let tag = REQUEST | number as u64;
    let mut under_way = VecDeque::new();
    for i in 0..REQUESTS {
        // Messages of one tag and receives keep their order: the i-th answer is that to request i.
        let received = engine.take(LONGEST as u64, &Match::tag(tag).sender(&server));
        let request = request(number, i);
        let sent = server.send_copy(&request, tag);
        // Both have begun with their calls: the future only waits for them.
        under_way.push_back(async move {
            sent.await?;
            if received.await?.1 != answer(&request) {
                return Err(format!("client {number}: wrong answer to request {i}").into());
            }
            Result::Ok(())
        });
        if under_way.len() == UNDER_WAY {
            under_way.pop_front().map_or(Ok(()), |oldest| engine.block_on(oldest))?;
        }
    }
    under_way.into_iter().try_for_each(|rest| engine.block_on(rest))
}

fn run() -> Result<()> {
    // The deadline of every operation of these engines. They stay until all threads are through: a
    // client that is gone could not say that it has its last answer.
    let open = |_| Engine::options().timeout(Some(LIMIT)).open();
    let (server, clients) = (open(0)?, (0..CLIENTS).map(open).collect::<xfer::Result<Vec<_>>>()?);
    let uri = &server.listen("tcp://127.0.0.1:0")?;
    let bytes = thread::scope(|scope| {
        let start = |(number, engine)| scope.spawn(move || ask(engine, number, uri));
        let clients: Vec<_> = clients.iter().enumerate().map(start).collect();
        let bytes = serve(&server);
        clients.into_iter().try_for_each(|one| one.join().expect("it returns its errors"))?;
        bytes
    })?;
    println!("{CLIENTS} clients had {REQUESTS} answers each, to {bytes} bytes");
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("messages: {error}");
        process::exit(1);
    }
    println!("ok");
}
