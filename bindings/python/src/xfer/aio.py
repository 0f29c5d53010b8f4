# SPDX-License-Identifier: Apache-2.0
"""libxfer for asyncio, as a seed of the binding.

Events come by the engine's descriptor, many with each poll, on the loop's own thread: no thread of
the library enters Python. A call that begins something returns an Operation, a future that is under
way already. To cancel it, or the task that awaits it, asks the library for an early end; it is done
with its event all the same, when nothing touches the memory that it was lent any more.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from typing import Any, Callable, NamedTuple

from xfer._xfer import ffi, lib

ANY, BURST = 2**64 - 1, 64
READ, WRITE, ATOMIC = lib.XFER_READ, lib.XFER_WRITE, lib.XFER_ATOMIC
SYNC = lib.XFER_FLAG_SYNC


def _kinds(words: str) -> dict[int, str]:
    return {getattr(lib, f"XFER_EVENT_{word}"): word for word in words.split()}


_ENDS = _kinds("PUT GET BATCH SEND RECV LOOKUP CONNECT NOTIFIED ATOMIC FLUSH CLOSED")
_NOTICES = _kinds("PEER PEER_UP PEER_DOWN REGION_GONE NOTIFY ROOM")
_EXPLAINED = _kinds("PUT GET ATOMIC SEND NOTIFIED FLUSH CONNECT")  # data of a failed one is text


class Error(Exception):
    """A status of the library. `fenced`: nothing of the operation can land any more."""

    def __init__(
        self, status: int, text: str = "", origin: int = 0, code: int = 0, fenced: bool = True
    ) -> None:
        self.status, self.origin, self.native_code, self.fenced = status, origin, code, fenced
        self.name = ffi.string(lib.xfer_status_name(status)).decode()
        text = text or ffi.string(lib.xfer_status_text(status)).decode()
        super().__init__(f"{self.name}: {text}")


class Found(NamedTuple):
    ref: bytes
    blob: bytes


class Message(NamedTuple):
    length: int
    tag: int
    sender: bytes  # an xfer_id_t
    ep: Endpoint | None  # where to answer, unless it is gone
    data: bytes  # empty if it was received into a buffer


class Notice(NamedTuple):
    kind: str  # such as "PEER_UP"
    status: int
    flags: int
    ep: Endpoint | None
    tag: int
    data: bytes


def _check(status: int, error: Any = None) -> None:
    if status == lib.XFER_OK:
        return
    if error is None:
        raise Error(status)
    raise Error(status, ffi.string(error.message).decode(), error.origin, error.native_code)


def _error() -> Any:
    return ffi.new("xfer_error_t *")


def _struct(name: str, **fields: Any) -> Any:
    return ffi.new(f"{name} *", {"size": ffi.sizeof(name), **fields})


def _options(timeout: float | None, name: str = "xfer_op_options_t", **fields: Any) -> Any:
    limit = 0 if timeout is None else max(1, round(timeout * 1000))
    return _struct(name, timeout_ms=limit, **fields)


def _ref(ref: bytes) -> Any:
    return ffi.new("xfer_ref_t *", (ref,))


def _writable(buffer: Any) -> Any:
    return ffi.from_buffer(buffer, require_writable=True)


def _data(event: Any, skip: int = 0) -> bytes:
    return bytes(ffi.buffer(event.data, event.data_length)[skip:]) if event.data_length else b""


class Operation(asyncio.Future):  # type: ignore[type-arg]
    """What is under way and ends with an event; it keeps what it was lent until then."""

    def __init__(
        self, engine: Engine, *lent: Any, result: Callable[[Any], Any] = lambda event: None
    ) -> None:
        super().__init__(loop=engine.loop)
        self.word, self._engine, self._lent, self._value = next(engine.words), engine, lent, result
        self._canceled = False

    def begun(self, status: int, error: Any = None) -> Operation:
        _check(status, error)
        self._engine.live[self.word] = self
        return self

    def cancel(self, msg: Any = None) -> bool:
        if not self.done():
            self._canceled = True
            lib.xfer_cancel(self._engine.raw, ffi.NULL, self.word, ANY)
        return not self.done()

    def end(self, event: Any) -> None:
        for memory in self._lent:
            ffi.release(memory)
        if self._canceled:
            super().cancel()
        elif event.status == lib.XFER_OK:
            self.set_result(self._value(event))
        else:
            text = _data(event).decode() if event.kind in _EXPLAINED else ""
            fenced = not event.flags & lib.XFER_MAYBE_APPLIED
            error = Error(event.status, text, event.origin, event.native_code, fenced)
            self.set_exception(error)


class _Handle:
    """What the library has until its CLOSED event, with the memory that it was lent."""

    def __init__(self, raw: Any, closed: Operation, close: Callable[[Any], int]) -> None:
        self.raw, self.closed, self._close = raw, closed, close
        self._ended = False

    @property
    def handle(self) -> Any:
        if self._ended:
            raise Error(lib.XFER_ECLOSED)
        return self.raw

    def close(self) -> Operation:
        if not self._ended:
            self._ended = True
            _check(self._close(self.raw))
        return self.closed


class Engine(_Handle):
    """An engine whose events the running loop takes. Options: those of xfer_engine_option_set."""

    def __init__(self, on_notice: Callable[[Notice], None] | None = None, **options: Any) -> None:
        self.loop, self.words = asyncio.get_running_loop(), itertools.count(1)
        self.live: dict[int, Operation] = {}
        self.handles: dict[int, Any] = {}
        self._on_notice, closed = on_notice, Operation(self)
        error, out = _error(), ffi.new("xfer_engine_t **")
        given = _struct("xfer_engine_options_t", user=closed.word)
        given.dispatch, given.flags = lib.XFER_DISPATCH_POLL, lib.XFER_ENGINE_OWN_PEERS
        texts = {key: ffi.new("char[]", str(text).encode()) for key, text in options.items()}
        for key, text in texts.items():
            _check(lib.xfer_engine_option_set(given, key.encode(), text, error), error)
        _check(lib.xfer_engine_open(given, out, error), error)
        super().__init__(out[0], closed.begun(lib.XFER_OK), lib.xfer_engine_close)
        # Forgotten, or at the end of the program: what is lent stays until the library is through.
        self._join = weakref.finalize(
            self, lambda raw, live: lib.xfer_engine_join(raw, lib.XFER_NONE), self.raw, self.live
        )
        self._events, self._count = ffi.new("xfer_event_t[]", BURST), ffi.new("uint32_t *")
        fd = ffi.new("int32_t *")
        _check(lib.xfer_engine_fd(self.raw, fd))
        self._fd = fd[0]
        self.loop.add_reader(self._fd, self._drain)

    def _drain(self) -> None:
        size, self._count[0] = ffi.sizeof("xfer_event_t"), BURST
        while self._count[0] == BURST:
            _check(lib.xfer_engine_poll(self.raw, self._events, size, BURST, 0, self._count))
            for i in range(self._count[0]):
                self._take(self._events[i])

    def _take(self, event: Any) -> None:
        if event.kind == lib.XFER_EVENT_PEER:
            closed = Operation(self)
            closed.word = event.user  # which no other handle nor operation has
            Endpoint(self, event.ep, closed)
        if event.kind in _NOTICES and self._on_notice:
            kind, ep = _NOTICES[event.kind], self.handles.get(event.user)
            notice = Notice(kind, event.status, event.flags, ep, event.tag, _data(event))
            self.loop.call_soon(self._on_notice, notice)
        if event.kind in _ENDS and event.user in self.live:
            self.handles.pop(event.user, None)
            self.live.pop(event.user).end(event)

    def listen(self, uri: str) -> str:
        bound, error = ffi.new("char[256]"), _error()
        status = lib.xfer_engine_listen(self.handle, uri.encode(), ffi.NULL, bound, 256, error)
        _check(status, error)
        return str(ffi.string(bound).decode())

    def endpoint(self, uri: str) -> Endpoint:
        out, error, closed = ffi.new("xfer_ep_t **"), _error(), Operation(self)
        options = _struct("xfer_ep_options_t", user=closed.word)
        _check(lib.xfer_ep_open(self.handle, uri.encode(), options, out, error), error)
        return Endpoint(self, out[0], closed)

    def region(
        self, memory: Any, name: str = "", access: int = READ | WRITE, blob: bytes = b""
    ) -> Region:
        lent, shown = _writable(memory), ffi.from_buffer(blob)
        text = ffi.new("char[]", name.encode()) if name else ffi.NULL
        out, error, closed = ffi.new("xfer_region_t **"), _error(), Operation(self, lent)
        options = _struct("xfer_region_options_t", access=access, user=closed.word)
        options.name, options.blob, options.blob_length = text, shown, len(blob)
        _check(lib.xfer_region_open(self.handle, options, lent, len(lent), out, error), error)
        return Region(self, out[0], closed)

    def recv(
        self,
        into: Any = 1 << 20,
        tag: int = 0,
        mask: int = ANY,
        ep: Endpoint | None = None,
        timeout: float | None = None,
    ) -> Operation:
        """The next message of that tag: into a buffer; or, of at most so many bytes, as result."""
        taken = isinstance(into, int)
        lent: tuple[Any, ...] = () if taken else (_writable(into),)
        start, limit = (ffi.NULL, into) if taken else (lent[0], len(lent[0]))
        options = _options(timeout, flags=lib.XFER_FLAG_TAKE if taken else 0)
        size = ffi.sizeof("xfer_id_t")

        def result(event: Any) -> Message:
            data, sender = _data(event), self.handles.get(event.index)
            return Message(event.bytes, event.tag, data[:size], sender, data[size:])

        op, source = Operation(self, *lent, result=result), ep.handle if ep else ffi.NULL
        return op.begun(
            lib.xfer_recv(self.handle, source, start, limit, tag, mask, op.word, options)
        )

    async def aclose(self) -> None:
        """Ends all that is under way, regions, endpoints, the engine; twice is once."""
        for handle in (*self.handles.values(), self):
            handle.close()
        try:
            await self.closed
        finally:
            self.loop.remove_reader(self._fd)
            self._join()

    async def __aenter__(self) -> Engine:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class Region(_Handle):
    """Memory that peers may use."""

    def __init__(self, engine: Engine, raw: Any, closed: Operation) -> None:
        super().__init__(raw, closed.begun(lib.XFER_OK), lib.xfer_region_close)
        engine.handles[closed.word] = self

    @property
    def ref(self) -> bytes:
        ref = ffi.new("xfer_ref_t *")
        _check(lib.xfer_region_ref(self.handle, ref))
        return bytes(ffi.buffer(ref))


class Endpoint(_Handle):
    """A peer that was dialed, or that came; it stays until close(), also while the peer is away."""

    def __init__(self, engine: Engine, raw: Any, closed: Operation) -> None:
        super().__init__(raw, closed.begun(lib.XFER_OK), lib.xfer_ep_close)
        self.engine = engine
        engine.handles[closed.word] = self

    def add_address(self, uri: str) -> None:
        error = _error()
        _check(lib.xfer_ep_add_address(self.handle, uri.encode(), error), error)

    def connect(self, timeout: float | None = None) -> Operation:
        op = Operation(self.engine)
        return op.begun(lib.xfer_ep_connect(self.handle, op.word, _options(timeout)))

    def lookup(self, name: str, wait: bool = False, timeout: float | None = None) -> Operation:
        size, error = ffi.sizeof("xfer_ref_t"), _error()

        def result(event: Any) -> Found:
            return Found(_data(event)[:size], _data(event, size))

        op = Operation(self.engine, result=result)
        options = _options(timeout, flags=lib.XFER_FLAG_WAIT if wait else 0)
        return op.begun(
            lib.xfer_ep_lookup(self.handle, name.encode(), op.word, options, error), error
        )

    def put(
        self, data: Any, ref: bytes, offset: int = 0, timeout: float | None = None
    ) -> Operation:
        lent, named, options = ffi.from_buffer(data), _ref(ref), _options(timeout)
        op = Operation(self.engine, lent)
        return op.begun(lib.xfer_put(self.handle, lent, named, offset, len(lent), op.word, options))

    def get(
        self, buffer: Any, ref: bytes, offset: int = 0, timeout: float | None = None
    ) -> Operation:
        lent, named, options = _writable(buffer), _ref(ref), _options(timeout)
        op = Operation(self.engine, lent)
        return op.begun(lib.xfer_get(self.handle, lent, named, offset, len(lent), op.word, options))

    def add(self, ref: bytes, offset: int, operand: int) -> Operation:
        """Adds to a word of the peer's; the result is what it was before."""
        return self._atomic(lib.XFER_ATOMIC_ADD, ref, offset, operand, 0)

    def compare_and_swap(self, ref: bytes, offset: int, compare: int, value: int) -> Operation:
        return self._atomic(lib.XFER_ATOMIC_CAS, ref, offset, value, compare)

    def _atomic(self, kind: int, ref: bytes, offset: int, operand: int, compare: int) -> Operation:
        op = Operation(self.engine, result=lambda event: event.index)
        args = ffi.NULL, _ref(ref), offset, operand, compare, op.word, ffi.NULL
        return op.begun(lib.xfer_atomic(self.handle, kind, *args))

    def send(
        self, data: Any, tag: int = 0, flags: int = 0, timeout: float | None = None
    ) -> Operation:
        lent, options = ffi.from_buffer(data), _options(timeout, flags=flags)
        op = Operation(self.engine, lent)
        return op.begun(lib.xfer_send(self.handle, lent, len(lent), tag, op.word, options))

    def notify(self, data: bytes, key: int, timeout: float | None = None) -> Operation:
        op, options = Operation(self.engine), _options(timeout)
        return op.begun(lib.xfer_notify(self.handle, data, len(data), key, op.word, options))

    def flush(self, timeout: float | None = None) -> Operation:
        op = Operation(self.engine)
        return op.begun(lib.xfer_ep_flush(self.handle, ffi.NULL, op.word, _options(timeout)))


