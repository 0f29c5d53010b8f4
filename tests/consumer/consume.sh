#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds main.c, or what the README has, against the library in one way, runs it, and makes sure that it was this library.
# Usage: consume.sh WAY BUILD_DIR PREFIX
set -euo pipefail
way=$1 build=$2 prefix=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PKG_CONFIG_PATH LD_LIBRARY_PATH

compile() { # source flags of pkg-config ...
    local source=$1
    shift
    # shellcheck disable=SC2046
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror -o "$work/app" "$source" $(pkg-config --cflags --libs "$@" xfer)
}

# The folder of the libxfer.so that $1 loads, empty if it loads none.
loaded() {
    ldd "$1" | sed -n 's|.*libxfer\.so[^ ]* => \(.*\)/libxfer[^/]*$|\1|p' | xargs -r realpath
}

runs_with() { # program, folder of its libxfer.so ("" for none)
    LD_LIBRARY_PATH=$2 "$1"
    local found
    found=$(LD_LIBRARY_PATH=$2 loaded "$1")
    [ "$found" = "${2:+$(realpath "$2")}" ] || { echo "loads libxfer from '$found', not '$2'"; exit 1; }
}

with_cmake() { # prefix
    local languages
    for languages in C 'C;CXX'; do
        cmake -G Ninja -S "$here/project" -B "$work/build" -DCMAKE_PREFIX_PATH="$1" -Dlanguages="$languages"
        cmake --build "$work/build"
        runs_with "$work/build/shared" "$libdir"
        runs_with "$work/build/static" ""
        rm -rf "$work/build"
    done
}

# The README's block for this test.
block() { python3 "$here/blocks.py" "$here/../../README.md" "$1"; }

# What the README's program says when all went well.
greets() { grep -qx 'XFER_OK: the owner.s memory says "hello over there"' "$1"; }

pc=$(find "$prefix" -name xfer.pc)
libdir=$(cd "$(dirname "$pc")/.." && pwd)
case $way in
shared)
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    compile "$here/main.c"
    runs_with "$work/app" "$libdir"
    ;;
static) # a prefix that has only the archive
    cp -r "$prefix" "$work/prefix"
    libdir=$work/prefix/${libdir#"$prefix"/}
    rm "$libdir"/libxfer.so*
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    compile "$here/main.c" --static
    runs_with "$work/app" ""
    ;;
cmake)
    with_cmake "$prefix"
    ;;
programs) # those that are installed start by themselves, also where the tree was moved to
    cp -r "$prefix" "$work/elsewhere"
    for root in "$prefix" "$work/elsewhere"; do
        for program in xfer_perf xfer_tree; do
            "$root/bin/$program" --version
            [ "$(loaded "$root/bin/$program")" = "$(realpath "$root/${libdir#"$prefix"/}")" ]
        done
    done
    ;;
moved) # an installed tree may be moved: nothing in it knows where it was
    cp -r "$prefix" "$work/elsewhere"
    libdir=$work/elsewhere/${libdir#"$prefix"/}
    if grep -rIF "$prefix" "$work/elsewhere"; then exit 1; fi
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    compile "$here/main.c"
    runs_with "$work/app" "$libdir"
    with_cmake "$work/elsewhere"
    rm "$libdir"/libxfer.so*
    compile "$here/main.c" --static
    runs_with "$work/app" ""
    ;;
uninstalled)
    export PKG_CONFIG_PATH=$build/pkgconfig
    compile "$here/main.c"
    runs_with "$work/app" "$build/lib"
    ;;
readme) # the C block of the README compiles as it stands, without a warning, and runs
    block consumer-readme >"$work/readme.c"
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    compile "$work/readme.c"
    runs_with "$work/app" "$libdir" >"$work/said"
    greets "$work/said"
    ;;
readme-pkgconfig | readme-static) # so do its lines for it, the static one beside a libxfer.so
    block consumer-readme >"$work/example.c"
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    [ "$way" = readme-static ] || export LD_LIBRARY_PATH=$libdir
    (cd "$work" && bash -euc "$(block "consumer-$way")" >"$work/said")
    greets "$work/said"
    [ "$way" = readme-pkgconfig ] || runs_with "$work/example" ""
    ;;
readme-cmake) # and its CMake
    mkdir "$work/project"
    (
        echo 'cmake_minimum_required(VERSION 3.25)'
        echo 'project(readme LANGUAGES C)'
        echo "add_executable(program $here/main.c)"
        block consumer-readme-cmake
    ) >"$work/project/CMakeLists.txt"
    cmake -G Ninja -S "$work/project" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix"
    cmake --build "$work/build"
    runs_with "$work/build/program" "$libdir"
    ;;
readme-perf) # its measurements, in less time
    printf '#!/bin/sh\nexec "%s/bin/xfer_perf" "$@" --rounds 1 --seconds 0.05\n' "$prefix" >"$work/xfer_perf"
    chmod +x "$work/xfer_perf"
    (cd "$work" && PATH=$work:$PATH bash -euc "$(block consumer-readme-perf)")
    ;;
readme-install) # what a newcomer does: a clone, the README's lines, its program
    git -c safe.directory='*' clone -q --no-hardlinks "$here/../.." "$work/clone"
    mkdir "$work/bin"
    printf '#!/bin/sh\n[ "$1" = apt-get ] || exec "$@"\n' >"$work/bin/sudo" # needs.sh looks at the packages
    printf '#!/bin/sh\n' >"$work/bin/ldconfig"
    chmod +x "$work/bin/sudo" "$work/bin/ldconfig"
    export PATH=$work/bin:$PATH
    (cd "$work/clone" && DESTDIR=$work/root bash -euc "$(block consumer-readme-install)") >"$work/log" 2>&1 || {
        tail -n 30 "$work/log"
        exit 1
    }
    libdir=$(dirname "$(find "$work/root/usr/local" -name libxfer.a)")
    export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir
    block consumer-readme >"$work/example.c"
    (cd "$work" && bash -euc "$(block consumer-readme-pkgconfig)" >"$work/said")
    greets "$work/said"
    "$work/root/usr/local/bin/xfer_tree" --version
    ;;
esac
