// SPDX-License-Identifier: Apache-2.0
//! Versions, statuses, options, and values that nobody knows yet.

use crate::path::{end, failed, status, Path};
use crate::process::alone;
use std::collections::HashSet;
use std::process::Command;
use std::time::Duration;
use xfer::{
    sys, Access, Engine, EngineOptions, ListenOptions, Memory, Origin, PeerState, RdmaOptions,
    RegionOptions, Result, Status, Version,
};

#[test]
fn version_matches() {
    assert_eq!(Version::of_library(), Version::HEADER);
    assert_eq!(Version::HEADER.0, sys::XFER_VERSION);
    assert!(Version::of_library().check().is_ok());
    let other = Version(sys::XFER_VERSION + 0x100);
    let error = failed(other.check());
    assert_eq!(error.status(), Status::EVERSION);
    assert!([other, Version::HEADER].iter().all(|v| error.text().contains(&v.to_string())));
}

/// A build finds by pkg-config that the library is of another version than the declarations.
#[test]
fn header_of_another_version() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("another_version");
    std::fs::create_dir_all(&folder).unwrap();
    let first = Version(Version::of_library().0 & !0xff); // of those that will do
    let next = Version(first.0 + 0x100);
    let pc =
        format!("Name: xfer\nDescription: of another version\nVersion: {next}\nLibs: -lxfer\n");
    std::fs::write(folder.join("xfer.pc"), pc).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--locked", "--package", "xfer-sys", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env("PKG_CONFIG_PATH", &folder)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it was built");
    let needed = format!("from {first}, below {next}");
    assert!(error.contains(&needed) && error.contains(&format!("version '{next}'")), "{error}");
}

#[test]
fn statuses_complete() {
    let known: HashSet<_> =
        Status::ALL.iter().map(|(name, status)| (format!("XFER_{name}"), *status)).collect();
    let library: HashSet<_> =
        Status::of_library().into_iter().map(|status| (status.name().to_owned(), status)).collect();
    assert_eq!(known, library);
    assert!(library.len() > 30 && library.iter().all(|(_, status)| !status.text().is_empty()));
}

/// Numbers of a later library are shown as numbers; src/dispatch.rs has the events.
#[test]
fn unknown_values() {
    let later = Status(-999);
    assert_eq!(later.name(), "XFER_EUNKNOWN");
    assert!(format!("{later:?}").contains("-999") && !later.text().is_empty());
    assert!(!matches!(later, Status::OK | Status::EINTERNAL));
    assert_eq!(format!("{:?} {:?}", Origin(77), PeerState(99)), "Origin(77) PeerState(99)");
    let engine = Engine::open().unwrap();
    let options = RegionOptions::named("later", Access(1 << 20));
    assert_eq!(status(engine.region(Memory::zeroed(8), &options)), Status::EINVAL);
}

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn open_close_join() {
    alone("basics::open_close_join", || {
        let some = |count| {
            for i in 0..count {
                let engine = [Path::Tcp, Path::Local][i % 2].engine();
                engine.listen("tcp://127.0.0.1:0").unwrap();
                if i % 3 > 0 {
                    end(engine.close()).unwrap();
                }
            }
        };
        some(20);
        let open = || (count("/proc/self/task"), count("/proc/self/fd"));
        let (before, resident) = (open(), resident_kib());
        some(100);
        assert_eq!(open(), before);
        let grown = resident_kib().saturating_sub(resident);
        assert!(grown < 4096, "{grown} KiB more than before");
    });
}

#[test]
fn every_option_settable() {
    let all = EngineOptions::all();
    assert!(all.len() > 20);
    for option in all {
        let (good, bad) = match option.kind {
            sys::XFER_OPTION_NUMBER => ("1000", Some("many")),
            sys::XFER_OPTION_FLAG => ("yes", Some("perhaps")),
            sys::XFER_OPTION_HEX => ("00112233445566778899aabbccddeeff", Some("0g")),
            sys::XFER_OPTION_CHOICE => (option.values.split('|').next().unwrap(), Some("sideways")),
            _ => ("tcp", None),
        };
        assert!(EngineOptions::new().set(option.name, good).is_ok(), "{option:?}");
        if let Some(bad) = bad {
            let error = failed(EngineOptions::new().set(option.name, bad).map(|_| ()));
            assert_eq!(error.status(), Status::EINVAL);
            assert!(error.text().contains(option.name), "{error}");
        }
    }
    let error = failed(EngineOptions::new().set("no_such_option", "1").map(|_| ()));
    assert!(error.status() == Status::ENOTFOUND && error.text().contains("no_such_option"));
    let engine = EngineOptions::new().set("stall_ms", "1234").unwrap().open().unwrap();
    assert!(engine.describe().unwrap().contains("\"stall_ms\": 1234"));
    let threads = EngineOptions::new().set("dispatch", "thread").unwrap().open();
    assert_eq!(status(threads), Status::EUNSUPPORTED);
    rdma_options();
}

