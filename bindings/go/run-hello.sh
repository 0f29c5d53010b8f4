#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the hello program against one CMake build folder, in that folder, and runs it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

mkdir -p "$build/bindings/go"
(cd "$here" && go build -o "$build/bindings/go/hello" ./cmd/hello)
"$build/bindings/go/hello" "$@"
