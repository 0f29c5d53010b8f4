// SPDX-License-Identifier: Apache-2.0
//! A request's KV cache moves from prefill to decode, layer by layer. Here each is an engine and a
//! thread of one process; between two, the request brings decode's address and page table.

use std::{error::Error, process, thread, time::Duration};
use xfer::{Access, Engine, Memory, Notice, Op, PageBase, Pages, RegionOptions, Submit};

const LAYERS: usize = 4;
const BLOCKS: usize = 64; // of each layer
const BLOCK: usize = 16 << 10;
const REQUEST: usize = 24; // blocks of each layer that the request has
const LIMIT: Duration = Duration::from_secs(20);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Where a block of a layer begins, in both caches.
fn at(layer: usize, block: i32) -> usize {
    (layer * BLOCKS + usize::try_from(block).expect("blocks are counted from 0")) * BLOCK
}

/// What the model computes for the i-th block of the request: no two are equal, none is zeros.
fn computed(layer: usize, i: usize) -> Vec<u8> {
    (0..BLOCK).map(|k| (k % 151 + 1 + layer * REQUEST + i) as u8).collect()
}

/// A request's page table: where its blocks are, of those that were free; no block is there twice.
fn page_table(mut seed: u64) -> Vec<i32> {
    let mut blocks: Vec<i32> = (0..).take(BLOCKS).collect();
    for i in 0..REQUEST {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        blocks.swap(i, i + (seed >> 33) as usize % (BLOCKS - i));
    }
    blocks[..REQUEST].to_vec()
}

fn prefill(engine: &Engine, uri: &str, ours: &[i32], theirs: &[i32]) -> Result<u64> {
    let cache = Memory::zeroed(LAYERS * BLOCKS * BLOCK);
    let decode = engine.dial(uri)?;
    let kv = decode.lookup_wait("kv").wait()?.name; // decode may not have it yet
    let mut under_way = Vec::new();
    for layer in 0..LAYERS {
        for (i, block) in ours.iter().enumerate() {
            cache.write(at(layer, *block), &computed(layer, i));
        }
        // A batch for each layer: it moves while the next one is computed, and decode is told of it
        // by its key as soon as all of its bytes are there.
        let start = at(layer, 0) as u64;
        let base = PageBase { memory: &cache, local: start, remote: &kv, offset: start };
        let mut batch = decode.batch()?;
        batch.pages(Op::Put, &Pages::new(BLOCK as u64, ours, theirs, &[base]))?;
        let how = Submit { notify: Some((layer as u64, b"")), ..Submit::default() };
        under_way.push(batch.submit(&how));
    }
    under_way.iter_mut().map(|batch| Ok(batch.wait().0?)).sum() // .1 is the batch, to be used again
}

fn decode(engine: &Engine, blocks: &[i32]) -> Result<()> {
    let mut notices = engine.notices()?; // before the region: who finds that may notify at once
    let cache = Memory::zeroed(LAYERS * BLOCKS * BLOCK);
    let _region = engine.region(cache.clone(), &RegionOptions::named("kv", Access::WRITE))?;
    let (mut waits, mut wrong) = ([true; LAYERS], None);
    while waits.contains(&true) {
        // Layers come in any order, and other notices between them, such as of prefill's connection.
        let notice = notices.wait_for(LIMIT).ok_or("decode: no layer came in time")?;
        let Notice::Notified { key, data, .. } = notice else { continue };
        data?; // that of a batch that failed says why
        let layer = key as usize;
        *waits.get_mut(layer).ok_or("decode: it has no such layer")? = false;
        for (i, block) in blocks.iter().enumerate() {
            let start = at(layer, *block);
            if cache.slice(start..start + BLOCK).to_vec() != computed(layer, i) {
                wrong = Some(format!("decode: layer {layer}, block {block}: wrong bytes"));
            }
        }
    }
    wrong.map_or(Ok(()), |text| Err(text.into()))
}

fn run() -> Result<()> {
    // The deadline of every operation of these engines. Both stay until both threads are through.
    let open = || Engine::options().timeout(Some(LIMIT)).open();
    let (ours, theirs, here, there) = (page_table(1), page_table(2), open()?, open()?);
    let uri = there.listen("tcp://127.0.0.1:0")?;
    let bytes = thread::scope(|scope| {
        let decode = scope.spawn(|| decode(&there, &theirs));
        let bytes = prefill(&here, &uri, &ours, &theirs)?;
        decode.join().expect("decode returns its errors").map(|()| bytes)
    })?;
    println!("{LAYERS} layers of {REQUEST} blocks moved, {bytes} bytes");
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("pages: {error}");
        process::exit(1);
    }
    println!("ok");
}
