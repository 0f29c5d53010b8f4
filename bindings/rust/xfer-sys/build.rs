// SPDX-License-Identifier: Apache-2.0
//! Finds libxfer by pkg-config and turns its headers into Rust: no declaration is copied by hand.

use std::{env, path::PathBuf};

fn main() {
    let library = pkg_config::Config::new()
        .range_version("0.1.0".."0.2.0") // before 1.0 the ABI is that of one minor version
        .probe("xfer")
        .unwrap_or_else(|error| panic!("{error}"));
    let header = library
        .include_paths
        .iter()
        .map(|path| path.join("xfer/text.h"))
        .find(|path| path.exists())
        .expect("xfer.pc names no folder that has xfer/text.h");
    bindgen::builder()
        .header(header.to_str().expect("the header's path is UTF-8"))
        .allowlist_item("(xfer|XFER)_.*")
        .use_core()
        .derive_default(true)
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .generate()
        .expect("bindgen reads the headers")
        .write_to_file(PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("xfer.rs"))
        .expect("the output folder is writable");
}
