# SPDX-License-Identifier: Apache-2.0
"""Opening and closing in whatever order, forgetting, forking, and the end of the program."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
import warnings
from typing import Any, Callable

import pytest
from conftest import (
    ANYWHERE,
    PATHS,
    PATIENCE,
    SIZE,
    Pair,
    Peer,
    entries_of,
    is_lent,
    resident,
    run,
)

from xfer import (
    READ,
    WRITE,
    Batch,
    Canceled,
    Closed,
    Engine,
    Operation,
    Ref,
    Stale,
    XferError,
)
from xfer._xfer import ffi, lib


def test_submit_after_close_of_the_engine(pair: Pair) -> None:
    """The endpoint was not closed itself."""
    batch = pair.ep.batch()
    batch.put(b"late", pair.ref)
    counter = pair.engine.counter(1, 1)
    pair.engine.close().result(PATIENCE)
    for call in (lambda: pair.ep.put(b"late", pair.ref), pair.ep.connect, batch.submit):
        with pytest.raises(Closed):
            call()
    with pytest.raises(Canceled):
        counter.reached.result(PATIENCE)
    pair.ep.close().result(PATIENCE)
    batch.close()
    counter.close()


@pytest.mark.parametrize("path", ["tcp"], indirect=True)
def test_close_with_a_put_under_way(peer: Peer) -> None:
    async def main() -> None:
        engine = Engine(transports="tcp")
        ep = engine.endpoint(peer.uri)
        ref = (await ep.lookup("pool")).ref
        peer.stop()
        buffer = bytearray(SIZE * 8)
        put = ep.put(buffer, ref)
        await engine.close()
        assert isinstance(put.exception(), Canceled)
        assert not is_lent(buffer)

    run(main())


def test_drop_warns_and_closes(any_pair: Pair) -> None:
    """Each kind of handle; the memory comes back when it is quiet."""
    memory = bytearray(8)
    opened: list[Callable[[], Any]] = [
        lambda: any_pair.owner.region(memory, "mine", READ),
        lambda: any_pair.owner.alloc(8),
        lambda: any_pair.engine.endpoint(peer=any_pair.owner.id),
        any_pair.ep.batch,
        lambda: any_pair.owner.counter(1, 1),
    ]
    for make in opened:
        handle: Any = make()
        with pytest.warns(ResourceWarning, match="unclosed <xfer"):
            del handle
            gc.collect()
    assert any_pair.owner.wait_for(lambda: not is_lent(memory), PATIENCE)
    assert any_pair.owner.stats()["regions"] == 1
    with pytest.warns(ResourceWarning, match="unclosed <xfer.Engine"):
        Engine()
        gc.collect()


def test_drop_where_warnings_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is closed all the same."""
    raised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda hook: raised.append(hook.exc_type))
    gc.collect()
    before = entries_of("fd")
    Engine().listen(ANYWHERE)
    gc.collect()
    assert raised == [ResourceWarning]
    assert entries_of("fd") == before


def test_forgotten_operations_end(any_pair: Pair) -> None:
    """Nobody waits for them, and their endpoint is held until they end."""
    ep = any_pair.engine.endpoint(peer=any_pair.owner.id)
    ep.add_address(any_pair.uri) if any_pair.path != "loopback" else None
    op = ep.put(b"forgotten", any_pair.ref)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del ep
        assert op.result(PATIENCE) == 9


def test_fork_beside_a_loop(pair: Pair) -> None:
    """What the child's collector does is nothing to the parent's loop."""

    async def main() -> None:
        await pair.ep.put(b"before", pair.ref)
        child = os.fork()
        if child == 0:
            for engine in (pair.engine, pair.owner):
                engine._forgotten()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        received = pair.owner.recv(8)
        await pair.ep.send(b"after")
        assert (await received).data == b"after"

    run(main())


FORKS = """
import os, sys
from xfer import Engine
with Engine(transports=sys.argv[1]) as owner, Engine(transports=sys.argv[1]) as engine:
    memory = bytearray(100)
    with engine.endpoint(owner.listen("tcp://127.0.0.1:0")) as ep, owner.region(memory, "a", 3):
        ref = ep.lookup("a").result(20).ref
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            ep.put(b"parent", ref).result(20)
            assert memory.startswith(b"parent")
        else:
            with Engine(transports=sys.argv[1]) as own:  # one of the child's own is well
                own.listen("tcp://127.0.0.1:0")
"""


def test_fork_leaves_by_the_end_of_the_program(path: str) -> None:
    """The child runs through `with` and through the end of the interpreter."""
    command = [sys.executable, "-W", "error", "-c", FORKS, PATHS[path]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


OPERATIONS = 100_000


def operate(pair: Pair, batch: Batch, stale: Ref, count: int) -> None:
    """Operations that end well, are refused when they are begun, fail later, or are canceled."""
    data = b"12345678"
    for _ in range(count // 100):
        begun: list[Operation[Any]] = [pair.ep.put(data, pair.ref, 8 * i) for i in range(30)]
        begun += [pair.ep.put(data, stale) for _ in range(20)]
        begun += [pair.ep.lookup("nothing") for _ in range(5)]
        begun += [pair.engine.recv(8) for _ in range(5)]
        begun.append(batch.submit())
        for _ in range(15):
            pair.ep.put_quiet(data, pair.ref)
        pair.ep.put_quiet(data, stale)
        pair.ep.notify_quiet(data, 1)
        for _ in range(10):
            with pytest.raises(XferError):
                pair.ep.put(data, pair.ref, SIZE)
            with pytest.raises(OverflowError):
                pair.ep.put(data, pair.ref, -1)
        for receive in begun[55:60]:
            receive.cancel()
        failed = sum(operation.exception(PATIENCE) is not None for operation in begun)
        assert failed == 31
        with pytest.raises(Stale), pair.engine.counter(1, 1):
            pair.ep.flush().result(PATIENCE)
        pair.owner.poll()
        pair.told.clear()
        pair.owner_told.clear()


def test_nothing_leaks(any_pair: Pair) -> None:
    """Less than 16 bytes of the process, and a sixth of a byte of Python, for each operation."""
    gone = any_pair.owner.region(bytearray(8), access=WRITE)
    stale = gone.ref
    gone.close().result(PATIENCE)
    with any_pair.ep.batch() as batch:
        batch.put(b"12345678", any_pair.ref)
        batch.put(b"12345678", stale)
        operate(any_pair, batch, stale, OPERATIONS // 10)
        gc.collect()
        memory = resident()
        operate(any_pair, batch, stale, OPERATIONS // 2)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        operate(any_pair, batch, stale, OPERATIONS // 2)
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert after - before < OPERATIONS // 12
        assert resident() - memory < 16 * OPERATIONS
        assert len(any_pair.engine._live) < 8


def test_handles_of_the_engine_are_freed_once(pair: Pair) -> None:
    assert lib.xfer_region_close(ffi.NULL) == lib.XFER_OK
    pair.region.close().result(PATIENCE)
    pair.region.close().result(PATIENCE)
    assert pair.owner.stats()["regions"] == 0
