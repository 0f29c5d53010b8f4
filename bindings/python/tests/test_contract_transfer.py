# SPDX-License-Identifier: Apache-2.0
"""Bytes that are put and got, and words that are changed."""

from __future__ import annotations

import array
import gc
import mmap
import os
import socket
import threading
import time
from typing import Any

import pytest
from conftest import ANYWHERE, PATHS, PATIENCE, SIZE, Pair, Peer, refs_of, refused

from xfer import (
    READ,
    WRITE,
    AccessDenied,
    Again,
    Batch,
    Engine,
    Kind,
    NotFound,
    Operation,
    Ref,
    Stale,
    Status,
    Transport,
    XferError,
)


def test_echo_put_get(any_pair: Pair) -> None:
    sent, back = os.urandom(1 << 20), bytearray(1 << 20)
    ref, blob = any_pair.ep.lookup("pool").result(PATIENCE)
    assert any_pair.ep.put(sent, ref, 4096).result(PATIENCE) == 1 << 20
    assert any_pair.memory[4096 : 4096 + (1 << 20)] == sent
    assert any_pair.ep.get(back, ref, 4096).result(PATIENCE) == 1 << 20
    assert back == sent
    assert blob == b"shown"


def test_zero_length(any_pair: Pair) -> None:
    any_pair.ep.connect().result(PATIENCE)
    before, told = any_pair.engine.stats(), len(any_pair.told)
    assert any_pair.ep.put(b"", any_pair.ref).result(PATIENCE) == 0
    assert any_pair.ep.get(bytearray(), any_pair.ref).result(PATIENCE) == 0
    after = any_pair.engine.stats()
    for kind in ("put", "get"):
        assert after[kind]["completed"] - before[kind]["completed"] == 1
    assert after["events"] - before["events"] == 2 + len(any_pair.told) - told


def test_lookup_waits(any_pair: Pair) -> None:
    found = any_pair.ep.lookup("later", wait=True)
    with pytest.raises(TimeoutError):
        found.result(0.05)
    with any_pair.owner.region(bytearray(8), "later", READ, b"x"):
        assert found.result(PATIENCE).blob == b"x"


def test_lookup_missing(any_pair: Pair) -> None:
    with pytest.raises(NotFound, match='"nothing"'):
        any_pair.ep.lookup("nothing").result(PATIENCE)


def test_ref_as_bytes(pair: Pair) -> None:
    here, there = socket.socketpair()
    with here, there:
        here.sendall(bytes(pair.ref))
        data = there.recv(96)
    ref = Ref(data)
    assert ref == pair.ref == Ref.parse(str(ref))
    assert (len(ref), ref.info.owner) == (SIZE, pair.owner.id)
    pair.ep.put(b"carried", ref).result(PATIENCE)
    assert pair.memory.startswith(b"carried")
    for i in range(96):
        changed = bytearray(data)
        changed[i] ^= 0x41
        with pytest.raises(XferError) as caught:
            pair.ep.put(b"changed", Ref(changed)).result(PATIENCE)
        assert caught.value.status in {Status.EINVAL, Status.EVERSION}, i
    assert pair.memory.startswith(b"carried")
    with pytest.raises(XferError):
        Ref(data[:-1])


def test_range_refused(any_pair: Pair) -> None:
    for offset in (SIZE - 3, SIZE, 2**64 - 2):
        refused(Status.ERANGE, any_pair.ep.put, b"abcd", any_pair.ref, offset)
    with pytest.raises(OverflowError):
        any_pair.ep.put(b"abcd", any_pair.ref, -1)
    assert any_pair.memory == bytes(SIZE)
    assert len(any_pair.engine._live) <= 4  # the ends of handles, and nothing of what was refused


def test_access_refused(any_pair: Pair) -> None:
    memory = bytearray(b"mine")
    with any_pair.owner.region(memory, "read", READ):
        ref = refs_of(any_pair.ep, "read")
        with pytest.raises(AccessDenied):
            any_pair.ep.put(b"evil", ref).result(PATIENCE)
        back = bytearray(4)
        any_pair.ep.get(back, ref).result(PATIENCE)
        assert memory == back == b"mine"


