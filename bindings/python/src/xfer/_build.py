# SPDX-License-Identifier: Apache-2.0
"""Makes the C module xfer._xfer from the installed headers themselves: no declaration is copied.

Each marks the part that cffi can read; only the export token is taken out of it. In API mode
the C compiler then checks every type, size and constant against the same headers.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import cffi


def pkg_config(*args: str) -> str:
    return subprocess.run(
        ["pkg-config", *args, "xfer"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def declarations(header: str) -> str:
    _, begin, rest = header.partition("/* cdef:begin */")
    region, end, _ = rest.partition("/* cdef:end */")
    if not begin or not end:
        raise ValueError("a header without its cdef region")
    return region.replace("XFER_API ", "")


def flags(option: str, prefix: str) -> list[str]:
    return [word[len(prefix) :] for word in pkg_config(option).split()]


ffi = cffi.FFI()
# What the region cannot hold: the C compiler fills in the value.
ffi.cdef("#define XFER_VERSION ...")
for header in ("xfer.h", "text.h"):
    path = Path(pkg_config("--variable=includedir"), "xfer", header)
    ffi.cdef(declarations(path.read_text("utf-8")))
ffi.set_source(
    "xfer._xfer",
    "#include <xfer/text.h>",
    include_dirs=flags("--cflags-only-I", "-I"),
    library_dirs=flags("--libs-only-L", "-L"),
    libraries=flags("--libs-only-l", "-l"),
)
