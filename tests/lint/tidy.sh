#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy over the library, as .clang-tidy says. It is the second compiler as well: with the build's -Werror each of
# clang's own warnings is an error of it. Usage: tidy.sh ROOT BUILD_DIR
set -euo pipefail
cd "$1"
find lib -name '*.cc' -print0 | sort -z |
    xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p "$2" --extra-arg=-Wno-unknown-warning-option 2>&1 |
    { grep -vE '^[0-9]+ warnings? (treated|generated)|^Suppressed|^Use -header-filter' || true; }
