# SPDX-License-Identifier: Apache-2.0
"""Messages, notifications and counters."""

from __future__ import annotations

import os
import time

import pytest
from conftest import PATIENCE, Pair, is_lent

from xfer import ANY_TAG, Canceled, Kind, Status, TimedOut, Truncated


def test_message_tags(any_pair: Pair) -> None:
    owner, ep = any_pair.owner, any_pair.ep
    for tag, text in ((0x11, b"a"), (0x21, b"b"), (0x11, b"c"), (0x32, b"d")):
        ep.send(text, tag).result(PATIENCE)
    peeked = owner.peek(0x21)
    assert peeked and (peeked.tag, peeked.length) == (0x21, 1)
    assert owner.peek(0x99) is None
    wanted = ((0x02, 0x0F), (0x11, 2**64 - 1), (0, ANY_TAG), (0, ANY_TAG))
    got = [owner.recv(100, tag, mask).result(PATIENCE) for tag, mask in wanted]
    assert [(m.tag, m.data) for m in got] == [
        (0x32, b"d"),
        (0x11, b"a"),
        (0x21, b"b"),
        (0x11, b"c"),
    ]
    assert {message.sender for message in got} == {any_pair.engine.id}
    assert peeked.sender == any_pair.engine.id
    back = got[0].ep
    assert back
    answer = any_pair.engine.recv(100, 5, ep=ep)
    back.send(b"answer", 5).result(PATIENCE)
    message = answer.result(PATIENCE)
    assert (message.data, message.sender, message.ep) == (b"answer", owner.id, ep)


def test_message_truncated(any_pair: Pair) -> None:
    for length in (100, 300_000):
        text, buffer = os.urandom(length), bytearray(b"\xee" * 64)
        received = any_pair.owner.recv(memoryview(buffer)[:40])
        any_pair.ep.send(text)
        with pytest.raises(Truncated) as caught:
            received.result(PATIENCE)
        assert caught.value.bytes == length
        assert buffer == text[:40] + b"\xee" * 24


def test_message_unknown_length(any_pair: Pair) -> None:
    for length in (0, 1, 5000, 1_000_000):
        text = os.urandom(length)
        sent = any_pair.ep.send(text)
        message = any_pair.owner.recv(1_000_000).result(PATIENCE)
        sent.result(PATIENCE)
        assert (message.length, message.data) == (length, text)
    any_pair.ep.send(bytes(101))
    with pytest.raises(Truncated) as caught:
        any_pair.owner.recv(100).result(PATIENCE)
    assert caught.value.bytes == 101


def test_message_canceled_late(any_pair: Pair) -> None:
    """The message is there before its receive, so that they match at once; the cancel may find it
    anywhere on its way, and both ends know the same."""
    owner, length = any_pair.owner, 4 << 20
    text, buffer = os.urandom(length), bytearray(length)
    canceled = i = 0
    while i < 20 or (canceled == 0 and i < 1000):
        sent = any_pair.ep.send(text, i)
        end = time.monotonic() + PATIENCE
        while owner.peek(i) is None:  # nobody is told that it came
            assert time.monotonic() < end
            owner.poll(0.001)
        received = owner.recv(buffer, i)
        for _ in range(i // 2 % 5):
            owner.poll()
        received.cancel()
        ended = received.exception(PATIENCE)
        assert not is_lent(buffer)
        if ended is None:
            assert buffer == text
        else:
            assert isinstance(ended, Canceled)
            canceled += 1
        assert type(sent.exception(PATIENCE)) is type(ended)
        assert owner.peek(i) is None
        i += 1
    assert canceled
    assert not [event for event in any_pair.owner_told if event.kind == Kind.RECV]


def test_notify_bytes(any_pair: Pair) -> None:
    texts = [os.urandom(64) for _ in range(20)]
    for i, text in enumerate(texts):
        any_pair.ep.notify(text, 7 + i)
    for i, text in enumerate(texts):
        event = any_pair.wait_told(Kind.NOTIFY, owner=True)
        assert (event.tag, event.data, event.status) == (7 + i, text, Status.OK)
    any_pair.ep.flush().result(PATIENCE)
    with pytest.raises(OSError, match="XFER_ETOOBIG"):
        any_pair.ep.notify(bytes(1025), 7)


def test_counter_deadline(any_pair: Pair) -> None:
    owner, ep = any_pair.owner, any_pair.ep
    with owner.counter(5, 3) as enough:
        for _ in range(3):
            ep.notify(b"x", 5).result(PATIENCE)
        assert enough.reached.result(PATIENCE) == 3
        assert not [event for event in any_pair.owner_told if event.kind == Kind.NOTIFY]
    for timeout in (0.2, 1, 5):  # the longer ones are for a busy machine
        with owner.counter(6, 3, timeout) as few:
            for _ in range(2):
                ep.notify(b"x", 6).result(PATIENCE)
            with pytest.raises(TimedOut, match="notifications with key 6 came") as caught:
                few.reached.result(PATIENCE)
        if caught.value.index == 2:
            break
    assert caught.value.index == 2
    any_pair.owner_told.clear()
    ep.notify(b"told again", 5)
    assert any_pair.wait_told(Kind.NOTIFY, owner=True).data == b"told again"
    closed = owner.counter(9, 1)
    closed.close()
    closed.close()
    with pytest.raises(Canceled):
        closed.reached.result(PATIENCE)
