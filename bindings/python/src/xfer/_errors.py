# SPDX-License-Identifier: Apache-2.0
"""A status of the library as an exception."""

from __future__ import annotations

from typing import Any

from xfer._xfer import ffi, lib


def status_name(status: int) -> str:
    """Such as "XFER_ESTALE"; "XFER_EUNKNOWN" for a number that is none."""
    return str(ffi.string(lib.xfer_status_name(status)).decode())


def status_text(status: int) -> str:
    """One sentence about a status."""
    return str(ffi.string(lib.xfer_status_text(status)).decode())


def native_text(origin: int, code: int) -> str:
    """What an origin and a native code mean, such as "Connection refused"."""
    text = ffi.new("char[512]")
    lib.xfer_native_text(origin, code, text, 512)
    return str(ffi.string(text).decode(errors="replace"))


class XferError(OSError):
    """What a call or an operation of libxfer ended with. `errno` is set where a system call failed.

    status       the number, such as xfer.Status.ESTALE
    name         its name, such as "XFER_ESTALE"
    origin       where native_code comes from: XFER_ORIGIN_*, 0 if unknown
    native_code  an errno, a libuv or c-ares error, by `origin`
    fenced       nothing of the operation can land any more; False: some bytes may have been
                 written, and more may still be, so treat the range as undefined
    bytes        known to have moved; of a message that was too long, its length in full
    index        of a batch its first failed entry; of a counter how many came
    """

    def __init__(
        self,
        status: int,
        text: str = "",
        origin: int = 0,
        native_code: int = 0,
        fenced: bool = True,
        bytes: int = 0,
        index: int = 0,
    ) -> None:
        self.status, self.name = status, status_name(status)
        self._text = text
        self.origin, self.native_code, self.fenced = origin, native_code, fenced
        self.bytes, self.index = bytes, index
        if not text:
            text = status_text(status)
            if origin:
                text += f" ({native_text(origin, native_code)})"
        super().__init__(f"{self.name}: {text}")
        if origin == lib.XFER_ORIGIN_OS:
            self.errno = native_code

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        """A process of a pool tells what it failed with by a pickle."""
        details = self.origin, self.native_code, self.fenced, self.bytes, self.index
        return type(self), (self.status, self._text, *details), self.__dict__


class Again(XferError, BlockingIOError):
    """XFER_EAGAIN: a queue is full; a ROOM event follows once, of receives the end of one."""


class Closed(XferError):
    """XFER_ECLOSED: the handle, or its engine, is closed or draining."""


class Forked(XferError):
    """XFER_EFORKED: the handle belongs to the parent of this process."""


class NotFound(XferError):
    """XFER_ENOTFOUND: nothing of that name."""


class AccessDenied(XferError, PermissionError):
    """XFER_EACCESS: refused by the region, by the peer's application, or by the system."""


class Stale(XferError):
    """XFER_ESTALE: the ref names a region or an incarnation that is gone; look it up again."""


class Revoked(XferError):
    """XFER_EREVOKED: the grant was revoked or its lease ended."""


class TimedOut(XferError, TimeoutError):
    """XFER_ETIMEDOUT: the operation's deadline passed, or nothing moved for the stall limit.

    To give up a wait raises TimeoutError itself, and the operation goes on."""


class Canceled(XferError):
    """XFER_ECANCELED: canceled by the user, or by a close."""


class PeerLost(XferError, ConnectionError):
    """XFER_EPEERLOST: the connection ended while the operation was under way."""


class Unreachable(XferError, ConnectionError):
    """XFER_EUNREACHABLE: no connection could be made."""


class Truncated(XferError):
    """XFER_ETRUNC: the message was longer than the buffer; `bytes` is its length in full."""


_CLASSES: dict[int, type[XferError]] = {
    lib.XFER_EAGAIN: Again,
    lib.XFER_ECLOSED: Closed,
    lib.XFER_EFORKED: Forked,
    lib.XFER_ENOTFOUND: NotFound,
    lib.XFER_EACCESS: AccessDenied,
    lib.XFER_ESTALE: Stale,
    lib.XFER_EREVOKED: Revoked,
    lib.XFER_ETIMEDOUT: TimedOut,
    lib.XFER_ECANCELED: Canceled,
    lib.XFER_EPEERLOST: PeerLost,
    lib.XFER_EUNREACHABLE: Unreachable,
    lib.XFER_ETRUNC: Truncated,
}

# The data of these kinds of events, where they failed, is a sentence that says why.
_EXPLAINED = {
    lib.XFER_EVENT_PUT,
    lib.XFER_EVENT_GET,
    lib.XFER_EVENT_ATOMIC,
    lib.XFER_EVENT_SEND,
    lib.XFER_EVENT_NOTIFIED,
    lib.XFER_EVENT_FLUSH,
    lib.XFER_EVENT_LOOKUP,
    lib.XFER_EVENT_COUNTER,
    lib.XFER_EVENT_PROBE,
    lib.XFER_EVENT_CONNECT,
    lib.XFER_EVENT_PEER_DOWN,
    lib.XFER_EVENT_STALLED,
}


def of_status(status: int, text: str = "", *details: Any) -> XferError:
    return _CLASSES.get(status, XferError)(status, text, *details)


def of_event(event: Any) -> XferError:
    """The error of an event that is not OK."""
    text = ""
    if event.data_length and event.kind in _EXPLAINED:
        text = ffi.buffer(event.data, event.data_length)[:].decode(errors="replace")
    fenced = not event.flags & lib.XFER_MAYBE_APPLIED
    origin, code = event.origin, event.native_code
    return of_status(event.status, text, origin, code, fenced, event.bytes, event.index)


def new_error() -> Any:
    return ffi.new("xfer_error_t *")


def check(status: int, error: Any = None) -> None:
    """Raises what a call returned, with what it has written to `error`."""
    if status == lib.XFER_OK:
        return
    if error is None:
        raise of_status(status)
    text = ffi.string(error.message).decode(errors="replace")
    raise of_status(status, text, error.origin, error.native_code)
