#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the example tree against one CMake build folder, in that folder, and becomes it:
# run-tree.sh BUILD_DIR serve DIR [--listen URI], or run-tree.sh BUILD_DIR fetch URI DEST
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

cargo build --quiet --locked --offline --release --manifest-path "$manifest" --package xfer --example tree
exec "$CARGO_TARGET_DIR/release/examples/tree" "$@"
