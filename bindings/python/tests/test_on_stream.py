# SPDX-License-Identifier: Apache-2.0
"""Batches on streams of CUDA, and in its graphs, on a driver without a device."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import is_lent
from test_device import FAKE, PATIENCE, Array, load, run_alone

from xfer import (
    READ,
    WRITE,
    Batch,
    Canceled,
    Engine,
    Event,
    Kind,
    Operation,
    Region,
    Status,
    StreamResult,
    TimedOut,
    XferError,
    _streams,
)

LENGTH = 64 << 10
PATIENCE_MS = PATIENCE * 1000


class OnStream:
    """A batch that puts an array of the device to a pool of the owner's, and a stream."""

    def __init__(self, driver: Any, owner: Engine, engine: Engine, told: list[Event]) -> None:
        self.driver, self.owner, self.engine, self.told = driver, owner, engine, told
        self.pool = bytearray(LENGTH)
        self.region: Region = owner.region(self.pool, "pool", READ | WRITE)
        self.ep = engine.endpoint(owner.listen("tcp://127.0.0.1:0"))
        self.array = Array(driver, bytes(LENGTH))
        self.stream: int = driver.fake_cuda_stream()
        self.batch: Batch = self.ep.batch()
        self.batch.put(self.array, self.region.ref)

    def write(self, content: bytes) -> None:
        """By a kernel, in the order of the stream."""
        self.driver.fake_cuda_write_on(self.stream, self.array.address, content, LENGTH)

    def hold(self, held: bool) -> None:
        self.driver.fake_cuda_hold_stream(self.stream, held)

    def passes(self) -> bool:
        return bool(self.driver.fake_cuda_idle(self.stream, PATIENCE_MS))

    def record(self) -> tuple[int, Operation[int]]:
        """An instance of a graph of it alone, and what ends with that."""
        self.driver.fake_cuda_capture(self.stream)
        operation = self.batch.submit(stream=self.stream)
        graph = self.driver.fake_cuda_end_capture(self.stream)
        instance: int = self.driver.fake_cuda_instantiate(graph)
        self.driver.fake_cuda_free_graph(graph)
        return instance, operation

    def run(self, instance: int, content: bytes) -> None:
        self.write(content)
        self.driver.fake_cuda_launch(instance, self.stream)
        assert self.passes()

    def ended(self) -> tuple[int, int, int]:
        result = self.batch.stream_result
        return result.status, result.runs, result.failures

    def notes(self) -> list[tuple[int, bytes]]:
        return [(event.tag, event.data) for event in self.told if event.kind == Kind.NOTIFY]


@contextlib.contextmanager
def on_stream() -> Iterator[OnStream]:
    driver = load()
    address, size = ctypes.c_void_p, ctypes.c_size_t
    for name in ("stream", "end_capture", "instantiate"):
        getattr(driver, f"fake_cuda_{name}").restype = address
    for name in ("capture", "end_capture", "instantiate", "free_graph", "free_exec"):
        getattr(driver, f"fake_cuda_{name}").argtypes = (address,)
    driver.fake_cuda_hold_stream.argtypes = (address, ctypes.c_int)
    driver.fake_cuda_idle.argtypes = (address, ctypes.c_uint)
    driver.fake_cuda_launch.argtypes = (address, address)
    driver.fake_cuda_write_on.argtypes = (address, address, ctypes.c_char_p, size)
    driver.fake_cuda_copy_on.argtypes = (address, address, address, size)
    told: list[Event] = []
    with Engine(told.append) as owner, Engine() as engine:
        on = OnStream(driver, owner, engine, told)
        with on.batch:
            yield on
        driver.fake_cuda_end_all()
        assert driver.fake_cuda_calls(b"wrong") == 0


def refused(status: Status, call: Any) -> XferError:
    with pytest.raises(XferError) as caught:
        call()
    assert caught.value.status == status, caught.value
    return caught.value


