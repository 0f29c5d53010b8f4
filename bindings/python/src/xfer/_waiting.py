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

STOPPED_LOOP = 0.5  # seconds after which a thread beside sees that a loop, or a taker, has stopped


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
    descriptor, the others sleep beside. The thread that has `_telling` calls on_event.

    Who changes what another thread may wait for replaces `_changed`, and then wakes the sleepers:
    who has seen another `_changed` before it looked at its condition does not sleep. No lock is
    held for that, so it may come in the handler of a signal, or in a finalizer.

    Both locks are of the kind that only their owner can release: an interrupt may come behind any
    call, so also between an acquire and what follows, and the release is tried in any case."""

    def __init__(self, calls: Calls, raw: Any, fd: int, take: Callable[[], int]) -> None:
        self._calls, self._raw, self._fd, self._take = calls, raw, fd, take
        self._pid = os.getpid()
        self._loop: Loop | None = None
        self._loop_thread = 0
        self._attaching = threading.Lock()
        self._taking_loop: Loop | None = None  # the one whose thread takes events now
        self._poll = select.poll()  # a signal interrupts it, but no wait in the library
        self._poll.register(fd, select.POLLIN)
        self._taking, self._taker = threading.RLock(), 0
        self._telling, self._teller = threading.RLock(), 0
        self._put_off = False  # a callback that waits has taken what is told behind it
        self._changed = object()
        self._beside: set[threading.Lock] = set()  # each is what one thread sleeps on
        self._untold: collections.deque[Told] = collections.deque()
        self.taken = 0  # events, in all

    def wait_for(self, condition: Callable[[], Any], timeout: float | None) -> bool:
        self._check_fork()
        end = None if timeout is None else time.monotonic() + timeout
        left = None if timeout is None else max(0, timeout)
        late, me = False, threading.get_ident()
        while True:
            changed = self._changed
            if self._untold and self._may_take():
                self._tell()  # what was just taken, and what an exception has left
            if condition():
                return True
            if late:
                return False
            if self._calls.over:
                raise _errors.of_status(lib.XFER_ECLOSED)
            if self._taker == me:
                raise _deadlock()
            may_take = self._loop is None or self._may_take()
            if not may_take or not self._take_or_sleep(me, changed, left):
                self._sleep_beside(changed, left)
            if end is not None:
                left = end - time.monotonic()
                late = left <= 0

    def _check_fork(self) -> None:
        """The locks may be those of a thread that the child of a fork does not have."""
        if os.getpid() != self._pid:
            raise _errors.of_status(lib.XFER_EFORKED)

    def _take_or_sleep(self, me: int, changed: object, left: float | None) -> bool:
        """False: another thread takes the events."""
        taken = False
        try:
            if self._taking.acquire(blocking=False):
                self._taker = me
                taken = True
                if not self._take_once() and self._may_sleep(changed):
                    self._poll.poll(None if left is None else left * 1000)
                    self._take_once()
        finally:
            if self._taker == me:
                self._taker = 0
            try:
                self._taking.release()
            except RuntimeError:
                pass  # it is another thread's
            else:
                self._look_again()
        return taken

    def _may_sleep(self, changed: object) -> bool:
        return self._changed is changed and self._may_take() and not self._calls.over

    def _sleep_beside(self, changed: object, left: float | None) -> None:
        """Until another thread has taken or told something, or does so no more: that a loop stops
        is not told, nor what an interrupt comes before."""
        sleeper = threading.Lock()
        sleeper.acquire()
        try:
            self._beside.add(sleeper)
            if self._changed is changed:
                sleeper.acquire(timeout=STOPPED_LOOP if left is None else min(left, STOPPED_LOOP))
        finally:
            self._beside.discard(sleeper)

    def _look_again(self) -> None:
        """Says so to all threads but the one that sleeps on the descriptor."""
        self._changed = object()
        if self._beside:
            for sleeper in self._beside.copy():
                with contextlib.suppress(RuntimeError):  # it was woken before
                    sleeper.release()

    def _take_once(self) -> int:
        """How many there were. What an interrupt leaves is for the next one, which is woken."""
        before, calls = self.taken, self._calls
        try:
            calls.under_way.add(self)  # as Calls.__call__ does, since events point into the engine
            status = lib.XFER_OK if calls.over else self._take()
            if status:
                _errors.check(status)
        except BaseException:
            self.wake()
            raise
        finally:
            calls.under_way.discard(self)
            if calls.over:
                calls.end()
        return self.taken - before

    def wake(self) -> None:
        """Who sleeps looks again at what it waits for."""
        self._check_fork()
        self._look_again()
        self._calls(lib.xfer_engine_wake, self._raw)

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
        me = threading.get_ident()
        if self._taker == me:
            raise _deadlock()
        if self._loop is loop:
            self._loop_thread = me  # it may have gone on in another one
            return
        with self._attaching:
            before, thread = self._loop, self._loop_thread
            if before is not None and before.is_running():
                return
            try:
                self._loop_thread, self._loop = me, loop
                self.wake()
                with self._taking:  # the thread that slept on the descriptor has given it up
                    if self._calls.over:
                        self._loop = None
                    else:
                        loop.add_reader(self._fd, self._readable)
            except BaseException:
                self._loop_thread, self._loop = thread, before
                _remove_reader(loop, self._fd)
                raise
            if before is not None:
                _remove_reader(before, self._fd)

    def _readable(self) -> None:
        me = threading.get_ident()
        if self._taker == me:
            raise _deadlock()
        loop = self._loop if me == self._loop_thread else None
        try:
            with self._taking:
                self._take_in(loop, me)
        finally:
            self._look_again()
        if loop is None:  # another one has the engine now
            self._tell()

    def _take_in(self, loop: Loop | None, me: int) -> None:
        try:
            self._taker, self._taking_loop = me, loop
            if loop is not None:
                for _ in range(len(self._untold)):  # what an exception in another thread has left
                    loop.call_soon(self._tell_one)
            self._take_once()
        finally:
            self._taker, self._taking_loop = 0, None

    def end(self) -> None:
        """Nobody sleeps on the descriptor any more, which is about to be closed."""
        with contextlib.suppress(KeyError):  # after an interrupt it may be the second time
            self._poll.unregister(self._fd)
        loop = self._loop
        # A child of fork shares the set of descriptors that the parent's loop waits for.
        if loop is not None and os.getpid() == self._pid:
            if threading.get_ident() == self._loop_thread:
                _remove_reader(loop, self._fd)
            elif not loop.is_closed():
                with contextlib.suppress(RuntimeError):  # it was closed meanwhile
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
        while self._is_untold() and self._tell_one():
            pass

    def _tell_one(self) -> bool:
        """The first one. False: another thread is about it, and looks for more after that, or a
        callback of this one, which is told of nothing else until it returns."""
        me, told, raised, put_off = threading.get_ident(), False, True, False
        if self._teller == me:
            self._put_off = True
            return False
        try:
            if self._telling.acquire(blocking=False):
                self._teller = me
                told = True
                if self._is_untold():
                    self._tell_first()
                put_off, self._put_off = self._put_off, False  # while none but this thread tells
            raised = False
        finally:
            if self._teller == me:
                self._teller = 0
            try:
                self._telling.release()
            except RuntimeError:
                pass  # it is another thread's
            else:  # others may wait for what the callback did, and tell what it leaves by raising
                self._look_again()
                if raised or put_off or self._taker:
                    self._calls(lib.xfer_engine_wake, self._raw)
        return told

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


def _deadlock() -> _errors.XferError:
    text = "the handler of a signal would wait for the thread that it has interrupted"
    return _errors.of_status(lib.XFER_EDEADLK, text)


def _or_none(row: collections.deque[Told], place: int) -> Told | None:
    """Of what another thread may shorten meanwhile."""
    try:
        return row[place] if row else None
    except IndexError:
        return None


def _remove_reader(loop: Loop, fd: int) -> None:
    if not loop.is_closed():
        with contextlib.suppress(RuntimeError):  # it was closed meanwhile
            loop.remove_reader(fd)
