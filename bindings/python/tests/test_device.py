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

from xfer import READ, WRITE, Engine, Event, Kind, Memory, Status, XferError, _streams
from xfer._buffers import _Tensor, readable, writable

FAKE = os.environ.get("XFER_TEST_FAKE_CUDA", "")
PATIENCE = 20
LENGTH = 3 << 20
LATER_MS = 200


class Array:
    """As CuPy and PyTorch tell where theirs are."""

    def __init__(self, driver: Any, content: bytes, **more: Any) -> None:
        self.driver, self.length = driver, len(content)
        self.address = driver.fake_cuda_alloc(self.length)
        driver.fake_cuda_write(self.address, content, self.length)
        self.__cuda_array_interface__ = {
            "data": (self.address, False),
            "shape": (self.length,),
            "typestr": "|u1",
            "strides": None,
            **more,
        }

    def write_later(self, content: bytes) -> int:
        """By a stream, which is told."""
        stream: int = self.driver.fake_cuda_write_later(
            self.address, content, self.length, LATER_MS
        )
        return stream

    def read(self) -> bytes:
        content = ctypes.create_string_buffer(self.length)
        self.driver.fake_cuda_read(content, self.address, self.length)
        return content.raw


class Tensor:
    """As a framework without an array interface exports one."""

    def __init__(self, array: Array) -> None:
        self.array, self.streams = array, list[int]()
        self.shape = (ctypes.c_int64 * 1)(array.length)
        self.managed = _Tensor(array.address, 2, 0, 1, 1, 8, 1, self.shape, None, 0)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, stream: int | None = None) -> Any:
        assert stream is not None
        self.streams.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.managed), b"dltensor", None)


class Both(Tensor):
    """As PyTorch's: the array interface, of a version without streams, and DLPack."""

    def __init__(self, array: Array, **more: Any) -> None:
        super().__init__(array)
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "version": 2, **more}


class WithGrad:
    """As PyTorch's that requires grad."""

    @property
    def __cuda_array_interface__(self) -> Any:
        raise RuntimeError("use tensor.detach()")


class HostWithGrad:
    """The same on the CPU, which has no array interface."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self) -> Any:
        raise RuntimeError("use tensor.detach()")


def load() -> Any:
    """An engine that is opened behind this takes it for the system's."""
    driver = ctypes.CDLL(FAKE, mode=ctypes.RTLD_GLOBAL)
    address, size = ctypes.c_void_p, ctypes.c_size_t
    driver.fake_cuda_alloc.restype, driver.fake_cuda_alloc.argtypes = address, (size,)
    driver.fake_cuda_write.argtypes = (address, ctypes.c_char_p, size)
    driver.fake_cuda_write_later.restype = address
    driver.fake_cuda_write_later.argtypes = (address, ctypes.c_char_p, size, ctypes.c_uint)
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


def streams() -> None:
    """What a stream was to write is there when it is put, and stays behind what is got."""
    driver = load()
    old, new = bytes(LENGTH), b"n" * LENGTH
    with Engine(transports="loopback,tcp") as owner, Engine(transports="loopback,tcp") as engine:
        memory = bytearray(LENGTH)
        region = owner.region(memory, "pool", READ | WRITE)
        ep = engine.endpoint(owner.listen("tcp://127.0.0.1:0"))
        ep.put(Array(driver, old), region.ref).result(PATIENCE)
        own = Array(driver, old)
        own.__cuda_array_interface__["stream"] = own.write_later(new)
        default, thread = Array(driver, old, stream=1), Array(driver, old, stream=2)
        exported, both = Tensor(Array(driver, old)), Both(Array(driver, old))
        for array, given in (
            (own, own),
            (default, default),
            (thread, thread),
            (exported.array, exported),
            (both.array, both),
        ):
            ep.put(old, region.ref).result(PATIENCE)
            array.write_later(new)
            ep.put(given, region.ref).result(PATIENCE)
            assert memory == new
            ep.put(old, region.ref).result(PATIENCE)
            array.write_later(new)
            ep.get(given, region.ref).result(PATIENCE)
            time.sleep(2 * LATER_MS / 1000)
            assert array.read() == old
        assert exported.streams == both.streams == [1, 1]
        with pytest.raises(BufferError, match="CUDA error"):
            ep.put(Array(driver, old, stream=4096), region.ref)
        before = driver.fake_cuda_calls(b"cuStreamSynchronize")
        ep.put(Array(driver, old, stream=None), region.ref).result(PATIENCE)
        unordered = Both(Array(driver, old), version=3, stream=None)
        ep.put(unordered, region.ref).result(PATIENCE)
        assert driver.fake_cuda_calls(b"cuStreamSynchronize") == before and not unordered.streams


