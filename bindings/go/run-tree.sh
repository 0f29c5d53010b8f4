#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the program examples/tree against one CMake build folder, in that folder, and becomes it:
# run-tree.sh BUILD_DIR serve DIR [--listen URI], or run-tree.sh BUILD_DIR fetch URI DEST.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

mkdir -p "$build/bindings/go"
(cd "$here" && go build -o "$build/bindings/go/tree" ./examples/tree)
exec "$build/bindings/go/tree" "$@"
