# SPDX-License-Identifier: Apache-2.0
"""Writes the C module xfer._xfer from the installed headers themselves: no declaration is copied.

Usage: generate.py HEADERS VERSION OUTPUT, of the folder that has xfer.h, of the library, and the C
file. Each header marks the part that cffi can read; only the export token is taken out of it. In
API mode the C compiler then checks every type, size and constant against the same headers.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import cffi

# Frees an engine that nobody has freed before, and notes when that is done: an interrupt of Python,
# which comes behind the call, loses what it returns.
JOIN_NAME = "void xfer_py_join(xfer_engine_t **slot, int *joined)"
JOIN = f"""
static {JOIN_NAME} {{
    xfer_engine_t *engine = __atomic_exchange_n(slot, NULL, __ATOMIC_ACQ_REL);
    if (!engine) return;
    xfer_engine_join(engine, XFER_NONE);
    __atomic_store_n(joined, 1, __ATOMIC_RELEASE);
}}
"""

# Closes a handle that nobody has closed before. No other thread, nor an interrupt of Python, comes
# between the two.
CLOSED = ("ep", "region", "batch", "counter")
CLOSE = """
static xfer_status_t xfer_py_{0}_close(xfer_{0}_t **slot) {{
    return xfer_{0}_close(__atomic_exchange_n(slot, NULL, __ATOMIC_ACQ_REL));
}}
"""

# Page tables are checked before a batch takes them: nothing else bounds a number of a local page.
MAX_PAGE = """
static uint64_t xfer_py_max_page(const void *pages, uint32_t size, uint64_t count) {
    uint64_t most = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t page =
            size == 4 ? ((const uint32_t *)pages)[i] : ((const uint64_t *)pages)[i];
        if (page > most) most = page;
    }
    return most;
}
"""

# A thread of the library writes it at the end of each run: flags, status, failures, runs.
RESULT_NAME = (
    "xfer_status_t xfer_py_stream_result(const xfer_cuda_result_t *from, xfer_cuda_result_t *to)"
)
RESULT = f"""
static {RESULT_NAME} {{
    if (!from) return XFER_EINVAL;
    to->runs = __atomic_load_n(&from->runs, __ATOMIC_ACQUIRE);
    to->failures = __atomic_load_n(&from->failures, __ATOMIC_RELAXED);
    to->status = __atomic_load_n(&from->status, __ATOMIC_ACQUIRE);
    to->flags = __atomic_load_n(&from->flags, __ATOMIC_RELAXED);
    return XFER_OK;
}}
"""


def declarations(header: str) -> str:
    _, begin, rest = header.partition("/* cdef:begin */")
    region, end, _ = rest.partition("/* cdef:end */")
    if not begin or not end:
        raise ValueError("a header without its cdef region")
    return region.replace("XFER_API ", "")


def check_version(version_h: str, library: str) -> None:
    """The headers and the library that pkg-config names must be of one version."""
    numbers = re.findall(r"define XFER_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", version_h)
    header = ".".join(numbers)
    if header != library:
        sys.exit(f"the headers are of libxfer {header}, the library is {library}")


def main(headers: Path, version: str, output: str) -> None:
    check_version((headers / "version.h").read_text("utf-8"), version)
    ffi = cffi.FFI()
    # What the region cannot hold: the C compiler fills in the value.
    ffi.cdef("#define XFER_VERSION ...")
    for header in ("xfer.h", "text.h", "rdma.h", "cuda.h"):
        ffi.cdef(declarations((headers / header).read_text("utf-8")))
    ffi.cdef("uint64_t xfer_py_max_page(const void *pages, uint32_t size, uint64_t count);")
    ffi.cdef(f"{JOIN_NAME};")
    ffi.cdef(f"{RESULT_NAME};")
    for kind in CLOSED:
        ffi.cdef(f"xfer_status_t xfer_py_{kind}_close(xfer_{kind}_t **slot);")
    closes = "".join(CLOSE.format(kind) for kind in CLOSED)
    includes = "#include <xfer/cuda.h>\n#include <xfer/rdma.h>\n#include <xfer/text.h>"
    ffi.set_source("xfer._xfer", includes + JOIN + closes + MAX_PAGE + RESULT)
    ffi.emit_c_code(output)


main(Path(sys.argv[1]), *sys.argv[2:4])
