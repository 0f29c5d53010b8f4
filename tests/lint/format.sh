#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every C and C++ file is as clang-format would write it. To mend: clang-format -i FILE. Usage: format.sh ROOT
set -euo pipefail
cd "$1"
files=()
while read -r file; do
    [ ! -f "$file" ] || files+=("$file") # else deleted, and not committed yet
done < <(git -c safe.directory='*' ls-files --cached --others --exclude-standard '*.c' '*.h' '*.cc')
printf '%s\0' "${files[@]}" | xargs -0 -n 8 -P "$(nproc)" clang-format --dry-run --Werror 2>/dev/null && exit
for file in "${files[@]}"; do
    clang-format --dry-run --Werror "$file" 2>/dev/null || echo "$file: clang-format -i would change it"
done
exit 1
