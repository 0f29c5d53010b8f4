# SPDX-License-Identifier: Apache-2.0
# Sourced by run-hello.sh and run-tests.sh: finds Cargo, and fetches the crates that the lock file names.
. "$here/../common.sh"

need cargo
rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$here/Cargo.toml")
found=$(cargo --version | cut -d ' ' -f 2)
at_least "$found" "$rust" || skip "cargo is $found, and $rust is needed"

export CARGO_TARGET_DIR="$build/bindings/rust"
manifest=$here/Cargo.toml
retry cargo fetch --quiet --locked --manifest-path "$manifest"

# For bindgen, which asks llvm-config where libclang is; Debian's has a number in its name.
find_libclang() {
    [ -z "${LIBCLANG_PATH:-}" ] || return 0
    ! command -v llvm-config >/dev/null || return 0
    local library
    library=$(find /usr/lib -maxdepth 4 -name 'libclang*.so*' ! -name 'libclang-cpp*' -print -quit)
    [ -n "$library" ] && export LIBCLANG_PATH=${library%/*}
}
