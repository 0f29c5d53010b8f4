# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C anywhere in a wait: each event comes once, none is lost, and other threads go on."""

from __future__ import annotations

import asyncio
import collections
import dis
import gc
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import Any, Callable

import pytest
from conftest import ANYWHERE, PATHS, PATIENCE, Pair

import xfer
from xfer import Canceled, Engine, Event, Kind, Operation

PACKAGE = os.path.dirname(xfer.__file__)
# What is around a dispatch: who takes its turn, and who waits for it.
TURNS = {
    "wait_for", "_take_or_sleep", "_may_sleep", "_sleep_beside", "_look_again", "wake",
    "_tell", "_tell_one", "_check_fork",
}  # fmt: skip
TAKING = {"_take", "_dispatch"}


def is_of_a_dispatch(name: str) -> bool:
    return name not in TURNS


class Interrupt:
    """KeyboardInterrupt where the interpreter looks for signals in a dispatch, or in other
    functions, for the n-th time: where a function begins, and behind a call; in Python 3.9 before
    any instruction. The collector, which may begin anywhere, is off: what it finalizes is no
    dispatch."""

    def __init__(
        self, n: int, where: Callable[[str], bool] = is_of_a_dispatch, anywhere: bool = False
    ) -> None:
        self.left, self.where, self.anywhere, self.came = n, where, anywhere, False
        self.at: dict[FrameType, int] = {}

    def __enter__(self) -> Interrupt:
        self.before = sys.gettrace()
        gc.disable()
        sys.settrace(self.calls)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.settrace(self.before)
        gc.enable()

    def calls(self, frame: FrameType, event: str, arg: Any) -> Any:
        if os.path.dirname(frame.f_code.co_filename) != PACKAGE:
            return None
        if not self.where(frame.f_code.co_name):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self.instruction

    def instruction(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            before = self.at.get(frame)
            self.at[frame] = frame.f_lasti
            self.left -= self.anywhere or before is None or is_call(frame, before)
            if self.left == 0:
                self.came = True
                raise KeyboardInterrupt
        elif event == "return":
            self.at.pop(frame, None)
        return self.instruction


def is_call(frame: FrameType, place: int) -> bool:
    return dis.opname[frame.f_code.co_code[place]].startswith("CALL")


def interrupted(engine: Engine, n: int, condition: Callable[[], Any], *where: Any) -> bool:
    """Waits for it, once with the interrupt and then, if that came, without."""
    with Interrupt(n, *where) as interrupt:
        try:
            assert engine.wait_for(condition, PATIENCE)
        except KeyboardInterrupt:
            assert interrupt.came
    assert engine.wait_for(condition, PATIENCE)
    return interrupt.came


def all_came(received: Operation[Any], failed: Operation[Any], told: list[Event]) -> bool:
    return received.done() and failed.done() and bool(told)


@pytest.mark.parametrize("path", ["tcp"], indirect=True)
def test_at_each_place(pair: Pair) -> None:
    owner, n, came = pair.owner, 0, True
    while came:
        n += 1
        received, failed = owner.recv(8, n), owner.recv(8, n)
        failed.cancel()
        pair.ep.notify(b"", n).result(PATIENCE)
        pair.ep.send(b"message", n).result(PATIENCE)
        pair.owner_told.clear()
        came = interrupted(owner, n, partial(all_came, received, failed, pair.owner_told))
        assert received.result().data == b"message"
        assert isinstance(failed.exception(), Canceled)
        owner.poll()
        assert [event.tag for event in pair.owner_told if event.kind == Kind.NOTIFY] == [n]
    assert n > 50


@pytest.mark.parametrize("path", ["tcp"], indirect=True)
def test_nothing_is_kept(pair: Pair) -> None:
    """Of operations that have ended, wherever an interrupt comes between two instructions."""
    owner, n, came = pair.owner, 0, True
    pair.back()
    while came:
        n += 1
        receives = [owner.recv(8, n) for _ in range(2)]
        pair.ep.notify(b"", n).result(PATIENCE)
        for _ in receives:
            pair.ep.send(b"message", n).result(PATIENCE)
        pair.owner_told.clear()
        done = partial(all_came, receives[0], receives[1], pair.owner_told)
        came = interrupted(owner, n, done, TAKING.__contains__, True)
        assert all(received.result().data == b"message" for received in receives)
        owner.poll()
        assert not any(operation.done() for operation in owner._live.values())
        assert [event.tag for event in pair.owner_told] == [n]
    assert n > 100


@pytest.mark.parametrize("path", ["tcp"], indirect=True)
def test_of_a_turn_at_each_place(pair: Pair) -> None:
    """It is given back: another thread takes the events, and tells of them."""
    owner, n, came = pair.owner, 0, True
    pair.back()
    with ThreadPoolExecutor(1) as pool:
        while came:
            n += 1
            received, told = owner.recv(8, n), pair.owner_told
            pair.ep.send(b"message", n).result(PATIENCE)
            pair.ep.notify(b"", n).result(PATIENCE)
            told.clear()
            done = partial(all_came, received, received, told)
            came = interrupted(owner, n, done, TURNS.__contains__)
            pair.ep.notify(b"", 0).result(PATIENCE)
            later = pool.submit(owner.wait_for, lambda: len(pair.owner_told) == 2, PATIENCE)
            assert later.result(2 * PATIENCE)
            assert [event.tag for event in told] == [n, 0]
    assert n > 20


@pytest.mark.parametrize("path", ["tcp"], indirect=True)
def test_beside_at_each_place(pair: Pair) -> None:
    """Of a thread that waits while another one sleeps on the descriptor."""
    owner, n, over = pair.owner, 0, threading.Event()
    with ThreadPoolExecutor(1) as pool:
        sleeper = pool.submit(owner.wait_for, over.is_set)
        while not owner._waiting._taker:
            pass
        came = True
        while came:
            n += 1
            with Interrupt(n, TURNS.__contains__) as interrupt:
                try:
                    owner.wait_for(lambda: False, 0.002)
                except KeyboardInterrupt:
                    assert interrupt.came
            came = interrupt.came
            assert not owner._waiting._beside
        over.set()
        owner.wake()
        assert sleeper.result(PATIENCE)
    assert n > 5


@pytest.mark.parametrize("path", ["tcp"], indirect=True)
def test_of_a_peer_at_each_place(path: str) -> None:
    """Its handle is made once, and is valid."""
    told: list[Event] = []
    n, came = 0, True
    with Engine(told.append, transports=PATHS[path]) as owner:
        uri = owner.listen(ANYWHERE)
        while came:
            n += 1
            with Engine(transports=PATHS[path]) as engine, engine.endpoint(uri) as ep:
                ep.connect().result(PATIENCE)
                came = interrupted(owner, n, lambda: told)
                back = told[0].ep
                assert back and ep.probe().result(PATIENCE)
                back.notify(b"", n).result(PATIENCE)
            kinds = [Kind.PEER, Kind.PEER_UP, Kind.PEER_DOWN]
            assert owner.wait_for(lambda: told[-1].kind == Kind.PEER_DOWN, PATIENCE)
            assert [event.kind for event in told if event.kind in kinds] == kinds
            assert all(event.ep is back for event in told)
            back.close().result(PATIENCE)
            told.clear()
    assert n > 50


class Interrupted(collections.deque[Any]):
    """KeyboardInterrupt behind its first popleft()."""

    came = False

    def popleft(self) -> Any:
        first = super().popleft()
        if not self.came:
            self.came = True
            raise KeyboardInterrupt
        return first


def test_before_a_callback(pair: Pair) -> None:
    """Which was not called yet."""
    pair.back()
    pair.owner.poll()
    pair.owner_told.clear()
    pair.owner._waiting._untold = Interrupted()
    for key in (1, 2):
        pair.ep.notify(b"", key).result(PATIENCE)
    with pytest.raises(KeyboardInterrupt):
        pair.owner.wait_for(lambda: pair.owner_told, PATIENCE)
    assert pair.owner.wait_for(lambda: len(pair.owner_told) == 2, PATIENCE)
    assert [event.tag for event in pair.owner_told] == [1, 2]


def test_in_a_loop(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """That goes on: nothing new has to come for what was left."""
    dispatch, seen = pair.owner._dispatch, list[Any]()

    def interrupts(event: Any) -> Any:
        seen.append(event.kind)
        if len(seen) == 1:
            raise KeyboardInterrupt
        return dispatch(event)

    async def main() -> None:
        assert [(await received).tag for received in receives] == [1, 2]

    receives = [pair.owner.recv(8, tag) for tag in (1, 2)]
    for tag in (1, 2):
        pair.ep.send(b"message", tag).result(PATIENCE)
    monkeypatch.setattr(pair.owner, "_dispatch", interrupts)
    loop = asyncio.new_event_loop()
    task = loop.create_task(main())
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(task)
    done, _ = loop.run_until_complete(asyncio.wait([task], timeout=PATIENCE))
    loop.close()
    assert done
    task.result()
