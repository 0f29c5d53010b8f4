# SPDX-License-Identifier: Apache-2.0
"""A handle for one peer, and what is done with it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from xfer import _errors, _values
from xfer._batch import Batch, open_batch
from xfer._buffers import readable, writable
from xfer._calls import Calls
from xfer._handle import Handle
from xfer._operation import Operation, bytes_moved, c_text, nothing, op_options
from xfer._values import Found, Id, PeerInfo, Ref, State, Status
from xfer._xfer import ffi, lib

if TYPE_CHECKING:
    from xfer._engine import Engine

REF_SIZE = ffi.sizeof("xfer_ref_t")
LETTING_GO = (lib.XFER_ETIMEDOUT, lib.XFER_ECANCELED)


class Endpoint(Handle):
    """A peer that was dialed by Engine.endpoint(), or that came with a PEER event. It connects on
    first use, and again when it must.

    One that came is held by its engine until PEER_DOWN, and by whoever keeps it; once forgotten
    it is closed. Common arguments:

    ref      what the peer lends, of a lookup() or sent by any means; `offset` bytes in it
    timeout  deadline of the operation in seconds: TimedOut; None: the engine's, math.inf: none
    group    a number below 2**23 of the caller's, for Engine.cancel()

    The memory of a put, get or send is lent until the operation is done, without a copy; what is
    not C-contiguous is refused with BufferError. Raised by the call: Again where the endpoint is
    full (a ROOM event follows), XferError (ERANGE) beyond what the ref names, AccessDenied, Closed.
    Raised by the operation: Stale, Revoked, TimedOut, Canceled, PeerLost, Unreachable. Any thread.
    """

    def __init__(
        self, engine: Engine, slot: Any, closed: Operation[None], came: bool = False
    ) -> None:
        self._warns = not came
        # What quiet operations were lent since the last flush, by their words, and whether the call
        # that begins it has returned.
        self._quiet: dict[int, tuple[Any, bool]] = {}
        closed._held = self._quiet
        engine._endpoints[closed.word] = self
        if came:
            engine._peers[closed.word] = self
        calls = Calls(functools.partial(lib.xfer_py_ep_close, slot))
        super().__init__(engine, slot[0], closed, calls, calls.end)

    # ---- the peer ----

    @property
    def state(self) -> int:
        """State."""
        state = ffi.new("uint32_t *")
        _errors.check(self._calls(lib.xfer_ep_state, self._raw, state))
        return _values.known(State, state[0])

    @property
    def peer(self) -> PeerInfo:
        """What is known of the peer."""
        raw = ffi.new("xfer_peer_info_t *")
        _errors.check(self._calls(lib.xfer_ep_peer, self._raw, raw, ffi.sizeof("xfer_peer_info_t")))
        who = Id.of(raw.id)
        return PeerInfo(
            who if any(who.bytes) else None,
            _values.known(State, raw.state),
            ffi.string(raw.address).decode(),
            ffi.buffer(raw.blob)[: raw.blob_length],
        )

    def add_address(self, uri: str) -> None:
        """Adds an address, or a comma list, such as where the peer was restarted."""
        error = _errors.new_error()
        _errors.check(self._calls(lib.xfer_ep_add_address, self._raw, c_text(uri), error), error)

    def admit(self, verdict: int = Status.OK) -> None:
        """Lets in the peer of a PEER event, where the engine has `ask`; or, with EACCESS or
        EOVERLOAD, turns it away, which also ends a connection that is up."""
        _errors.check(self._calls(lib.xfer_ep_admit, self._raw, verdict))

    def stats(self) -> dict[str, Any]:
        """Counters of this endpoint, named as in xfer_ep_stats_t."""
        raw = ffi.new("xfer_ep_stats_t *")
        _errors.check(self._calls(lib.xfer_ep_stats, self._raw, raw, ffi.sizeof("xfer_ep_stats_t")))
        return _values.as_dict(raw[0])

    def connect(self, timeout: float | None = None, group: int = 0) -> Operation[None]:
        """Connects now. Unreachable, or what else the last failed attempt ended with."""
        return Operation(self, nothing, None, group)._begin(
            self._calls, lib.xfer_ep_connect, self._raw, options=op_options(timeout)
        )

    def probe(self, timeout: float | None = None, group: int = 0) -> Operation[float]:
        """Measures a round trip to the peer's engine, in seconds."""
        return Operation(self, _round_trip, None, group)._begin(
            self._calls, lib.xfer_ep_probe, self._raw, options=op_options(timeout)
        )

    def lookup(
        self, name: str, *, wait: bool = False, timeout: float | None = None, group: int = 0
    ) -> Operation[Found]:
        """The ref and blob of the peer's region of that name. NotFound; with `wait` it waits until
        there is one."""
        return Operation(self, _found, None, group)._begin(
            self._calls,
            lib.xfer_ep_lookup,
            self._raw,
            c_text(name),
            options=op_options(timeout, lib.XFER_FLAG_WAIT if wait else 0),
            error=_errors.new_error(),
        )

    # ---- bytes ----

    def put(
        self,
        data: Any,
        ref: Ref,
        offset: int = 0,
        *,
        copy: bool = False,
        timeout: float | None = None,
        group: int = 0,
    ) -> Operation[int]:
        """Writes all of `data` there. Done: it lies in the peer's memory. With `copy`, of at most
        4096 bytes, the data may be changed when this returns. Gives the number of bytes."""
        start, length, held = readable(data)
        return Operation(self, bytes_moved, None if copy else held, group)._begin(
            self._calls, lib.xfer_put, self._raw, start, ref.raw, offset, length,
            options=op_options(timeout, lib.XFER_FLAG_COPY if copy else 0),
        )  # fmt: skip

    def get(
        self, into: Any, ref: Ref, offset: int = 0, *, timeout: float | None = None, group: int = 0
    ) -> Operation[int]:
        """Reads as many bytes as `into`, which is writable, has. Gives their number. If it fails
        `into` may have been written in part."""
        start, length, held = writable(into)
        return Operation(self, bytes_moved, held, group)._begin(
            self._calls,
            lib.xfer_get,
            self._raw,
            start,
            ref.raw,
            offset,
            length,
            options=op_options(timeout),
        )

    def fetch_add(
        self,
        ref: Ref,
        offset: int,
        operand: int,
        *,
        timeout: float | None = None,
        group: int = 0,
    ) -> Operation[int]:
        """Adds to the 64-bit word at `offset`, which is divisible by 8, modulo 2**64. Gives the
        word before, unsigned. XferError (EINVAL) at another offset."""
        return self._atomic(lib.XFER_ATOMIC_ADD, ref, offset, operand, 0, timeout, group)

    def compare_and_swap(
        self,
        ref: Ref,
        offset: int,
        compare: int,
        value: int,
        *,
        timeout: float | None = None,
        group: int = 0,
    ) -> Operation[int]:
        """Stores `value` if the word equals `compare`. Gives the word before."""
        return self._atomic(lib.XFER_ATOMIC_CAS, ref, offset, value, compare, timeout, group)

    def _atomic(
        self,
        kind: int,
        ref: Ref,
        offset: int,
        operand: int,
        compare: int,
        timeout: float | None,
        group: int,
    ) -> Operation[int]:
        word = 2**64 - 1  # negative numbers are taken as their two's complement
        return Operation(self, _before, None, group)._begin(
            self._calls, lib.xfer_atomic, self._raw, kind, ffi.NULL, ref.raw, offset,
            operand & word, compare & word, options=op_options(timeout),
        )  # fmt: skip

    def batch(self) -> Batch:
        """An empty batch of puts and gets with this peer."""
        return open_batch(self)

    # ---- messages ----

    def send(
        self,
        data: Any,
        tag: int = 0,
        *,
        sync: bool = False,
        copy: bool = False,
        timeout: float | None = None,
        group: int = 0,
    ) -> Operation[None]:
        """Sends a message to the peer's application. Done: it was received or is held there; with
        `sync`: was received."""
        start, length, held = readable(data)
        flags = (lib.XFER_FLAG_SYNC if sync else 0) | (lib.XFER_FLAG_COPY if copy else 0)
        return Operation(self, nothing, None if copy else held, group)._begin(
            self._calls,
            lib.xfer_send,
            self._raw,
            start,
            length,
            tag,
            options=op_options(timeout, flags),
        )

    def notify(
        self, data: Any, key: int, *, timeout: float | None = None, group: int = 0
    ) -> Operation[None]:
        """Raises a NOTIFY event with `key` and at most 1024 bytes in the peer's application. Done:
        the peer's engine has it. The data is copied."""
        start, length, _ = readable(data)
        return Operation(self, nothing, None, group)._begin(
            self._calls, lib.xfer_notify, self._raw, start, length, key, options=op_options(timeout)
        )

    # ---- quiet operations, and the flush that tells of them ----

    def put_quiet(
        self,
        data: Any,
        ref: Ref,
        offset: int = 0,
        *,
        timeout: float | None = None,
        group: int = 0,
    ) -> None:
        """A put that tells nothing if it ends well. The memory is lent until a flush() that begins
        after it is done. One that fails is told to on_event too."""
        start, length, held = readable(data)
        args = start, ref.raw, offset, length
        self._begin_quiet(lib.xfer_put, *args, held=held, timeout=timeout, group=group)

    def get_quiet(
        self,
        into: Any,
        ref: Ref,
        offset: int = 0,
        *,
        timeout: float | None = None,
        group: int = 0,
    ) -> None:
        """As put_quiet()."""
        start, length, held = writable(into)
        args = start, ref.raw, offset, length
        self._begin_quiet(lib.xfer_get, *args, held=held, timeout=timeout, group=group)

    def add_quiet(
        self,
        ref: Ref,
        offset: int,
        operand: int,
        *,
        timeout: float | None = None,
        group: int = 0,
    ) -> None:
        """As put_quiet(); nobody is told the word before."""
        args = lib.XFER_ATOMIC_ADD, ffi.NULL, ref.raw, offset, operand & 2**64 - 1, 0
        self._begin_quiet(lib.xfer_atomic, *args, timeout=timeout, group=group)

    def send_quiet(
        self, data: Any, tag: int = 0, *, timeout: float | None = None, group: int = 0
    ) -> None:
        """As put_quiet()."""
        start, length, held = readable(data)
        args = start, length, tag
        self._begin_quiet(lib.xfer_send, *args, held=held, timeout=timeout, group=group)

    def notify_quiet(
        self, data: Any, key: int, *, timeout: float | None = None, group: int = 0
    ) -> None:
        """As put_quiet(); the data is copied."""
        start, length, _ = readable(data)
        self._begin_quiet(lib.xfer_notify, start, length, key, timeout=timeout, group=group)

    def _begin_quiet(
        self,
        function: Any,
        *args: Any,
        held: Any = None,
        timeout: float | None,
        group: int,
    ) -> None:
        options = _QUIET if timeout is None else op_options(timeout, lib.XFER_FLAG_QUIET)
        word = self._engine._word(group)
        if held is not None:  # first: whatever comes between must not free it
            self._quiet[word] = held, False
        status = self._calls(function, self._raw, *args, word, options)
        if status != lib.XFER_OK:
            self._quiet.pop(word, None)
            _errors.check(status)
        elif held is not None:
            self._quiet[word] = held, True

    def flush(self, timeout: float | None = None, group: int = 0) -> Operation[None]:
        """Waits for all that was begun with this handle before, and fails as the first of it that
        failed since the last flush. After TimedOut or Canceled, which may be of the wait alone,
        what quiet operations were lent stays so until a later flush."""
        flush = _Flush(self, group)
        flush._begin(
            self._calls, lib.xfer_ep_flush, self._raw, ffi.NULL, options=op_options(timeout)
        )
        return flush

    def __repr__(self) -> str:
        return f"<xfer.Endpoint{' closed' if self._ended else ''} at {id(self):#x}>"


class _Flush(Operation[None]):
    """Gives back what the quiet operations before it were lent."""

    __slots__ = ("_covers", "_quiet")

    def __init__(self, ep: Endpoint, group: int) -> None:
        super().__init__(ep, nothing, None, group)
        # Not what another thread is about to begin, which the library's flush may be before.
        self._quiet = ep._quiet
        self._covers = [word for word, (_, begun) in list(ep._quiet.items()) if begun]

    def _finish(self, error: _errors.XferError | None) -> None:
        # If only the wait has ended they may still be under way.
        if error is None or error.status not in LETTING_GO:
            for word in self._covers:
                self._quiet.pop(word, None)
        self._covers = []
        super()._finish(error)


_QUIET = op_options(None, lib.XFER_FLAG_QUIET)


def _round_trip(event: Any) -> float:
    return float(event.bytes / 1e9)


def _before(event: Any) -> int:
    return int(event.index)


def _found(event: Any) -> Found:
    data = _values.data_of(event)
    raw = ffi.new("xfer_ref_t *")
    ffi.memmove(raw, data, REF_SIZE)
    return Found(Ref.of(raw), data[REF_SIZE:])
