# SPDX-License-Identifier: Apache-2.0
"""Signals of the attached lane, against a server that has adapters (fakes, of its own process): nothing that a peer says
brings such a lane up, so that none of these attempts is ready."""

import struct

import initiator as wire
from initiator import CONTROL_SWITCH, EPEERLOST, EPROTO, EVERSION, LANE_CLOSED, PATH_SIGNAL, Frame
from lab import same, vector

ATTACHED_LANE, RDMA = 254, 4  # the number of the lane, and that of the fabric
OFFER, ANSWER, READY, LOST, PART, WORD, END = range(1, 8)
ETHERNET, MTU_1024 = 1, 3


def of_lane(kind, generation=1, body=b"", version=1, zero=0):
    return struct.pack("<BBHI", version, kind, zero, generation) + body


def queue_pair(version=1, layer=ETHERNET, mtu=MTU_1024, reads=16, lid=0, zero=0, number=17, packet=1, gid=None):
    gid = gid or bytes(10) + b"\xff\xff" + bytes((10, 0, 0, 9))
    return struct.pack("<4B2HII16s", version, layer, mtu, reads, lid, zero, number, packet, gid)


def offer(generation=1, **fields):
    return of_lane(OFFER, generation, queue_pair(**fields))


def part(number=0, offset=0, length=1, data=b"x", zero=0):
    return of_lane(PART, 0, struct.pack("<QHHI", number, offset, length, zero) + data)


class Attempts:
    """Those of one connection, one after the other, and what the server says of each."""

    def __init__(self, lab):
        self.warm_up(lab)
        self.connection = lab.dial()
        self.connection.features = wire.ATTACHED_PATHS
        self.connection.hear_signal = self.hear
        self.connection.open()
        self.last, self.heard = 0, {}

    @classmethod
    def warm_up(cls, lab):
        """A few attempts open both adapters, which the server keeps."""
        if hasattr(lab, "warm"):
            return
        lab.warm = True
        attempts = cls(lab)
        for _ in range(4):
            attempts.answered().close()
        lab.close_all()
        while (now := lab.server.report())["connections"] != lab.normal["connections"]:
            pass
        lab.normal["fds"] = now["fds"]

    def hear(self, frame):
        same((frame.region, 0 < frame.seq <= self.last), (ATTACHED_LANE, True), "a signal of the server")
        self.heard[frame.seq].append(frame)

    def say(self, body, attempt=None, **fields):
        fields = {"region": ATTACHED_LANE, "generation": RDMA, **fields}
        self.connection.control.send(Frame(PATH_SIGNAL, attempt or self.last, body=body, **fields).pack())

    def begin(self, body):
        self.last += 1
        self.heard[self.last] = []
        self.say(body)
        return self

    def until(self, holds):
        while not any(holds(frame) for frame in self.heard[self.last]):
            self.connection.turn()

    def answered(self):
        """One that goes as far as a peer without an adapter can take it."""
        self.begin(offer())
        self.until(lambda frame: frame.status == 0 and frame.body[1] == ANSWER)
        return self

    def ended(self, status):
        self.until(lambda frame: frame.status)
        same([frame.status for frame in self.heard[self.last] if frame.status], [status], "the end of the attempt")

    def close(self):
        """Our end, and the server's, which is told once."""
        self.say(b"", status=EPEERLOST)
        self.until(lambda frame: frame.status)
        same(sum(frame.status != 0 for frame in self.heard[self.last]), 1, "ends told")

    def switch(self, times=1):
        self.connection.control.send(Frame(CONTROL_SWITCH).pack() * times)


@vector
def attempts_that_are_answered_and_closed(lab):
    attempts = Attempts(lab)
    for _ in range(20):
        attempts.answered().close()
    lab.is_up(attempts.connection)


@vector
def frames_moved_before_an_attempt(lab):
    for times in (1, 2):
        attempts = Attempts(lab)
        attempts.switch(times)
        lab.ends(attempts.connection)


