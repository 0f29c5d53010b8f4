#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the hello program against one CMake build folder, in that folder, and runs it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../common.sh"

need go
export GOTOOLCHAIN=local
go=$(sed -n 's/^go //p' "$here/go.mod")
found=$(go env GOVERSION)
at_least "${found#go}" "$go" || skip "$found is there, and $go is needed"

# Go rebuilds when flags change, but does not look at headers outside of the package: so tell it.
headers=$(cat "$(pkg-config --variable=includedir xfer)"/xfer/*.h | cksum | cut -d ' ' -f 1)
export CGO_ENABLED=1 CGO_CFLAGS="-O2 -g -DXFER_HEADERS=$headers"

mkdir -p "$build/bindings/go"
(cd "$here" && go build -o "$build/bindings/go/hello" ./cmd/hello)
"$build/bindings/go/hello" "$@"
