# SPDX-License-Identifier: Apache-2.0
"""Numbers of the header by their names, and what the library tells as values."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

from xfer import _errors
from xfer._operation import c_text
from xfer._xfer import ffi, lib

if TYPE_CHECKING:
    from xfer._endpoint import Endpoint


class Status(enum.IntEnum):
    """XFER_*. A status of a later library is an int that is none of these."""

    OK = lib.XFER_OK
    EINVAL = lib.XFER_EINVAL
    EBADHANDLE = lib.XFER_EBADHANDLE
    E2BIG = lib.XFER_E2BIG
    ENOMEM = lib.XFER_ENOMEM
    EAGAIN = lib.XFER_EAGAIN
    ETOOBIG = lib.XFER_ETOOBIG
    EDEGRADED = lib.XFER_EDEGRADED
    EBUSY = lib.XFER_EBUSY
    ECLOSED = lib.XFER_ECLOSED
    EDEADLK = lib.XFER_EDEADLK
    EFORKED = lib.XFER_EFORKED
    EUNSUPPORTED = lib.XFER_EUNSUPPORTED
    EEXIST = lib.XFER_EEXIST
    ENOTFOUND = lib.XFER_ENOTFOUND
    EACCESS = lib.XFER_EACCESS
    ERANGE = lib.XFER_ERANGE
    ESTALE = lib.XFER_ESTALE
    ETIMEDOUT = lib.XFER_ETIMEDOUT
    ECANCELED = lib.XFER_ECANCELED
    EPEERLOST = lib.XFER_EPEERLOST
    EUNREACHABLE = lib.XFER_EUNREACHABLE
    ENAME = lib.XFER_ENAME
    EADDRINUSE = lib.XFER_EADDRINUSE
    EADDR = lib.XFER_EADDR
    EAUTH = lib.XFER_EAUTH
    EIDENTITY = lib.XFER_EIDENTITY
    EPROTO = lib.XFER_EPROTO
    EVERSION = lib.XFER_EVERSION
    ETRUNC = lib.XFER_ETRUNC
    ECHECKSUM = lib.XFER_ECHECKSUM
    EMEMKIND = lib.XFER_EMEMKIND
    EOVERLOAD = lib.XFER_EOVERLOAD
    EREVOKED = lib.XFER_EREVOKED
    ENOFILES = lib.XFER_ENOFILES
    EIO = lib.XFER_EIO
    ENOSPC = lib.XFER_ENOSPC
    EINTERNAL = lib.XFER_EINTERNAL


class Kind(enum.IntEnum):
    """XFER_EVENT_*."""

    PUT = lib.XFER_EVENT_PUT
    GET = lib.XFER_EVENT_GET
    BATCH = lib.XFER_EVENT_BATCH
    SEND = lib.XFER_EVENT_SEND
    RECV = lib.XFER_EVENT_RECV
    LOOKUP = lib.XFER_EVENT_LOOKUP
    PROBE = lib.XFER_EVENT_PROBE
    CONNECT = lib.XFER_EVENT_CONNECT
    PEER = lib.XFER_EVENT_PEER
    PEER_UP = lib.XFER_EVENT_PEER_UP
    PEER_DOWN = lib.XFER_EVENT_PEER_DOWN
    REGION_GONE = lib.XFER_EVENT_REGION_GONE
    NOTIFY = lib.XFER_EVENT_NOTIFY
    COUNTER = lib.XFER_EVENT_COUNTER
    REVOKED = lib.XFER_EVENT_REVOKED
    ROOM = lib.XFER_EVENT_ROOM
    DRAINED = lib.XFER_EVENT_DRAINED
    CLOSED = lib.XFER_EVENT_CLOSED
    NOTIFIED = lib.XFER_EVENT_NOTIFIED
    ATOMIC = lib.XFER_EVENT_ATOMIC
    FLUSH = lib.XFER_EVENT_FLUSH
    STALLED = lib.XFER_EVENT_STALLED


class Access(enum.IntFlag):
    """What peers may do with a region: get, put, atomics."""

    NONE = 0
    READ = lib.XFER_READ
    WRITE = lib.XFER_WRITE
    ATOMIC = lib.XFER_ATOMIC


class State(enum.IntEnum):
    """Of an endpoint: XFER_EP_*."""

    IDLE = lib.XFER_EP_IDLE
    CONNECTING = lib.XFER_EP_CONNECTING
    READY = lib.XFER_EP_READY
    CLOSED = lib.XFER_EP_CLOSED


class Transport(enum.IntEnum):
    """XFER_TRANSPORT_*."""

    LOOPBACK = lib.XFER_TRANSPORT_LOOPBACK
    TCP = lib.XFER_TRANSPORT_TCP
    SHM = lib.XFER_TRANSPORT_SHM
    RDMA = lib.XFER_TRANSPORT_RDMA
    CUDA = lib.XFER_TRANSPORT_CUDA
    UNIX = lib.XFER_TRANSPORT_UNIX


class Memory(enum.IntEnum):
    """Kinds of memory: XFER_MEM_*."""

    HOST = lib.XFER_MEM_HOST
    CUDA = lib.XFER_MEM_CUDA
    HIP = lib.XFER_MEM_HIP
    ZE = lib.XFER_MEM_ZE
    FILE = lib.XFER_MEM_FILE


class Id(NamedTuple):
    """The identity of an engine. str() is its text, as in describe() and logs."""

    bytes: bytes  # 16; stays over restarts if the user gives it
    incarnation: int  # new at every open

    def __str__(self) -> str:
        text = ffi.new("char[]", lib.XFER_ID_TEXT_SIZE)
        _errors.check(lib.xfer_id_text(self.to_c(), text, lib.XFER_ID_TEXT_SIZE))
        return str(ffi.string(text).decode())

    def to_c(self) -> Any:
        """An xfer_id_t * for calls of xfer._xfer.lib."""
        return ffi.new("xfer_id_t *", self._asdict())

    @classmethod
    def of(cls, raw: Any) -> Id:
        """A copy of an xfer_id_t."""
        return cls(ffi.buffer(raw.bytes)[:], raw.incarnation)

    @classmethod
    def parse(cls, text: str) -> Id:
        """Reads what str() wrote. XferError (EINVAL) if it is anything else."""
        raw = ffi.new("xfer_id_t *")
        _errors.check(lib.xfer_id_parse(c_text(text), raw))
        return cls.of(raw)


class RefInfo(NamedTuple):
    """What a ref says of itself."""

    owner: Id
    region: int  # the owner's number of the region, or of the grant
    offset: int
    length: int  # bytes
    generation: int
    access: Access
    kind: int


class Ref:
    """Names a peer's region or a part of it, for as long as that region lives.

    bytes(ref) and str(ref) may be sent by any means; Ref(those bytes) and Ref.parse(that text)
    raise XferError (EINVAL, EVERSION) if they are no ref. Whoever has it and the key may use it.
    """

    __slots__ = ("raw",)

    def __init__(self, data: Any) -> None:
        raw = ffi.new("xfer_ref_t *")
        if len(data) != ffi.sizeof("xfer_ref_t"):
            raise _errors.of_status(lib.XFER_EINVAL, f"a ref has 96 bytes, not {len(data)}")
        ffi.memmove(raw, data, ffi.sizeof("xfer_ref_t"))
        info = ffi.new("xfer_ref_info_t *")
        _errors.check(lib.xfer_ref_info(raw, info, ffi.sizeof("xfer_ref_info_t")))
        self.raw = raw

    @classmethod
    def of(cls, raw: Any) -> Ref:
        """Of an xfer_ref_t * that nobody else changes."""
        ref = cls.__new__(cls)
        ref.raw = raw
        return ref

    @classmethod
    def parse(cls, text: str) -> Ref:
        """Reads what str() wrote."""
        raw = ffi.new("xfer_ref_t *")
        _errors.check(lib.xfer_ref_parse(c_text(text), raw))
        return cls.of(raw)

    @property
    def info(self) -> RefInfo:
        """What it says of itself; whether it is still valid only its owner knows."""
        raw = ffi.new("xfer_ref_info_t *")
        _errors.check(lib.xfer_ref_info(self.raw, raw, ffi.sizeof("xfer_ref_info_t")))
        owner, access = Id.of(raw.owner), Access(raw.access)
        where = raw.region, raw.offset, raw.length, raw.generation
        return RefInfo(owner, *where, access, raw.kind)

    def __len__(self) -> int:
        """How many bytes it names."""
        return self.info.length

    def __bytes__(self) -> bytes:
        return bytes(ffi.buffer(self.raw))

    def __str__(self) -> str:
        text = ffi.new("char[]", lib.XFER_REF_TEXT_SIZE)
        _errors.check(lib.xfer_ref_text(self.raw, text, lib.XFER_REF_TEXT_SIZE))
        return str(ffi.string(text).decode())

    def __repr__(self) -> str:
        return f"<xfer.Ref of {len(self)} bytes of {self.info.owner}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and bytes(self) == bytes(other)

    def __hash__(self) -> int:
        return hash(bytes(self))


class Found(NamedTuple):
    """What a lookup found."""

    ref: Ref
    blob: bytes


class Message(NamedTuple):
    """A message that was received."""

    length: int  # bytes, in full
    tag: int
    sender: Id
    ep: Endpoint | None  # where to answer, unless it is gone
    data: bytes  # empty if it was received into a buffer


class MessageInfo(NamedTuple):
    """A message that waits for its receive."""

    sender: Id
    tag: int
    length: int


class PeerInfo(NamedTuple):
    """What is known of the peer of an endpoint."""

    id: Id | None  # None until the first connection
    state: int  # State
    address: str  # where we dial, or where it came from
    blob: bytes


class RegionInfo(NamedTuple):
    """Where a region lies, and how it is lent."""

    address: int
    length: int  # bytes
    id: int
    generation: int
    access: Access
    kind: int  # Memory


class BatchInfo(NamedTuple):
    """Of the submit that is under way, or else of the last one."""

    inflight: bool
    status: int
    entries: int
    bytes: int
    first_failed: int


class StreamResult(NamedTuple):
    """What has become of a batch on a stream of CUDA, by its last run: the one of its submit, or in
    a graph each launch."""

    status: int  # OK before the first; why there was none, behind an early end
    fenced: bool  # nothing of it can land any more; False: treat the range as undefined
    runs: int  # that have ended since the submit
    failures: int  # of them, those that did not end with OK
    address: int  # of the xfer_cuda_result_t that kernels behind it may read, until the next submit


class OptionInfo(NamedTuple):
    """An option of Engine."""

    name: str
    values: str  # such as "NUMBER|none"
    help: str
    kind: int  # XFER_OPTION_*


class RdmaOptions(NamedTuple):
    """Which adapters an engine uses, and how: as xfer_rdma_options_t. None is the default."""

    devices: str | None = None
    queue_depth: int | None = None
    ack_timeout: int | None = None
    retries: int | None = None  # 0: a packet is not sent again. Messages wait 0.33 s at most
    traffic_class: int = 0
    service_level: int = 0


class Event(NamedTuple):
    """What no operation waited for. Which fields are set, kind by kind: xfer_event_t."""

    kind: int  # Kind, unless a later library made it
    status: int
    flags: int
    origin: int
    native_code: int
    ep: Endpoint | None
    tag: int  # of NOTIFY the key; of PEER the listener's `user`; of STALLED the device
    data: bytes
    user: int  # the word of the operation or handle
    sequence: int
    thread: int = 0  # of STALLED: the I/O thread
    lasting_ns: int = 0  # of STALLED: since a copy has ended

    @property
    def name(self) -> str:
        """Such as "XFER_EVENT_PEER_UP"; "XFER_EVENT_UNKNOWN" of a later library."""
        return str(ffi.string(lib.xfer_event_name(self.kind)).decode())

    @property
    def restarted(self) -> bool:
        """Of PEER_UP: another incarnation than before; old refs are stale."""
        return bool(self.flags & lib.XFER_RESTARTED)

    @property
    def id(self) -> Id:
        """Of PEER_UP: who it is. ValueError of any other."""
        if self.kind != Kind.PEER_UP:
            raise ValueError(f"{self.name} tells of no identity")
        return Id.of(ffi.cast("xfer_id_t *", ffi.from_buffer(self.data)))

    @property
    def blob(self) -> bytes:
        """Of PEER_UP: what the peer shows."""
        return self.data[ffi.sizeof("xfer_id_t") :]

    @property
    def ref(self) -> Ref:
        """Of REGION_GONE: the ref that is stale now."""
        return Ref(self.data)


def data_of(event: Any, skip: int = 0) -> bytes:
    """A copy of an event's data, which is the library's until the next poll."""
    return ffi.buffer(event.data, event.data_length)[skip:] if event.data_length else b""


def known(numbers: type[enum.IntEnum], number: int) -> int:
    """The member of that number, or the number itself if a later library has it."""
    try:
        return numbers(number)
    except ValueError:
        return number


def members(numbers: type[enum.IntEnum], mask: int) -> set[int]:
    """The set of a mask with bit 1 << n for each number n."""
    return {known(numbers, n) for n in range(64) if mask >> n & 1}


def as_dict(raw: Any) -> dict[str, Any]:
    """A struct of counters as a dict, its structs as dicts and its arrays as lists."""
    out: dict[str, Any] = {}
    for name, field in ffi.typeof(raw).fields:
        value = getattr(raw, name)
        if name == "reserved":
            continue
        if field.type.kind == "struct":
            value = as_dict(value)
        elif field.type.kind == "array":
            value = list(value)
        out[name] = value
    return out
