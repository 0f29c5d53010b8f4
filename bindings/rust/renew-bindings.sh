#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes xfer-sys/src/bindings.rs anew from the headers: renew-bindings.sh BUILD_DIR, after a change of theirs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

find_libclang || skip "libclang is missing (Debian: libclang-dev)"
cargo build --quiet --locked --offline --manifest-path "$manifest" --package xfer-sys --features bindgen \
    --message-format json | sed -n 's/.*"build-script-executed".*"package_id":"[^"]*xfer-sys[^"]*".*"out_dir":"\([^"]*\)".*/\1/p' |
    while read -r folder; do cp "$folder/bindings.rs" "$here/xfer-sys/src/bindings.rs"; done
