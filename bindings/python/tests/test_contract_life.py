# SPDX-License-Identifier: Apache-2.0
"""Opening and closing in whatever order, forgetting, forking, and the end of the program."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import subprocess
import sys
import threading
import time
import warnings
from functools import partial
from typing import Any, Callable

import pytest
from conftest import (
    ANYWHERE,
    PATHS,
    PATIENCE,
    SIZE,
    Pair,
    entries_of,
    is_lent,
    refs_of,
    resident,
    run,
    threads_fall_to,
)

from xfer import READ, WRITE, Canceled, Closed, Engine, Forked, Kind, Stale


def test_open_close_join() -> None:
    def life() -> None:
        with Engine() as engine:
            engine.listen(ANYWHERE)

    for _ in range(20):
        life()
    gc.collect()
    before, threads, memory = entries_of("fd"), entries_of("task"), resident()
    for _ in range(100):
        life()
    assert threads_fall_to(threads)
    assert (entries_of("fd"), threading.active_count()) == (before, 1)
    gc.collect()
    assert resident() - memory < 8 << 20

    async def in_a_loop() -> None:
        for _ in range(100):
            async with Engine() as engine:
                engine.listen(ANYWHERE)

    run(in_a_loop())
    assert threads_fall_to(threads)
    assert entries_of("fd") == before


def test_submit_after_close(path: str) -> None:
    """In every order of closing the three, and twice."""
    for order in itertools.permutations(range(3)):
        pair = Pair(path)
        handles = [pair.engine, pair.region, pair.ep]
        calls: list[Callable[[], Any]] = [
            partial(pair.engine.recv, 8),
            partial(pair.region.grant, READ),
            partial(pair.ep.put, b"late", pair.ref),
        ]
        for i in order:
            handles[i].close().result(PATIENCE)
            handles[i].close().result(PATIENCE)
            with pytest.raises(Closed):
                calls[i]()
        for call in calls:
            with pytest.raises(Closed):
                call()
        pair.owner.close().result(PATIENCE)
        with pytest.raises(Closed):
            pair.owner.listen(ANYWHERE)
        with pytest.raises(Closed):
            pair.owner.wait_for(lambda: False, PATIENCE)


def test_close_with_inflight(any_pair: Pair) -> None:
    """Each gets one result, then the close has its."""
    buffers = [bytearray(8) for _ in range(10)]
    operations: list[Any] = [any_pair.engine.recv(buffer, 77) for buffer in buffers]
    operations += [any_pair.ep.lookup("later", wait=True) for _ in range(10)]
    puts = [any_pair.ep.put(bytearray(SIZE), any_pair.ref) for _ in range(10)]
    ended: list[Any] = []
    closed = any_pair.engine.close()
    closed.result(PATIENCE)
    for operation in operations:
        assert operation.done()
        assert isinstance(operation.exception(), Canceled)
        ended.append(operation)
    for put in puts:
        assert put.done()
        assert put.exception() is None or isinstance(put.exception(), Canceled)
    assert not any(is_lent(buffer) for buffer in buffers)
    assert not any_pair.engine._live


FORGETS = """
import asyncio, gc, sys, threading
from xfer import Engine
transports, how = sys.argv[1:]

def forget():
    owner, engine = (Engine([].append, transports=transports) for _ in range(2))
    ep = engine.endpoint(owner.listen("tcp://127.0.0.1:0"))
    region = owner.region(bytearray(1 << 20), "pool", 3)
    made = owner.alloc(1 << 20, "made", 3)
    view = made.memory
    batch = ep.batch()
    batch.put(bytearray(1 << 20), ep.lookup("pool").result(20).ref)
    kept = [batch.submit(), engine.recv(bytearray(8)), ep.lookup("later", wait=True)]
    for i in range(20):
        kept.append(ep.put(bytearray(1 << 20), region.ref))
    return owner, engine, ep, region, made, view, batch, kept

async def forget_in_a_loop():
    everything = forget()
    await everything[2].connect()
    return everything

if how == "end":
    everything = forget()
elif how == "collected":
    forget()
    gc.collect()
elif how == "loop":
    everything = asyncio.run(forget_in_a_loop())
elif how == "trio":
    import trio
    everything = trio.run(forget_in_a_loop)
elif how == "thread":
    threading.Thread(target=forget).start()
elif how == "waiting":
    everything = forget()
    threading.Thread(target=everything[1].wait_for, args=(lambda: False,), daemon=True).start()
print("last line")
"""


@pytest.mark.parametrize("how", ["end", "collected", "loop", "trio", "thread", "waiting"])
def test_drop_without_close(path: str, how: str) -> None:
    if how == "trio":
        pytest.importorskip("trio")
    command = [sys.executable, "-X", "dev", "-c", FORGETS, PATHS[path], how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "last line\n"
    assert "ResourceWarning: unclosed <xfer.Engine" in done.stderr


def test_fork_refused(path: str) -> None:
    pair = Pair(path)
    batch = pair.ep.batch()
    lookup, over = pair.ep.lookup("later", wait=True), threading.Event()
    sleeps = threading.Thread(target=pair.engine.wait_for, args=(over.is_set, PATIENCE))
    sleeps.start()  # in the child its locks stay taken for ever
    while not pair.engine._waiting._taker:
        time.sleep(0.001)
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # later versions warn of a fork beside a thread
        child = os.fork()
    if child == 0:
        os.close(reader)
        os.write(writer, _in_the_child(pair, batch, lookup).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    over.set()
    pair.engine.wake()
    sleeps.join(PATIENCE)
    assert os.waitpid(child, 0)[1] == 0
    assert told == ""
    pair.ep.put(b"the parent goes on", pair.ref).result(PATIENCE)
    assert pair.memory.startswith(b"the parent goes on")
    batch.close()
    pair.close()


async def _awaits(operation: Any) -> None:
    await operation


def _in_the_child(pair: Pair, batch: Any, operation: Any) -> str:
    """What was not refused."""
    wrong = ""
    calls = (
        lambda: pair.ep.put(b"x", pair.ref), pair.ep.connect, pair.ep.close, pair.ep.stats,
        lambda: pair.engine.recv(8), pair.engine.describe, pair.engine.close, pair.engine.poll,
        lambda: pair.region.ref, pair.region.close, batch.submit, batch.close,
        operation.cancel, lambda: operation.result(1), pair.engine.wake,
        lambda: asyncio.run(_awaits(operation)),
    )  # fmt: skip
    for i, call in enumerate(calls):
        try:
            call()
            wrong += f"call {i} returned; "
        except Forked:
            pass
        except BaseException as error:
            wrong += f"call {i}: {error!r}; "
    return wrong


def test_region_gone(any_pair: Pair) -> None:
    with any_pair.ep.batch():
        region = any_pair.owner.region(bytearray(8), "passing", WRITE)
        ref = refs_of(any_pair.ep, "passing")
        region.close().result(PATIENCE)
        gone = any_pair.wait_told(Kind.REGION_GONE)
        assert (gone.ref, gone.ep) == (ref, any_pair.ep)
        with pytest.raises(Stale):
            any_pair.ep.put(b"late", ref).result(PATIENCE)
