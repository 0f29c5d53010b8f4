# SPDX-License-Identifier: Apache-2.0
"""Threads that wait for one engine: who takes the events, who tells of them, and who is woken."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import Any, Callable

import pytest
from conftest import PATIENCE, Pair

import xfer
from xfer import Engine, Event, Kind, Message, Status, XferError, _waiting

AT_ONCE = PATIENCE / 2  # within which a wait ends that was woken


@pytest.fixture
def path() -> str:
    return "tcp"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


@pytest.fixture(autouse=True)
def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that nobody wakes is too late."""
    monkeypatch.setattr(_waiting, "STOPPED_LOOP", PATIENCE)


class Asleep:
    """Instead of the poll object of an engine: notes that a thread is about to sleep."""

    def __init__(self, engine: Engine) -> None:
        self.poll_of_it, self.asleep = engine._waiting._poll, threading.Event()
        engine._waiting._poll = self  # type: ignore[assignment]

    def poll(self, timeout: float | None) -> Any:
        self.asleep.set()
        return self.poll_of_it.poll(timeout)

    def unregister(self, fd: int) -> None:
        self.poll_of_it.unregister(fd)


class Slow:
    """An on_event that is told of notifications, and waits in that of key 1 until it may go on."""

    def __init__(self, raises: bool = False) -> None:
        self.inside, self.go_on, self.raises = threading.Event(), threading.Event(), raises
        self.told: list[int] = []

    def __call__(self, event: Event) -> None:
        if event.kind != Kind.NOTIFY:
            return
        if event.tag == 1:
            self.inside.set()
            assert self.go_on.wait(PATIENCE)
        self.told.append(event.tag)
        if event.tag == 1 and self.raises:
            raise ZeroDivisionError


def slowly(pair: Pair, pool: ThreadPoolExecutor, slow: Slow) -> Future[bool]:
    """A thread that is told of key 1, and is not through with that."""
    pair.owner.poll()
    pair.owner._on_event = slow
    teller = pool.submit(pair.owner.wait_for, lambda: slow.told, PATIENCE)
    pair.ep.notify(b"", 1).result(PATIENCE)
    assert slow.inside.wait(PATIENCE)
    return teller


def test_woken_by_what_a_callback_did(pair: Pair, pool: ThreadPoolExecutor) -> None:
    """Another thread, which sleeps on the descriptor since before that."""
    slow, asleep = Slow(), Asleep(pair.owner)
    teller = slowly(pair, pool, slow)
    asleep.asleep.clear()  # the teller has slept
    sleeper = pool.submit(pair.owner.wait_for, lambda: slow.told == [1], PATIENCE)
    assert asleep.asleep.wait(PATIENCE)
    slow.go_on.set()
    assert sleeper.result(AT_ONCE) and teller.result(AT_ONCE)


def test_woken_for_what_a_callback_left(pair: Pair, pool: ThreadPoolExecutor) -> None:
    """By raising: the thread that sleeps has taken the next event, and tells it."""
    slow, asleep = Slow(raises=True), Asleep(pair.owner)
    teller = slowly(pair, pool, slow)
    asleep.asleep.clear()  # the teller has slept
    sleeper = pool.submit(pair.owner.wait_for, lambda: slow.told == [1, 2], PATIENCE)
    assert asleep.asleep.wait(PATIENCE)
    asleep.asleep.clear()
    pair.ep.notify(b"", 2).result(PATIENCE)
    assert asleep.asleep.wait(PATIENCE)
    slow.go_on.set()
    with pytest.raises(ZeroDivisionError):
        teller.result(AT_ONCE)
    assert sleeper.result(AT_ONCE)


def test_many_threads(pair: Pair, pool: ThreadPoolExecutor) -> None:
    """Each waits for what on_event was told: whichever is told of it, all go on."""
    told: set[int] = set()

    def on_event(event: Event) -> None:
        time.sleep(0)  # to another thread
        told.add(event.tag)

    def waits(key: int) -> bool:
        pair.ep.notify(b"", key).result(PATIENCE)
        return pair.owner.wait_for(lambda: key in told, PATIENCE)

    pair.owner._on_event = on_event
    began = time.monotonic()
    assert all(pool.map(waits, range(1, 400)))
    assert time.monotonic() - began < PATIENCE  # none has slept until its time was over


def test_loop_meets_another_teller(pair: Pair, pool: ThreadPoolExecutor) -> None:
    """Whose callback raises then: the loop tells the rest, though nothing new comes."""
    slow = Slow(raises=True)
    teller = slowly(pair, pool, slow)

    async def main() -> None:
        received = pair.owner.recv(8)
        pair.ep.notify(b"", 2).result(PATIENCE)
        pair.ep.send(b"message").result(PATIENCE)
        await received
        slow.go_on.set()
        while slow.told != [1, 2]:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(main(), AT_ONCE))
    with pytest.raises(ZeroDivisionError):
        teller.result(AT_ONCE)


