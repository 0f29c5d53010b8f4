#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Rust client against one CMake build folder, and runs its tests: run-tests.sh BUILD_DIR [arguments of the
# tests]. With rustfmt and clippy where they are installed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

if cargo fmt --version >/dev/null 2>&1; then
    cargo fmt --manifest-path "$manifest" --all --check
fi
if cargo clippy --version >/dev/null 2>&1; then
    cargo clippy --quiet --locked --offline --manifest-path "$manifest" --workspace --all-targets -- -D warnings
fi
cargo test --quiet --locked --offline --manifest-path "$manifest" --package xfer --lib --tests -- "$@"
