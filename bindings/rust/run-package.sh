#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs both crates, and builds each from its tarball, that of xfer with that of xfer-sys: run-package.sh BUILD_DIR
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

# In a copy: what stands in for the registry would be noted in the lock file.
copy=$CARGO_TARGET_DIR/package-source
rm -rf "$copy" "$CARGO_TARGET_DIR/package"
mkdir -p "$copy"
cp -r "$here/." "$copy"
cargo=(--quiet --offline --allow-dirty --manifest-path "$copy/Cargo.toml")
cargo package "${cargo[@]}" --package xfer-sys
packed=$(echo "$CARGO_TARGET_DIR"/package/xfer-sys-*/)
cargo package "${cargo[@]}" --package xfer --features tokio --config "patch.crates-io.xfer-sys.path='${packed%/}'"
