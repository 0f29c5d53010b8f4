# SPDX-License-Identifier: Apache-2.0
"""Strangers in numbers, against an engine that has a key: honest peers get in, memory is bounded, all are ended."""

import os
import resource
import socket
import time

import initiator as wire
from initiator import Initiator
from lab import check, raw_message, vector

KEYED = True
STRANGERS = 1024  # half-open connections that the engine holds
GRACE = 5  # seconds that a stranger has

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
MANY = min(6000, hard - 200)  # the server has the same limit


def strangers(lab, count, words=lambda: b""):
    """That many connections; each says its words, and then nothing."""
    for _ in range(count):
        sock = socket.socket()
        lab.opened.append(sock.close)
        sock.connect(lab.server.address)
        sock.setblocking(False)
        try:
            sock.send(words())
        except (BlockingIOError, ConnectionError):
            pass


def honest_peer_comes_in(lab, within):
    """A member that tries again, as the library does, until it is in; how long it took."""
    began, seq = time.monotonic(), 0
    name, incarnation = os.urandom(16), 1
    while True:
        seq += 1
        member = Initiator(lab.server.address, lab.key, name, incarnation, seq)
        lab.opened.append(member.drop)
        try:
            member.open([(b"desk", False)])
            member.answer_of(1)
            return time.monotonic() - began
        except wire.Fault:
            check(time.monotonic() - began < within, "an honest peer does not get in")
            time.sleep(0.05)


def flood(lab, words=lambda: b""):
    """More strangers than the engine holds: what they cost, and how long they stay."""
    before = lab.server.report()
    low = [os.dup(0) for _ in range(8)]  # select() takes no descriptors above 1,023: the honest peer gets these
    strangers(lab, MANY, words)
    began = time.monotonic()  # the last of them has its time from here
    for fd in low:
        os.close(fd)
    during = lab.server.report()
    held, memory = during["fds"] - before["fds"], during["rss"] - before["rss"]
    lab.serve_honest()
    took = honest_peer_comes_in(lab, GRACE + 10)
    while (now := lab.server.report())["fds"] > before["fds"] + 1:
        check(time.monotonic() - began < 2 * GRACE + 4, f"strangers are still there: {now}")
        time.sleep(0.05)
    print(f"{MANY} strangers: {held} held, {memory} KiB; an honest one came in after {took:.2f} s; "
          f"all were gone after {time.monotonic() - began:.2f} s")
    # Those that newcomers have displaced are closed in the next turn; a turn accepts 32.
    check(held <= STRANGERS + 2 * 32 + 8, f"{held} strangers are held; the limit is {STRANGERS}")
    check(memory < 256 * 1024, f"{memory} KiB for strangers")


@vector
def thousands_that_say_nothing(lab):
    flood(lab)


@vector
def thousands_that_say_hello_under_names_of_their_own(lab):
    def words():
        return wire.message(wire.HELLO, {"id": os.urandom(16), "inc": 1, "non": os.urandom(16), "seq": 1, "feat": 0,
                                         "key": True, "ab": 0, "seen": 0, "held": 0})
    flood(lab, words)


@vector
def hundreds_that_begin_the_longest_message(lab):
    before = lab.server.report()["rss"]
    words = raw_message(wire.HELLO, b"\xa1" + bytes(8000), length=8176)
    strangers(lab, 1000, lambda: words)
    lab.serve_honest()
    more = lab.server.report()["rss"] - before
    print(f"1000 strangers with 8 KB each: {more} KiB")
    check(more < 64 * 1024, f"{more} KiB for 1000 strangers")


@vector
def hundreds_that_say_hello_under_one_name(lab):
    name = os.urandom(16)
    for seq in range(1, 301):
        lab.dial(id=name, incarnation=7, seq=seq).greet()
    lab.is_up(lab.connect(id=name, incarnation=7, seq=1))


@vector
def strangers_that_trickle_their_hello_are_ended_as_well(lab):
    hello = wire.message(wire.HELLO, {"id": bytes(16), "inc": 1, "non": bytes(16), "seq": 1, "feat": 0, "key": True,
                                      "ab": 0, "seen": 0, "held": 0, "zz": bytes(5000)})
    lanes, began, ended = [lab.lane() for _ in range(20)], time.monotonic(), set()
    at = 0
    while len(ended) < 20:
        check(time.monotonic() - began < GRACE + 2, "who trickles is not ended")
        for lane in set(lanes) - ended:
            try:
                lane.socket.send(hello[at:at + 1])
            except OSError:
                ended.add(lane)
        at += 1
        time.sleep(0.05)
    check(time.monotonic() - began > GRACE - 1, "a stranger has its time")


@vector
def lanes_of_thousands_that_join_nothing(lab):
    began = time.monotonic()
    words = wire.message(wire.LANE, {"id": lab.honest.id, "inc": lab.honest.incarnation, "seq": 1, "non": bytes(16),
                                     "lane": 1}) + bytes(32)
    strangers(lab, 2000, lambda: words)
    lab.serve_honest()
    check(time.monotonic() - began < 15, "2000 lanes that are refused take long")
