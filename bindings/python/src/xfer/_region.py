# SPDX-License-Identifier: Apache-2.0
"""Memory that peers may use, whole or by grants."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

from xfer import _errors
from xfer._buffers import ReadOnly, Span, readable, writable
from xfer._calls import Calls
from xfer._handle import Handle
from xfer._operation import Completion, Operation, c_text, milliseconds, nothing, struct
from xfer._values import Access, Ref, RegionInfo
from xfer._xfer import ffi, lib

if TYPE_CHECKING:
    from xfer._engine import Engine

_WRITES = lib.XFER_WRITE | lib.XFER_ATOMIC


class Region(Handle):
    """Memory that is lent, by Engine.region(). It is the caller's again when close() has its
    result; until then it stays where it is, also if everything of it is forgotten."""

    def __init__(
        self, engine: Engine, slot: Any, closed: Operation[None], memory: Any, writes: bool
    ) -> None:
        calls = Calls(functools.partial(lib.xfer_py_region_close, slot))
        super().__init__(engine, slot[0], closed, calls, calls.end)
        self._memory, self._writes = memory, writes

    @property
    def memory(self) -> Any:
        """What was lent; of alloc() a memoryview, None once it is closed."""
        return self._memory

    @property
    def ref(self) -> Ref:
        """Names the whole region, to be sent to peers. AccessDenied if it has no access."""
        raw = ffi.new("xfer_ref_t *")
        _errors.check(self._calls(lib.xfer_region_ref, self._raw, raw))
        return Ref.of(raw)

    @property
    def info(self) -> RegionInfo:
        """Where it lies, and how it is lent."""
        raw = ffi.new("xfer_region_info_t *")
        _errors.check(
            self._calls(lib.xfer_region_info, self._raw, raw, ffi.sizeof("xfer_region_info_t"))
        )
        where = raw.address, raw.length, raw.id, raw.generation
        return RegionInfo(*where, Access(raw.access), raw.kind)

    def grant(
        self, access: int, offset: int = 0, length: int | None = None, lease: float | None = None
    ) -> Grant:
        """A ref of `length` bytes from `offset`, default: to the end, with its own access, whatever
        that of the region is, and with its own lease in seconds, default: none. XferError: ERANGE
        beyond the region, EINVAL without access or bytes; BufferError to write to read-only
        memory."""
        if access & _WRITES and not self._writes:
            raise BufferError("the memory of the region is read-only")
        ended = Completion(self._engine, nothing)
        options = struct(
            "xfer_grant_options_t",
            access=int(access),
            offset=offset,
            length=self.info.length - offset if length is None else length,
            lease_ms=milliseconds(lease),
            user=ended.word,
        )
        raw, error = ffi.new("xfer_ref_t *"), _errors.new_error()
        ended._call(self._calls, lib.xfer_region_grant, self._raw, options, raw, error=error)
        return Grant(self, Ref.of(raw), ended)

    def __repr__(self) -> str:
        return f"<xfer.Region{' closed' if self._ended else ''} at {id(self):#x}>"


class MadeRegion(Region):
    """Memory of the library's, by Engine.alloc(). Its views must be gone before it is closed."""

    def __init__(self, engine: Engine, slot: Any, closed: Operation[None], start: Any) -> None:
        super().__init__(engine, slot, closed, None, True)
        self._close = _with_the_last_view
        self._start = weakref.ref(start)
        # Each view refers to `start`. The library unmaps the memory once the region is closed, so
        # that waits for the last view, also after the end of the engine.
        weakref.finalize(start, self._calls.end).atexit = False  # type: ignore[misc]
        self._memory = _view(start)

    def close(self) -> Operation[None]:
        """Starts the end. BufferError, as of an mmap, while there are views of `memory`."""
        if not self._ended:
            self._memory = None
            start = self._start()
            if start is not None:
                self._memory = _view(start)
                raise BufferError("there are views of the region's memory")
        return super().close()


def _view(start: Any) -> memoryview:
    return memoryview(ffi.buffer(start)).cast("B")


def _with_the_last_view() -> int:
    """Instead of a close: the finalizer of the memory does it."""
    return int(lib.XFER_OK)


class Grant:
    """A part of a region, lent by `ref` until it is revoked, its lease ends, or the region does.

    ended   its result is there when the memory is quiet, as far as this grant goes: None after
            revoke(), TimedOut if its lease ended, Closed with the region
    """

    def __init__(self, region: Region, ref: Ref, ended: Operation[None]) -> None:
        self._region, self.ref, self.ended = region, ref, ended

    def renew(self, lease: float | None = None) -> None:
        """The lease ends so many seconds from now; None: never. Revoked if it has ended."""
        args = self._region._raw, self.ref.raw, milliseconds(lease)
        _errors.check(self._region._calls(lib.xfer_region_renew, *args))

    def revoke(self) -> Operation[None]:
        """Takes it back: later uses of the ref end with Revoked. Revoked if it has ended."""
        args = self._region._raw, self.ref.raw
        _errors.check(self._region._calls(lib.xfer_region_revoke, *args))
        return self.ended


def lend(engine: Engine, memory: Any, name: str, access: int, blob: bytes) -> Region:
    """Engine.region()."""
    (start, length, held), writes = _span(memory, bool(access & _WRITES))
    closed, out = Completion(engine, nothing, held), ffi.new("xfer_region_t **")
    options, texts = _options(name, access, blob, closed)
    args = engine.raw, options, start, length, out
    closed._call(engine._calls, lib.xfer_region_open, *args, error=_errors.new_error())
    del texts
    return Region(engine, out, closed, memory, writes)


def make(
    engine: Engine,
    length: int,
    name: str,
    access: int,
    blob: bytes,
    huge_pages: bool,
    numa_node: int | None,
) -> Region:
    """Engine.alloc()."""
    closed, out = Completion(engine, nothing), ffi.new("xfer_region_t **")
    options, texts = _options(name, access, blob, closed)
    options.flags = lib.XFER_REGION_HUGE_PAGES if huge_pages else 0
    options.numa_node = 0 if numa_node is None else 1 + numa_node
    address = ffi.new("void **")
    args = engine.raw, options, length, address, out
    closed._call(engine._calls, lib.xfer_region_alloc, *args, error=_errors.new_error())
    del texts
    return MadeRegion(engine, out, closed, ffi.cast(f"char(*)[{length}]", address[0]))


def _options(name: str, access: int, blob: bytes, closed: Operation[None]) -> tuple[Any, Any]:
    """The struct, and what its pointers point into."""
    text = ffi.new("char[]", c_text(name)) if name else ffi.NULL
    shown = ffi.from_buffer(blob)
    options = struct("xfer_region_options_t", access=int(access), user=closed.word)
    options.name, options.blob, options.blob_length = text, shown, len(shown)
    return options, (text, shown)


def _span(memory: Any, writes: bool) -> tuple[Span, bool]:
    """And whether it can be written, which it has to be if `writes`."""
    try:
        return writable(memory), True
    except ReadOnly:
        if writes:
            raise
        return readable(memory), False
