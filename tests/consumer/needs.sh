#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A machine that lacks what is needed is told of all of it, by the names that Debian gives it; the packages are those
# that the README lists and tests/install.sh --build installs; what that costs is said before; and building takes
# nothing of what only tests need.
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
# libibverbs-dev is not asked for: without it the RDMA transport is left out.
diff <(grep -vxE 'build-essential|cmake|ninja-build|pkg-config|libibverbs-dev' "$work/installed") - <<<"$told"
grep -qE 'clang|golang|cargo|abigail|cmocka|doctest' "$work/installed" && { echo "more than building needs"; exit 1; }

sed -n '/^sudo apt-get install/,/[^\\]$/p' "$source/README.md" | tr -d '\\\n' | sed 's/^sudo apt-get install//' |
    tr -s ' ' '\n' | grep . | sort | diff "$work/installed" -

# An apt-get that only writes down what it is asked for. The cost is said before anything is installed.
cat >"$work/bin/apt-get" <<'EOF'
#!/bin/sh
echo "apt-get $*" >>"$ASKED"
case $* in *--print-uris*)
    echo "Need to get 12.3 MB of archives."
    echo "After this operation, 45.6 MB of additional disk space will be used." ;;
*" -y "*) cp "$SAID" "$SAID.before" ;;
esac
EOF
printf '#!/bin/sh\nexec "$@"\n' >"$work/bin/sudo"
chmod +x "$work/bin/apt-get" "$work/bin/sudo"
PATH=$work/bin:$PATH ASKED=$work/asked SAID=$work/said bash "$source/tests/install.sh" --build >"$work/said"
grep -q '12.3 MB to fetch, 45.6 MB on disk' "$work/said.before" || { echo "installs before it says how much"; exit 1; }
grep -q '^apt-get install .*libuv1-dev' "$work/asked" || { echo "installs nothing"; exit 1; }
rm "$work/bin/dpkg-query"

# Who only wants the library gets no tests, and needs no Python: only manual pages are left out without one.
(cd "$source" && cmake --preset release -B "$work/release" -D CMAKE_DISABLE_FIND_PACKAGE_Python3=ON) \
    >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
grep -q '^-- .*manual pages of the C ABI are left out' "$work/log" || { echo "leaves out pages untold"; exit 1; }
targets=$(cmake --build "$work/release" --target help)
grep -q 'libxfer' <<<"$targets" || { echo "preset release does not build the library"; exit 1; }
grep -E 'api_|unit_|doctest' <<<"$targets" && { echo "preset release builds tests"; exit 1; }
exit 0
