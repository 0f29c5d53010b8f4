# SPDX-License-Identifier: Apache-2.0
"""Who takes the events of an engine: the loop that it is attached to; without a loop one of the
threads that wait, for all of them."""

from __future__ import annotations

import collections
import os
import select
import threading
import time
from typing import Any, Callable, Protocol

from xfer import _errors
from xfer._xfer import lib

CLOSED_LOOP = 0.5  # seconds after which a thread sees that the loop it waits for is closed


class Loop(Protocol):
    """What is used of a loop of asyncio or uvloop; of trio _trio.Run is one."""

    def is_running(self) -> bool: ...
    def is_closed(self) -> bool: ...
    def add_reader(self, fd: int, callback: Callable[[], Any], /) -> Any: ...
    def remove_reader(self, fd: int, /) -> Any: ...
    def call_soon(self, callback: Callable[..., Any], /, *args: Any) -> Any: ...
    def call_soon_threadsafe(self, callback: Callable[..., Any], /, *args: Any) -> Any: ...


class Waiting:
    """`take` polls the engine once and returns how many events there were. The thread that has
    `_taking` calls it; without a loop that thread also sleeps on the descriptor, the others wait
    for their turn. What happens to `_loop` happens before a wake, so that no sleeper misses it."""

    def __init__(self, raw: Any, fd: int, take: Callable[[], int]) -> None:
        self._raw, self._fd, self._take = raw, fd, take
        self._pid, self._over = os.getpid(), False
        self._loop: Loop | None = None
        self._loop_thread = 0
        self._poll = select.poll()  # a signal interrupts it, but no wait in the library
        self._poll.register(fd, select.POLLIN)
        self._taking, self._turn = threading.Lock(), threading.Condition()
        self._turns = self._beside = 0
        self._telling = threading.RLock()
        self._untold: collections.deque[tuple[Callable[[Any], Any], Any]] = collections.deque()
        self.taken = 0  # events, in all

    def wait_for(self, condition: Callable[[], Any], timeout: float | None) -> bool:
        self._check_fork()
        end = None if timeout is None else time.monotonic() + timeout
        left = timeout
        while True:
            turns = self._turns
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
            left = CLOSED_LOOP if left is None else min(left, CLOSED_LOOP)
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
        count = 0 if self._over else self._take()
        self.taken += count
        return count

    def wake(self) -> None:
        """Who sleeps looks again at what it waits for."""
        self._check_fork()
        if not self._over:
            lib.xfer_engine_wake(self._raw)
        self._pass_on()

    # ---- the loop ----

    def _may_take(self) -> bool:
        loop = self._loop
        if loop is None or threading.get_ident() == self._loop_thread:
            return True
        if loop.is_closed():
            self._loop = None
        return self._loop is None

    def runs_in(self, loop: Loop) -> bool:
        return self._loop is loop and threading.get_ident() == self._loop_thread

    def attach(self, loop: Loop) -> None:
        """Called in the loop's thread. If another loop runs that has the events it keeps them."""
        self._check_fork()
        with self._turn:
            before = self._loop
            if before is loop or (before is not None and before.is_running()) or self._over:
                return
            self._loop, self._loop_thread = loop, threading.get_ident()
        if before is not None and not before.is_closed():
            before.remove_reader(self._fd)
        self.wake()
        with self._taking:  # the thread that slept on the descriptor has given it up
            loop.add_reader(self._fd, self._readable)

    def _readable(self) -> None:
        with self._taking:
            self._take_once()
        self._pass_on()
        while self._untold and self._loop is not None:
            callback, event = self._untold.popleft()
            self._loop.call_soon(callback, event)
        self._tell()  # of the engine's end, after which it has no loop

    def end(self) -> None:
        """No event comes any more."""
        self._over = True
        self._poll.unregister(self._fd)
        loop, self._loop = self._loop, None
        # A child of fork shares the set of descriptors that the parent's loop waits for.
        if loop is None or loop.is_closed() or os.getpid() != self._pid:
            return
        if threading.get_ident() == self._loop_thread:
            loop.remove_reader(self._fd)
        else:
            loop.call_soon_threadsafe(loop.remove_reader, self._fd)

    # ---- what the user is told ----

    def will_tell(self, callback: Callable[[Any], Any], event: Any) -> None:
        self._untold.append((callback, event))

    def _tell(self) -> None:
        """In order, one thread at a time, and outside of the taking, so that a callback may wait
        for an operation. What it throws goes on from here; the rest is told the next time."""
        while self._untold and self._telling.acquire(blocking=False):
            try:
                while self._untold:
                    callback, event = self._untold.popleft()
                    callback(event)
            finally:
                self._telling.release()
