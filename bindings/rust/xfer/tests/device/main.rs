// SPDX-License-Identifier: Apache-2.0
//! Memory of a device by its address, on a driver without a device: what the CPU touches there is a
//! SIGSEGV. A process of its own, which takes that driver for the system's.

mod streams;

use std::ffi::{c_char, c_int, c_uint, c_void, CStr, CString};
use std::mem::transmute_copy;
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};
use xfer::{
    Access, Batch, Endpoint, Engine, Error, Match, Memory, Notice, Op, Operation, PageBase, Pages,
    Ref, Region, RegionOptions, Result, Span, Status, Strided, Submit,
};

const PATIENCE: Duration = Duration::from_secs(20);
const LENGTH: usize = 1 << 20;
const ALL: Access = Access(Access::READ.0 | Access::WRITE.0);

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// What tests do with it: `fake_driver.h`.
struct Driver {
    alloc: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    write: unsafe extern "C" fn(*mut c_void, *const c_void, usize),
    read: unsafe extern "C" fn(*mut c_void, *const c_void, usize),
    hold: unsafe extern "C" fn(c_int),
    hold_copies: unsafe extern "C" fn(c_int),
    hold_stream: unsafe extern "C" fn(*mut c_void, c_int),
    stream: unsafe extern "C" fn() -> *mut c_void,
    end_stream: unsafe extern "C" fn(*mut c_void),
    idle: unsafe extern "C" fn(*mut c_void, c_uint) -> c_int,
    write_on: unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_void, usize),
    copy_on: unsafe extern "C" fn(*mut c_void, *mut c_void, *const c_void, usize),
    capture: unsafe extern "C" fn(*mut c_void),
    end_capture: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    instantiate: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    launch: unsafe extern "C" fn(*mut c_void, *mut c_void),
    free_graph: unsafe extern "C" fn(*mut c_void),
    free_exec: unsafe extern "C" fn(*mut c_void),
    calls: unsafe extern "C" fn(*const c_char) -> c_uint,
}

/// It, or `None` where there is none; engines are opened behind this.
fn driver() -> Option<&'static Driver> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| std::env::var("XFER_TEST_FAKE_CUDA").ok().map(load));
    if driver.is_none() {
        eprintln!("skip: the library was built without the headers of CUDA");
    }
    driver.as_ref()
}

fn load(path: String) -> Driver {
    const NOW_GLOBAL: c_int = 0x102; // RTLD_NOW | RTLD_GLOBAL: the library finds it by its name
    let path = CString::new(path).unwrap();
    // SAFETY: it is a library, whose functions have these types.
    unsafe {
        let library = dlopen(path.as_ptr(), NOW_GLOBAL);
        assert!(!library.is_null(), "{path:?} cannot be loaded");
        Driver {
            alloc: function(library, c"fake_cuda_alloc"),
            free: function(library, c"fake_cuda_free"),
            write: function(library, c"fake_cuda_write"),
            read: function(library, c"fake_cuda_read"),
            hold: function(library, c"fake_cuda_hold"),
            hold_copies: function(library, c"fake_cuda_hold_copies"),
            hold_stream: function(library, c"fake_cuda_hold_stream"),
            stream: function(library, c"fake_cuda_stream"),
            end_stream: function(library, c"fake_cuda_end_stream"),
            idle: function(library, c"fake_cuda_idle"),
            write_on: function(library, c"fake_cuda_write_on"),
            copy_on: function(library, c"fake_cuda_copy_on"),
            capture: function(library, c"fake_cuda_capture"),
            end_capture: function(library, c"fake_cuda_end_capture"),
            instantiate: function(library, c"fake_cuda_instantiate"),
            launch: function(library, c"fake_cuda_launch"),
            free_graph: function(library, c"fake_cuda_free_graph"),
            free_exec: function(library, c"fake_cuda_free_exec"),
            calls: function(library, c"fake_cuda_calls"),
        }
    }
}

/// # Safety
/// It has that type.
unsafe fn function<F>(library: *mut c_void, name: &CStr) -> F {
    // SAFETY: the caller says so.
    unsafe {
        let found = dlsym(library, name.as_ptr());
        assert!(!found.is_null(), "{name:?} is missing");
        transmute_copy(&found)
    }
}