class Batch:
    """Puts and gets with one peer that are submitted together, as often as wanted."""

    def __init__(self, ep: Endpoint) -> None:
        out, error = ffi.new("xfer_batch_t **"), _error()
        _check(lib.xfer_batch_open(ep.handle, ffi.NULL, out, error), error)
        self._engine, self._raw = ep.engine, out[0]
        self._lent: list[Any] = []  # one for each entry
        self.close = weakref.finalize(self, lib.xfer_batch_close, out[0])

    def put(self, data: Any, ref: bytes, offset: int = 0) -> None:
        lent = ffi.from_buffer(data)
        _check(lib.xfer_batch_put(self._raw, lent, _ref(ref), offset, len(lent)))
        self._lent.append(lent)

    def get(self, buffer: Any, ref: bytes, offset: int = 0) -> None:
        lent = _writable(buffer)
        _check(lib.xfer_batch_get(self._raw, lent, _ref(ref), offset, len(lent)))
        self._lent.append(lent)

    def submit(
        self, notify: int | None = None, data: bytes = b"", timeout: float | None = None
    ) -> Operation:
        options = _options(timeout, "xfer_submit_options_t")
        if notify is not None:
            held = ffi.from_buffer(data)
            options.flags, options.notify_key = lib.XFER_SUBMIT_NOTIFY, notify
            options.notify_data, options.notify_length = held, len(data)
        op = Operation(self._engine, result=self._ended)
        return op.begun(lib.xfer_batch_submit(self._raw, op.word, options))

    def _ended(self, event: Any) -> None:
        """Held by the operation: so a batch that is under way is not forgotten."""

    def entries(self) -> list[int]:
        """The status of each entry in the last submit."""
        statuses = ffi.new("xfer_status_t[]", len(self._lent))
        _check(lib.xfer_batch_entries(self._raw, 0, len(self._lent), statuses))
        return list(statuses)
