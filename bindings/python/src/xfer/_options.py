# SPDX-License-Identifier: Apache-2.0
"""The options of an engine, by name and as text."""

from __future__ import annotations

from typing import Any

from xfer import _errors
from xfer._operation import c_text, struct
from xfer._values import OptionInfo, RdmaOptions
from xfer._xfer import ffi, lib


def engine_options() -> list[OptionInfo]:
    """Those that Engine() takes."""
    options: list[OptionInfo] = []
    raw, size = ffi.new("xfer_option_info_t *"), ffi.sizeof("xfer_option_info_t")
    while lib.xfer_engine_option_at(len(options), raw, size) == lib.XFER_OK:
        name, values, text = (
            ffi.string(text).decode() for text in (raw.name, raw.values, raw.help)
        )
        options.append(OptionInfo(name, values, text, raw.kind))
    return options


def to_struct(options: dict[str, Any], rdma: RdmaOptions | None) -> tuple[Any, list[Any]]:
    """The struct, and what its pointers point into."""
    given, error, held = struct("xfer_engine_options_t"), _errors.new_error(), []
    if rdma is not None:
        held += _rdma_struct(rdma)
        given.rdma = held[0]
    for name, value in options.items():
        if value is None:
            raise ValueError(f"{name}: None is no value; leave it out for the default")
        if isinstance(value, (bytes, bytearray, memoryview)):
            value = bytes(value)  # noqa: PLW2901
        if isinstance(value, bytes) and name in ("key", "blob"):  # they may have a zero in them
            lent = ffi.from_buffer(value)
            setattr(given, name, lent)
            setattr(given, f"{name}_length", len(value))
        else:
            lent = ffi.new("char[]", c_text(_text(value)))
            _errors.check(lib.xfer_engine_option_set(given, name.encode(), lent, error), error)
        held.append(lent)
    if given.dispatch not in (0, lib.XFER_DISPATCH_POLL):
        text = "dispatch: from Python it is always poll; a wheel has a libuv of its own, so that no"
        raise _errors.of_status(lib.XFER_EUNSUPPORTED, f"{text} uv_loop_t can be shared with it")
    given.dispatch = lib.XFER_DISPATCH_POLL
    return given, held


def _rdma_struct(options: RdmaOptions) -> list[Any]:
    """And what it points to."""
    given = struct("xfer_rdma_options_t")
    given.queue_depth = options.queue_depth or 0
    given.ack_timeout = options.ack_timeout or 0
    given.retries = lib.XFER_NONE if options.retries == 0 else options.retries or 0
    given.traffic_class = options.traffic_class
    given.service_level = options.service_level
    if options.devices is None:
        return [given]
    given.devices = devices = ffi.new("char[]", c_text(options.devices))
    return [given, devices]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value.hex() if isinstance(value, bytes) else str(value)