@vector
def frames_moved_before_the_lane_is_ready(lab):
    for times in (1, 2):
        attempts = Attempts(lab)
        attempts.begin(offer()).switch(times)
        lab.ends(attempts.connection)
        attempts = Attempts(lab)
        attempts.answered().switch(times)
        lab.ends(attempts.connection)


@vector
def frames_moved_in_the_breath_of_requests(lab):
    """What comes behind the switch is not looked at."""
    attempts = Attempts(lab)
    attempts.answered().connection.control.send(Frame(CONTROL_SWITCH).pack() + lab.put().pack() * 100)
    lab.ends(attempts.connection)


@vector
def frames_moved_to_a_lane_whose_end_was_said(lab):
    attempts = Attempts(lab)
    attempts.begin(of_lane(READY)).ended(EPROTO)
    attempts.switch()
    lab.ends(attempts.connection)
    attempts = Attempts(lab)
    attempts.answered().close()
    attempts.switch()
    lab.ends(attempts.connection)


@vector
def an_attempt_begun_before_the_end_of_the_last(lab):
    for closes in (False, True):
        attempts = Attempts(lab)
        attempts.answered()
        if closes:  # the server has ended its end, and has not heard of ours
            attempts.say(of_lane(READY, 2))
            attempts.ended(EPROTO)
        attempts.begin(offer())
        lab.ends(attempts.connection)


@vector
def first_words_that_are_none(lab):
    """They end the attempt, and nothing else: the next one is answered."""
    attempts = Attempts(lab)
    good = offer()
    for body, status in [
        *((good[:size], EPROTO) for size in range(1, len(good))), (good + b"x", EPROTO),
        (of_lane(OFFER, body=queue_pair(), version=2), EVERSION), (offer(version=2), EVERSION),
        (of_lane(OFFER, body=queue_pair(), zero=1), EPROTO), (offer(generation=0), EPROTO),
        (offer(layer=2), EPROTO), (offer(mtu=0), EPROTO), (offer(mtu=6), EPROTO), (offer(number=1), EPROTO),
        (offer(number=0xFFFFFF), EPROTO), (offer(packet=1 << 24), EPROTO), (offer(gid=b"\xff" + bytes(15)), EPROTO),
        (offer(gid=bytes(16)), EPROTO), (offer(lid=0xC000), EPROTO), (offer(zero=1), EPROTO),
        *((of_lane(kind, body=queue_pair()), EPROTO) for kind in (0, ANSWER, READY, LOST, PART, WORD, END, 8, 255)),
        *((of_lane(kind), EPROTO) for kind in (0, OFFER, ANSWER, READY, PART, WORD, END, 8, 255)),
        (part(length=0, data=b""), EPROTO), (part(offset=1), EPROTO), (part(length=65535), EPROTO),
        (part(zero=1), EPROTO),
    ]:
        attempts.begin(body).ended(status)
        attempts.close()
    attempts.answered().close()
    lab.is_up(attempts.connection)


@vector
def offers_of_one_attempt_again_and_again(lab):
    """Each is of another queue pair, and there is one at a time."""
    attempts = Attempts(lab)
    attempts.answered()
    for generation in range(2, 200):
        attempts.say(offer(generation))
    attempts.close()
    lab.is_up(attempts.connection)
    attempts.answered().say(offer(1))
    attempts.ended(EPROTO)
    lab.is_up(attempts.connection)


@vector
def packets_of_a_lane_that_is_not_ready(lab):
    """They hold frames, which are not looked at before the control channel has moved."""
    attempts = Attempts(lab)
    attempts.answered()
    data = lab.put().pack()
    for number in range(3):
        attempts.say(part(number, length=len(data), data=data))
    lab.is_up(attempts.connection)
    attempts.close()
    lab.is_up(attempts.connection)


@vector
def the_attached_lane_closed_as_a_data_lane_once_it_was_begun(lab):
    attempts = Attempts(lab)
    attempts.answered().connection.control.send(Frame(LANE_CLOSED, ATTACHED_LANE).pack())
    lab.ends(attempts.connection)


@vector
def connections_that_end_amid_an_attempt(lab):
    for _ in range(20):
        Attempts(lab).answered().connection.drop()
        Attempts(lab).begin(offer()).connection.drop()
