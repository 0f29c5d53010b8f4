# SPDX-License-Identifier: Apache-2.0
"""One member: identity, key, what it lends, whom it knows; and the one place where events come."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import os
import threading
import warnings
import weakref
from typing import Any, Callable

from xfer import _errors, _values
from xfer._buffers import writable
from xfer._calls import Calls
from xfer._counter import Counter, count
from xfer._endpoint import Endpoint
from xfer._handle import Handle
from xfer._operation import (
    GROUP_SHIFT,
    ONE_WORD,
    Completion,
    Operation,
    c_text,
    nothing,
    op_options,
    struct,
)
from xfer._options import to_struct
from xfer._region import Region, lend, make
from xfer._values import Event, Id, Kind, Message, MessageInfo, RdmaOptions
from xfer._waiting import Loop, Waiting
from xfer._xfer import ffi, lib

BURST = 64  # events with one poll
GROUP_MASK = ONE_WORD << GROUP_SHIFT & ONE_WORD
MAX_GROUP = 1 << 63 - GROUP_SHIFT  # the highest bit is of the words of peers that came
EVENT_SIZE = ffi.sizeof("xfer_event_t")
ID_SIZE = ffi.sizeof("xfer_id_t")


# What belongs to a handle and not to an operation, so that their `user` is its word.
_TOLD = {
    Kind.PEER, Kind.PEER_UP, Kind.PEER_DOWN, Kind.REGION_GONE, Kind.NOTIFY, Kind.ROOM, Kind.STALLED,
}  # fmt: skip
# What nobody waits for any more: of a counter that was closed, of a handle that was forgotten.
_LATE = {Kind.COUNTER, Kind.REVOKED, Kind.CLOSED}
_ENDS = set(Kind) - _TOLD
LAST_CALLS = 1.0  # seconds that the end of the program waits for calls of other threads


class Engine(Handle):
    """An engine, by default with one I/O thread of the library. Neither listens nor connects yet.

    options   those of xfer.engine_options(), by name, each as text or as what str() makes of it; a
              bool for yes and no, bytes for `key`, `blob` and `id`. NotFound and XferError (EINVAL)
              name the option that is wrong. Dispatch is always `poll`
    rdma      which adapters it uses, and how
    on_event  told of every Event that ends no operation: peers that come and go, notifications,
              regions that are gone, room, devices that stall. It runs where events are taken: in
              the loop's thread, or within result(), wait_for() or poll(), which then raise what it
              raises; the next event comes all the same. Without it such events are dropped

    Any thread may use an engine and all that belongs to it. The first `await` attaches it to the
    running loop, of asyncio, uvloop or trio, whose thread takes the events from then on; threads
    without a loop wait beside, and take them while it does not run. What on_event raises there is
    logged: in trio by the logger "xfer".

    on_event is told of the events in their order, one at a time: it may wait for operations, but
    is told of nothing else until it returns. It has been told of those before
    the end of an operation when a task of that loop, which awaits the operation, goes on, and when
    result() returns in the thread that takes the events; not when that returns in other threads.

    In the handler of a signal that has interrupted the thread that takes the events each wait
    raises XferError (EDEADLK): they are taken when the handler has returned.
    """

    def __init__(
        self,
        on_event: Callable[[Event], Any] | None = None,
        *,
        rdma: RdmaOptions | None = None,
        **options: str | int | bytes,
    ) -> None:
        self._engine = self
        self._live: dict[int, Operation[Any]] = {}
        self._words = itertools.count(1)
        self._endpoints: weakref.WeakValueDictionary[int, Endpoint] = weakref.WeakValueDictionary()
        self._peers: dict[int, Endpoint] = {}  # those that came and are up
        self._on_event = on_event
        self._events, self._count = ffi.new("xfer_event_t[]", BURST), ffi.new("uint32_t *")
        self._first = 0  # how many events there were before those of the last poll
        self._ending = 0  # the word of the operation that the last event has ended
        closed = Completion(self, nothing)
        given, texts = to_struct(options, rdma)
        given.user = closed.word
        given.flags |= lib.XFER_ENGINE_OWN_PEERS  # a handle is valid for as long as it is held
        out = ffi.new("xfer_engine_t **")
        self._pid, self._joined = os.getpid(), ffi.new("int *")
        self._all_returned = threading.Event()
        self._calls = Calls(functools.partial(self._free, out))
        closed._call(self._calls, lib.xfer_engine_open, given, out, error=_errors.new_error())
        del texts
        fd = ffi.new("int32_t *")
        status = lib.xfer_engine_fd(out[0], fd)
        if status != lib.XFER_OK:
            lib.xfer_engine_join(out[0], lib.XFER_NONE)
            _errors.check(status)
        close = functools.partial(self._calls, lib.xfer_engine_close, out[0])
        super().__init__(self, out[0], closed, self._calls, close)
        self._fd: int = fd[0]
        self._waiting = Waiting(self._calls, self._raw, self._fd, self._take)
        _open_engines.add(self)

    # ---- events ----

    def fileno(self) -> int:
        """The descriptor that is readable when poll() can make progress. Watch it, no more."""
        return self._fd

    def poll(self, timeout: float = 0) -> int:
        """Takes the events that are there, or waits for some up to `timeout` seconds, ends their
        operations, and tells on_event of the others. Returns how many there were."""
        before = self._waiting.taken
        self._waiting.wait_for(lambda: self._waiting.taken != before, timeout)
        return self._waiting.taken - before

    def wait_for(self, condition: Callable[[], Any], timeout: float | None = None) -> bool:
        """Takes events until condition() is true; False if it is not within `timeout` seconds."""
        return self._waiting.wait_for(condition, timeout)

    def _word(self, group: int) -> int:
        if not 0 <= group < MAX_GROUP:
            raise ValueError(f"a group is below {MAX_GROUP}")
        return group << GROUP_SHIFT | next(self._words)

    def _attach(self, loop: Loop) -> None:
        self._waiting.attach(loop)

    def _runs_in(self, loop: Loop) -> bool:
        return self._waiting.runs_in(loop)

    def _take(self) -> int:
        """One poll, called by one thread at a time, and its status. An interrupt, as by Ctrl-C, may
        come anywhere and loses no event: one that does not count as taken is dispatched again."""
        waiting = self._waiting
        if waiting.taken - self._first >= self._count[0]:
            self._count[0] = 0
            self._first = waiting.taken
            args = self._events, EVENT_SIZE, BURST, 0, self._count
            status: int = lib.xfer_engine_poll(self._raw, *args)
            if status:
                return status
        first, count = self._first, self._count[0]
        while waiting.taken - first < count:
            self._dispatch(self._events[waiting.taken - first])
            waiting.taken += 1
        if self.closed._done:
            self._join()
        return 0

    def _dispatch(self, event: Any) -> None:
        """To dispatch an event twice is to do it once."""
        kind = event.kind
        operation = self._live.get(event.user) if kind in _ENDS else None
        if operation is not None:
            self._ending = operation.word
            operation._end(event)
            self._live.pop(operation.word, None)
        elif kind in _ENDS and event.user == self._ending:
            pass  # an interrupt came behind that
        elif kind == lib.XFER_EVENT_PEER:
            self._tell_of(event, self._came(event))
        elif kind not in _LATE:
            self._tell_of(event, self._endpoints.get(event.user))
            if kind == lib.XFER_EVENT_PEER_DOWN:
                self._peers.pop(event.user, None)

    def _came(self, event: Any) -> Endpoint:
        """The handle of a peer that came. An interrupt leaves none, or all of it."""
        ep = self._peers.get(event.user)
        if ep is None or ep._ended:
            closed = Completion(self, nothing)
            closed.word = event.user  # which no other handle nor operation has
            self._live[closed.word] = closed
            slot = ffi.new("xfer_ep_t **", event.ep)
            ep = Endpoint(self, slot, closed, came=True)
        return ep

    def _tell_of(self, event: Any, ep: Endpoint | None) -> None:
        if self._on_event is None:
            return
        kind = _values.known(Kind, event.kind)
        status = _values.known(_values.Status, event.status)
        data = _values.data_of(event)
        stall = (event.index, event.bytes) if kind == Kind.STALLED else ()
        told = Event(
            kind, status, event.flags, event.origin, event.native_code,
            ep, event.tag, data, event.user, event.sequence, *stall,
        )  # fmt: skip
        self._waiting.will_tell(self._on_event, told)

    # ---- what it is ----

    @property
    def id(self) -> Id:
        """Its identity, with an incarnation of this open."""
        raw = ffi.new("xfer_id_t *")
        _errors.check(self._calls(lib.xfer_engine_id, self.raw, raw))
        return Id.of(raw)

    @property
    def addresses(self) -> str:
        """Where peers may dial this engine: a comma list that endpoint() takes as it is."""
        return _text(self._calls, lib.xfer_engine_addresses, self.raw)

    @property
    def kinds(self) -> set[int]:
        """The kinds of memory that it moves."""
        mask = ffi.new("uint64_t *")
        _errors.check(self._calls(lib.xfer_engine_kinds, self.raw, mask))
        return _values.members(_values.Memory, mask[0])

    @property
    def transports(self) -> set[int]:
        """The transports that it uses."""
        mask = ffi.new("uint64_t *")
        _errors.check(self._calls(lib.xfer_engine_transports, self.raw, mask))
        return _values.members(_values.Transport, mask[0])

    def describe(self) -> dict[str, Any]:
        """Identity, options as they took effect, counters, listeners, peers, connections and lanes,
        the last errors, regions, grants. Ignore members that you do not know."""
        text = _text(self._calls, lib.xfer_engine_describe, self.raw)
        described: dict[str, Any] = json.loads(text)
        return described

    def stats(self) -> dict[str, Any]:
        """Counters since the open, named as in xfer_engine_stats_t."""
        raw = ffi.new("xfer_engine_stats_t *")
        size = ffi.sizeof("xfer_engine_stats_t")
        _errors.check(self._calls(lib.xfer_engine_stats, self.raw, raw, size))
        return _values.as_dict(raw[0])

    # ---- what it does ----

    def listen(
        self,
        uri: str,
        *,
        insecure: bool = False,
        mode: int = 0,
        advertise: str | None = None,
        user: int = 0,
    ) -> str:
        """Accepts peers at `uri`; returns the address that was bound, as peers can dial it.

        insecure   allows listening beyond loopback without a key
        mode       permission bits of a UNIX socket's file; default 0o600
        advertise  comma list of URIs that peers should dial; "{port}" is the port that was bound
        user       comes back as `tag` of the PEER events of peers that were accepted here

        XferError: EADDR (no such URI), EADDRINUSE, EAUTH (beyond loopback without a key),
        EUNSUPPORTED (no transport of this engine serves it); AccessDenied, as of a low port.
        """
        flags = lib.XFER_LISTEN_INSECURE if insecure else 0
        options = struct("xfer_listen_options_t", flags=flags, mode=mode, user=user)
        text = ffi.NULL if advertise is None else ffi.new("char[]", c_text(advertise))
        options.advertise = text
        bound, error = ffi.new("char[256]"), _errors.new_error()
        args = self.raw, c_text(uri), options, bound, 256, error
        _errors.check(self._calls(lib.xfer_engine_listen, *args), error)
        return str(ffi.string(bound).decode())

    def endpoint(self, uri: str | None = None, *, peer: Id | bytes | None = None) -> Endpoint:
        """A handle for the engine at `uri`, or at each address of a comma list; its first use
        connects. With `peer`, an Id or its 16 bytes, for that engine wherever it is. XferError:
        EADDR, EUNSUPPORTED (no address is left that a transport of this engine dials)."""
        closed, out, error = Completion(self, nothing), ffi.new("xfer_ep_t **"), _errors.new_error()
        options = struct("xfer_ep_options_t", user=closed.word)
        who = ffi.new("xfer_id_t *")
        if peer is not None:
            identity = peer.bytes if isinstance(peer, Id) else peer
            if len(identity) != len(who.bytes):
                raise ValueError(f"an identity has {len(who.bytes)} bytes, not {len(identity)}")
            who.bytes = identity
            options.peer = who
        where = ffi.NULL if uri is None else c_text(uri)
        args = self.raw, where, options, out
        closed._call(self._calls, lib.xfer_ep_open, *args, error=error)
        return Endpoint(self, out, closed)

    def region(self, memory: Any, name: str = "", access: int = 0, blob: bytes = b"") -> Region:
        """Lends `memory` to the engine, and to peers as `access` says, until the region is closed.

        memory  a C-contiguous buffer, or array of a device; writable, if peers may write
        name    1 to 255 bytes, unique in the engine, for lookup(); default: none
        blob    shown to peers that look it up, at most 1024 bytes

        BufferError if it is not contiguous, or read-only where peers may write; XferError: EEXIST
        (the name), EMEMKIND (no transport serves that memory), E2BIG.
        """
        return lend(self, memory, name, access, blob)

    def alloc(
        self,
        length: int,
        name: str = "",
        access: int = 0,
        blob: bytes = b"",
        *,
        huge_pages: bool = False,
        numa_node: int | None = None,
    ) -> Region:
        """A region of `length` bytes that the library makes, zeroed, as its `memory`: local peers
        map it. The memory ends when the region is closed and its last view is gone."""
        return make(self, length, name, access, blob, huge_pages, numa_node)

    def recv(
        self,
        into: Any,
        tag: int = 0,
        mask: int = ONE_WORD,
        *,
        ep: Endpoint | None = None,
        timeout: float | None = None,
        group: int = 0,
    ) -> Operation[Message]:
        """Receives the first message whose tag equals `tag` in the bits of `mask`, of any peer or
        of that of `ep`: into a buffer or, if `into` is a number, of at most so many bytes, as
        `data` of the result. Truncated if it is longer than the buffer."""
        calls, function, source = self._source(ep, lib.xfer_recv)
        if isinstance(into, int):
            start, capacity, held, flags = ffi.NULL, into, None, lib.XFER_FLAG_TAKE
        else:
            (start, capacity, held), flags = writable(into), 0
        return Operation(self, self._message, held, group)._begin(
            calls, function, self.raw, source, start, capacity, tag, mask,
            options=op_options(timeout, flags),
        )  # fmt: skip

    def _message(self, event: Any) -> Message:
        data = _values.data_of(event)
        sender = Id.of(ffi.cast("xfer_id_t *", event.data))
        ep = self._endpoints.get(event.index)
        return Message(event.bytes, event.tag, sender, ep, data[ID_SIZE:])

    def peek(
        self, tag: int = 0, mask: int = ONE_WORD, *, ep: Endpoint | None = None
    ) -> MessageInfo | None:
        """The message that such a receive would get now, which stays where it is; None if none."""
        calls, function, source = self._source(ep, lib.xfer_peek)
        raw, size = ffi.new("xfer_message_info_t *"), ffi.sizeof("xfer_message_info_t")
        status = calls(function, self.raw, source, tag, mask, raw, size)
        if status == lib.XFER_ENOTFOUND:
            return None
        _errors.check(status)
        return MessageInfo(Id.of(raw.sender), raw.tag, raw.length)

    def counter(self, key: int, expected: int, timeout: float | None = None) -> Counter:
        """Counts notifications with `key`, from whatever peer, instead of telling on_event."""
        return count(self, key, expected, timeout)

    def cancel(self, group: int | None = None, ep: Endpoint | None = None) -> None:
        """Asks for an early end of all operations of one group, or of all; with `ep` only of those
        that were begun with it. Each still ends by its event. Any thread."""
        word, mask = (0, 0) if group is None else (group << GROUP_SHIFT, GROUP_MASK)
        calls, function, source = self._source(ep, lib.xfer_cancel)
        _errors.check(calls(function, self.raw, source, word, mask))

    def _source(self, ep: Endpoint | None, function: Any) -> tuple[Calls, Any, Any]:
        """How to call what may have an endpoint too, which another thread may close as well."""
        if ep is None:
            return self._calls, function, ffi.NULL
        return ep._calls, functools.partial(self._calls, function), ep._raw

    def drain(self, timeout: float | None = None) -> Operation[None]:
        """Ends all work before the end of the engine, as for a rolling restart: what is under way
        ends, nothing new begins. close() is still to come."""
        return Operation(self, nothing)._begin(
            self._calls, lib.xfer_engine_drain, self.raw, options=op_options(timeout)
        )

    def wake(self) -> None:
        """Has wait_for() in another thread look at its condition again."""
        self._waiting.wake()

    # ---- the end ----

    def _join(self) -> None:
        """Frees the engine, which is closed or of which nothing is left in Python, as soon as no
        other thread is in a call with it."""
        self._ended = True
        self._waiting.end()
        self._calls.end()

    def _free(self, out: Any) -> int:
        try:
            lib.xfer_py_join(out, self._joined)
        finally:  # an interrupt comes behind that
            if self._joined[0]:
                self._end_the_rest()
                self._all_returned.set()
        return lib.XFER_OK  # type: ignore[no-any-return]

    def _end_the_rest(self) -> None:
        """What had no event."""
        for operation in list(self._live.values()):
            if not operation.done():
                operation._finish(_errors.of_status(lib.XFER_ECLOSED))
        self._live.clear()
        self._peers.clear()

    def _is_foreign(self) -> bool:
        """In a child of fork everything belongs to the parent."""
        return os.getpid() != self._pid

    def _forgotten(self) -> None:
        """Says so, unless it was closed, and waits until the library is through with what it was
        lent. In a child of fork that only ends the child's part in the parent's descriptors."""
        if self._joined[0]:
            return
        if self._is_foreign():
            self._calls.forget()
        try:
            if not self._ended and not self._is_foreign():
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
        finally:  # a warning may be an error
            self._join()

    def __del__(self) -> None:
        if hasattr(self, "_waiting"):  # it was opened
            self._forgotten()

    def __repr__(self) -> str:
        return f"<xfer.Engine fd={self._fd}{' closed' if self._ended else ''}>"


_open_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


@atexit.register
def _end_of_the_program() -> None:
    with contextlib.ExitStack() as all_of_them:  # also if a warning is an error
        for engine in list(_open_engines):
            all_of_them.callback(engine._all_returned.wait, LAST_CALLS)
            all_of_them.callback(engine._forgotten)


def _text(function: Any, *args: Any) -> str:
    """Of a call that writes a text, and tells how long it is."""
    needed = ffi.new("uint64_t *")
    cap, status = 0, lib.XFER_ENOSPC
    text = ffi.NULL
    while status == lib.XFER_ENOSPC:  # again, if it has grown meanwhile
        text = ffi.new("char[]", cap + 1)
        status = function(*args, text, cap, needed)
        cap = needed[0]
    _errors.check(status)
    return str(ffi.string(text).decode())
