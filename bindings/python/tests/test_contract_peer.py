# SPDX-License-Identifier: Apache-2.0
"""Peers that come, ask, die and return; and what is lent to them for a while."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from conftest import (
    ANYWHERE,
    PATHS,
    PATIENCE,
    SIZE,
    Pair,
    Peer,
    is_lent,
    refs_of,
    wait_for_path,
)
from proxy import Proxy

from xfer import (
    READ,
    WRITE,
    AccessDenied,
    Closed,
    Endpoint,
    Engine,
    Event,
    Kind,
    Operation,
    PeerLost,
    Revoked,
    Stale,
    Status,
    TimedOut,
    XferError,
)

LARGE = 16 << 20


def test_peer_killed(peer: Peer, path: str) -> None:
    """During a put, or, where that needs no peer, of a message that is not received."""
    told: list[Event] = []
    with Engine(told.append, transports=PATHS[path]) as engine, engine.endpoint(peer.uri) as ep:
        ref = refs_of(ep)
        buffer = bytearray(LARGE)
        under_way: Operation[Any]
        if path == "tcp":
            peer.stop()
            under_way = ep.put(buffer, ref)
        else:
            wait_for_path(path, engine, ep, ref)
            under_way = ep.send(buffer, sync=True)
        with pytest.raises(TimeoutError):
            under_way.result(0.05)
        peer.process.kill()
        with pytest.raises(PeerLost) as caught:
            under_way.result(PATIENCE)
        assert not caught.value.fenced
        assert not is_lent(buffer)
        assert engine.wait_for(lambda: [e for e in told if e.kind == Kind.PEER_DOWN], PATIENCE)
        again = Peer(path)
        ep.add_address(again.uri)
        with pytest.raises(Stale):
            ep.put(b"old", ref).result(PATIENCE)
        ep.put(b"new", refs_of(ep)).result(PATIENCE)
        ups = [event for event in told if event.kind == Kind.PEER_UP]
        assert [up.restarted for up in ups] == [False, True]
        assert ups[1].id == ep.peer.id and ups[0].id != ups[1].id
        again.end()


def test_peer_came_and_went(path: str) -> None:
    """Between two polls."""
    told: list[Event] = []
    with Engine(told.append, transports=PATHS[path]) as owner:
        uri = owner.listen(ANYWHERE, user=5)
        with Engine(blob=b"visitor", transports=PATHS[path]) as visitor:
            with visitor.endpoint(uri) as ep:
                ep.send(b"hello").result(PATIENCE)
            who = visitor.id
        end = time.monotonic() + PATIENCE
        while owner.stats()["connections"] and time.monotonic() < end:
            time.sleep(0.001)
        assert not told
        message = owner.recv(100).result(PATIENCE)
        assert (message.data, message.sender) == (b"hello", who)
        assert owner.wait_for(lambda: [e for e in told if e.kind == Kind.PEER_DOWN], PATIENCE)
        kinds = [event.kind for event in told]
        assert kinds == [Kind.PEER, Kind.PEER_UP, Kind.PEER_DOWN]
        assert told[0].tag == 5
        assert (told[1].id, told[1].blob) == (who, b"visitor")
        came = told[0].ep
        assert came and all(event.ep is came for event in told)
        assert came.peer.id == who
        came.close().result(PATIENCE)
        came.close().result(PATIENCE)
        with pytest.raises(Closed):
            came.connect()


def test_admit_and_refuse(path: str) -> None:
    told: list[Event] = []
    with Engine(told.append, transports=PATHS[path], ask=True) as owner:
        uri = owner.listen(ANYWHERE)

        def asks(name: bytes) -> Endpoint:
            assert owner.wait_for(
                lambda: [e for e in told if e.kind == Kind.PEER and e.ep], PATIENCE
            )
            ep = next(event.ep for event in told if event.kind == Kind.PEER)
            told.clear()
            assert ep and ep.peer.blob == name
            return ep

        with Engine(blob=b"friend", transports=PATHS[path]) as friend, friend.endpoint(uri) as ep:
            connects = ep.connect()
            asks(b"friend").admit()
            connects.result(PATIENCE)
            ep.notify(b"in", 1).result(PATIENCE)
        stranger = Engine(blob=b"stranger", transports=PATHS[path])
        with stranger, stranger.endpoint(uri) as ep:
            connects = ep.connect()
            asks(b"stranger").admit(Status.EACCESS)
            with pytest.raises(AccessDenied):
                connects.result(PATIENCE)


def test_drain(pair: Pair) -> None:
    puts = [pair.ep.put(bytearray(SIZE), pair.ref) for _ in range(4)]
    drained = pair.engine.drain(timeout=PATIENCE)
    for call in (lambda: pair.ep.put(b"late", pair.ref), lambda: pair.ep.lookup("pool")):
        with pytest.raises(Closed):
            call()
    drained.result(PATIENCE)
    assert [put.result(PATIENCE) for put in puts] == [SIZE] * 4
    with pytest.raises(XferError, match="XFER_EBUSY"):
        pair.engine.drain()


def test_grant_lease(any_pair: Pair) -> None:
    grant = any_pair.region.grant(READ | WRITE, 64, 128, lease=PATIENCE)
    assert len(grant.ref) == 128
    any_pair.ep.put(b"granted", grant.ref).result(PATIENCE)
    assert any_pair.memory[64:71] == b"granted"
    with pytest.raises(XferError, match="XFER_ERANGE"):
        any_pair.ep.put(b"beyond", grant.ref, 125).result(PATIENCE)
    grant.renew(0.1)
    assert isinstance(grant.ended.exception(PATIENCE), TimedOut)
    with pytest.raises(Revoked):
        any_pair.ep.put(b"late", grant.ref).result(PATIENCE)
    with pytest.raises(Revoked):
        grant.renew(1)
    with any_pair.owner.region(bytearray(8)) as region:
        with pytest.raises(AccessDenied):
            _ = region.ref
        lent = region.grant(READ)
    assert isinstance(lent.ended.exception(PATIENCE), Closed)


def test_grant_revoked(any_pair: Pair) -> None:
    """While puts go through it: each ends, and nothing lands after the revocation. They may be
    quicker than that in each of a few rounds."""
    memory, data, own = bytearray(8 << 20), b"\x01" * (8 << 20), b"\xee" * (8 << 20)
    cut = rounds = 0
    with any_pair.owner.region(memory, access=WRITE) as region:
        while rounds < 5 or (not cut and rounds < 1000):
            grant = region.grant(WRITE)
            puts = [any_pair.ep.put(data, grant.ref) for _ in range(4)]
            for _ in range(rounds % 5):
                any_pair.engine.poll()
            grant.revoke().result(PATIENCE)
            memory[:] = own
            for put in puts:
                end = put.exception(PATIENCE)
                assert end is None or isinstance(end, Revoked), end
                cut += end is not None
            with pytest.raises(Revoked):
                any_pair.ep.put(b"\xff", grant.ref).result(PATIENCE)
            with pytest.raises(Revoked):
                grant.revoke()
            assert memory == own
            rounds += 1
    assert cut


def test_checksum_mismatch() -> None:
    length, told = 8 << 20, list[Any]()
    memory, data = bytearray(length), os.urandom(length)
    owner = Engine(told.append, transports="tcp")
    with owner, Engine(transports="tcp", checksum=True) as engine:
        proxy = Proxy(owner.listen(ANYWHERE))
        try:
            with owner.region(memory, "pool", WRITE), engine.endpoint(proxy.uri) as ep:
                ref = refs_of(ep)
                proxy.flip_at = (1 << 20) + 100_000
                with pytest.raises(XferError, match="XFER_ECHECKSUM"):
                    ep.put(data, ref).result(PATIENCE)
                assert proxy.flip_at == 0
                ep.put(data, ref).result(PATIENCE)
                assert memory == data
                with ep.batch() as batch:
                    batch.put(data, ref)
                    batch.submit(checksum=True).result(PATIENCE)
        finally:
            proxy.close()
