#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Go binding against one CMake build folder, and runs its tests with the race detector: run-tests.sh BUILD_DIR
# [arguments of go test].
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

cd "$here"
[ -z "$(gofmt -l .)" ] || { gofmt -d .; exit 1; }
go vet ./...
[ ! -x "$build/examples/c/tree/xfer_tree" ] || export XFER_TREE="$build/examples/c/tree/xfer_tree"
GORACE=atexit_sleep_ms=0 go test -race -count 1 "$@" ./...
