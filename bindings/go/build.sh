# SPDX-License-Identifier: Apache-2.0
# Sourced by run-hello.sh and run-tests.sh: finds Go, and tells it of the headers.
. "$here/../common.sh"

need go
export GOTOOLCHAIN=local
go=$(sed -n 's/^go //p' "$here/go.mod")
found=$(go env GOVERSION)
at_least "${found#go}" "$go" || skip "$found is there, and $go is needed"

# Go rebuilds when flags change, but does not look at headers outside of the package: so tell it.
headers=$(cat "$(pkg-config --variable=includedir xfer)"/xfer/*.h | cksum | cut -d ' ' -f 1)
export CGO_ENABLED=1 CGO_CFLAGS="-O2 -g -DXFER_HEADERS=$headers"