impl Driver {
    /// How often that was.
    fn called(&self, call: &CStr) -> c_uint {
        // SAFETY: it is a text.
        unsafe { (self.calls)(call.as_ptr()) }
    }

    /// Copies begin, and none goes on until that is dropped.
    fn hold(&'static self) -> Held {
        Held::by(self.hold)
    }

    /// The same for the library's copies alone.
    fn hold_copies(&'static self) -> Held {
        Held::by(self.hold_copies)
    }
}

/// Dropped ahead of the engines, which wait for their copies.
struct Held(unsafe extern "C" fn(c_int));

impl Held {
    fn by(hold: unsafe extern "C" fn(c_int)) -> Self {
        // SAFETY: a call of no memory.
        unsafe { hold(1) }
        Held(hold)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: a call of no memory.
        unsafe { (self.0)(0) }
    }
}

/// An allocation, as a binding of CUDA has it: freed by its drop.
struct Allocation(&'static Driver, *mut c_void);

// SAFETY: the driver takes calls of any thread.
unsafe impl Send for Allocation {}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: it was allocated, and is freed once.
        unsafe { (self.0.free)(self.1) }
    }
}

/// Memory of the device with those bytes.
fn device(driver: &'static Driver, content: &[u8]) -> Memory {
    // SAFETY: the driver copies what is its own; the allocation is the owner of the memory.
    unsafe {
        let start = (driver.alloc)(content.len());
        assert!(!start.is_null());
        (driver.write)(start, content.as_ptr().cast(), content.len());
        Memory::of_device(start as u64, content.len(), Allocation(driver, start))
    }
}

/// What the driver reads there.
fn seen(driver: &Driver, memory: &Memory) -> Vec<u8> {
    let mut content = vec![0u8; memory.len()];
    // SAFETY: it is the driver's memory, of that length.
    unsafe { (driver.read)(content.as_mut_ptr().cast(), memory.as_ptr().cast(), memory.len()) };
    content
}

fn bytes(seed: usize) -> Vec<u8> {
    (0..LENGTH).map(|i| (i * 7 + i / 251 + seed) as u8).collect()
}

fn end<T>(mut operation: Operation<T>) -> T {
    operation.wait_for(PATIENCE).expect("it ends within patience")
}

fn status<T>(result: Result<T>) -> Status {
    result.err().map_or(Status::OK, |error: Error| error.status())
}

/// An owner that lends host memory, and who puts there.
struct Pair {
    owner: Engine,
    engine: Engine,
    ep: Endpoint,
    pool: Memory,
    name: Ref,
    _region: Region,
}

impl Pair {
    fn open(transports: &str) -> Self {
        let open = || Engine::options().transports(transports).unwrap().open().unwrap();
        let owner = open();
        let region =
            owner.region(Memory::zeroed(LENGTH), &RegionOptions::named("pool", ALL)).unwrap();
        let (pool, name) = (region.memory().clone(), region.name().unwrap());
        let (engine, ep) = if transports == "loopback" {
            let ep = owner.dial_peer(None, Some(&owner.id().unwrap())).unwrap();
            (owner.clone(), ep)
        } else {
            let engine = open();
            let ep = engine.dial(&owner.listen("tcp://127.0.0.1:0").unwrap()).unwrap();
            (engine, ep)
        };
        Pair { owner, engine, ep, pool, name, _region: region }
    }
}

fn submitted(batch: Batch) -> Batch {
    let (moved, batch) = end(batch.submit(&Submit::default()));
    moved.unwrap();
    batch
}

/// Tests run beside each other, and copies are held for all of them: who holds them is alone.
static HOLDS: RwLock<()> = RwLock::new(());

