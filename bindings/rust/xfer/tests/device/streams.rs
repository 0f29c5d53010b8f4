// SPDX-License-Identifier: Apache-2.0
//! Batches on streams, and in graphs.

use super::*;
use std::ptr::null_mut;
use xfer::{BatchWatch, StreamResult};

const BYTES: usize = 64 << 10;
const SHORT: Duration = Duration::from_millis(30);

fn of(seed: u8) -> Vec<u8> {
    vec![seed; BYTES]
}

/// A stream of the application, until its drop.
struct Stream(&'static Driver, *mut c_void);

impl Stream {
    fn new(driver: &'static Driver) -> Self {
        // SAFETY: a call of no memory.
        Stream(driver, unsafe { (driver.stream)() })
    }

    /// By a kernel, in the order of the stream, of the bytes of now.
    fn write(&self, to: &Memory, content: &[u8]) {
        // SAFETY: there is room for as many, and the bytes are copied.
        unsafe {
            (self.0.write_on)(self.1, to.as_ptr().cast(), content.as_ptr().cast(), content.len());
        }
    }

    fn hold(&self, held: bool) {
        // SAFETY: it is live.
        unsafe { (self.0.hold_stream)(self.1, held.into()) }
    }

    fn pass(&self) {
        // SAFETY: it is live.
        let idle = unsafe { (self.0.idle)(self.1, PATIENCE.as_millis() as c_uint) };
        assert!(idle == 1, "the stream does not go on");
    }

    fn submit(&self, batch: Batch, how: &Submit<'_>) -> Operation<(Result<u64>, Batch)> {
        // SAFETY: it is live, and alone with the memory.
        unsafe { batch.submit_on(self.1, how) }
    }

    /// An instance of a graph of the batch alone, and what ends with it.
    fn record(&self, batch: Batch) -> (Graph<'_>, Operation<(Result<u64>, Batch)>) {
        // SAFETY: it is live, and so is what it makes; the graph is not needed any more.
        unsafe {
            (self.0.capture)(self.1);
            let operation = self.submit(batch, &Submit::default());
            let graph = (self.0.end_capture)(self.1);
            assert!(!graph.is_null(), "the capture is broken");
            let instance = (self.0.instantiate)(graph);
            (self.0.free_graph)(graph);
            (Graph(self, instance), operation)
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: it was live.
        unsafe { (self.0.end_stream)(self.1) }
    }
}

/// An instance.
struct Graph<'a>(&'a Stream, *mut c_void);

impl Graph<'_> {
    /// Behind a kernel that writes; until the stream is through.
    fn run(&self, memory: &Memory, content: &[u8]) {
        self.0.write(memory, content);
        // SAFETY: both are live.
        unsafe { (self.0 .0.launch)(self.1, self.0 .1) }
        self.0.pass();
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        // SAFETY: it was live.
        unsafe { (self.0 .0.free_exec)(self.1) }
    }
}

/// A batch that puts memory of the device.
fn filled(driver: &'static Driver, p: &Pair) -> (Memory, Batch) {
    filled_by(driver, p, &p.ep)
}

fn filled_by(driver: &'static Driver, p: &Pair, ep: &Endpoint) -> (Memory, Batch) {
    let (memory, mut batch) = (device(driver, &of(0)), ep.batch().unwrap());
    batch.put(&memory.whole(), &p.name, 0).unwrap();
    (memory, batch)
}

fn there(pool: &Memory) -> Vec<u8> {
    pool.slice(0..BYTES).to_vec()
}

fn ended(watch: &BatchWatch) -> (Status, u64, u64) {
    let StreamResult { status, fenced, runs, failures, .. } = watch.stream_result().unwrap();
    assert!(fenced);
    (status, runs, failures)
}

/// What the stream wrote before is put, and what it writes behind is not.
#[test]
fn order() {
    on_device(|driver, p| {
        let (stream, told) = (Stream::new(driver), device(driver, &[0; 32]));
        let (memory, mut batch) = filled(driver, &p);
        let watch = batch.watch();
        for _ in 0..3 {
            stream.hold(true);
            stream.write(&memory, &of(1));
            let mut operation = stream.submit(batch, &Submit::default());
            let address = watch.stream_result().unwrap().address as *const c_void;
            // SAFETY: the result is as long, and the memory too.
            unsafe { (driver.copy_on)(stream.1, told.as_ptr().cast(), address, 32) }
            stream.write(&memory, &of(2));
            assert!(operation.wait_for(SHORT).is_none() && watch.info().unwrap().in_flight);
            assert_eq!(status(watch.rebind(&p.name, &p.name)), Status::EBUSY);
            assert_eq!(ended(&watch), (Status::OK, 0, 0));
            stream.hold(false);
            let (moved, back) = end(operation);
            assert_eq!(moved.unwrap(), BYTES as u64);
            stream.pass();
            assert!(there(&p.pool) == of(1) && seen(driver, &memory) == of(2));
            assert_eq!(ended(&watch), (Status::OK, 1, 0));
            assert_eq!(seen(driver, &told)[8..16], 1u64.to_ne_bytes());
            p.pool.write(0, &of(0));
            batch = back;
        }
        drop(submitted(batch));
        assert_eq!(status(watch.stream_result()), Status::EINVAL);
    });
}

