#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the binding against one CMake build folder, in a virtual environment there, and runs its tests, or those named.
# With ruff, mypy, trio and uvloop where they can be had.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

get pytest numpy || skip "pytest and numpy could not be fetched"
for tool in ruff mypy trio uvloop; do
    get "$tool" || echo "skip: $tool could not be fetched"
done

find_fake_cuda
cd "$copy" # what is tested is what was installed, and nothing is written beside the sources
if [ -x "$venv/bin/ruff" ]; then
    "$venv/bin/ruff" check --quiet .
    "$venv/bin/ruff" format --quiet --diff .
fi
if [ -x "$venv/bin/mypy" ]; then
    MYPYPATH=src "$venv/bin/mypy" --cache-dir "$build/bindings/python/mypy" --no-error-summary src tests examples ./*.py
fi
"$venv/bin/python" -X dev -m pytest --quiet "$@"
if [ $# -eq 0 ]; then
    bash "$here/run-package.sh" "$build" || [ $? -eq 77 ] # what lacks there is no reason to skip what ran here
fi
