#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the binding against one CMake build folder, and lends or fetches a tree of files with it:
# run-tree.sh BUILD_DIR serve DIR [--listen URI], or run-tree.sh BUILD_DIR fetch URI DEST
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

exec "$venv/bin/python" -m xfer "$@"
