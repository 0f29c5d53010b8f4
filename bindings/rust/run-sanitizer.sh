#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the crate's tests with AddressSanitizer in what is Rust; its allocator is the library's too, so that leaks of
# either are seen, and what either does to freed memory by memcpy and the like: run-sanitizer.sh BUILD_DIR
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/nightly.sh"

export CARGO_TARGET_DIR="$build/bindings/rust-asan" RUSTFLAGS=-Zsanitizer=address
manifest=$here/Cargo.toml
find_fake_cuda
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
retry cargo +nightly fetch --quiet --locked --manifest-path "$manifest"
# With a target of its own: what runs while it is built is not instrumented.
test=(cargo +nightly test --quiet --locked --offline --manifest-path "$manifest" --target "$host" --package xfer
    --features tokio --lib --tests)
# One leaves things to the end of its process on purpose.
echo "skip: basics::open_close_join counts resident memory, which the sanitizer keeps; run-tests.sh has it"
"${test[@]}" -- --skip basics::open_close_join --skip ends::drop_without_close
ASAN_OPTIONS=detect_leaks=0 "${test[@]}" -- --exact ends::drop_without_close
