# SPDX-License-Identifier: Apache-2.0
"""Two engines of one process, or one with itself; and a peer in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from xfer import ATOMIC, READ, WRITE, Endpoint, Engine, Event, Kind, Ref, Status, XferError

PATIENCE = 20  # seconds after which what was to come counts as lost
SIZE = 2 << 20
ANYWHERE = "tcp://127.0.0.1:0"
PATHS = {"tcp": "tcp", "host": "tcp,shm", "adapter": "tcp,rdma"}
# Adapters are where tests/rdma has them.
USED = ["adapter"] if os.environ.get("XFER_TEST_CARRIED_BY") == "adapter" else ["tcp", "host"]


class Pair:
    """`engine` dials `owner`, which lends `memory`; what each is told lies in a list."""

    def __init__(self, path: str, **options: Any) -> None:
        self.path, self.told, self.owner_told = path, list[Event](), list[Event]()
        if path == "loopback":
            self.engine = self.owner = Engine(self.told.append, transports="loopback", **options)
            self.owner_told = self.told
            self.ep = self.engine.endpoint(peer=self.engine.id)
        else:
            options = {"transports": PATHS[path], **options}
            self.owner = Engine(self.owner_told.append, **options)
            self.engine = Engine(self.told.append, **options)
            self.uri = self.owner.listen(ANYWHERE)
            self.ep = self.engine.endpoint(self.uri)
        self.memory = bytearray(SIZE)
        self.region = self.owner.region(self.memory, "pool", READ | WRITE | ATOMIC, b"shown")
        self.ref = self.region.ref
        if path != "loopback":
            wait_for_path(path, self.engine, self.ep, self.ref)

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        for closed in [engine.close() for engine in (self.engine, self.owner)]:
            closed.result(PATIENCE)

    def wait_told(self, kind: Kind, owner: bool = False) -> Event:
        """Takes the first event of a kind that an engine is, or will be, told of."""
        engine, told = (self.owner, self.owner_told) if owner else (self.engine, self.told)

        def there() -> list[Event]:
            return [event for event in told if event.kind == kind]

        assert engine.wait_for(there, PATIENCE), f"no {kind!r} came"
        event = there()[0]
        told.remove(event)
        return event

    def back(self) -> Endpoint:
        """The owner's handle of the engine."""
        self.ep.connect().result(PATIENCE)
        ep = self.wait_told(Kind.PEER, owner=True).ep
        assert ep
        return ep


class Peer:
    """peer.py in another process, which can be stopped, killed and started again."""

    def __init__(self, path: str) -> None:
        command = [sys.executable, str(Path(__file__).with_name("peer.py")), PATHS[path]]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout
        self.uri = self.process.stdout.readline().decode().strip()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)  # it runs on for a moment

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """It ends when its standard input does."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Runs a test of asyncio, within its patience."""
    return asyncio.run(asyncio.wait_for(main, PATIENCE))


def is_lent(buffer: bytearray) -> bool:
    """While memory is lent a bytearray can't be resized."""
    try:
        buffer.append(0)
    except BufferError:
        return True
    buffer.pop()
    return False


@pytest.fixture(params=USED)
def path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def pair(path: str) -> Iterator[Pair]:
    with Pair(path) as pair:
        yield pair


@pytest.fixture(params=[*USED, "loopback"])
def any_pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """With loopback too."""
    with Pair(request.param) as pair:
        yield pair


@pytest.fixture
def peer(path: str) -> Iterator[Peer]:
    peer = Peer(path)
    yield peer
    peer.go_on()
    peer.end()


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as engine:
        yield engine


def wait_for_path(path: str, engine: Engine, ep: Endpoint, ref: Ref) -> None:
    """The path of one host and the one by adapters are opened once bytes move."""
    end, connection = time.monotonic() + PATIENCE, dict[str, Any]()
    while path != "tcp" and not is_used(path, connection):
        assert time.monotonic() < end, f"no path of that kind: {path}"
        ep.put(b"\0", ref).result(PATIENCE)
        connection = engine.describe()["loops"][0]["peers"][0]["connections"][0]


def is_used(path: str, connection: dict[str, Any]) -> bool:
    if path == "host":
        return bool(connection) and connection["local_path"]["state"] == "open"
    return any(path in lane["carried_by"] for lane in connection.get("lanes", []))


def refs_of(ep: Endpoint, name: str = "pool") -> Ref:
    return ep.lookup(name).result(PATIENCE).ref


def refused(status: Status, call: Any, *args: Any, **named: Any) -> None:
    """A call, or its operation, ends with that."""
    with pytest.raises(XferError) as caught:
        call(*args, **named).result(PATIENCE)
    assert caught.value.status == status, caught.value


def entries_of(folder: str) -> int:
    """How many descriptors ("fd") or threads ("task") this process has."""
    return len(os.listdir(f"/proc/self/{folder}"))


def threads_fall_to(number: int) -> bool:
    """Waits for it: the kernel shows a thread that was joined for a moment."""
    end = time.monotonic() + PATIENCE
    while entries_of("task") > number and time.monotonic() < end:
        time.sleep(0.001)
    return entries_of("task") <= number


def resident() -> int:
    """How many bytes of its memory are there."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")
