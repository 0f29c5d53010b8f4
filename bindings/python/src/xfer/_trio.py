# SPDX-License-Identifier: Apache-2.0
"""Waiting in tasks of trio. Only they import this module: the package does not need trio."""

from __future__ import annotations

import collections
import logging
from typing import TYPE_CHECKING, Any, Callable

import trio

if TYPE_CHECKING:
    from xfer._operation import Operation


class Run:
    """What Waiting uses of an asyncio loop, for one trio.run()."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._watches: dict[int, trio.CancelScope] = {}
        self._soon: collections.deque[tuple[Callable[..., Any], Any]] = collections.deque()
        self._closed = False

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def add_reader(self, fd: int, readable: Callable[[], Any]) -> None:
        self._watches[fd] = trio.CancelScope()
        trio.lowlevel.spawn_system_task(self._watch, self._watches[fd], fd, readable)

    def remove_reader(self, fd: int) -> None:
        watch = self._watches.pop(fd, None)
        if watch is not None:
            watch.cancel()

    async def _watch(self, scope: trio.CancelScope, fd: int, readable: Callable[[], Any]) -> None:
        with scope:
            try:
                while not scope.cancel_called:
                    await trio.lowlevel.wait_readable(fd)
                    readable()
                    self._call()
            finally:
                self._closed = self._closed or not scope.cancel_called

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> None:
        """After what the descriptor was readable for, and before any task goes on."""
        self._soon.append((callback, args))

    def _call(self) -> None:
        """As a loop of asyncio does it, what a callback raises is logged."""
        while self._soon:
            callback, args = self._soon.popleft()
            try:
                callback(*args)
            except Exception:
                logging.getLogger("xfer").exception("on_event failed")

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any) -> None:
        """RuntimeError once the run has ended."""
        self._token.run_sync_soon(callback, *args)


_run: trio.lowlevel.RunVar[Run] = trio.lowlevel.RunVar("xfer")


def _of_this_task() -> Run:
    try:
        return _run.get()
    except LookupError:
        _run.set(Run())
        return _run.get()


async def wait(operation: Operation[Any]) -> None:
    """Until it has ended. Where the scope is canceled that is asked for, and waited for, unless
    nothing can be asked for."""
    run, ended = _of_this_task(), trio.Event()
    operation._engine._attach(run)
    waiter = run, ended.set
    try:
        operation._waiters.append(waiter)
        if not operation.done():  # else by another thread, which may not have seen the waiter
            await ended.wait()
    except trio.Cancelled:
        if operation._can_be_canceled:
            operation.cancel()
            with trio.CancelScope(shield=True):
                await ended.wait()
        raise
    finally:
        operation._waiters.remove(waiter)
