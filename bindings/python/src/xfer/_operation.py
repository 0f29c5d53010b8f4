# SPDX-License-Identifier: Apache-2.0
"""What a call has begun, until its event: waited for with or without a loop, and canceled."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Callable, Generic, TypeVar

from xfer import _errors
from xfer._xfer import ffi, lib

if TYPE_CHECKING:
    from xfer._calls import Calls
    from xfer._engine import Engine
    from xfer._waiting import Loop

T = TypeVar("T")

ONE_WORD = 2**64 - 1  # as a mask
GROUP_SHIFT = 40  # a word is the group of its operation above a number that counts


def milliseconds(timeout: float | None) -> int:
    """Of seconds: None is the default of the header, math.inf none."""
    if timeout is None:
        return 0
    if timeout < 0:
        raise ValueError("a timeout is not negative")
    if timeout == math.inf:
        return int(lib.XFER_NONE)
    return max(1, round(timeout * 1000))


def struct(name: str, **fields: Any) -> Any:
    """A struct of options, with its size."""
    return ffi.new(f"{name} *", {"size": ffi.sizeof(name), **fields})


def c_text(text: str) -> bytes:
    """As the library reads it, which is up to a zero."""
    encoded = text.encode()
    if b"\0" in encoded:
        raise ValueError("a text has no zero in it")
    return encoded


def op_options(timeout: float | None, flags: int = 0) -> Any:
    if timeout is None and not flags:
        return ffi.NULL
    return struct("xfer_op_options_t", timeout_ms=milliseconds(timeout), flags=flags)


def nothing(event: Any) -> None:
    """The result of what has none."""


def bytes_moved(event: Any) -> int:
    return int(event.bytes)


class Operation(Generic[T]):
    """What is under way, and ends with one event. It holds what it was lent until then.

    `await` it in asyncio or trio, or call result(). To cancel the task (in trio the scope) that
    awaits it, or the operation, asks the library for an early end, once; CancelledError (in trio
    Cancelled) is raised when the event has come, so that nothing touches the buffer any more. Of
    `closed`, `ended` and `reached`, which nobody can cancel, only that wait ends, at once. What
    ends otherwise than well raises XferError. Nobody has to wait for it: it ends all the same.
    """

    _can_be_canceled = True

    __slots__ = (
        "__weakref__",
        "_canceled",
        "_done",
        "_engine",
        "_error",
        "_held",
        "_owner",
        "_result",
        "_value",
        "_waiters",
        "word",
    )

    def __init__(
        self,
        owner: Any,
        value: Callable[[Any], T],
        held: Any = None,
        group: int = 0,
    ) -> None:
        # `owner`, the engine or what of it is not to be forgotten before this ends.
        self._owner, self._value, self._held = owner, value, held
        self._engine: Engine = owner._engine
        self.word: int = self._engine._word(group) if group else next(self._engine._words)
        self._done = self._canceled = False
        self._result: T | None = None
        self._error: _errors.XferError | None = None
        self._waiters: list[tuple[Loop, Callable[[], Any]]] = []

    def _call(self, calls: Calls, function: Any, *args: Any, error: Any = None) -> Operation[T]:
        """Calls what begins it. Another thread may take its event before the call returns."""
        live = self._engine._live
        live[self.word] = self
        if error is not None:
            args = *args, error
        try:
            calls.under_way.add(self)  # as Calls.__call__ does, which takes longer
            status = lib.XFER_ECLOSED if calls.over else function(*args)
        except Exception:  # of an argument: nothing was begun
            live.pop(self.word, None)
            raise
        finally:
            calls.under_way.discard(self)
            if calls.over:
                calls.end()
        if status != lib.XFER_OK:
            live.pop(self.word, None)
            self._owner = self._held = None
            _errors.check(status, error)
        return self

    def _begin(
        self, calls: Calls, function: Any, *args: Any, options: Any = ffi.NULL, error: Any = None
    ) -> Operation[T]:
        """Calls what takes the word, the options and, in some, the error as its last arguments."""
        return self._call(calls, function, *args, self.word, options, error=error)

    def done(self) -> bool:
        """It has ended, and nobody touches its buffers any more."""
        return self._done

    def cancel(self) -> None:
        """Asks for an early end. The operation still ends by its event: as canceled, or as it
        would have ended anyway. Any thread."""
        if not self._done and not self._canceled:
            self._canceled = True
            engine = self._engine
            status = engine._calls(lib.xfer_cancel, engine._raw, ffi.NULL, self.word, ONE_WORD)
            if status != lib.XFER_ECLOSED:  # else it ends with the engine
                _errors.check(status)

    def result(self, timeout: float | None = None) -> T:
        """Waits, up to `timeout` seconds, and returns what the operation gives.

        TimeoutError (not TimedOut) if it is not done by then: it goes on, its buffers stay lent,
        and its result can be had later. Any thread; one of them takes the events for all.
        """
        if not self._done and not self._engine._waiting.wait_for(self.done, timeout):
            raise TimeoutError(f"not done after {timeout} s; the operation goes on")
        return self._get()

    def exception(self, timeout: float | None = None) -> _errors.XferError | None:
        """As result(), but returns the error of the operation, or None."""
        if not self._done and not self._engine._waiting.wait_for(self.done, timeout):
            raise TimeoutError(f"not done after {timeout} s; the operation goes on")
        return self._error

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            yield from self._wait_in_trio() if in_trio() else self._wait_in_asyncio()
        return self._get()

    def _wait_in_trio(self) -> Generator[Any, None, None]:
        from xfer import _trio  # noqa: PLC0415 (only where trio is)

        return _trio.wait(self).__await__()

    def _wait_in_asyncio(self) -> Generator[Any, None, None]:
        loop = asyncio.get_running_loop()
        self._engine._attach(loop)
        interrupted = None
        while not self._done:
            future = loop.create_future()
            waiter = (loop, functools.partial(wake, future))
            try:
                self._waiters.append(waiter)
                if not self._done:  # else by another thread, which may not have seen the waiter
                    yield from future
            except asyncio.CancelledError as error:
                if not self._can_be_canceled:
                    raise
                self.cancel()
                interrupted = error
            finally:
                self._waiters.remove(waiter)
        if interrupted:
            raise interrupted

    def _get(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def _end(self, event: Any) -> None:
        """Takes its event. To do so once more, after an interrupt, changes nothing."""
        if event.status == lib.XFER_OK:
            self._result = self._value(event)
            self._finish(None)
        else:
            self._finish(_errors.of_event(event))

    def _finish(self, error: _errors.XferError | None) -> None:
        """The first end is the one that counts; all who wait are woken by each."""
        if not self._done:
            self._error, self._owner, self._held, self._done = error, None, None, True
        for loop, wakes in tuple(self._waiters):  # each leaves the list itself
            with contextlib.suppress(RuntimeError):  # closed: nobody waits there any more
                if self._engine._runs_in(loop):
                    wakes()
                else:
                    loop.call_soon_threadsafe(wakes)


class Completion(Operation[T]):
    """The end of a handle, of a grant or of a count, which is no operation that could be canceled.
    To cancel a task or a scope that awaits it ends that wait at once; those of others go on."""

    __slots__ = ()
    _can_be_canceled = False

    def cancel(self) -> None:
        """Does nothing: what is awaited goes on."""


def in_trio() -> bool:
    """Whether the caller is a task of trio, which says so by sniffio."""
    sniffio = sys.modules.get("sniffio")
    return sniffio is not None and sniffio.thread_local.name == "trio"


def wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
