// SPDX-License-Identifier: Apache-2.0
//! Puts 1 MiB into the region of another engine, gets it back, and compares. Usage: hello [URI]
#![allow(clippy::wildcard_imports)] // most names of a program in terms of the C functions are theirs

use std::ffi::{c_void, CStr, CString};
use std::{env, fs::File, io::Read, mem::size_of, process::exit, ptr::null, ptr::null_mut};
use xfer_sys::*;

const SIZE: usize = 1 << 20;
const LIMIT_MS: u32 = 5_000; // of every operation; a wait here gives up after twice as much

fn check(what: &str, status: xfer_status_t, error: Option<&xfer_error_t>) {
    if status != XFER_OK {
        // SAFETY: name and text of any status are static strings; a written message ends with NUL.
        let [name, text] = unsafe {
            let text = error.map_or_else(|| xfer_status_text(status), |e| e.message.as_ptr());
            [xfer_status_name(status), text].map(|string| CStr::from_ptr(string).to_string_lossy())
        };
        eprintln!("{what}: {name}: {text}");
        exit(1);
    }
}

fn open_engine() -> *mut xfer_engine_t {
    let (mut engine, mut e) = (null_mut(), xfer_error_t::default());
    let options = xfer_engine_options_t {
        size: size_of::<xfer_engine_options_t>() as u32,
        dispatch: XFER_DISPATCH_POLL,
        timeout_ms: LIMIT_MS,
        ..Default::default()
    };
    // SAFETY: all three arguments are live during the call.
    check("engine open", unsafe { xfer_engine_open(&options, &mut engine, &mut e) }, Some(&e));
    engine
}

/// The next event of that kind (and object, if given). Its data is valid until the next wait.
fn wait(engine: *mut xfer_engine_t, what: &str, kind: u32, object: *mut c_void) -> xfer_event_t {
    let (mut event, mut count, limit) = (xfer_event_t::default(), 1, 2 * LIMIT_MS);
    let size = size_of::<xfer_event_t>() as u32;
    while count > 0 {
        // SAFETY: main joins an engine after its last wait, and `event` has room for one event.
        let status = unsafe { xfer_engine_poll(engine, &mut event, size, 1, limit, &mut count) };
        check("poll", status, None);
        if count > 0 && event.kind == kind && (object.is_null() || object == event.object) {
            // SAFETY: the name of any status is a static string.
            let name = unsafe { CStr::from_ptr(xfer_status_name(event.status)) };
            println!("{what}: {}, {} bytes", name.to_string_lossy(), event.bytes);
            check(what, event.status, None);
            return event;
        }
    }
    eprintln!("{what}: no event came"); // no panic: freeing what is lent is worse than to exit
    exit(1)
}

fn main() {
    let (server, client, mut bound) = (open_engine(), open_engine(), [0; 256]);
    let (mut region, mut ep, mut e) = (null_mut(), null_mut(), xfer_error_t::default());
    let (mut memory, mut sent, mut back) = (vec![0u8; SIZE], vec![0u8; SIZE], vec![0u8; SIZE]);
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut sent)).unwrap();
    let options = xfer_region_options_t {
        size: size_of::<xfer_region_options_t>() as u32,
        access: XFER_READ | XFER_WRITE,
        name: c"hello".as_ptr(),
        ..Default::default()
    };
    let dial = env::args().nth(1).map(|uri| CString::new(uri).unwrap());
    let (any, base, length) = (c"tcp://127.0.0.1:0", memory.as_mut_ptr().cast(), SIZE as u64);
    // SAFETY: strings end with NUL, handles are used only before their close, and no buffer is
    // touched or freed between the call that lends it and the event that gives it back.
    unsafe {
        let status = xfer_engine_listen(
            server,
            any.as_ptr(),
            std::ptr::null(),
            bound.as_mut_ptr(),
            256,
            &mut e,
        );
        check("listen", status, Some(&e));
        let status = xfer_region_open(server, &options, base, length, &mut region, &mut e);
        check("region open", status, Some(&e));
        let uri = dial.as_ref().map_or(bound.as_ptr(), |uri| uri.as_ptr());
        check("ep open", xfer_ep_open(client, uri, null(), &mut ep, &mut e), Some(&e));
        check("connect", xfer_ep_connect(ep, 1, null()), None);
        wait(client, "connect", XFER_EVENT_CONNECT, null_mut());
        check("lookup", xfer_ep_lookup(ep, options.name, 2, null(), null_mut()), None);
        let found = wait(client, "lookup", XFER_EVENT_LOOKUP, null_mut());
        let remote = *found.data.cast::<xfer_ref_t>();
        check("put", xfer_put(ep, sent.as_ptr().cast(), &remote, 0, length, 3, null()), None);
        wait(client, "put", XFER_EVENT_PUT, null_mut());
        check("get", xfer_get(ep, back.as_mut_ptr().cast(), &remote, 0, length, 4, null()), None);
        wait(client, "get", XFER_EVENT_GET, null_mut());
        check("ep close", xfer_ep_close(ep), None);
        wait(client, "ep", XFER_EVENT_CLOSED, ep.cast());
        check("region close", xfer_region_close(region), None);
        wait(server, "region", XFER_EVENT_CLOSED, region.cast());
        for engine in [client, server] {
            check("engine close", xfer_engine_close(engine), None);
            wait(engine, "engine", XFER_EVENT_CLOSED, engine.cast());
            check("engine join", xfer_engine_join(engine, XFER_NONE), None);
        }
    }
    assert!(memory == sent && back == sent, "the bytes differ");
    println!("ok");
}
