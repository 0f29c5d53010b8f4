#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds xfer-sys and the hello program against one CMake build folder, in that folder, and runs it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

cargo build --quiet --locked --offline --manifest-path "$manifest" --package hello
"$CARGO_TARGET_DIR/debug/hello" "$@"
