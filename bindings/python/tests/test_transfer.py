# SPDX-License-Identifier: Apache-2.0
"""Bytes that are put and got, and words that are changed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conftest import PATIENCE, Pair, refs_of, refused, run

from xfer import (
    READ,
    WRITE,
    Status,
)


class OnlyDlpack:
    """As a tensor of a framework without Python's buffer protocol."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self) -> Any:
        return self.array.__dlpack__()


class Hosted(OnlyDlpack):
    """Memory of the host, whose exporters take no stream."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class OnlyCuda:
    """As an array of a framework that tells where its memory is; here it is the host's."""

    def __init__(self, array: Any, **changed: Any) -> None:
        interface = array.__array_interface__
        named = {key: interface[key] for key in ("data", "shape", "typestr", "strides")}
        self.array, self.__cuda_array_interface__ = array, {**named, **changed}


def test_buffers_of_frameworks(pair: Pair) -> None:
    numpy = pytest.importorskip("numpy")
    ep, ref = pair.ep, pair.ref
    numbers = numpy.arange(1000, dtype=numpy.float64).reshape(10, 100)
    for wrap in (lambda a: a, OnlyDlpack, Hosted, OnlyCuda):
        back = numpy.zeros_like(numbers)
        ep.put(wrap(numbers), ref).result(PATIENCE)
        ep.get(wrap(back), ref).result(PATIENCE)
        assert (back == numbers).all()
        with pytest.raises(BufferError):
            ep.put(wrap(numbers.T), ref)
        with pytest.raises(BufferError):
            ep.put(wrap(numbers[:, ::2]), ref)
    fixed = numpy.zeros(8)
    fixed.flags.writeable = False
    for target in (fixed, OnlyDlpack(fixed), OnlyCuda(fixed)):
        with pytest.raises(BufferError):
            ep.get(target, ref)


def test_stream_that_nobody_can_tell(pair: Pair) -> None:
    numpy = pytest.importorskip("numpy")
    with pytest.raises(ValueError, match="stream 0"):
        pair.ep.put(OnlyCuda(numpy.zeros(8), stream=0), pair.ref)
    pair.ep.put(OnlyCuda(numpy.zeros(8), stream=None), pair.ref).result(PATIENCE)


def test_copy(pair: Pair) -> None:
    data = bytearray(b"before")
    put = pair.ep.put(data, pair.ref, copy=True)
    data[:] = b"after!"
    data.append(0)
    put.result(PATIENCE)
    assert pair.memory.startswith(b"before")
    refused(Status.ETOOBIG, pair.ep.put, bytes(4097), pair.ref, copy=True)


def test_made_memory(pair: Pair) -> None:
    """It is as long there as a view of it is."""
    region = pair.owner.alloc(100_000, "made", READ | WRITE)
    ref = refs_of(pair.ep, "made")
    pair.ep.put(b"into it", ref, 7).result(PATIENCE)
    assert region.memory[7:14] == b"into it"
    view = region.memory[7:]
    with pytest.raises(BufferError):
        region.close()
    pair.owner.close().result(PATIENCE)
    assert view[:7] == b"into it"
    del view
    region.close().result(PATIENCE)
    assert region.memory is None


def test_wrong_thread_beside_a_loop(pair: Pair) -> None:
    """A thread waits while the loop takes the events, and the other way round."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        received = pair.engine.recv(8, 9)
        sleeps = loop.run_in_executor(None, received.result, PATIENCE)
        while not pair.engine._waiting._taker:  # it has the events, until a loop comes
            await asyncio.sleep(0.001)
        relieves = asyncio.ensure_future(pair.engine.recv(8, 10))
        await asyncio.sleep(0)
        back = pair.back()
        await back.send(b"woken", 9)
        await back.send(b"too", 10)
        assert (await relieves).data == b"too"
        assert (await sleeps).data == b"woken"
        results: list[int] = []

        def work() -> None:
            for i in range(100):
                results.append(pair.ep.put(b"12345678", pair.ref, 8 * i).result(PATIENCE))

        waits = loop.run_in_executor(None, work)
        for i in range(100):
            await pair.ep.put(b"abcdefgh", pair.ref, 8 * (100 + i))
        await waits
        assert results == [8] * 100

    run(main())
    assert pair.memory[:1600] == b"12345678" * 100 + b"abcdefgh" * 100
    pair.ep.put(b"no loop", pair.ref).result(PATIENCE)
