#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing on Debian 12, and says before what it is and how large. Needs root or sudo only then.
#
#   bash tests/install.sh --build   what building the library and its programs needs
#   bash tests/install.sh           what the tests need as well: a second compiler, lints, Go and Rust for the bindings,
#                                   a virtual machine for the verbs of RDMA
#
# The headers of the CUDA driver, for the tests of device memory, come from PyPI (2.5 MB) into build/cuda, unless there is
# a toolkit; without them those tests are left out. The kernel of the virtual machines comes from Debian (71 MB) into
# ~/.cache/xfer-guest, where it is unpacked and not installed; without it the tests of real verbs are left out.
#
#   --list   only prints what is missing, and installs nothing
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

packages=(
    build-essential cmake ninja-build pkg-config
    libuv1-dev libc-ares-dev libsodium-dev libisal-dev libcbor-dev libfmt-dev nlohmann-json3-dev # the library
    libibverbs-dev                                                                               # its RDMA transport
    libjansson-dev                                                                               # xfer_perf
)
for_tests=(
    ccache git ca-certificates
    doctest-dev libcmocka-dev
    clang clang-format clang-tidy libclang-dev    # second compiler, lints, bindgen
    abigail-tools                                 # abidiff
    groff-base mandoc                             # the manual pages
    python3 python3-dev python3-venv python3-cffi # lints, the Python binding
)
# Virtual machines with Soft-RoCE, for the tests of real verbs.
guests=
if [ "$(uname -m)" = x86_64 ]; then
    guests=yes
    for_tests+=(qemu-system-x86 busybox-static kmod rdma-core ibverbs-providers ibverbs-utils iproute2)
fi
# Go and Rust only if there is none yet: many have their own.
command -v go >/dev/null || for_tests+=(golang-go)
command -v cargo >/dev/null || for_tests+=(cargo-web rustc-web) # newer than cargo and rustc

build_only= list_only=
for word in "$@"; do
    case $word in
    --build) build_only=1 ;;
    --list) list_only=1 ;;
    *) sed -n '3,13s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
[ -n "$build_only" ] || packages+=("${for_tests[@]}")
[ -z "$build_only" ] || guests=

headers=nvidia-cuda-runtime
if [ -n "$build_only" ] || compgen -G "$root/build/cuda/nvidia/*/include/cudaTypedefs.h" >/dev/null ||
    [ -e "${CUDA_HOME:-/usr/local/cuda}/include/cudaTypedefs.h" ]; then
    headers=
fi

missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
if [ -n "$list_only" ]; then
    [ ${#missing[@]} -eq 0 ] || printf '%s\n' "${missing[@]}"
    [ -z "$headers" ] || echo "$headers (PyPI)"
    [ -z "$guests" ] || python3 "$root/tests/rdma/kernel.py" --list
    exit 0
fi

fetch_headers() {
    local venv
    venv=$(mktemp -d)
    echo "fetching $headers (2.5 MB)"
    python3 -m venv "$venv" &&
        "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --target "$root/build/cuda" "$headers==13.*" ||
        echo "could not fetch $headers: the tests of device memory are left out" >&2
    rm -rf "$venv"
}

# What is no package of this machine.
fetch_rest() {
    [ -z "$headers" ] || fetch_headers
    [ -z "$guests" ] || python3 "$root/tests/rdma/kernel.py" 2>&1 ||
        echo "no kernel for guests: the tests of real verbs are left out" >&2
}

if [ ${#missing[@]} -eq 0 ]; then
    [ -n "$headers" ] || echo "everything that is needed is installed"
    fetch_rest
    exit 0
fi

sudo=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "needs root or sudo to install: ${missing[*]}" >&2; exit 1; }
    sudo=sudo
fi

# "12.3 MB to fetch, 45.6 MB on disk", with all that the packages need themselves. Only --print-uris never installs:
# --assume-no does, where apt has nothing to ask.
cost() {
    LC_ALL=C apt-get install --print-uris --no-install-recommends "${missing[@]}" 2>/dev/null | sed -n \
        -e 's/^Need to get \(.*\) of archives\.$/\1 to fetch/p' \
        -e 's/^After this operation, \(.*\) of additional disk space will be used\.$/\1 on disk/p' | paste -sd , |
        sed 's/,/, /'
}

export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for pause in 5 20 0; do # mirrors have bad minutes
    $sudo apt-get update -qq >"$log" 2>&1 && echo "installing ($(cost)): ${missing[*]}" &&
        $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$log" 2>&1 && {
        fetch_rest
        exit 0
    }
    [ $pause -gt 0 ] && echo "apt-get failed, again in $pause s" >&2 && sleep $pause
done
tail -n 20 "$log" >&2
echo "could not install: ${missing[*]}" >&2
exit 1