/// On each path, where there is a driver.
fn on_device(test: impl Fn(&'static Driver, Pair)) {
    let _beside = HOLDS.read().unwrap_or_else(PoisonError::into_inner);
    on_each_path(test);
}

fn on_each_path(test: impl Fn(&'static Driver, Pair)) {
    let Some(driver) = driver() else { return };
    for transports in ["tcp", "tcp,shm", "loopback"] {
        eprintln!("by {transports}");
        test(driver, Pair::open(transports));
        assert_eq!(driver.called(c"wrong"), 0); // such as a copy of memory that was freed
    }
}

#[test]
fn puts_and_gets() {
    on_device(|driver, p| {
        let source = device(driver, &bytes(1));
        let (moved, back) = end(p.ep.put(source.whole(), &p.name, 0));
        assert!(moved.unwrap() == LENGTH as u64 && p.pool.whole().to_vec() == bytes(1));
        assert!(back.memory().same(&source) && back.memory().is_device());
        let target = device(driver, &vec![0; LENGTH]);
        let half = LENGTH / 2; // by a slice that does not begin with the memory
        let (moved, _) = end(p.ep.get(target.slice(half..LENGTH), &p.name, 0));
        assert_eq!(moved.unwrap(), half as u64);
        let now = seen(driver, &target);
        assert!(now[..half] == vec![0; half] && now[half..] == bytes(1)[..half]);
        p.ep.quiet().put(device(driver, &bytes(2)).whole(), &p.name, 0).unwrap();
        end(p.ep.quiet().flush()).unwrap();
        assert!(p.pool.whole().to_vec() == bytes(2));
    });
}

#[test]
fn messages() {
    on_device(|driver, p| {
        let (source, target) = (device(driver, &bytes(3)), device(driver, &vec![0; LENGTH]));
        let received = p.owner.recv(target.whole(), &Match::tag(7));
        let (moved, _) = end(p.ep.send_sync(source.whole(), 7));
        let (message, into) = end(received);
        assert_eq!((moved.unwrap(), message.unwrap().length), (LENGTH as u64, LENGTH as u64));
        assert!(into.memory().is_device() && seen(driver, &target) == bytes(3));
        let received = p.owner.recv(vec![0u8; 64], &Match::tag(8));
        end(p.ep.send(source.slice(0..64), 8)).0.unwrap();
        assert!(end(received).1 == bytes(3)[..64]);
    });
}

#[test]
fn batches() {
    const BLOCK: usize = 4096;
    on_device(|driver, p| {
        let source = device(driver, &bytes(4));
        let at = |block: usize| (block * BLOCK) as u64;
        let block = BLOCK as u64;
        let span = |from, to| Span { local: at(from), offset: at(to), length: block };
        let mut batch = p.ep.batch().unwrap();
        batch.spans(Op::Put, &source, &p.name, &[span(3, 0), span(1, 1)]).unwrap();
        batch.put(&source.slice(5 * BLOCK..6 * BLOCK), &p.name, at(2)).unwrap();
        let strided = Strided {
            memory: &source,
            local: at(8),
            local_stride: at(2),
            remote: &p.name,
            offset: at(3),
            remote_stride: at(1),
            length: block,
            count: 2,
        };
        batch.strided(Op::Put, &strided).unwrap();
        let bases = [PageBase { memory: &source, local: 0, remote: &p.name, offset: 0 }];
        batch.pages(Op::Put, &Pages::new(block, &[20, 22], &[5, 6], &bases)).unwrap();
        let outside = Span { local: LENGTH as u64, offset: 0, length: 1 };
        assert_eq!(status(batch.spans(Op::Put, &source, &p.name, &[outside])), Status::ERANGE);
        let mut batch = submitted(batch);
        let expected: Vec<u8> = [3, 1, 5, 8, 10, 20, 22]
            .iter()
            .flat_map(|from| bytes(4)[from * BLOCK..(from + 1) * BLOCK].to_vec())
            .collect();
        assert!(p.pool.slice(0..7 * BLOCK).to_vec() == expected);

        let target = device(driver, &vec![0; 7 * BLOCK]);
        batch.reset().unwrap();
        batch.get(&target.slice(0..BLOCK), &p.name, 0).unwrap();
        let spans: Vec<_> = (1..7).map(|i| span(i, i)).collect();
        batch.spans(Op::Get, &target, &p.name, &spans).unwrap();
        drop(submitted(batch));
        assert!(seen(driver, &target) == expected);
    });
}

#[test]
fn regions() {
    on_device(|driver, p| {
        let lent = device(driver, &bytes(5));
        let region = p.owner.region(lent, &RegionOptions::named("device", ALL)).unwrap();
        assert_eq!(region.info().unwrap().kind, xfer::sys::XFER_MEM_CUDA);
        let name = region.name().unwrap();
        assert!(end(p.ep.get(vec![0u8; LENGTH], &name, 0)).1 == bytes(5));
        end(p.ep.put(bytes(6), &name, 0)).0.unwrap();
        assert!(seen(driver, region.memory()) == bytes(6));
        let memory = end(region.close());
        let memory = memory.into_inner::<Vec<u8>>().expect_err("it is none of the host's");
        drop(memory.into_inner::<Allocation>().ok().expect("nobody else has it"));
    });
}

#[test]
fn host_memory_by_its_address() {
    on_device(|_, p| {
        let mut host = bytes(7);
        // SAFETY: it is not touched before the memory is given back.
        let memory = unsafe { Memory::of_device(host.as_mut_ptr() as u64, LENGTH, ()) };
        end(p.ep.put(memory.whole(), &p.name, 0)).0.unwrap();
        assert!(p.pool.whole().to_vec() == bytes(7));
        p.pool.write(0, &bytes(8));
        end(p.ep.get(memory.whole(), &p.name, 0)).0.unwrap();
        memory.into_inner::<()>().ok().expect("nobody else has it");
        assert!(host == bytes(8));
    });
}

#[test]
fn kinds_that_are_refused() {
    on_device(|driver, p| {
        let options = RegionOptions { kind: xfer::sys::XFER_MEM_HOST, ..Default::default() };
        let refused = p.owner.region(device(driver, &bytes(0)), &options);
        assert_eq!(status(refused), Status::EMEMKIND);
        let options = RegionOptions { access: Access::ATOMIC, ..Default::default() };
        let refused = p.owner.region(device(driver, &bytes(0)), &options);
        assert_eq!(status(refused), Status::EMEMKIND);
    });
}

#[test]
fn a_device_that_stalls() {
    let Some(driver) = driver() else { return };
    let _alone = HOLDS.write().unwrap_or_else(PoisonError::into_inner);
    let p = Pair::open("tcp");
    let mut notices = p.engine.notices().unwrap();
    let mut stall = move || loop {
        let notice = notices.wait_for(PATIENCE).expect("a stall is told");
        if let Notice::Stalled { device, thread, lasting, reason } = notice {
            return ((device, thread), lasting, reason);
        }
    };
    let memory = device(driver, &bytes(10));
    let held = driver.hold();
    let put = p.ep.put(memory.whole(), &p.name, 0);
    let (number, lasting, reason) = stall();
    drop(held);
    let reason = reason.expect("why");
    assert_eq!((number, reason.status()), ((0, 0), Status::ETIMEDOUT));
    assert!(reason.to_string().contains("CUDA device 0"), "{reason}");
    assert!(lasting >= Duration::from_secs(1));
    end(put).0.unwrap();
    assert!(stall().2.is_none());
}

/// The memory outlives an operation that nobody waits for.
#[test]
fn what_is_dropped_keeps_its_owner() {
    let _alone = HOLDS.write().unwrap_or_else(PoisonError::into_inner);
    on_each_path(|driver, p| {
        let copies = || driver.called(c"cuMemcpyDtoHAsync");
        let (before, begun) = (copies(), Instant::now());
        let held = driver.hold();
        let memory = device(driver, &bytes(9));
        let put = p.ep.put(memory.whole(), &p.name, 0);
        while copies() == before {
            assert!(begun.elapsed() < PATIENCE, "no copy has begun");
            std::thread::yield_now();
        }
        drop(put); // asks for an early end, for which its copy is too far
        let mut left = memory.into_inner::<Allocation>().err();
        assert!(left.is_some(), "the put has the memory");
        drop(held);
        while let Some(memory) = left.take() {
            assert!(begun.elapsed() < PATIENCE, "the memory was not let go");
            p.engine.poll(Some(Duration::from_millis(5))).unwrap();
            left = memory.into_inner::<Allocation>().err();
        }
    });
}

#[test]
fn the_cpu_copies_nothing() {
    let Some(driver) = driver() else { return };
    let memory = device(driver, &bytes(1));
    let copies: [fn(&Memory); 3] = [
        |memory| memory.read(0, &mut [0]),
        |memory| memory.write(0, &[0]),
        |memory| drop(memory.slice(0..1).to_vec()),
    ];
    for copy in copies {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| copy(&memory)));
        let text = *panicked.unwrap_err().downcast::<&str>().unwrap();
        assert!(text.contains("a device's"), "{text}");
    }
}
