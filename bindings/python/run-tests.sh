#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the binding against one CMake build folder, in a virtual environment there, and runs its tests, or those named.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

cd "$copy" # what is tested is what was installed, and nothing is written beside the sources
"$venv/bin/python" -X dev -m pytest --quiet "$@"
