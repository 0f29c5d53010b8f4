#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Go client against one CMake build folder, and runs its tests with the race detector: run-tests.sh BUILD_DIR
# [arguments of go test].
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

at_least "${found#go}" 1.21 || skip "$found is there, and the client needs 1.21, for runtime.Pinner"
cd "$here"
[ -z "$(gofmt -l .)" ] || { gofmt -d .; exit 1; }
go vet ./...
GORACE=atexit_sleep_ms=0 go test -race -count 1 "$@" .
