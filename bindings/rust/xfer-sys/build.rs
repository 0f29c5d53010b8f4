// SPDX-License-Identifier: Apache-2.0
//! Finds libxfer by pkg-config; with feature `bindgen` it also turns its headers into Rust.

/// Of the library: before 1.0 the ABI is that of one minor version.
const FROM: &str = "0.1.0";
const BELOW: &str = "0.2.0";

fn main() {
    let library = pkg_config::Config::new()
        .range_version(FROM..BELOW)
        .probe("xfer")
        .unwrap_or_else(|error| panic!("libxfer from {FROM}, below {BELOW}, is needed: {error}"));
    #[cfg(feature = "bindgen")]
    generate(&library.include_paths);
    drop(library);
}

#[cfg(feature = "bindgen")]
fn generate(include_paths: &[std::path::PathBuf]) {
    let include = include_paths
        .iter()
        .map(|path| path.join("xfer"))
        .find(|path| path.join("text.h").exists())
        .expect("xfer.pc names no folder that has xfer/text.h");
    let headers =
        ["text.h", "rdma.h", "cuda.h"].map(|name| include.join(name).to_str().map(String::from));
    let folder = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    bindgen::builder()
        .headers(headers.map(|path| path.expect("the header's path is UTF-8")))
        .raw_line("// SPDX-License-Identifier: Apache-2.0")
        .disable_header_comment()
        .raw_line("// By bindgen from xfer/cuda.h, xfer/rdma.h, xfer/text.h and xfer/xfer.h: see build.rs.")
        .allowlist_item("(xfer|XFER)_.*")
        .rust_target(bindgen::RustTarget::stable(77, 0).expect("bindgen knows Rust 1.77"))
        .use_core()
        .derive_default(true)
        .generate_comments(false) // the headers have them, and they are the same in all languages
        .sort_semantically(true)
        .formatter(bindgen::Formatter::Prettyplease)
        .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
        .generate()
        .expect("bindgen reads the headers")
        .write_to_file(folder.join("bindings.rs"))
        .expect("the output folder is writable");
}
