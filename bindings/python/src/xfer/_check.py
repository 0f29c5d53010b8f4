# SPDX-License-Identifier: Apache-2.0
"""At import: is the library that was loaded the one whose header this package was built against?"""

from __future__ import annotations

from xfer._xfer import ffi, lib

HANDLES = {"xfer_engine_t", "xfer_region_t", "xfer_ep_t", "xfer_batch_t", "xfer_counter_t"}
# These have one size for ever.
FIXED = {"xfer_error_t": 256, "xfer_event_t": 128, "xfer_ref_t": 96, "xfer_id_t": 24}


def text(number: int) -> str:
    return f"{number >> 16}.{number >> 8 & 255}.{number & 255}"


def check_version(built: int, loaded: int) -> None:
    """Before 1.0 each minor version may change the ABI, so it must be the very one."""
    if built >> 8 != loaded >> 8:
        raise ImportError(
            f"libxfer {text(loaded)} was loaded, but this package was built for {text(built)}: "
            "install the library of that version, or build the package again"
        )


def check_layouts() -> None:
    """cffi compares a struct with what the C compiler made of it when it is asked for its size."""
    for name in ffi.list_types()[0]:
        if name.startswith("xfer_") and name not in HANDLES and not name.endswith("_cb"):
            try:
                size = ffi.sizeof(name)
            except ffi.error as error:
                raise ImportError(f"{name} has another layout in C: {error}") from None
            if size != FIXED.get(name, size):
                raise ImportError(f"{name} has {size} bytes instead of {FIXED[name]}")


check_version(lib.XFER_VERSION, lib.xfer_version())
check_layouts()
