# SPDX-License-Identifier: Apache-2.0
"""Hostile owners, against an engine of the library that puts a word (request 1) and adds to another (request 2), both
at once: what they answer to the atomic is not what was asked for, or is no answer."""

import struct
import time

import initiator as wire
from acceptor import BEFORE, LIMIT, OK, WORD, Acceptor, change, with_steps
from initiator import ACK, DATA, EACCESS, EPEERLOST, EPROTO, ERROR, ETIMEDOUT, Frame
from lab import vector

OTHER = struct.pack("<Q", BEFORE ^ 0xFFFF)  # another result
EDGE = 1 << 64


def unanswered(self, frame):
    """Of a put, until the atomic behind it has come."""


def breaks(lab, answer, put=OK, done=EPEERLOST, **steps):
    """The connection ends for what is answered, and with it what was not answered before."""
    change(lab, with_steps(lab, change=answer, **steps), put, done, EPROTO, EPEERLOST)


@vector
def an_owner_that_does_atomics(lab):
    change(lab, Acceptor(lab), limit=3000)


# No result.

@vector
def an_ack_in_place_of_a_result(lab):
    breaks(lab, lambda self, frame: self.send(ACK, frame.seq))


@vector
def an_ack_of_a_put_and_of_the_atomic_behind_it(lab):
    breaks(lab, lambda self, frame: self.send(ACK, frame.seq), take=unanswered)


@vector
def an_ack_past_the_atomic(lab):
    for seq in (3, 64, EDGE - 1):
        breaks(lab, lambda self, frame, seq=seq: self.send(ACK, seq))


@vector
def a_result_that_never_comes(lab):
    change(lab, with_steps(lab, change=unanswered), done=ETIMEDOUT)


@vector
def an_error_for_an_atomic_with_any_status(lab):
    for status in (EACCESS, EPEERLOST, -38, -1000, -(1 << 31)):
        acceptor = with_steps(lab, change=lambda self, frame, status=status: self.refuse(frame, status))
        change(lab, acceptor, done=status if status == EACCESS else EPROTO)  # never a number without a name
    for status in (0, 1):
        breaks(lab, lambda self, frame, status=status: self.refuse(frame, status))


# A result of another form.

@vector
def results_of_other_lengths(lab):
    for size in (0, 1, 4, 7, 9, 16, 4096, wire.MAX_PAYLOAD):
        breaks(lab, lambda self, frame, size=size: self.send(DATA, frame.seq, body=(WORD * (size // 8 + 1))[:size]))


@vector
def results_that_declare_more_than_may_be(lab):
    for length in (wire.MAX_PAYLOAD + 1, 0x80000008, 0xFFFFFFFF):
        breaks(lab, lambda self, frame, length=length: self.say(
            struct.pack("<BBHIQQIi", DATA, 0, 0, length, frame.seq, 0, 0, 0) + WORD * 1000))


@vector
def a_result_with_a_checksum_that_nobody_wanted(lab):
    breaks(lab, lambda self, frame: self.send(
        DATA, frame.seq, flags=wire.CHECKED, body=struct.pack("<Q", wire.crc32c(WORD)) + WORD))


@vector
def a_result_that_ends_in_the_middle(lab):
    def answer(self, frame):
        self.say(Frame(DATA, frame.seq, body=WORD).pack()[:-4])
        self.sock.close()
    change(lab, with_steps(lab, change=answer), done=EPEERLOST, down=EPEERLOST, probed=EPEERLOST)


@vector
def a_result_that_stops_in_the_middle(lab):
    def answer(self, frame):
        self.say(Frame(DATA, frame.seq, body=WORD).pack()[:-4])
        self.over.wait(8)
    change(lab, with_steps(lab, change=answer), done=ETIMEDOUT, probed=ETIMEDOUT)


# A result of something else.

@vector
def a_result_for_a_put(lab):
    breaks(lab, lambda self, frame: self.send(DATA, frame.seq - 1, body=WORD), put=EPEERLOST, take=unanswered)


@vector
def a_result_before_the_put_is_answered(lab):
    breaks(lab, lambda self, frame: self.send(DATA, frame.seq, body=WORD), put=EPEERLOST, take=unanswered)


@vector
def a_result_for_a_put_that_has_ended(lab):
    breaks(lab, lambda self, frame: self.send(DATA, frame.seq - 1, body=WORD))


@vector
def results_of_what_was_never_asked(lab):
    for seq in (0, 3, 64, 1 << 32, EDGE - 1):
        breaks(lab, lambda self, frame, seq=seq: self.send(DATA, seq, body=WORD))


@vector
def an_echo_of_the_atomic(lab):
    breaks(lab, lambda self, frame: self.say(frame.pack()))


# More than one.

@vector
def a_result_twice(lab):
    def twice(self, frame):
        self.say(Frame(DATA, frame.seq, body=WORD).pack() + Frame(DATA, frame.seq, body=OTHER).pack())
    breaks(lab, twice, done=OK)


@vector
def an_error_and_a_result(lab):
    def both(self, frame):
        self.say(Frame(ERROR, frame.seq, status=EACCESS).pack() + Frame(DATA, frame.seq, body=OTHER).pack())
    breaks(lab, both, done=EACCESS)


@vector
def a_result_and_an_ack(lab):
    def both(self, frame):
        self.say(Frame(DATA, frame.seq, body=WORD).pack() + Frame(ACK, frame.seq).pack())
    breaks(lab, both, done=OK)


@vector
def a_result_that_comes_when_the_atomic_was_given_up(lab):
    def late(self, frame):
        time.sleep((LIMIT + 500) / 1000)  # its deadline, and what may pass until that is told
        self.send(DATA, frame.seq, body=OTHER)
    change(lab, with_steps(lab, change=late), done=ETIMEDOUT)
