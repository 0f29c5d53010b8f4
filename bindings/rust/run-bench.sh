#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the example bench against one CMake build folder, in that folder, and becomes it:
# run-bench.sh BUILD_DIR CASE URI SECONDS
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

cargo build --quiet --locked --offline --release --manifest-path "$manifest" --package xfer --example bench
exec "$CARGO_TARGET_DIR/release/examples/bench" "$@"