fn refused<T>(result: Result<T>, field: &str) {
    let error = failed(result);
    assert!(error.status() == Status::EINVAL && error.text().starts_with(field), "{error}");
}

/// A number is taken as it is, or refused by name: none is the default or none by chance.
#[test]
fn numbers_that_mean_something_else() {
    let open = |set: fn(EngineOptions) -> EngineOptions| set(EngineOptions::new()).open();
    refused(open(|options| options.io_threads(Some(u32::MAX))), "io_threads");
    refused(open(|options| options.lanes(Some(u32::MAX))), "lanes");
    refused(open(|options| options.max_connections(0)), "max_connections");
    refused(open(|options| options.max_operations(0)), "max_operations");
    refused(open(|options| options.lanes(Some(u32::MAX)).max_operations(0)), "lanes");
    let none =
        open(|options| options.io_threads(Some(0)).lanes(Some(0)).spin(Some(Duration::ZERO)));
    let text = none.unwrap().describe().unwrap();
    for none in ["\"io_threads\": 0", "\"lanes\": 0", "\"spin_us\": 0", "\"spin_adapts\": false"] {
        assert!(text.contains(none), "{none}: {text}");
    }
    let least =
        open(|options| options.timeout(Some(Duration::ZERO)).yielding(Some(Duration::ZERO)));
    let text = least.unwrap().describe().unwrap();
    assert!(text.contains("\"timeout_ms\": 1,") && text.contains("\"yield_ms\": 1,"), "{text}");

    let rdma = |options: RdmaOptions| EngineOptions::new().rdma(&options);
    refused(rdma(RdmaOptions { retries: Some(u32::MAX), ..Default::default() }), "retries");
    for number in [0, u32::MAX] {
        let number = Some(number);
        refused(rdma(RdmaOptions { queue_depth: number, ..Default::default() }), "queue_depth");
        refused(rdma(RdmaOptions { ack_timeout: number, ..Default::default() }), "ack_timeout");
        let listen = ListenOptions { mode: number, ..Default::default() };
        refused(Engine::open().unwrap().listen_with("tcp://127.0.0.1:0", &listen), "mode");
    }
}

#[test]
fn nodes_of_memory() {
    let engine = Engine::open().unwrap();
    let alloc = |node| {
        let options = RegionOptions { numa_node: Some(node), ..Default::default() };
        engine.region_alloc(4096, &options)
    };
    alloc(0).unwrap();
    for node in [i32::MAX as u32, u32::MAX - 1, u32::MAX] {
        refused(alloc(node), "numa_node");
    }
}

fn rdma_options() {
    let given = RdmaOptions {
        devices: Some("none".to_owned()),
        queue_depth: Some(64),
        ack_timeout: Some(18),
        retries: Some(0),
        traffic_class: 104,
        service_level: 3,
    };
    let open = |options: &RdmaOptions| EngineOptions::new().rdma(options).unwrap().open();
    let transports = EngineOptions::new().open().unwrap().transports().unwrap();
    if transports >> sys::XFER_TRANSPORT_RDMA & 1 == 0 {
        return assert_eq!(status(open(&given)), Status::EUNSUPPORTED);
    }
    let described = |options| open(options).unwrap().describe().unwrap().replace([' ', '\n'], "");
    let text = described(&given);
    assert!(text.contains(r#"{"devices":"none","queue_depth":64,"ack_timeout":18,"retries":0,"#));
    assert!(text.contains(r#""traffic_class":104,"service_level":3}"#));
    let text = described(&RdmaOptions::default());
    assert!(text.contains(r#""queue_depth":128,"ack_timeout":14,"retries":6,"traffic_class":0,"#));
    let error = failed(open(&RdmaOptions { retries: Some(7), ..Default::default() }));
    assert!(error.status() == Status::EINVAL && error.text().contains("retries"), "{error}");
    let with = |devices: &str| RdmaOptions { devices: Some(devices.to_owned()), ..given.clone() };
    let error = failed(open(&with("mlx5_0:none")));
    assert!(error.status() == Status::EINVAL && error.text().contains("mlx5_0:none"), "{error}");
    assert!(EngineOptions::new().rdma(&with("none\0")).is_err());
}
