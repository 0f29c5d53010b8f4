# SPDX-License-Identifier: Apache-2.0
"""What the binding knows of the header and of the library that was loaded."""

from __future__ import annotations

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
