#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the binding against one CMake build folder, in a virtual environment there, and runs its tests, or those named.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

"$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "asyncio.timeout needs Python 3.11"
"$venv/bin/python" -W error::ResourceWarning "$here/tests/test_aio.py" "$@"
