#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building and testing need on Debian 12. Needs root or sudo only when something is missing.
set -euo pipefail

packages=(
    build-essential cmake ninja-build pkg-config ccache git ca-certificates
    libuv1-dev libc-ares-dev libsodium-dev libisal-dev libcbor-dev libfmt-dev nlohmann-json3-dev # the library
    libjansson-dev doctest-dev libcmocka-dev                             # examples, tests
    clang clang-format clang-tidy libclang-dev                           # second compiler, lints, bindgen
    abigail-tools                                                         # abidiff
    python3 python3-dev python3-venv python3-cffi                         # lints, the Python binding
)
# Go and Rust only if there is none yet: many have their own.
command -v go >/dev/null || packages+=(golang-go)
command -v cargo >/dev/null || packages+=(cargo-web rustc-web) # newer than cargo and rustc

missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "everything is installed"
    exit 0
fi

sudo=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "needs root or sudo to install: ${missing[*]}" >&2; exit 1; }
    sudo=sudo
fi
echo "installing: ${missing[*]}"

export DEBIAN_FRONTEND=noninteractive
for pause in 5 20 0; do # mirrors have bad minutes
    $sudo apt-get update -qq &&
        $sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" && exit 0
    [ $pause -gt 0 ] && echo "apt-get failed, again in $pause s" >&2 && sleep $pause
done
echo "could not install: ${missing[*]}" >&2
exit 1
