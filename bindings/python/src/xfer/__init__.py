# SPDX-License-Identifier: Apache-2.0
"""libxfer moves bytes between the memories of processes, on one host and across hosts.

    with xfer.Engine() as engine:
        ep = engine.endpoint("tcp://10.0.0.7:7000")
        found = ep.lookup("kv").result()
        ep.put(memory, found.ref).result()      # or: await ep.put(memory, found.ref)

A call that begins something returns an Operation: await it in asyncio, uvloop or trio, or call
its result(). Memory is lent without a copy until that is done. Errors are XferError, an OSError,
with the library's status. Words and rules are those of include/xfer/xfer.h; times are in seconds,
lengths in bytes.
"""

from __future__ import annotations

from xfer import _check as _check
from xfer._batch import Batch
from xfer._counter import Counter
from xfer._endpoint import Endpoint
from xfer._engine import Engine
from xfer._errors import (
    AccessDenied,
    Again,
    Canceled,
    Closed,
    Forked,
    NotFound,
    PeerLost,
    Revoked,
    Stale,
    TimedOut,
    Truncated,
    Unreachable,
    XferError,
    native_text,
    status_name,
    status_text,
)
from xfer._operation import Operation
from xfer._options import engine_options
from xfer._region import Grant, Region
from xfer._values import (
    Access,
    BatchInfo,
    Event,
    Found,
    Id,
    Kind,
    Memory,
    Message,
    MessageInfo,
    OptionInfo,
    PeerInfo,
    RdmaOptions,
    Ref,
    RefInfo,
    RegionInfo,
    State,
    Status,
    StreamResult,
    Transport,
)
from xfer._xfer import ffi as _ffi
from xfer._xfer import lib as _lib

__version__: str = _ffi.string(_lib.xfer_version_string()).decode()
READ, WRITE, ATOMIC = Access.READ, Access.WRITE, Access.ATOMIC
ANY_TAG = 0  # as a mask

__all__ = [
    "ANY_TAG",
    "ATOMIC",
    "READ",
    "WRITE",
    "Access",
    "AccessDenied",
    "Again",
    "Batch",
    "BatchInfo",
    "Canceled",
    "Closed",
    "Counter",
    "Endpoint",
    "Engine",
    "Event",
    "Forked",
    "Found",
    "Grant",
    "Id",
    "Kind",
    "Memory",
    "Message",
    "MessageInfo",
    "NotFound",
    "Operation",
    "OptionInfo",
    "PeerInfo",
    "PeerLost",
    "RdmaOptions",
    "Ref",
    "RefInfo",
    "Region",
    "RegionInfo",
    "Revoked",
    "Stale",
    "State",
    "Status",
    "StreamResult",
    "TimedOut",
    "Transport",
    "Truncated",
    "Unreachable",
    "XferError",
    "engine_options",
    "native_text",
    "status_name",
    "status_text",
]
