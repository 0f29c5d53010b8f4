#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs into an empty prefix, and for `uninstall` takes it away again; both ways nothing unexpected is left.
# Usage: prefix.sh install|uninstall BUILD_DIR PREFIX LIBDIR VERSION
set -euo pipefail
way=$1 build=$2 prefix=$3 libdir=$4 version=$5
here=$(cd "$(dirname "$0")" && pwd)
unset DESTDIR

# The manifest is that of the last installation. The user's own must still be there after the tests.
manifest=$build/install_manifest.txt
kept=$(mktemp)
if [ -e "$manifest" ]; then cp -p "$manifest" "$kept"; else rm "$kept"; fi
trap 'if [ -e "$kept" ]; then mv "$kept" "$manifest"; else rm -f "$manifest"; fi' EXIT

functions() { sed -nE 's/^ *(xfer_[a-z_]+);.*/\1/p' "$here/../../lib/libxfer.map"; }
types() {
    sed -nE 's/^(\}|typedef u?int[0-9]+_t|typedef void \(\*) ?(xfer_[a-z_]+)(;|\)\().*/\2/p' \
        "$here"/../../include/xfer/*.h
}

# What files.txt lists, a line for each function and type.
expected() {
    local line name
    while read -r line; do
        case $line in
        \#*) ;;
        *FUNCTION*) for name in $(functions); do echo "${line/FUNCTION/$name}"; done ;;
        *TYPE*) for name in $(types); do echo "${line/TYPE/$name}"; done ;;
        *) echo "$line" ;;
        esac
    done <"$here/files.txt" | LC_ALL=C sort
}

# What there is, as files.txt has it, whatever this system calls its folder of libraries, and in any build type.
contents() {
    (cd "$prefix" && find . ! -type d) |
        sed -E "s|^\./||; s|^$libdir/|lib/|; s|-[a-z]+\.cmake$|-CONFIG.cmake|; s|\.so\.$version$|.so.VERSION|" |
        sed -E "s|\.so\.${version%.*}$|.so.SOVERSION|" | LC_ALL=C sort
}

rm -rf "$prefix"
said=$(cmake --install "$build" --prefix "$prefix")
for word in ldconfig "-Wl,-rpath,$prefix/$libdir" "PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig"; do
    grep -qF -- "$word" <<<"$said" || { echo "the installation does not say: $word"; exit 1; }
done
echo "installed, where < is missing and > is not expected:"
diff <(expected) <(contents)
[ "$way" = uninstall ] || exit 0

cmake --build "$build" --target uninstall
left=$(find "$prefix" ! -type d -o -name '*xfer*')
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
cmake --build "$build" --target uninstall && { echo "uninstalls what is not there"; exit 1; }
mkdir -p "$prefix/$libdir" && touch "$prefix/$libdir/of somebody else"
cmake --install "$build" --prefix "$prefix" >/dev/null
rm "$prefix/$libdir/libxfer.a" # by hand
cmake --build "$build" --target uninstall
[ -e "$prefix/$libdir/of somebody else" ] || { echo "removed what is not its own"; exit 1; }
