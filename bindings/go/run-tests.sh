#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Go binding against one CMake build folder, and runs its tests: with the race detector, and without it with
# all checks of pointers that go to C. With staticcheck where it can be had. run-tests.sh BUILD_DIR [arguments of go test].
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"
tools="$build/bindings/go/bin"
staticcheck=v0.8.2
staticcheck_go=1.26.0 # which it needs

# Installs staticcheck, or says why there is none.
get_staticcheck() {
    [ ! -e "$tools/staticcheck-$staticcheck" ] || return 0
    at_least "${found#go}" "$staticcheck_go" || { echo "skip: staticcheck $staticcheck: $found is there, and $staticcheck_go is needed"; return 1; }
    mkdir -p "$tools"
    CGO_ENABLED=0 GOBIN="$tools" retry go install "honnef.co/go/tools/cmd/staticcheck@$staticcheck" ||
        { echo "skip: staticcheck $staticcheck cannot be fetched"; return 1; }
    mv "$tools/staticcheck" "$tools/staticcheck-$staticcheck"
}

find_fake_cuda
cd "$here"
[ -z "$(gofmt -l .)" ] || { gofmt -d .; exit 1; }
go vet ./...
if get_staticcheck; then
    "$tools/staticcheck-$staticcheck" ./...
fi
if [ -x "$build/examples/c/tree/xfer_tree" ]; then
    export XFER_TREE="$build/examples/c/tree/xfer_tree"
else
    echo "skip: examples/tree with xfer_tree: $build has none"
fi
GORACE=atexit_sleep_ms=0 go test -race -count 1 "$@" ./...
echo "skip: what waits or repeats for long, under cgocheck2 (go test -short): it has just run with the race detector"
GOEXPERIMENT=cgocheck2 go test -short -count 1 "$@" ./...