def test_buffer_kinds(pair: Pair) -> None:
    ep, ref = pair.ep, pair.ref
    with mmap.mmap(-1, 4096) as mapped:
        mapped[:4] = b"mmap"
        sources: list[Any] = [b"byte", bytearray(b"arra"), memoryview(b"xviewx")[1:5], mapped]
        for source in (*sources, array.array("i", [1, 2, 3])):
            ep.put(source, ref).result(PATIENCE)
            assert pair.memory.startswith(memoryview(source).cast("B")[:4].tobytes())
        ep.get(mapped, ref).result(PATIENCE)
    for target in (b"read-only", memoryview(bytearray(4)).toreadonly()):
        with pytest.raises(BufferError):
            ep.get(target, ref)
    for apart in (memoryview(bytes(8))[::2], memoryview(bytearray(8))[::-1]):
        with pytest.raises(BufferError):
            ep.put(apart, ref)
    for nothing in ("text", 5, None):
        with pytest.raises(TypeError):
            ep.put(nothing, ref)
    with pytest.raises(BufferError):
        pair.owner.region(b"read-only", access=WRITE)
    with pair.owner.region(b"read-only", access=READ) as region, pytest.raises(BufferError):
        region.grant(WRITE)


def test_buffer_kept_alive(peer: Peer, path: str) -> None:
    """The peer is stopped meanwhile, so that what needs it is under way."""
    size, count = 100_000, 20
    lines = [b"%04d" % i * (size // 4) for i in range(count)]
    ended: list[bytes] = []

    class Buffer(bytearray):
        def __del__(self) -> None:
            ended.append(bytes(self))

    with Engine(transports=PATHS[path]) as engine, engine.endpoint(peer.uri) as ep:
        ref = refs_of(ep)
        for begin, filled in ((ep.put, lines), (ep.get, [bytes(size)] * count)):
            peer.stop()
            operations = [begin(Buffer(line), ref, i * size) for i, line in enumerate(filled)]
            gc.collect()
            waste = [bytearray(b"\xee") * size for _ in range(count)]
            assert path != "tcp" or not ended
            peer.go_on()
            for operation in operations:
                operation.result(PATIENCE)
            assert sorted(ended) == lines
            assert len(waste) == count
            ended.clear()


def test_quiet_flush(any_pair: Pair) -> None:
    ep, ref = any_pair.ep, any_pair.ref
    ep.connect().result(PATIENCE)
    before, told = any_pair.engine.stats(), len(any_pair.told)
    for i in range(100):
        ep.put_quiet(bytearray([i]) * 100, ref, i * 100)
    ep.flush().result(PATIENCE)
    assert any_pair.memory[:10000] == b"".join(bytes([i]) * 100 for i in range(100))
    after = any_pair.engine.stats()
    assert after["put"]["completed"] - before["put"]["completed"] == 100
    assert after["events"] - before["events"] == 1 + len(any_pair.told) - told
    assert not ep._quiet

    buffer = bytearray(8)
    gone = any_pair.owner.region(bytearray(8), access=WRITE)
    stale = gone.ref
    gone.close().result(PATIENCE)
    ep.put_quiet(buffer, stale)
    ep.put_quiet(b"well", ref)
    with pytest.raises(Stale):
        ep.flush().result(PATIENCE)
    failed = any_pair.wait_told(Kind.PUT)
    assert failed.status == Status.ESTALE
    ep.flush().result(PATIENCE)
    buffer.append(0)


def test_atomic_words(any_pair: Pair) -> None:
    ep, ref = any_pair.ep, any_pair.ref
    before = [ep.fetch_add(ref, 8, 5).result(PATIENCE) for _ in range(3)]
    assert before == [0, 5, 10]
    assert ep.compare_and_swap(ref, 8, 15, 2**64 - 1).result(PATIENCE) == 15
    assert ep.compare_and_swap(ref, 8, 15, 1).result(PATIENCE) == 2**64 - 1
    assert ep.fetch_add(ref, 8, -1).result(PATIENCE) == 2**64 - 1
    assert int.from_bytes(any_pair.memory[8:16], "little") == 2**64 - 2
    refused(Status.EINVAL, ep.fetch_add, ref, 4, 1)


@pytest.mark.parametrize(
    ("left", "right", "state"),
    [("tcp,shm", "tcp,shm", "open"), ("tcp,shm", "tcp", "none"), ("tcp", "tcp,shm", "none")],
)
def test_same_host_path(left: str, right: str, state: str) -> None:
    memory, told = bytearray(SIZE), list[Any]()
    with Engine(transports=left) as owner, Engine(told.append, transports=right) as engine:
        assert engine.transports == {Transport[name.upper()] for name in right.split(",")}
        with engine.endpoint(owner.listen(ANYWHERE)) as ep, owner.region(memory, "pool", WRITE):
            ref, seen, end = refs_of(ep), "", time.monotonic() + PATIENCE
            while seen != state and time.monotonic() < end:  # it is tried once bytes have moved
                ep.put(b"first", ref).result(PATIENCE)
                connection = engine.describe()["loops"][0]["peers"][0]["connections"][0]
                seen = connection["local_path"]["state"]
            assert seen == state, connection
            data = os.urandom(1 << 20)
            ep.put(data, ref).result(PATIENCE)
            assert memory[: 1 << 20] == data
            lanes = engine.describe()["loops"][0]["peers"][0]["connections"][0]["lanes"]
            by_socket = sum(lane["carried"]["bytes"] for lane in lanes if lane["lane"] != "local")
            assert (by_socket >= 1 << 20) == (state == "none"), lanes


def test_thousand_concurrent(path: str) -> None:
    with Pair(path, max_operations=4) as pair:
        before, full = pair.engine.stats()["put"]["completed"], 0
        lines = [i.to_bytes(8, "little") * 128 for i in range(1000)]
        puts: list[Operation[int]] = []
        while len(puts) < len(lines):
            i = len(puts)
            try:
                puts.append(pair.ep.put(lines[i], pair.ref, 1024 * i))
            except Again:
                full += 1
                assert pair.wait_told(Kind.ROOM).ep is pair.ep
        assert [put.result(PATIENCE) for put in puts] == [1024] * 1000
        assert pair.memory[: 1024 * 1000] == b"".join(lines)
        assert pair.engine.stats()["put"]["completed"] - before == 1000
        assert full or path == "host"  # where the caller may copy them itself
        assert not [event for event in pair.told if event.kind in {Kind.ROOM, Kind.PUT}]


def test_wrong_thread(pair: Pair) -> None:
    """Any thread may use a handle, also many at once, with one that takes the events for all; but
    for a batch, which is refused to all while it is under way."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            word = number.to_bytes(8, "little")
            for i in range(50):
                pair.ep.put(word * 16, pair.ref, (number * 50 + i) * 128).result(PATIENCE)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert not failures
    for number in range(8):
        line = number.to_bytes(8, "little") * 16 * 50
        assert pair.memory[number * 6400 : (number + 1) * 6400] == line

    busy: list[str] = []

    def use(batch: Batch) -> None:
        for call in (batch.submit, batch.reset, batch.statuses, lambda: batch.put(b"x", pair.ref)):
            with pytest.raises(XferError, match="XFER_EBUSY") as caught:
                call()
            busy.append(str(caught.value))

    with pair.ep.batch() as batch:
        batch.put(b"batch", pair.ref)
        pair.ep.send(b"", sync=True)
        submitted = batch.submit(ordered=True)  # behind the message, until that is received
        thread = threading.Thread(target=use, args=(batch,))
        thread.start()
        thread.join(PATIENCE)
        assert len(busy) == 4
        pair.owner.recv(0).result(PATIENCE)
        assert submitted.result(PATIENCE) == 5
