# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts of the bindings: finds the library of one build folder, as pkg-config sees it.

skip() {
    echo "skip: $*"
    exit 77
}

need() { # command
    command -v "$1" >/dev/null || skip "$1 is not installed"
}

# True when version $1 is at least $2.
at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# For commands that fetch from the network.
retry() {
    local pause
    for pause in 2 5 15; do
        "$@" && return
        echo "failed, again in $pause s: $*" >&2
        sleep "$pause"
    done
    "$@"
}

[ $# -ge 1 ] || { echo "usage: ${0##*/} BUILD_DIR [ARGUMENTS]" >&2; exit 2; }
build=$(cd "$1" && pwd)
shift
command -v pkg-config >/dev/null || { echo "pkg-config is not installed" >&2; exit 1; }
[ -e "$build/lib/libxfer.so" ] || { echo "no lib/libxfer.so in $build: build it first" >&2; exit 1; }
export PKG_CONFIG_PATH="$build/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
case $(ldd "$build/lib/libxfer.so") in
*libasan* | *libtsan*) skip "the library was built with a sanitizer" ;;
esac
libdir=$(pkg-config --variable=libdir xfer)
export LD_LIBRARY_PATH="$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# For tests: a driver of CUDA without a device, which the build has where it has the headers.
find_fake_cuda() {
    local fake=$build/tests/fake_libcuda/libcuda.so.1
    if [ -e "$fake" ]; then
        export XFER_TEST_FAKE_CUDA=$fake
    else
        echo "skip: memory of devices: $build has no tests/fake_libcuda, which needs the headers of CUDA"
    fi
}