def order() -> None:
    """What the stream wrote before is put, and what it writes behind is not."""
    with on_stream() as on:
        told = Array(on.driver, bytes(32))
        for _ in range(3):
            on.hold(True)
            on.write(b"b" * LENGTH)
            operation = on.batch.submit(stream=on.stream)
            result = on.batch.stream_result
            on.driver.fake_cuda_copy_on(on.stream, told.address, result.address, 32)
            on.write(b"a" * LENGTH)
            with pytest.raises(TimeoutError):
                operation.result(0.05)
            assert result == StreamResult(Status.OK, True, 0, 0, result.address)
            assert on.batch.info.inflight
            refused(Status.EBUSY, lambda: on.batch.submit(stream=on.stream))
            refused(Status.EBUSY, on.batch.submit)
            assert on.batch.stream_result == result
            on.hold(False)
            assert operation.result(PATIENCE) == LENGTH
            assert on.passes()
            assert on.pool == b"b" * LENGTH and on.array.read() == b"a" * LENGTH
            assert on.batch.stream_result == result._replace(runs=1)
            assert int.from_bytes(told.read()[8:16], sys.byteorder) == 1  # so a kernel sees it
            on.pool[:] = bytes(LENGTH)
        on.batch.submit().result(PATIENCE)
        assert on.pool == b"a" * LENGTH
        refused(Status.EINVAL, lambda: on.batch.stream_result)
        on.batch.close()
        refused(Status.ECLOSED, lambda: on.batch.submit(stream=on.stream))
        refused(Status.ECLOSED, lambda: on.batch.stream_result)


def graph() -> None:
    """Each launch moves what is there then, to where the owner has it then."""
    with on_stream() as on:
        instance, operation = on.record()
        assert not any(on.pool) and not operation.done()
        for run in (1, 2, 3):
            content = bytes([run]) * LENGTH
            on.run(instance, content)
            assert on.pool == content and on.ended() == (Status.OK, run, 0)
        assert on.batch.statuses() == [Status.OK]
        before = on.region.ref
        on.region.close().result(PATIENCE)
        on.run(instance, b"4" * LENGTH)
        status, runs, failures = on.ended()
        assert status == Status.ESTALE and (runs, failures) == (4, 1)
        assert on.batch.statuses() == [Status.ESTALE]
        pool = bytearray(LENGTH)
        with on.owner.region(pool, "pool", READ | WRITE) as again:
            on.batch.rebind(before, again.ref)
            refused(Status.EBUSY, lambda: on.batch.put(on.array, again.ref))
            on.run(instance, b"5" * LENGTH)
            assert pool == b"5" * LENGTH and on.ended() == (Status.OK, 5, 1)
            on.engine.poll()
            assert not operation.done()
            on.driver.fake_cuda_free_exec(instance)
            operation.result(PATIENCE)
            assert on.ended() == (Status.OK, 5, 1)
            on.batch.submit().result(PATIENCE)


def cancel() -> None:
    """Of the batch, of its group, of the task that awaits it; and by its close. The stream passes,
    and launches to come do."""
    with on_stream() as on:

        async def await_it() -> None:
            task = asyncio.ensure_future(begin())
            await asyncio.sleep(0.02)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert task.cancelled()

        async def begin() -> None:
            await on.batch.submit(stream=on.stream)

        on.hold(True)
        operation = on.batch.submit(stream=on.stream, group=7)
        on.engine.cancel(7)
        assert isinstance(operation.exception(PATIENCE), Canceled)
        assert on.ended() == (Status.ECANCELED, 0, 0)
        asyncio.run(await_it())
        on.hold(False)
        assert on.passes() and not any(on.pool)
        for end in (on.batch.cancel, on.batch.close):
            instance, operation = on.record()
            on.run(instance, b"1" * LENGTH)
            assert on.pool == b"1" * LENGTH
            end()
            assert isinstance(operation.exception(PATIENCE), Canceled)
            on.run(instance, b"2" * LENGTH)
            assert on.pool == b"1" * LENGTH
            on.driver.fake_cuda_free_exec(instance)