def test_callbacks_that_wait_are_one_at_a_time(pair: Pair) -> None:
    """And in order: what comes while one waits is told behind it."""
    told, depths, depth = list[int](), set[int](), 0
    count = 200

    def on_event(event: Event) -> None:
        nonlocal depth
        if event.kind == Kind.NOTIFY:
            depth += 1
            depths.add(depth)
            told.append(event.tag)
            pair.owner.recv(8, event.tag).result(PATIENCE)
            depth -= 1

    pair.owner._on_event = on_event
    for key in range(1, count):
        pair.ep.notify(b"", key).result(PATIENCE)
    sent = [pair.ep.send(b"message", key) for key in range(1, count)]
    assert pair.owner.wait_for(lambda: len(told) == count - 1, PATIENCE)
    assert all(send.exception(PATIENCE) is None for send in sent)
    assert told == list(range(1, count)) and depths == {1}


def test_what_a_callback_has_taken_is_told(pair: Pair) -> None:
    """By a loop, of which nothing else comes."""
    told = list[int]()

    def on_event(event: Event) -> None:
        if event.kind == Kind.NOTIFY:
            told.append(event.tag)
        if told == [1]:
            pair.ep.notify(b"", 2).result(PATIENCE)
            sent = pair.ep.send(b"behind", 7)
            pair.owner.recv(8, 7).result(PATIENCE)  # it comes behind the other
            sent.result(PATIENCE)

    async def main() -> None:
        received = pair.owner.recv(8, 9)
        sent = pair.ep.send(b"attaches", 9)
        await received
        sent.result(PATIENCE)
        pair.ep.notify(b"", 1).result(PATIENCE)
        while told != [1, 2]:
            await asyncio.sleep(0.001)

    pair.owner._on_event = on_event
    asyncio.run(asyncio.wait_for(main(), AT_ONCE))


def test_wait_in_the_handler_of_a_signal(pair: Pair) -> None:
    """That has interrupted one, which goes on."""
    other, told = pair.owner.recv(8, 2), list[Any]()
    asleep, received = Asleep(pair.owner), pair.owner.recv(8, 1)

    def handler(number: int, frame: FrameType | None) -> None:
        waits = lambda: other.result(AT_ONCE), pair.owner.poll, lambda: asyncio.run(awaits())
        for wait in waits if not told else ():
            with pytest.raises(XferError) as caught:
                wait()
            told.append(caught.value.status)

    async def awaits() -> Message:
        return await other

    def interrupts() -> None:
        assert asleep.asleep.wait(PATIENCE)
        while len(told) < 3:  # the first may come just before the sleep
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.1)
        pair.ep.send(b"message", 1)

    before = signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=interrupts)
    thread.start()
    try:
        assert received.result(PATIENCE).data == b"message"
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert told == [Status.EDEADLK] * 3
    pair.ep.send(b"other", 2)
    assert other.result(PATIENCE).data == b"other"


class NoLoop:
    """What is used of a loop, which runs in the thread that has made it."""

    def __init__(self) -> None:
        self.readers: set[int] = set()
        self.add: Callable[[int], Any] = self.readers.add

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def add_reader(self, fd: int, callback: Callable[[], Any], /) -> None:
        self.add(fd)

    def remove_reader(self, fd: int, /) -> None:
        self.readers.discard(fd)

    def call_soon(self, callback: Callable[..., Any], /, *args: Any) -> None:
        callback(*args)

    call_soon_threadsafe = call_soon


def test_attach_beside_the_end(pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which another thread has taken meanwhile: the loop gets no descriptor that is closed."""
    engine, loop = Engine(), NoLoop()
    wake = engine._waiting.wake

    def late() -> None:
        engine.close()
        monkeypatch.setattr(loop, "is_running", lambda: False)  # so that the thread takes it
        pool.submit(engine.closed.result, PATIENCE).result(PATIENCE)
        wake()

    monkeypatch.setattr(engine._waiting, "wake", late)
    engine._attach(loop)
    assert not loop.readers and engine._waiting._loop is None


def test_attach_that_fails(pair: Pair) -> None:
    """As of a loop that watches no descriptor, or by an interrupt: threads take the events, and the
    next loop may have them."""
    for error in (NotImplementedError, KeyboardInterrupt):
        loop = NoLoop()

        def fails(fd: int, loop: NoLoop = loop, error: type[BaseException] = error) -> None:
            loop.readers.add(fd)
            raise error

        loop.add = fails
        with pytest.raises(error):
            pair.owner._attach(loop)
        assert not loop.readers and pair.owner._waiting._loop is None
    loop = NoLoop()
    pair.owner._attach(loop)
    assert loop.readers == {pair.owner.fileno()}


def test_nothing_is_raised_inside(pair: Pair) -> None:
    """By a put that is waited for: an exception takes as long as the rest of the wait."""
    raised: list[str] = []

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "exception":
            raised.append(frame.f_code.co_name)
        inside = os.path.dirname(frame.f_code.co_filename) == os.path.dirname(xfer.__file__)
        return trace if inside else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        pair.ep.put(b"12345678", pair.ref).result(PATIENCE)
    finally:
        sys.settrace(before)
    assert raised == []
