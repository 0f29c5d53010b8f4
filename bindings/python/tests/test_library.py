# SPDX-License-Identifier: Apache-2.0
"""What the binding knows of the header and of the library that was loaded."""

from __future__ import annotations

import copy
import pickle

import pytest
from conftest import PATIENCE, Pair

import xfer


def test_describe_and_stats(pair: Pair) -> None:
    before = pair.ep.stats()["put"]
    pair.ep.put(b"abc", pair.ref).result(PATIENCE)
    assert pair.engine.describe()["incarnation"] == f"{pair.engine.id.incarnation:016x}"
    after = pair.ep.stats()["put"]
    assert (after["completed"], after["bytes"]) == (before["completed"] + 1, before["bytes"] + 3)
    assert pair.engine.stats()["put"] == after
    assert sum(after["latency"]) == after["completed"]
    assert pair.owner.addresses == pair.uri
    assert xfer.Id.parse(str(pair.owner.id)) == pair.owner.id == pair.ep.peer.id


def test_errors_through_a_pickle(pair: Pair) -> None:
    """A pool of processes tells its failures so."""
    with pytest.raises(xfer.NotFound) as caught:
        pair.ep.lookup("nothing").result(PATIENCE)
    for again in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert type(again) is xfer.NotFound and str(again) == str(caught.value)
        assert vars(again) == vars(caught.value)


def test_wrong_values(pair: Pair) -> None:
    """Nothing is cut, filled up or taken for another one."""
    for call in (
        lambda: pair.ep.lookup("pool\0x"),
        lambda: pair.owner.region(bytearray(8), "a\0b"),
        lambda: pair.engine.endpoint(pair.uri + "\0"),
        lambda: pair.engine.endpoint(peer=b"abc"),
        lambda: xfer.Engine(key="a\0b"),
        lambda: xfer.Engine(blob=None),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError):
            call()
    for blob in (bytearray(b"a\0b"), memoryview(b"a\0b")):
        with xfer.Engine(blob=blob) as engine:  # type: ignore[arg-type]
            ep = engine.endpoint(pair.uri)
            ep.connect().result(PATIENCE)
            who = engine.id

            def ups(who: xfer.Id = who) -> list[xfer.Event]:
                return [e for e in pair.owner_told if e.kind == xfer.Kind.PEER_UP and e.id == who]

            assert pair.owner.wait_for(ups, PATIENCE)
            up = ups()[0]
            assert up.blob == b"a\0b"
            ep.close().result(PATIENCE)
    with pytest.raises(ValueError):
        up._replace(kind=xfer.Kind.PEER, data=b"").id  # noqa: B018
