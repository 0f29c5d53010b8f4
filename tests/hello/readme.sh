#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the README's program in one language as it stands there: readme.sh LANGUAGE BUILD_DIR
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
language=$1
shift
here=$root/bindings/$language
. "$here/build.sh"

work=$build/bindings/readme/$language
rm -rf "$work"
mkdir -p "$work/src"
python3 "$root/tests/consumer/blocks.py" "$root/README.md" "hello-readme-$language" >"$work/program"
cd "$work"
case $language in
python)
    said=$("$venv/bin/python" -W error program)
    ;;
go)
    mv program main.go
    go mod init example 2>/dev/null
    go mod edit -require xfer@v0.0.0 -replace "xfer=$here"
    said=$(go run .)
    ;;
rust)
    mv program src/main.rs
    cp "$here/Cargo.lock" .
    cat >Cargo.toml <<TOML
[package]
name = "example"
edition = "2021"
[dependencies]
xfer = { path = "$here/xfer" }
[workspace]
TOML
    said=$(cargo run --quiet --offline)
    ;;
esac
echo "$said"
[ "$said" = "hello over there" ]
