# SPDX-License-Identifier: Apache-2.0
"""How waits end: deadlines, cancels, those that are given up, and what callbacks throw."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import signal
import threading
import time
from typing import Any

import pytest
from conftest import PATIENCE, Pair, Peer, is_lent, run

from xfer import (
    Again,
    Canceled,
    Engine,
    Event,
    Kind,
    Status,
    TimedOut,
    _endpoint,
)
from xfer._xfer import lib

LARGE = 16 << 20


@pytest.mark.parametrize("path", ["tcp"], indirect=True)
def test_deadline_of_a_put(peer: Peer) -> None:
    with Engine(transports="tcp") as engine, engine.endpoint(peer.uri) as ep:
        ref = ep.lookup("pool").result(PATIENCE).ref
        peer.stop()
        buffer = bytearray(LARGE)
        with pytest.raises(TimedOut) as caught:
            ep.put(buffer, ref, timeout=0.1).result(PATIENCE)
        assert not caught.value.fenced
        assert not is_lent(buffer)
        stats = engine.stats()["put"]
        assert (stats["expired"], stats["failed"]) == (1, 0)


@pytest.mark.parametrize("path", ["tcp"], indirect=True)
def test_deadline_of_quiet_operations(peer: Peer) -> None:
    told: list[Event] = []

    def failed() -> dict[int, int]:
        return {event.kind: event.status for event in told if event.status != Status.OK}

    with Engine(told.append, transports="tcp") as engine, engine.endpoint(peer.uri) as ep:
        ref = ep.lookup("pool").result(PATIENCE).ref
        peer.stop()
        ep.put_quiet(bytes(LARGE), ref, timeout=0.1)
        ep.get_quiet(bytearray(8), ref, timeout=0.1)
        ep.add_quiet(ref, 0, 1, timeout=0.1)
        ep.send_quiet(b"late", timeout=0.1)
        ep.notify_quiet(b"late", 1, timeout=0.1)
        assert engine.wait_for(lambda: len(failed()) == 5, PATIENCE), told
        assert set(failed().values()) == {Status.ETIMEDOUT}
        assert isinstance(ep.flush().exception(PATIENCE), TimedOut)


def test_wait_is_not_deadline_in_a_loop(any_pair: Pair) -> None:
    async def main() -> None:
        received = any_pair.owner.recv(100, 3)
        waits = asyncio.ensure_future(received)
        done, _ = await asyncio.wait([waits], timeout=0.02)
        assert not done and not received.done()
        await any_pair.ep.send(b"later", 3)
        assert (await waits).data == (await received).data == b"later"

    run(main())


@pytest.mark.parametrize("path", ["tcp"], indirect=True)
def test_cancel_of_a_put(peer: Peer) -> None:
    """The peer is stopped: the put is really under way."""

    async def main() -> None:
        async with Engine(transports="tcp") as engine, engine.endpoint(peer.uri) as ep:
            ref = (await ep.lookup("pool")).ref
            peer.stop()
            buffer = bytearray(LARGE)
            put = ep.put(buffer, ref)
            task = asyncio.ensure_future(put)
            await asyncio.sleep(0)
            assert not put.done() and is_lent(buffer)
            task.cancel()
            await asyncio.wait([task], timeout=PATIENCE)
            assert task.cancelled() and put.done() and not is_lent(buffer)
            peer.go_on()
            await ep.put(b"after", ref)

    run(main())


def test_full_and_room(path: str) -> None:
    pair = Pair(path, max_operations=4)
    waits = [pair.ep.lookup("later", wait=True) for _ in range(4)]
    with pytest.raises(Again):
        pair.ep.put(b"one too many", pair.ref)
    waits[0].cancel()
    assert pair.wait_told(Kind.ROOM).ep is pair.ep
    pair.ep.put(b"there is room", pair.ref).result(PATIENCE)
    pair.close()


def test_callback_that_waits(pair: Pair) -> None:
    """A callback may use the engine, and wait for what it began."""
    back = bytearray(4)

    def answers(event: Event) -> None:
        if event.kind == Kind.NOTIFY:
            assert event.ep
            event.ep.send(event.data[::-1], event.tag).result(PATIENCE)

    pair.owner._on_event = answers
    received = pair.engine.recv(back, 9)
    pair.ep.notify(b"abcd", 9).result(PATIENCE)
    assert pair.owner.wait_for(lambda: back == b"dcba", PATIENCE)
    received.result(PATIENCE)


def test_told_before_a_result(pair: Pair) -> None:
    """In the order of the events; what comes before the end of an operation, before result()."""
    received = pair.owner.recv(8, 3)
    for key in (1, 2):
        pair.ep.notify(b"", key).result(PATIENCE)
    pair.ep.send(b"message", 3).result(PATIENCE)
    received.result(PATIENCE)
    told = [event.tag for event in pair.owner_told if event.kind == Kind.NOTIFY]
    assert told == [1, 2]


def test_what_a_callback_leaves(pair: Pair) -> None:
    """By raising something, of the events that came with that one: nothing new has to come."""
    told: list[int] = []

    def throws(event: Event) -> None:
        if event.kind == Kind.NOTIFY:
            told.append(event.tag)
            if event.tag == 1:
                raise ZeroDivisionError

    pair.owner._on_event = throws
    for key in (1, 2):
        pair.ep.notify(b"", key).result(PATIENCE)
    with pytest.raises(ZeroDivisionError):
        pair.owner.wait_for(lambda: told, PATIENCE)
    began = time.monotonic()
    assert pair.owner.wait_for(lambda: len(told) == 2, PATIENCE) and told == [1, 2]
    assert time.monotonic() - began < PATIENCE / 2


def test_limit_of_a_wait_in_a_loop(pair: Pair) -> None:
    """Of what can't be canceled: it is given up in time, and comes later."""

    async def main() -> None:
        region = pair.owner.region(bytearray(8))
        with pair.owner.counter(1, 1) as counter:
            for awaited in (counter.reached, region.closed, pair.owner.closed):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(awaited, 0.02)
                awaited.cancel()
                assert not awaited.done() and not awaited._waiters
            await pair.ep.notify(b"", 1)
            assert await counter.reached == 1
            await region.close()

    timer = threading.Timer(PATIENCE, pair.owner.close)  # else a wait without an end would hang
    timer.start()
    try:
        asyncio.run(main())
    finally:
        timer.cancel()
        timer.join()


