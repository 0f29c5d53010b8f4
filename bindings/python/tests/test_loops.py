# SPDX-License-Identifier: Apache-2.0
"""The same objects in asyncio's own loop, in uvloop, and in trio."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Callable

import pytest
from conftest import ANYWHERE, PATHS, PATIENCE, Pair, Peer, is_lent, run

from xfer import READ, Canceled, Engine, Event, Kind, Message, NotFound, Operation

LARGE = 16 << 20


class Asyncio:
    """Runs coroutines, together and canceled, with one loop."""

    @staticmethod
    def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return run(main())

    @staticmethod
    async def together(*works: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        await asyncio.gather(*(work() for work in works))

    @staticmethod
    async def canceled(work: Callable[[], Coroutine[Any, Any, Any]], begun: Any) -> None:
        """Cancels it once begun() is true."""
        task = asyncio.ensure_future(work())
        while not begun():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


class Uvloop(Asyncio):
    @staticmethod
    def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        uvloop = pytest.importorskip("uvloop")
        return uvloop.run(asyncio.wait_for(main(), PATIENCE))


class Trio:
    @staticmethod
    def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        trio = pytest.importorskip("trio")

        async def in_time() -> Any:
            with trio.fail_after(PATIENCE):
                return await main()

        return trio.run(in_time)

    @staticmethod
    async def together(*works: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        import trio

        async with trio.open_nursery() as nursery:
            for work in works:
                nursery.start_soon(work)

    @staticmethod
    async def canceled(work: Callable[[], Coroutine[Any, Any, Any]], begun: Any) -> None:
        import trio

        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            while not begun():
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()


LOOPS: dict[str, Any] = {"asyncio": Asyncio, "uvloop": Uvloop, "trio": Trio}


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param != "asyncio":
        pytest.importorskip(request.param)
    yield LOOPS[request.param]


def test_awaited(loop: Any, any_pair: Pair) -> None:
    async def puts(i: int) -> None:
        for _ in range(20):
            assert await any_pair.ep.put(bytes([i]) * 8, any_pair.ref, 8 * i) == 8

    async def main() -> None:
        await loop.together(*(lambda i=i: puts(i) for i in range(1, 21)))
        with pytest.raises(NotFound):
            await any_pair.ep.lookup("nothing")

    loop.run(main)
    assert any_pair.memory[8:168] == b"".join(bytes([i]) * 8 for i in range(1, 21))


@pytest.mark.parametrize("path", ["tcp"], indirect=True)
def test_canceled_while_under_way(loop: Any, peer: Peer) -> None:
    """The peer is stopped: the end of the task waits for that of the put."""

    async def main() -> None:
        async with Engine(transports="tcp") as engine, engine.endpoint(peer.uri) as ep:
            ref = (await ep.lookup("pool")).ref
            peer.stop()
            buffer, put = bytearray(LARGE), list[Any]()

            async def work() -> None:
                put.append(ep.put(buffer, ref))
                try:
                    await put[0]
                finally:
                    assert put[0].done() and not is_lent(buffer)

            await loop.canceled(work, lambda: put and put[0]._waiters)
            assert isinstance(put[0].exception(), Canceled) and not is_lent(buffer)
            peer.go_on()
            await ep.put(b"after", ref)

    loop.run(main)


def test_waits_that_are_given_up(loop: Any, pair: Pair) -> None:
    """Of what can't be canceled: the task ends at once, and another one has the event."""
    owner, other = pair.owner, Engine()

    async def give_up(awaited: Any, end: Callable[[], Any]) -> None:
        seen: list[Any] = []

        async def waits() -> None:
            seen.append(await awaited)

        async def cancels() -> None:
            await loop.canceled(waits, lambda: len(awaited._waiters) == 2)
            assert not awaited.done() and not seen and len(awaited._waiters) == 1
            end()

        await loop.together(waits, cancels)
        assert len(seen) == 1 and not awaited._waiters

    async def main() -> None:
        grant, region = pair.region.grant(READ), owner.region(bytearray(8))
        with owner.counter(1, 1) as counter:
            await give_up(counter.reached, lambda: pair.ep.notify(b"", 1))
        await give_up(grant.ended, grant.revoke)
        await give_up(region.closed, region.close)
        await give_up(other.closed, other.close)

    with ended_at_last(owner, other):
        loop.run(main)


