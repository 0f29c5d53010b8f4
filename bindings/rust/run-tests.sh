#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Rust binding against one CMake build folder, and runs its tests: run-tests.sh BUILD_DIR [arguments of the
# tests]. With rustfmt, clippy and libclang where they are installed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"
cargo=(--quiet --locked --offline --manifest-path "$manifest")
find_fake_cuda

if cargo fmt --version >/dev/null 2>&1; then
    cargo fmt --manifest-path "$manifest" --all --check
fi
if cargo clippy --version >/dev/null 2>&1; then
    cargo clippy "${cargo[@]}" --workspace --all-targets --features xfer/tokio -- -D warnings
fi
if find_libclang; then # the declarations that are shipped are those that the headers give now
    cargo test "${cargo[@]}" --package xfer-sys --features bindgen --test fresh
fi
cargo test "${cargo[@]}" --package xfer --features tokio -- "$@"
cargo test "${cargo[@]}" --package xfer --example tree
for example in pages messages weights; do
    said=$(cargo run "${cargo[@]}" --package xfer --example "$example")
    echo "$example: $said"
    [ "${said##*$'\n'}" = ok ] || { echo "$example did not end with the line ok" >&2; exit 1; }
done
bash "$here/run-tree-test.sh" "$build"
bash "$here/run-package.sh" "$build"
