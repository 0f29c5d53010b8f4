#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds main.c against the library in one way, runs it, and makes sure that it was this library.
# Usage: consume.sh shared|static|cmake|programs|moved|uninstalled|readme|readme-cmake|readme-static BUILD_DIR PREFIX
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

# The block of the README in language $1 that has the word $2.
block() {
    awk -v open="\`\`\`$1" -v word="$2" '
        $0 == open { inside = 1; text = ""; next }
        /^```$/ { if (inside && index(text, word)) printf "%s", text; inside = 0 }
        inside { text = text $0 "\n" }' "$here/../../README.md"
}

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
readme) # the first C block of the README compiles as it stands
    sed -n '/^```c$/,/^```$/p' "$here/../../README.md" | sed -e 1d -e '/^```$/,$d' >"$work/readme.c"
    [ -s "$work/readme.c" ] || { echo "README.md has no C block"; exit 1; }
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    compile "$work/readme.c"
    ;;
readme-cmake) # so does its CMake
    mkdir "$work/project"
    (
        echo 'cmake_minimum_required(VERSION 3.25)'
        echo 'project(readme LANGUAGES C)'
        echo "add_executable(program $here/main.c)"
        block cmake find_package
    ) >"$work/project/CMakeLists.txt"
    cmake -G Ninja -S "$work/project" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix"
    cmake --build "$work/build"
    runs_with "$work/build/program" "$libdir"
    ;;
readme-static) # and its line for static linking, beside a libxfer.so
    cp "$here/main.c" "$work/example.c"
    (cd "$work" && PKG_CONFIG_PATH=$libdir/pkgconfig bash -euc "$(block sh '--static')")
    runs_with "$work/example" ""
    ;;
esac