@contextmanager
def ended_at_last(*engines: Engine) -> Iterator[None]:
    """A task that can't be canceled has a test fail, not hang."""

    def end() -> None:
        for engine in engines:
            engine.close()

    timer = threading.Timer(PATIENCE, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def test_ended_by_a_thread(loop: Any, engine: Engine) -> None:
    """What another thread cancels wakes the task, and so does the close by one."""
    other = Engine()

    async def main() -> None:
        for end in (received.cancel, other.close):
            thread = threading.Thread(target=end)
            thread.start()
            with pytest.raises(Canceled):
                await (received if end == received.cancel else last)
            thread.join()

    received, last = engine.recv(8), other.recv(8)
    loop.run(main)
    other.close().result(PATIENCE)


def test_one_loop_after_the_other(pair: Pair) -> None:
    """Each takes the events while it runs, then threads do."""

    async def main() -> None:
        await pair.ep.put(b"12345678", pair.ref)

    for _ in range(2):
        for loop in LOOPS.values():
            try:
                loop.run(main)
            except pytest.skip.Exception:
                continue
            assert pair.ep.put(b"12345678", pair.ref).result(PATIENCE) == 8


@pytest.fixture(params=["asyncio", "uvloop"])
def stepped(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs now and then. Trio has none."""
    module = pytest.importorskip(request.param)
    loop: asyncio.AbstractEventLoop = module.new_event_loop()
    yield loop
    loop.close()


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0)


def waiting(operation: Operation[Any], loop: asyncio.AbstractEventLoop) -> asyncio.Task[Any]:
    """A task that has begun to wait for it."""

    async def waits() -> Any:
        return await operation

    task = loop.create_task(waits())
    loop.run_until_complete(asyncio.wait_for(until(lambda: operation._waiters), PATIENCE))
    return task


def test_threads_beside_a_loop_that_has_stopped(
    stepped: asyncio.AbstractEventLoop, pair: Pair
) -> None:
    """They take the events, those that a task awaits too, until it goes on."""
    awaited, beside = pair.owner.recv(8, 1), pair.owner.recv(8, 2)
    task, seen = waiting(awaited, stepped), list[Message]()
    thread = threading.Thread(target=lambda: seen.append(beside.result(PATIENCE)))
    thread.start()  # it has to find out that the loop does not run
    for tag in (1, 2):
        pair.ep.send(b"message", tag)
    pair.ep.flush().result(PATIENCE)
    thread.join(2 * PATIENCE)
    assert [message.tag for message in seen] == [2] and awaited.done() and not task.done()
    assert stepped.run_until_complete(asyncio.wait_for(task, PATIENCE)).tag == 1
    later = pair.owner.recv(8, 3)
    task = waiting(later, stepped)
    pair.ep.send(b"later", 3).result(PATIENCE)
    assert stepped.run_until_complete(asyncio.wait_for(task, PATIENCE)).data == b"later"


def test_loop_closed_under_a_task(stepped: asyncio.AbstractEventLoop, pair: Pair) -> None:
    """The end of what the task awaits is no matter of the thread that takes the event."""
    awaited, other = pair.owner.recv(8, 1), pair.owner.recv(8, 2)
    task = waiting(awaited, stepped)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    stepped.close()
    for tag in (1, 2):
        pair.ep.send(b"message", tag).result(PATIENCE)
    assert other.result(PATIENCE).tag == 2 and awaited.result().tag == 1


def test_order_in_a_burst(loop: Any, path: str) -> None:
    """A task goes on when on_event was told of what came before. All events are there when the
    loop takes them."""
    seen: list[tuple[str, int]] = []

    def on_event(event: Event) -> None:
        if event.kind == Kind.NOTIFY:
            seen.append(("told", event.tag))

    async def waits(received: Operation[Any], tag: int) -> None:
        await received
        seen.append(("awaited", tag))

    async def main() -> None:
        await loop.together(*(lambda r=r, tag=tag: waits(r, tag) for tag, r in receives.items()))
        assert [tag for what, tag in seen if what == "told"] == list(receives)
        assert all(seen.index(("told", i)) < seen.index(("awaited", i)) for i in receives)

    owner, engine = Engine(on_event, transports=PATHS[path]), Engine(transports=PATHS[path])
    with owner, engine, engine.endpoint(owner.listen(ANYWHERE)) as ep:
        receives = {tag: owner.recv(8, tag) for tag in range(1, 6)}
        for tag in receives:
            ep.notify(b"", tag).result(PATIENCE)
            ep.send(b"", tag).result(PATIENCE)
        loop.run(main)


def test_told_in_the_loop(loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    """What on_event raises is logged, and the next event comes all the same."""
    told: list[bytes] = []

    def on_event(event: Event) -> None:
        if event.kind == Kind.NOTIFY:
            told.append(event.data)
            if event.data == b"first":
                raise ValueError("of the user")

    async def main() -> None:
        uri = owner.listen(ANYWHERE)
        async with owner, Engine() as engine, engine.endpoint(uri) as ep:
            received = owner.recv(8)
            for data in (b"first", b"second"):
                await ep.notify(data, 1)
            await ep.send(b"last")
            await received

    owner = Engine(on_event)
    with caplog.at_level(logging.ERROR):
        loop.run(main)
    assert told == [b"first", b"second"]
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == [
        "of the user"
    ]