def regions() -> None:
    """One wait and one export for each; a wait that fails says nothing of what may be written."""
    driver = load()
    with Engine(transports="loopback,tcp") as engine:
        before = driver.fake_cuda_calls(b"cuStreamSynchronize")
        exported = Tensor(Array(driver, bytes(LENGTH)))
        exported.array.write_later(b"n" * LENGTH)
        for access in (0, READ, WRITE):
            engine.region(exported, access=access).close().result(PATIENCE)
        assert exported.streams == [1, 1, 1]
        assert driver.fake_cuda_calls(b"cuStreamSynchronize") == before + 3
        with pytest.raises(BufferError, match="CUDA error"):
            engine.region(Array(driver, b"few", stream=4096), access=READ)
        assert driver.fake_cuda_calls(b"cuStreamSynchronize") == before + 4
        sealed = Both(Array(driver, b"few"), data=(exported.array.address, True))
        with pytest.raises(BufferError, match="read-only"):
            engine.region(sealed, access=WRITE)
        assert not sealed.streams
        lent = engine.region(sealed, access=READ)
        assert sealed.streams == [1]
        with pytest.raises(BufferError, match="read-only"):
            lent.grant(WRITE)
        lent.close().result(PATIENCE)


def captures() -> None:
    """A wait is in the relaxed mode, which ends with it, if it fails, too."""
    driver = load()
    address = ctypes.c_void_p()
    name, flags = b"cuThreadExchangeStreamCaptureMode", ctypes.c_uint64(0)
    assert driver.cuGetProcAddress(name, ctypes.byref(address), 10010, flags) == 0
    assert address.value
    exchange = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address.value)

    def mode() -> int:
        now = ctypes.c_int(0)
        exchange(ctypes.addressof(now))
        found = now.value
        exchange(ctypes.addressof(now))
        return found

    asked, modes = _streams._driver(), list[int]()
    wait = asked.cuStreamSynchronize

    def synchronize(stream: int) -> int:
        modes.append(mode())
        return int(wait(stream))

    asked.cuThreadExchangeStreamCaptureMode = lambda now: exchange(ctypes.addressof(now._obj))
    asked.cuStreamSynchronize = synchronize
    array = Array(driver, b"few", stream=1)
    array.write_later(b"new")
    for before in (0, 1, 2):  # global, of the thread, relaxed
        began = ctypes.c_int(before)
        exchange(ctypes.addressof(began))
        readable(array)
        with pytest.raises(BufferError, match="CUDA error"):
            readable(Array(driver, b"few", stream=4096))
        assert mode() == before
    assert modes == [2] * 6
    assert array.read() == b"new"


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


def run_alone(module: str, what: str) -> None:
    """In a process of its own: the driver stays with it."""
    program = f"import {module}; {module}.{what}()"
    here = os.path.dirname(__file__)
    ran = subprocess.run(
        [sys.executable, "-X", "dev", "-c", program],
        env={**os.environ, "PYTHONPATH": here},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(not FAKE, reason="built without the headers of CUDA")
@pytest.mark.parametrize("what", ["move", "streams", "regions", "captures", "stall"])
def test_memory_of_a_device(what: str) -> None:
    run_alone("test_device", what)


@pytest.mark.parametrize("memory", [WithGrad(), HostWithGrad()])
@pytest.mark.parametrize("take", [readable, writable])
def test_memory_that_its_owner_does_not_export(take: Any, memory: Any) -> None:
    with pytest.raises(BufferError, match="detach") as refused:
        take(memory)
    assert isinstance(refused.value.__cause__, RuntimeError)
