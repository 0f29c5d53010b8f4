#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the binding against one CMake build folder, in a virtual environment there, and runs hello.py.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

"$venv/bin/python" "$here/hello.py" "$@"