def deadline() -> None:
    """It counts from the begin of a run, and the stream goes on where a copy does not."""
    with on_stream() as on:
        on.hold(True)
        operation = on.batch.submit(stream=on.stream, timeout=3)
        with pytest.raises(TimeoutError):
            operation.result(3.1)
        on.hold(False)
        assert operation.result(PATIENCE) == LENGTH
        on.driver.fake_cuda_hold_copies(1)
        operation = on.batch.submit(stream=on.stream, timeout=3)
        assert on.passes()
        result = on.batch.stream_result
        assert (result.status, result.fenced, result.runs) == (Status.ETIMEDOUT, False, 0)
        on.driver.fake_cuda_hold_copies(0)
        assert isinstance(operation.exception(PATIENCE), TimedOut)
        assert on.ended() == (Status.ETIMEDOUT, 1, 1)


def lent() -> None:
    """Until the event, also when nobody has the batch nor its operation any more."""
    with on_stream() as on:
        memory = bytearray(b"m" * LENGTH)
        batch = on.ep.batch()
        batch.put(memory, on.region.ref)
        on.hold(True)
        batch.submit(stream=on.stream)
        del batch
        assert is_lent(memory)
        on.hold(False)
        assert on.passes() and on.pool == b"m" * LENGTH
        assert on.engine.wait_for(lambda: not is_lent(memory), PATIENCE)


def refusals() -> None:
    with on_stream() as on:
        error = refused(
            Status.EUNSUPPORTED, lambda: on.batch.submit(ordered=True, stream=on.stream)
        )
        assert "XFER_SUBMIT_ORDERED" in str(error)
        for wrong in (True, -1, 1 << 64, 1.5, "1", object(), on.array, [1]):
            with pytest.raises(TypeError, match="no stream"):
                on.batch.submit(stream=wrong)
        refused(Status.EINVAL, lambda: on.batch.stream_result)
        on.driver.fake_cuda_fail(b"cuLaunchHostFunc", 1, 719, 0)
        error = refused(Status.EIO, lambda: on.batch.submit(stream=on.stream))
        assert error.native_code == 719 and "CUDA error 719" in str(error)
        refused(Status.EINVAL, lambda: on.batch.stream_result)
        assert on.passes()
        on.batch.submit(9, b"note", stream=on.stream, timeout=PATIENCE).result(PATIENCE)
        assert on.ended() == (Status.OK, 1, 0)


def notify() -> None:
    with on_stream() as on:
        on.batch.submit(9, b"note", checksum=True, stream=on.stream).result(PATIENCE)
        assert on.owner.wait_for(on.notes, PATIENCE)
        assert on.notes() == [(9, b"note")]


class Protocol:
    def __init__(self, *told: int) -> None:
        self.told = told

    def __cuda_stream__(self) -> tuple[int, ...]:
        return self.told


class Torch:
    def __init__(self, cuda_stream: Any) -> None:
        self.cuda_stream = cuda_stream


class CuPy:
    def __init__(self, ptr: Any) -> None:
        self.ptr = ptr


def shapes() -> None:
    """A stream as each framework has it."""
    with on_stream() as on:
        for stream in (Protocol(0, on.stream), Torch(on.stream), CuPy(on.stream)):
            on.write(b"s" * LENGTH)
            assert on.passes()
            on.pool[:] = bytes(LENGTH)
            on.batch.submit(stream=stream).result(PATIENCE)
            assert on.pool == b"s" * LENGTH


@pytest.mark.skipif(not FAKE, reason="built without the headers of CUDA")
@pytest.mark.parametrize(
    "what", ["order", "graph", "cancel", "deadline", "lent", "refusals", "notify", "shapes"]
)
def test_batch_on_a_stream(what: str) -> None:
    run_alone("test_on_stream", what)


def test_handles_of_streams() -> None:
    for stream in (4096, Protocol(0, 4096), Torch(4096), CuPy(4096)):
        assert _streams.handle(stream) == 4096
    assert _streams.handle(Torch(0)) == 0
    for wrong in (Protocol(1, 4096), Torch(None), CuPy("4096"), Torch):
        with pytest.raises(TypeError, match="no stream"):
            _streams.handle(wrong)
