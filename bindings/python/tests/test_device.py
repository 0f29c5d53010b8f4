# SPDX-License-Identifier: Apache-2.0
"""Memory of a device, as an array of a framework names it, on a driver without a device."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from typing import Any

import pytest

from xfer import READ, WRITE, Engine, Event, Kind, Memory, Status, XferError

FAKE = os.environ.get("XFER_TEST_FAKE_CUDA", "")
PATIENCE = 20
LENGTH = 3 << 20


class Array:
    """As CuPy and PyTorch tell where theirs are."""

    def __init__(self, driver: Any, content: bytes) -> None:
        self.driver, self.length = driver, len(content)
        self.address = driver.fake_cuda_alloc(self.length)
        driver.fake_cuda_write(self.address, content, self.length)
        self.__cuda_array_interface__ = {
            "data": (self.address, False),
            "shape": (self.length,),
            "typestr": "|u1",
            "strides": None,
        }

    def read(self) -> bytes:
        content = ctypes.create_string_buffer(self.length)
        self.driver.fake_cuda_read(content, self.address, self.length)
        return content.raw


def load() -> Any:
    """An engine that is opened behind this takes it for the system's."""
    driver = ctypes.CDLL(FAKE, mode=ctypes.RTLD_GLOBAL)
    address, size = ctypes.c_void_p, ctypes.c_size_t
    driver.fake_cuda_alloc.restype, driver.fake_cuda_alloc.argtypes = address, (size,)
    driver.fake_cuda_write.argtypes = (address, ctypes.c_char_p, size)
    driver.fake_cuda_read.argtypes = (ctypes.c_char_p, address, size)
    return driver


def move() -> None:
    driver = load()
    content = bytes(range(256)) * (LENGTH // 256)
    with Engine(transports="loopback,tcp") as owner, Engine(transports="loopback,tcp") as engine:
        memory = bytearray(LENGTH)
        region = owner.region(memory, "pool", READ | WRITE)
        ep = engine.endpoint(owner.listen("tcp://127.0.0.1:0"))
        source, target = Array(driver, content), Array(driver, bytes(LENGTH))
        ep.put(source, region.ref).result(PATIENCE)
        assert memory == content
        ep.get(target, region.ref).result(PATIENCE)
        assert target.read() == content
        lent = owner.region(target, "device", READ | WRITE)
        assert lent.info.kind == Memory.CUDA
        reverse = content[::-1]
        ep.put(reverse, lent.ref).result(PATIENCE)
        assert target.read() == reverse
        ep.get(source, lent.ref).result(PATIENCE)
        assert source.read() == reverse
        lent.close().result(PATIENCE)
        for data, into in ((source, memory), (content, target), (source, target)):
            received = owner.recv(into, 7)
            sent = ep.send(data, 7, sync=True)
            assert received.result(PATIENCE).length == LENGTH
            sent.result(PATIENCE)
            expected = data.read() if isinstance(data, Array) else data
            assert (into.read() if isinstance(into, Array) else into) == expected
        with pytest.raises(XferError) as refused:
            ep.send(Array(driver, b"few"), 7, copy=True)
        assert refused.value.status == Status.EMEMKIND


def stall() -> None:
    driver = load()
    told: list[Event] = []
    ways = "loopback,tcp"
    with Engine(transports=ways) as owner, Engine(transports=ways, on_event=told.append) as engine:
        region = owner.region(bytearray(LENGTH), "pool", READ | WRITE)
        ep = engine.endpoint(owner.listen("tcp://127.0.0.1:0"))
        ep.put(b"first", region.ref).result(PATIENCE)
        driver.fake_cuda_hold(1)
        try:
            put = ep.put(Array(driver, bytes(LENGTH)), region.ref)
            deadline = time.monotonic() + PATIENCE
            while not (stalls := [event for event in told if event.kind == Kind.STALLED]):
                assert time.monotonic() < deadline
                engine.poll(0.1)
        finally:
            driver.fake_cuda_hold(0)
        put.result(PATIENCE)
        stalled = stalls[0]
        assert stalled.status == Status.ETIMEDOUT and stalled.lasting_ns >= 1_000_000_000
        assert (stalled.tag, stalled.thread, stalled.ep) == (0, 0, None)
        assert b"CUDA device 0" in stalled.data
        assert [event for event in told if event.kind == Kind.STALLED][-1].status == Status.OK
        with pytest.raises(XferError) as refused:
            ep.notify(Array(driver, b"few"), 1)
        assert refused.value.status == Status.EMEMKIND


@pytest.mark.skipif(not FAKE, reason="built without the headers of CUDA")
@pytest.mark.parametrize("what", ["move", "stall"])
def test_memory_of_a_device(what: str) -> None:
    """In a process of its own: the driver stays with it."""
    program = f"import test_device; test_device.{what}()"
    here = os.path.dirname(__file__)
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": here},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
