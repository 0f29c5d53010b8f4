// SPDX-License-Identifier: Apache-2.0
//! A tree of files is lent and fetched, as `xfer_tree` and `python -m xfer` do it: each fetches what
//! any of them serves.
//!
//! Two regions: "tree/data" has the bytes of all files, "tree/manifest" says where. So the server
//! does nothing during a fetch, which is a few large gets.

mod fetch;
mod manifest;
mod progress;
mod serve;

use manifest::Tree;
use std::error::Error;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use xfer::{Engine, EngineOptions};

const USAGE: &str =
    "usage: tree serve DIR [--listen URI] [--key FILE]   lends DIR until it is interrupted
       tree fetch URI DEST [--key FILE]            brings a server's tree to DEST, new or empty

  --listen URI   where to serve (tcp://127.0.0.1:0: any free port of this host)
  --key FILE     the secret of 32 to 256 bytes that both sides must have; needed to serve
                 beyond this host
";
const LOOK: Duration = Duration::from_millis(200); // how often whether it is to stop

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new(); // set by SIGINT and SIGTERM

/// Whether the program is to stop.
fn stopped() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Relaxed))
}

/// Names of files are bytes.
fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Takes option `name` and its value out of the arguments.
fn option(arguments: &mut Vec<String>, name: &str) -> Option<String> {
    let at = arguments.iter().position(|argument| argument == name)?;
    (at + 1 < arguments.len()).then(|| arguments.drain(at..at + 2).nth(1)).flatten()
}

fn serve(engine: &Engine, directory: &str, listen: &str) -> Result<()> {
    let lent = serve::lend(engine, Path::new(directory))?;
    let uri =
        engine.listen(listen).map_err(|error| format!("cannot listen at {listen}: {error}"))?;
    println!("serving {} of {directory}", size(&lent.tree));
    println!("listening at {uri}");
    while !stopped() {
        engine.poll(Some(LOOK))?;
    }
    Ok(())
}

fn fetch(engine: &Engine, uri: &str, destination: &str) -> Result<()> {
    let began = Instant::now();
    let server = engine.dial(uri).map_err(|error| format!("{uri}: {error}"))?;
    let connected = server.within(Duration::from_secs(3)).connect().wait();
    connected.map_err(|error| format!("nobody lets us in at {uri}: {error}"))?;
    let tree = fetch::fetch(&server, Path::new(destination))?;
    println!("fetched {} in {:.2} s", size(&tree), began.elapsed().as_secs_f64());
    Ok(())
}

/// With a checksum of all bytes that go over a network: what is fetched is verified.
fn options() -> EngineOptions {
    Engine::options().checksum(true)
}

fn size(tree: &Tree) -> String {
    let bytes: u64 = tree.files().iter().map(|file| file.size).sum();
    format!("{} files, {:.1} MB", tree.files().len(), bytes as f64 / 1e6)
}

fn run(options: EngineOptions, arguments: &[&str], listen: &str) -> Result<()> {
    let stop = STOP.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let engine = options.open()?;
    match arguments {
        ["serve", directory] => serve(&engine, directory, listen),
        ["fetch", uri, destination] => fetch(&engine, uri, destination),
        _ => unreachable!("main looks at them"),
    }
}

fn main() -> ExitCode {
    let mut arguments: Vec<_> = std::env::args().skip(1).collect();
    let key = option(&mut arguments, "--key");
    let listen = option(&mut arguments, "--listen");
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let understood = match arguments[..] {
        ["serve", directory] => !directory.starts_with('-'),
        ["fetch", ..] => arguments.len() == 3 && listen.is_none(),
        _ => false,
    };
    if !understood {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    }
    let listen = listen.as_deref().unwrap_or("tcp://127.0.0.1:0");
    let options = match key.map(|file| std::fs::read(&file).map_err(|error| (file, error))) {
        None => options(),
        Some(Ok(key)) => options().key(&key),
        Some(Err((file, error))) => {
            eprintln!("tree: {file}: {error}");
            return ExitCode::FAILURE;
        }
    };
    match run(options, &arguments, listen) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tree: {error}");
            if stopped() {
                ExitCode::from(130)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_fetched_is_verified() {
        let engine = super::options().open().unwrap();
        assert!(engine.describe().unwrap().contains("\"checksum\": true"));
    }
}
