#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every C and C++ file is as clang-format would write it. To mend: clang-format -i FILE. Usage: format.sh ROOT
set -euo pipefail
cd "$1"
bad=0
while read -r file; do
    [ -f "$file" ] || continue # deleted, and not committed yet
    clang-format --dry-run --Werror "$file" 2>/dev/null || { echo "$file: clang-format -i would change it"; bad=1; }
done < <(git -c safe.directory='*' ls-files --cached --others --exclude-standard '*.c' '*.h' '*.cc')
exit $bad
