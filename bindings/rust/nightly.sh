# SPDX-License-Identifier: Apache-2.0
# Sourced by run-models.sh and run-sanitizer.sh: finds a nightly Rust.
. "$here/../common.sh"

need cargo
cargo +nightly --version >/dev/null 2>&1 ||
    skip "a nightly Rust is missing (rustup toolchain install nightly --component miri,rust-src)"
