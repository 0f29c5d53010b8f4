#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A machine that lacks what is needed is told of all of it, by the names that Debian gives it; the packages are those
# that the README lists and tests/install.sh --build installs; and building takes nothing of what only tests need.
# Usage: needs.sh SOURCE_DIR
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Nothing is installed that pkg-config or find_package could find.
if PKG_CONFIG_LIBDIR=$work cmake -S "$source" -B "$work/build" -G Ninja -D XFER_TESTS=OFF \
    -D CMAKE_DISABLE_FIND_PACKAGE_fmt=ON -D CMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON >"$work/log" 2>&1; then
    echo "configured without what is needed"
    exit 1
fi
told=$(sed -n 's/^ *apt-get install //p' "$work/log" | tr ' ' '\n' | sort)
[ -n "$told" ] || { cat "$work/log"; exit 1; }

# What the installer would install where nothing is: a dpkg that knows no package.
mkdir "$work/bin"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/dpkg-query"
chmod +x "$work/bin/dpkg-query"
PATH=$work/bin:$PATH bash "$source/tests/install.sh" --build --list | sort >"$work/installed"
diff <(grep -vxE 'build-essential|cmake|ninja-build|pkg-config' "$work/installed") - <<<"$told"
grep -qE 'clang|golang|cargo|abigail|cmocka|doctest' "$work/installed" && { echo "more than building needs"; exit 1; }

sed -n '/^sudo apt-get install/,/[^\\]$/p' "$source/README.md" | tr -d '\\\n' | sed 's/^sudo apt-get install//' |
    tr -s ' ' '\n' | grep . | sort | diff "$work/installed" -
