#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the program cmd/bench against one CMake build folder, in that folder, and becomes it:
# run-bench.sh BUILD_DIR bandwidth|rate|latency|pages URI SECONDS.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

mkdir -p "$build/bindings/go"
(cd "$here" && go build -o "$build/bindings/go/bench" ./cmd/bench)
exec "$build/bindings/go/bench" "$@"
