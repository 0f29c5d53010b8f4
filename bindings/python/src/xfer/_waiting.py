# SPDX-License-Identifier: Apache-2.0
"""Who takes the events of an engine: the loop that it is attached to; without a loop one of the
threads that wait, for all of them."""

from __future__ import annotations

import collections
import contextlib
import os
import select
import threading
import time
from typing import Any, Callable, NamedTuple, Protocol

from xfer import _errors
from xfer._calls import Calls
from xfer._xfer import lib

STOPPED_LOOP = 0.5  # seconds after which a thread sees that the loop it waits for does not run


class Loop(Protocol):
    """What is used of a loop of asyncio or uvloop; of trio _trio.Run is one."""

    def is_running(self) -> bool: ...
    def is_closed(self) -> bool: ...
    def add_reader(self, fd: int, callback: Callable[[], Any], /) -> Any: ...
    def remove_reader(self, fd: int, /) -> Any: ...
    def call_soon(self, callback: Callable[..., Any], /, *args: Any) -> Any: ...
    def call_soon_threadsafe(self, callback: Callable[..., Any], /, *args: Any) -> Any: ...


class Told(NamedTuple):
    """What on_event is to be told, or is being told, of the event with that number."""

    number: int
    callback: Callable[[Any], Any]
    event: Any