def test_wake(engine: Engine) -> None:
    """Another thread has a wait look at its condition again."""
    flag: list[int] = []

    def work() -> None:
        flag.append(1)
        engine.wake()

    thread = threading.Thread(target=work)
    thread.start()
    assert engine.wait_for(lambda: flag, PATIENCE)
    thread.join()


def test_counter_that_ends_while_it_is_waited_for(engine: Engine) -> None:
    """By another thread's close, and where nobody else has it."""
    counter = engine.counter(1, 1)
    thread = threading.Timer(0.02, counter.close)
    thread.start()
    assert isinstance(counter.reached.exception(PATIENCE), Canceled)
    thread.join()
    with pytest.warns(ResourceWarning, match="unclosed <xfer"):
        reached = engine.counter(2, 1).reached
        gc.collect()
    assert isinstance(reached.exception(PATIENCE), Canceled)


def test_flush_covers_what_was_begun(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what another thread is about to begin, whose memory the engine may have after it."""
    buffer = bytearray(8)
    real, inside, go_on = lib.xfer_put, threading.Event(), threading.Event()

    def late(*args: Any) -> Any:
        inside.set()
        assert go_on.wait(PATIENCE)
        return real(*args)

    monkeypatch.setattr(_endpoint, "lib", Late(late))
    thread = threading.Thread(target=pair.ep.put_quiet, args=(buffer, pair.ref))
    thread.start()
    assert inside.wait(PATIENCE)
    pair.ep.flush().result(PATIENCE)
    go_on.set()
    thread.join()
    assert is_lent(buffer)
    pair.ep.flush().result(PATIENCE)
    assert not is_lent(buffer)


class Late:
    """The library, but for its put."""

    def __init__(self, put: Any) -> None:
        self.xfer_put = put

    def __getattr__(self, name: str) -> Any:
        return getattr(lib, name)


def test_timeouts_of_the_header(engine: Engine) -> None:
    """math.inf is XFER_NONE: the default of the engine does not hold."""
    with Engine(timeout_ms=20) as hasty:
        forever = hasty.recv(8, timeout=math.inf)
        assert isinstance(hasty.recv(8).exception(PATIENCE), TimedOut)
        assert not forever.done()
        forever.cancel()
        assert isinstance(forever.exception(PATIENCE), Canceled)


def test_interrupt(engine: Engine) -> None:
    """Ctrl-C ends a wait, and the operation goes on."""
    received = engine.recv(8)

    def interrupts() -> None:
        while not engine._waiting._taker:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupts)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        received.result(PATIENCE)
    thread.join()
    assert not received.done()
    received.cancel()
    assert isinstance(received.exception(PATIENCE), Canceled)


def test_interrupted_burst(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt while events are told loses none of those behind it."""
    receives = [pair.engine.recv(8) for _ in range(10)]
    dispatch, seen = pair.engine._dispatch, list[Any]()

    def interrupted(event: Any) -> Any:
        ended = dispatch(event)
        seen.append(event.kind)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return ended

    monkeypatch.setattr(pair.engine, "_dispatch", interrupted)
    pair.engine.cancel()
    with pytest.raises(KeyboardInterrupt):
        pair.engine.wait_for(lambda: len(seen) > 3, PATIENCE)
    assert all(isinstance(op.exception(PATIENCE), Canceled) for op in receives)
