# SPDX-License-Identifier: Apache-2.0
"""Many puts and gets with one submit."""

from __future__ import annotations

import array
import os

import pytest
from conftest import PATIENCE, SIZE, Pair

from xfer import WRITE, Kind, Stale, Status

PAGE = 1024


def test_batch_resubmitted(any_pair: Pair) -> None:
    data = bytearray(8 * PAGE)
    spans = [(0, 9 * PAGE, 100), (200, 9 * PAGE + 200, 300)]
    tables = array.array("I", [3, 2]), array.array("I", [20, 22])
    with any_pair.ep.batch() as batch:
        batch.put(data, any_pair.ref)
        batch.put_spans(data, any_pair.ref, spans)
        batch.put_strided(
            data, any_pair.ref, length=10, count=5, stride=100, remote_stride=50, offset=10 * PAGE
        )
        batch.put_pages([(data, any_pair.ref, 0)], *tables, PAGE)
        back = bytearray(8 * PAGE)
        for _ in range(3):
            data[:] = os.urandom(8 * PAGE)
            assert batch.submit().result(PATIENCE) == 8 * PAGE + 400 + 50 + 2 * PAGE
            memory = any_pair.memory
            assert memory[: 8 * PAGE] == data
            for local, offset, length in spans:
                assert memory[offset : offset + length] == data[local : local + length]
            for i in range(5):
                there = 10 * PAGE + 50 * i
                assert memory[there : there + 10] == data[100 * i : 100 * i + 10]
            for here, there in zip(*tables):
                left = memory[there * PAGE : (there + 1) * PAGE]
                assert left == data[here * PAGE : (here + 1) * PAGE]
        assert (batch.info.entries, batch.info.inflight) == (1 + 2 + 5 + 2, False)
        assert batch.statuses() == [Status.OK] * 10

        batch.reset()
        batch.get(memoryview(back)[: 4 * PAGE], any_pair.ref)
        batch.get_spans(back, any_pair.ref, [(4 * PAGE, 4 * PAGE, PAGE)])
        batch.get_strided(
            back, any_pair.ref, length=PAGE, count=3, stride=PAGE, remote_stride=PAGE,
            start=5 * PAGE, offset=5 * PAGE,
        )  # fmt: skip
        batch.submit().result(PATIENCE)
        assert back == data


def test_batch_entry_statuses(any_pair: Pair) -> None:
    gone = any_pair.owner.region(bytearray(PAGE), access=WRITE)
    stale = gone.ref
    gone.close().result(PATIENCE)
    with any_pair.ep.batch() as batch:
        for i in range(10):
            batch.put(bytes([i]) * 8, stale if i == 6 else any_pair.ref, 0 if i == 6 else 8 * i)
        with pytest.raises(Stale) as caught:
            batch.submit().result(PATIENCE)
        assert caught.value.index == 6
        statuses = batch.statuses()
        assert statuses[6] == batch.info.status == Status.ESTALE
        assert set(statuses[:6] + statuses[7:]) <= {Status.OK, Status.ECANCELED}
        assert batch.statuses(6, 1) == [Status.ESTALE]
        for i, status in enumerate(statuses):
            if status == Status.OK:
                assert any_pair.memory[8 * i : 8 * i + 8] == bytes([i]) * 8


def test_batch_ordered(any_pair: Pair) -> None:
    """Behind a large put, and a message that is under way until it is received."""
    ep, ref, at = any_pair.ep, any_pair.ref, SIZE - 8
    word, seen, back = b"ordered!", bytearray(8), bytearray(8)
    with ep.batch() as writes, ep.batch() as reads:
        writes.put(word, ref, at)
        reads.get(seen, ref, at)
        for _ in range(3):
            data = os.urandom(SIZE)
            put, sent = ep.put(data, ref), ep.send(b"", sync=True)
            wrote, read = writes.submit(ordered=True), reads.submit(ordered=True)
            assert put.result(PATIENCE) == SIZE
            ep.get(back, ref, at).result(PATIENCE)  # is not ordered, and does not wait
            assert back == data[-8:] and not wrote.done() and not read.done()
            any_pair.owner.recv(0).result(PATIENCE)
            sent.result(PATIENCE)
            assert (wrote.result(PATIENCE), read.result(PATIENCE)) == (8, 8)
            assert seen == word
            assert any_pair.memory[:at] == data[:at] and any_pair.memory[at:] == word


def test_pages_strides(any_pair: Pair) -> None:
    """Layers of pages of rows, whose strides at home and at the peer differ; int32 tables of numpy
    are read where they lie."""
    numpy = pytest.importorskip("numpy")
    rows, row, layers = 4, 64, 3
    here_row, there_row = 64, 256
    here_page, there_page = rows * here_row + 32, rows * there_row
    local = numpy.random.default_rng(1).integers(0, 255, (layers, 16 * here_page), numpy.uint8)
    sent = local.copy()
    pages = numpy.array([5, 0, 11], numpy.int32)
    remote_pages = numpy.array([7, 3, 1], numpy.int32)
    span = 16 * there_page
    bases = [(local[layer], any_pair.ref, layer * span) for layer in range(layers)]
    strides = {
        "rows": rows,
        "stride": here_page,
        "row_stride": here_row,
        "remote_stride": there_page,
        "remote_row_stride": there_row,
    }
    with any_pair.ep.batch() as batch:
        batch.put_pages(bases, pages, remote_pages, row, **strides)
        assert batch.submit().result(PATIENCE) == layers * 3 * rows * row
        expected = bytearray(SIZE)
        for layer in range(layers):
            for page, remote in zip(pages.tolist(), remote_pages.tolist()):
                for r in range(rows):
                    a = page * here_page + r * here_row
                    b = layer * span + remote * there_page + r * there_row
                    expected[b : b + row] = sent[layer, a : a + row].tobytes()
        assert any_pair.memory == expected
        assert batch.info.entries == layers * 3

        batch.reset()
        local[:] = 0
        batch.get_pages(bases, pages, remote_pages, row, **strides)
        batch.submit().result(PATIENCE)
        for layer in range(layers):
            for page in range(16):
                for r in range(rows):
                    a = page * here_page + r * here_row
                    wanted = sent[layer, a : a + row] if page in pages else 0
                    assert (local[layer, a : a + row] == wanted).all()


def test_notify_on_batch(any_pair: Pair) -> None:
    with any_pair.ep.batch() as batch:
        data = bytearray(256 * PAGE)
        batch.put(data, any_pair.ref)
        for i in range(1, 4):
            data[:] = bytes([i]) * len(data)
            batch.submit(notify=70 + i, data=b"layer %d" % i)
            event = any_pair.wait_told(Kind.NOTIFY, owner=True)
            assert (event.tag, event.data, event.status) == (70 + i, b"layer %d" % i, Status.OK)
            assert any_pair.memory[: len(data)] == data
            any_pair.ep.flush().result(PATIENCE)


def test_notify_on_failure(any_pair: Pair) -> None:
    gone = any_pair.owner.region(bytearray(PAGE), access=WRITE)
    stale = gone.ref
    gone.close().result(PATIENCE)
    with any_pair.ep.batch() as batch:
        batch.put(b"well", any_pair.ref)
        batch.put(b"ill", stale)
        with pytest.raises(Stale):
            batch.submit(notify=71).result(PATIENCE)
        event = any_pair.wait_told(Kind.NOTIFY, owner=True)
        assert (event.tag, event.status) == (71, Status.ESTALE)