class Waiting:
    """`take` polls the engine once, and counts each event in `taken` when it is through with it.
    The thread that has `_taking` calls it; unless a loop runs that thread also sleeps on the
    descriptor, the others wait for their turn. What happens to `_loop` happens before a wake, so
    that no sleeper misses it."""

    def __init__(self, calls: Calls, raw: Any, fd: int, take: Callable[[], int]) -> None:
        self._calls, self._raw, self._fd, self._take = calls, raw, fd, take
        self._pid, self._over = os.getpid(), False
        self._loop: Loop | None = None
        self._loop_thread = 0
        self._taking_loop: Loop | None = None  # the one whose thread takes events now
        self._poll = select.poll()  # a signal interrupts it, but no wait in the library
        self._poll.register(fd, select.POLLIN)
        self._taking, self._turn = threading.Lock(), threading.Condition()
        self._turns = self._beside = 0
        self._telling = threading.RLock()
        self._untold: collections.deque[Told] = collections.deque()
        self.taken = 0  # events, in all

    def wait_for(self, condition: Callable[[], Any], timeout: float | None) -> bool:
        self._check_fork()
        end = None if timeout is None else time.monotonic() + timeout
        left = timeout
        while True:
            turns = self._turns
            if self._untold and self._may_take():
                self._tell()  # what was left when a callback, or an interrupt, raised something
            if condition():
                return True
            if self._over:
                raise _errors.of_status(lib.XFER_ECLOSED)
            if self._may_take() and self._taking.acquire(blocking=False):
                try:
                    self._take_or_sleep(condition, left)
                finally:
                    self._taking.release()
                    self._pass_on()
                self._tell()
            else:
                self._wait_beside(turns, left)
            if end is not None:
                left = end - time.monotonic()
                if left <= 0:
                    return bool(condition())

    def _check_fork(self) -> None:
        """The locks may be those of a thread that the child of a fork does not have."""
        if os.getpid() != self._pid:
            raise _errors.of_status(lib.XFER_EFORKED)

    def _take_or_sleep(self, condition: Callable[[], Any], left: float | None) -> None:
        if not self._take_once() and not condition() and self._may_take() and not self._over:
            self._poll.poll(None if left is None else max(0, left) * 1000)
            self._take_once()

    def _wait_beside(self, turns: int, left: float | None) -> None:
        """Until another thread has taken events, or takes none any more."""
        if self._loop is not None:
            left = STOPPED_LOOP if left is None else min(left, STOPPED_LOOP)
        with self._turn:
            self._beside += 1
            try:
                self._turn.wait_for(lambda: self._turns != turns, left)
            finally:
                self._beside -= 1

    def _pass_on(self) -> None:
        with self._turn:
            self._turns += 1
            if self._beside:
                self._turn.notify_all()

    def _take_once(self) -> int:
        """How many there were. What an interrupt leaves is for the next one, which is woken."""
        before = self.taken
        try:
            status = 0 if self._over else self._calls(self._take)  # as events point into the engine
            if status:
                _errors.check(status)
        except BaseException:
            self.wake()
            raise
        return self.taken - before

    def wake(self) -> None:
        """Who sleeps looks again at what it waits for."""
        self._check_fork()
        if not self._over:
            self._calls(lib.xfer_engine_wake, self._raw)
        self._pass_on()

    # ---- the loop ----

    def _may_take(self) -> bool:
        """A loop that has stopped keeps the engine, and has the events again when it goes on."""
        loop = self._loop
        if loop is None or threading.get_ident() == self._loop_thread:
            return True
        return not loop.is_running()

    def runs_in(self, loop: Loop) -> bool:
        return self._loop is loop and threading.get_ident() == self._loop_thread

    def attach(self, loop: Loop) -> None:
        """Called in the loop's thread. If another loop runs that has the events it keeps them."""
        self._check_fork()
        with self._turn:
            before = self._loop
            if before is loop:
                self._loop_thread = threading.get_ident()  # it may have gone on in another one
                return
            if self._over or (before is not None and before.is_running()):
                return
            self._loop, self._loop_thread = loop, threading.get_ident()
        if before is not None and not before.is_closed():
            with contextlib.suppress(RuntimeError):  # it was closed meanwhile
                before.remove_reader(self._fd)
        self.wake()
        with self._taking:  # the thread that slept on the descriptor has given it up
            loop.add_reader(self._fd, self._readable)

    def _readable(self) -> None:
        loop = self._loop if threading.get_ident() == self._loop_thread else None
        try:
            with self._taking:
                self._take_in(loop)
        finally:
            self._pass_on()
        if loop is None:  # another one has the engine now
            self._tell()

    def _take_in(self, loop: Loop | None) -> None:
        self._taking_loop = loop
        try:
            if loop is not None:
                for _ in range(len(self._untold)):  # what an interrupt has left
                    loop.call_soon(self._tell_one)
            self._take_once()
        finally:
            self._taking_loop = None

    def end(self) -> None:
        """No event comes any more."""
        self._over = True
        with contextlib.suppress(KeyError):  # after an interrupt it may be the second time
            self._poll.unregister(self._fd)
        loop = self._loop
        # A child of fork shares the set of descriptors that the parent's loop waits for.
        if loop is not None and not loop.is_closed() and os.getpid() == self._pid:
            with contextlib.suppress(RuntimeError):  # it was closed meanwhile
                if threading.get_ident() == self._loop_thread:
                    loop.remove_reader(self._fd)
                else:
                    loop.call_soon_threadsafe(loop.remove_reader, self._fd)
        self._loop = None

    # ---- what the user is told ----

    def will_tell(self, callback: Callable[[Any], Any], event: Any) -> None:
        """Once the event that is being dispatched counts as taken. In the thread of a loop that is
        done by the loop, in one row with the tasks that it wakes."""
        last = _or_none(self._untold, -1)
        if last is None or last.number != self.taken:  # else it is dispatched again
            self._untold.append(Told(self.taken, callback, event))
        if self._taking_loop is not None:
            self._taking_loop.call_soon(self._tell_one)

    def _tell(self) -> None:
        """In order, one thread at a time, and outside of the taking, so that a callback may wait
        for an operation. What it throws goes on from here; the rest is told the next time."""
        while self._is_untold():
            if not self._tell_one():
                return  # another thread tells it

    def _tell_one(self) -> bool:
        """The first one. False: another thread is about it."""
        if not self._telling.acquire(blocking=False):
            return False
        try:
            if self._is_untold():
                self._tell_first()
        finally:
            self._telling.release()
        return True

    def _is_untold(self) -> bool:
        first = _or_none(self._untold, 0)
        return first is not None and first.number < self.taken

    def _tell_first(self) -> None:
        """An interrupt comes behind a call. Before the callback was called it leaves the event for
        the next time."""
        told, begun = self._untold[0], False
        try:
            self._untold.popleft()
            begun = True
            told.callback(told.event)
        except BaseException:
            if not begun and _or_none(self._untold, 0) is not told:
                self._untold.appendleft(told)
            raise


def _or_none(row: collections.deque[Told], place: int) -> Told | None:
    """Of what another thread may shorten meanwhile."""
    try:
        return row[place]
    except IndexError:
        return None