/// Each launch moves what is there then, to where the owner has it then.
#[test]
fn a_graph() {
    on_device(|driver, p| {
        let stream = Stream::new(driver);
        let (memory, batch) = filled(driver, &p);
        let watch = batch.watch();
        let (graph, mut operation) = stream.record(batch);
        assert!(there(&p.pool) == of(0));
        for run in 1..=3 {
            graph.run(&memory, &of(run));
            assert!(there(&p.pool) == of(run));
            assert_eq!(ended(&watch), (Status::OK, run.into(), 0));
        }
        let options = RegionOptions { access: ALL, ..Default::default() };
        let again = p.owner.region(Memory::zeroed(LENGTH), &options).unwrap();
        watch.rebind(&p.name, &again.name().unwrap()).unwrap();
        graph.run(&memory, &of(4));
        assert!(there(again.memory()) == of(4) && there(&p.pool) == of(3));
        let _ = end(again.close());
        graph.run(&memory, &of(5));
        assert_eq!(ended(&watch), (Status::ESTALE, 5, 1));
        assert_eq!(watch.entries().unwrap(), [Status::ESTALE]);
        assert!(operation.wait_for(Duration::ZERO).is_none());
        drop(graph);
        end(operation).0.unwrap();
        assert_eq!(ended(&watch), (Status::ESTALE, 5, 1));
    });
}

/// The stream passes, and so do launches that come.
#[test]
fn early_ends() {
    on_device(|driver, p| {
        let stream = Stream::new(driver);
        let (memory, batch) = filled(driver, &p);
        let watch = batch.watch();
        stream.hold(true);
        let operation = stream.submit(batch, &Submit::default());
        operation.cancel();
        let (moved, batch) = end(operation);
        assert_eq!(status(moved), Status::ECANCELED);
        assert_eq!(ended(&watch), (Status::ECANCELED, 0, 0));
        stream.hold(false);
        stream.pass();
        assert!(there(&p.pool) == of(0));

        let (graph, operation) = stream.record(batch);
        graph.run(&memory, &of(1));
        drop(operation);
        let (begun, mut left) = (Instant::now(), Some(memory));
        while let Some(memory) = left.take() {
            assert!(begun.elapsed() < PATIENCE, "the memory was not let go");
            p.engine.poll(Some(Duration::from_millis(5))).unwrap();
            left = memory.into_inner::<Allocation>().err();
        }
        let other = device(driver, &of(0));
        graph.run(&other, &of(2));
        assert!(there(&p.pool) == of(1));
    });
}

#[test]
fn stream_refusals() {
    on_device(|driver, p| {
        let stream = Stream::new(driver);
        let (_memory, batch) = filled(driver, &p);
        let watch = batch.watch();
        assert_eq!(status(watch.stream_result()), Status::EINVAL);
        let ordered = Submit { ordered: true, ..Default::default() };
        let (refused, batch) = end(stream.submit(batch, &ordered));
        let error = refused.unwrap_err();
        assert_eq!(error.status(), Status::EUNSUPPORTED);
        assert!(error.text().contains("XFER_SUBMIT_ORDERED"), "{error}");
        // SAFETY: there is no context, so it is no stream.
        let (refused, batch) = end(unsafe { batch.submit_on(null_mut(), &Submit::default()) });
        let error = refused.unwrap_err();
        assert_eq!((error.status(), error.origin()), (Status::EINVAL, xfer::Origin::CUDA));
        assert_eq!(status(watch.stream_result()), Status::EINVAL);
        let how = Submit { notify: Some((9, b"note")), checksum: true, ..Default::default() };
        assert_eq!(end(stream.submit(batch, &how)).0.unwrap(), BYTES as u64);
        assert_eq!(ended(&watch), (Status::OK, 1, 0));
    });
}

/// A deadline counts from the begin.
#[test]
fn a_deadline() {
    on_device(|driver, p| {
        let stream = Stream::new(driver);
        let (_memory, batch) = filled_by(driver, &p, &p.ep.within(Duration::from_secs(3)));
        stream.hold(true);
        let mut operation = stream.submit(batch, &Submit::default());
        assert!(operation.wait_for(Duration::from_millis(3100)).is_none());
        stream.hold(false);
        end(operation).0.unwrap();
    });
}

/// The stream goes on where a copy does not.
#[test]
fn a_copy_that_hangs() {
    let _alone = HOLDS.write().unwrap_or_else(PoisonError::into_inner);
    on_each_path(|driver, p| {
        let stream = Stream::new(driver);
        let (_memory, batch) = filled_by(driver, &p, &p.ep.within(Duration::from_secs(3)));
        let watch = batch.watch();
        let held = driver.hold_copies();
        let operation = stream.submit(batch, &Submit::default());
        stream.pass();
        let result = watch.stream_result().unwrap();
        assert_eq!((result.status, result.fenced, result.runs), (Status::ETIMEDOUT, false, 0));
        drop(held);
        assert_eq!(status(end(operation).0), Status::ETIMEDOUT);
        assert_eq!(watch.stream_result().unwrap().runs, 1);
    });
}
