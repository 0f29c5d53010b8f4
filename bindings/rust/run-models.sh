#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the parts of the crate that have no foreign functions: under loom, which tries all ways in which their threads may
# meet, and under Miri, which sees whether Rust allows what their unsafe code does. run-models.sh BUILD_DIR
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/nightly.sh"

cargo +nightly miri --version >/dev/null 2>&1 ||
    skip "Miri is missing (rustup component add --toolchain nightly miri rust-src)"
export CARGO_TARGET_DIR="$build/bindings/rust-models"
manifest=$here/models/Cargo.toml
retry cargo +nightly fetch --quiet --locked --manifest-path "$manifest"
cargo=(--quiet --locked --offline --manifest-path "$manifest" --lib)
cargo +nightly test "${cargo[@]}" --features loom races
# Miri has a copy of the standard library made, whose crates it fetches.
retry cargo +nightly miri setup --quiet --manifest-path "$manifest"
# Memory of a device is a pointer made of a number, of which it warns.
MIRIFLAGS="-Zmiri-many-seeds=0..4 -Zmiri-permissive-provenance" cargo +nightly miri test "${cargo[@]}"
