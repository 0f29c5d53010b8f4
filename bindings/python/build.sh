# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts beside it: installs the binding in the virtual environment $venv, which it makes.
. "$here/../common.sh"

need python3
need cmake
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "Python 3.9 is needed"
python3 -c 'import ensurepip, venv' 2>/dev/null || skip "python3 has no venv (Debian: python3-venv)"
python3 -c 'import os, sysconfig as s; exit(not os.path.exists(s.get_path("include") + "/Python.h"))' ||
    skip "Python.h is missing (Debian: python3-dev)"

venv=$build/bindings/python/venv
wheels=$build/bindings/python/wheels # what was fetched, for the virtual environments of run-package.sh as well
copy=$build/bindings/python/source

# Installs packages, from the network only if they are not among the wheels.
get() { # packages
    local install=("$venv/bin/pip" install --quiet --no-index --find-links "$wheels" --constraint "$here/constraints.txt")
    "${install[@]}" "$@" 2>/dev/null && return
    retry "$venv/bin/pip" download --quiet --only-binary :all: --constraint "$here/constraints.txt" --dest "$wheels" "$@" &&
        "${install[@]}" "$@"
}

mkdir -p "$wheels"
exec 9>"$wheels/.lock"
flock 9 # two scripts may run at once, such as one that serves and one that fetches
pins=$(cksum <"$here/constraints.txt")
if [ "$pins" != "$(cat "$venv/complete" 2>/dev/null)" ]; then
    rm -rf "$venv"
    mkdir -p "$venv"
    python3 -m venv "$venv"
    get scikit-build-core cffi || skip "scikit-build-core and cffi could not be fetched"
    echo "$pins" >"$venv/complete"
fi

# From a copy, so that nothing is built in the source tree; again only if something of it has changed.
now=$(cat "$here"/{CMakeLists.txt,pyproject.toml,*.py,src/xfer/*.py*,tests/*.py,examples/*.py} \
    "$(pkg-config --variable=includedir xfer)"/xfer/*.h | cksum)
if [ "$now" != "$(cat "$venv/installed" 2>/dev/null)" ]; then
    rm -rf "$copy"
    cp -r "$here" "$copy"
    cp "$here/../../LICENSE" "$copy"
    "$venv/bin/pip" install --quiet --no-build-isolation --no-deps --no-index --force-reinstall "$copy"
    echo "$now" >"$venv/installed"
fi
exec 9>&-
