#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the binding against one CMake build folder, and measures it: run-bench.sh BUILD_DIR CASE URI SECONDS
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

exec "$venv/bin/python" "$here/bench.py" "$@"
