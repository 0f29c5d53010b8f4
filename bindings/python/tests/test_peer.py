# SPDX-License-Identifier: Apache-2.0
"""Peers that come, ask, die and return; and what is lent to them for a while."""

from __future__ import annotations

import pytest
from conftest import PATIENCE, Pair

from xfer import (
    Again,
    Canceled,
    Endpoint,
    Engine,
    Kind,
)


def test_peer_is_held_while_it_is_up(path: str) -> None:
    """Without a reference of the user's: and a peer that left is closed when nobody holds it."""
    pair = Pair(path)
    pair.ep.connect().result(PATIENCE)
    word = pair.wait_told(Kind.PEER, owner=True).user
    pair.wait_told(Kind.PEER_UP, owner=True)
    assert isinstance(pair.owner._endpoints.get(word), Endpoint)
    pair.engine.close().result(PATIENCE)
    pair.wait_told(Kind.PEER_DOWN, owner=True)
    assert pair.owner.wait_for(lambda: word not in pair.owner._live, PATIENCE)
    assert word not in pair.owner._endpoints
    pair.owner.close().result(PATIENCE)


def test_probe(any_pair: Pair) -> None:
    assert 0 < any_pair.ep.probe().result(PATIENCE) < PATIENCE


def test_receives_are_bounded(engine: Engine) -> None:
    pending = [engine.recv(1, 9) for _ in range(65_536)]
    with pytest.raises(Again):
        engine.recv(1, 9)
    engine.cancel()
    assert all(isinstance(op.exception(PATIENCE), Canceled) for op in pending)
