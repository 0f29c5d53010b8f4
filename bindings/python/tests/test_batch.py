# SPDX-License-Identifier: Apache-2.0
"""Many puts and gets with one submit."""

from __future__ import annotations

import array
import os

import pytest
from conftest import PATIENCE, SIZE, Pair

from xfer import READ, WRITE, AccessDenied, NotFound, Status, XferError

PAGE = 1024


def test_batch_refusals(any_pair: Pair) -> None:
    """What would reach beyond either memory adds nothing."""

    def refused(status: Status, call: object) -> None:
        with pytest.raises(XferError) as caught:
            assert callable(call)
            call()
        assert caught.value.status == status

    data, ref = bytearray(100), any_pair.ref
    pages = array.array("i", [0, 1])
    wrong = array.array("i", [0, -1])
    with any_pair.ep.batch() as batch:
        refused(Status.ERANGE, lambda: batch.put(data, ref, SIZE - 99))
        for span in ((99, 0, 2), (-1, 0, 1), (0, SIZE, 1)):
            refused(Status.ERANGE, lambda span=span: batch.get_spans(data, ref, [span]))
        strided = {"length": 10, "stride": 91, "remote_stride": 10}
        refused(Status.ERANGE, lambda: batch.put_strided(data, ref, count=2, **strided))
        bases = [(data, ref, 0)]
        refused(Status.ERANGE, lambda: batch.get_pages(bases, pages, pages, 51))
        refused(Status.ERANGE, lambda: batch.get_pages(bases, wrong, pages, 10))
        refused(Status.ERANGE, lambda: batch.get_pages(bases, pages, wrong, 10))
        with pytest.raises(ValueError, match="differ"):
            batch.put_pages(bases, pages, pages[:1], 10)
        with pytest.raises(TypeError):
            batch.put_pages(bases, b"ab", b"cd", 10)
        with pytest.raises(TypeError):
            batch.put_pages(bases, array.array("f", [0]), array.array("f", [0]), 10)
        with pytest.raises(BufferError):
            batch.get(b"read-only", ref)
        assert batch.info.entries == 0
        with any_pair.owner.region(data, access=READ) as region, pytest.raises(AccessDenied):
            batch.put(b"x", region.ref)
        with pytest.raises(NotFound):
            batch.rebind(ref, ref)


def test_batch_rebind(any_pair: Pair) -> None:
    first, second = bytearray(8), bytearray(8)
    old, new = (any_pair.owner.region(memory, access=WRITE) for memory in (first, second))
    with any_pair.ep.batch() as batch, new:
        batch.put(b"rebound", old.ref)
        before = old.ref
        old.close().result(PATIENCE)
        batch.rebind(before, new.ref)
        batch.submit().result(PATIENCE)
    assert first == bytes(8)
    assert second == b"rebound\0"


def test_pages_of_64_bits(any_pair: Pair) -> None:
    data = bytearray(os.urandom(4 * PAGE))
    tables = array.array("Q", [0, 3]), array.array("Q", [1, 0])
    with any_pair.ep.batch() as batch:
        batch.put_pages([(data, any_pair.ref, 0)], *tables, PAGE)
        batch.submit().result(PATIENCE)
    assert any_pair.memory[: 2 * PAGE] == data[3 * PAGE :] + data[:PAGE]


def test_batch_closed_under_way(any_pair: Pair) -> None:
    """Its submit still ends, and holds the memory until then."""
    batch = any_pair.ep.batch()
    batch.put(bytearray(PAGE), any_pair.ref)
    submit = batch.submit()
    batch.close()
    batch.close()
    error = submit.exception(PATIENCE)
    assert error is None or error.status == Status.ECANCELED
    with pytest.raises(XferError, match="XFER_ECLOSED"):
        batch.submit()
