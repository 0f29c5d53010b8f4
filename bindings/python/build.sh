# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts beside it: installs the binding in the virtual environment $venv, which it makes.
. "$here/../common.sh"

need python3
python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip "Python 3.9 is needed"
python3 -c 'import ensurepip, venv' 2>/dev/null || skip "python3 has no venv (Debian: python3-venv)"
python3 -c 'import os, sysconfig as s; exit(not os.path.exists(s.get_path("include") + "/Python.h"))' ||
    skip "Python.h is missing (Debian: python3-dev)"

venv=$build/bindings/python/venv
copy=$build/bindings/python/source
if [ ! -e "$venv/complete" ]; then
    rm -rf "$venv"
    mkdir -p "$venv"
    python3 -m venv "$venv"
    retry "$venv/bin/pip" install --quiet 'setuptools>=68' wheel 'cffi>=1.16' pytest numpy
    touch "$venv/complete"
fi

# From a copy, so that nothing is built in the source tree; again only if something of it has changed.
now=$(cat "$here"/{pyproject.toml,setup.py,src/xfer/*.py*,tests/*.py,examples/*.py} "$(pkg-config --variable=includedir xfer)"/xfer/*.h | cksum)
if [ "$now" != "$(cat "$venv/installed" 2>/dev/null)" ]; then
    rm -rf "$copy"
    cp -r "$here" "$copy"
    "$venv/bin/pip" install --quiet --no-build-isolation --no-deps --no-index --force-reinstall "$copy"
    echo "$now" >"$venv/installed"
fi
