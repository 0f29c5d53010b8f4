# SPDX-License-Identifier: Apache-2.0
"""Messages that may not be sent, and answers to messages that may not be given."""

import os
import struct
import time

import initiator as wire
from initiator import CANCEL, ENVELOPE, HELD, QUEUED, MESSAGE, SYNC, COMPLETED, Frame
from lab import check, same, vector

TAG = int.from_bytes(b"tag", "little")
MESSAGES, HELD_BYTES, INLINE = 1024, 262144, 4088
PULLED = 1 << 63  # "region" of the first message, but for its number


def message(seq, data=b"letter", flags=0, tag=TAG):
    return Frame(MESSAGE, seq, flags, region=tag, body=data)


def envelope(seq, length=1000, tag=TAG):
    return message(seq, struct.pack("<Q", length), ENVELOPE, tag)


def heard(connection, *types):
    """The next frame of one of these types."""
    while True:
        frame = connection.lanes[0].read()
        check(frame, "a malformed frame of the server")
        if frame.type in types:
            return frame


def answered(connection, type, seq, flags=0, status=0):
    frame = heard(connection, QUEUED, COMPLETED)
    same((frame.type, frame.seq, frame.flags, frame.status), (type, seq, flags, status), "the answer to a message")


# To one who receives.

@vector
def honest_messages_of_every_length(lab):
    connection = lab.connect()
    for length in (0, 1, INLINE, INLINE + 1, 60000):
        lab.server.say(f"recv {TAG} 65536")
        same(connection.send(os.urandom(length), TAG, SYNC), 0, "how the send ends")
        same(lab.server.wait("received"), [str(TAG), "0", str(length)], "what is received")


@vector
def numbers_of_messages_that_are_not_next(lab):
    for numbers in ((0,), (2,), (1, 3), (1, 1), (2, 1), ((1 << 64) - 1,)):
        lab.breaks(*[message(seq, tag=1) for seq in numbers])


@vector
def messages_of_wrong_lengths(lab):
    for frame in (message(1, os.urandom(4097)), message(1, b"1234567", wire.CHECKED), message(1, b"", ENVELOPE),
                  message(1, b"1234567", ENVELOPE), message(1, bytes(9), ENVELOPE),
                  message(1)._replace(status=-1), message(1)._replace(pieces=1)):
        lab.breaks(frame)


@vector
def more_envelopes_than_may_be_open(lab):
    connection = lab.survives(*[envelope(seq, tag=seq) for seq in range(1, MESSAGES + 1)])
    connection.lanes[0].send(envelope(MESSAGES + 1).pack())
    lab.ends(connection)


@vector
def more_bytes_than_are_held(lab):
    fits = HELD_BYTES // INLINE
    connection = lab.survives(*[message(seq, os.urandom(INLINE), tag=2) for seq in range(1, fits + 1)])
    connection.lanes[0].send(message(fits + 1, os.urandom(HELD_BYTES - fits * INLINE), tag=2).pack())
    lab.is_up(connection)
    connection.lanes[0].send(message(fits + 2, b"x", tag=2).pack())
    lab.ends(connection)
    for _ in range(fits + 1):  # what is held outlives its sender
        lab.server.say("recv 2 4096")
        lab.server.wait("received")


class Held:
    """Messages that the server holds: as many as one sender may leave, and as many as all may."""

    WAYS, EACH = HELD_BYTES // INLINE, INLINE + 256  # what a connection may bring along, what a message counts
    SENDER, ENGINE = 1 << 20, 64 << 20

    def __init__(self, lab, tag):
        self.lab, self.tag, self.count = lab, tag, 0

    def leave(self, id):
        """One more connection of that sender leaves messages; how many of them are held."""
        connection = self.lab.connect(id=id)
        connection.lanes[0].send(b"".join(message(seq, bytes(INLINE), tag=self.tag).pack()
                                          for seq in range(1, self.WAYS + 1)))
        answers = [heard(connection, QUEUED) for _ in range(self.WAYS)]
        held = sum(answer.flags == HELD for answer in answers)
        same([answer.flags for answer in answers], [HELD] * held + [0] * (self.WAYS - held), "what is held")
        self.count += held
        connection.drop()
        return held

    def drop(self):
        """The application takes them all, and what may still be announced by who has gone meanwhile."""
        while self.count:
            self.lab.server.say(f"drop {self.tag} {self.count}")
            for _ in range(self.count):
                self.count -= self.lab.server.wait("received")[1] != str(wire.EPEERLOST)


@vector
def one_sender_leaves_messages_behind_again_and_again(lab):
    held, id = Held(lab, 9), os.urandom(16)
    for _ in range(2):  # what was taken has room again
        while held.leave(id) == held.WAYS:
            pass
        same(held.count, held.SENDER // held.EACH, "how many messages one sender leaves")
        same(held.leave(id), 0, "more of them")
        same(held.leave(os.urandom(16)), held.WAYS, "another sender's")
        held.drop()


@vector
def many_senders_leave_messages_behind(lab):
    held = Held(lab, 10)
    for _ in range(held.ENGINE // held.SENDER):
        id = os.urandom(16)
        while held.leave(id) == held.WAYS:
            pass
    end = time.monotonic() + 20  # what the gone have announced counts until their end is noticed
    while held.count < held.ENGINE // held.EACH and time.monotonic() < end:
        held.leave(os.urandom(16))
    same(held.count, held.ENGINE // held.EACH, "how many messages are held in all")
    same(held.leave(os.urandom(16)), 0, "more of them")
    held.drop()
    same(held.leave(os.urandom(16)), held.WAYS, "after they were received")
    held.drop()


@vector
def a_message_with_a_wrong_checksum(lab):
    connection = lab.connect()
    wrong = struct.pack("<Q", wire.crc32c(b"letter") ^ 1) + b"letter"
    right = struct.pack("<Q", wire.crc32c(b"letter")) + b"letter"
    connection.lanes[0].send(message(1, wrong, wire.CHECKED).pack() + message(2, right, wire.CHECKED).pack())
    answered(connection, COMPLETED, 1, status=wire.ECHECKSUM)
    answered(connection, QUEUED, 2, HELD)
    lab.server.say(f"recv {TAG} 100")
    same(lab.server.wait("received"), [str(TAG), "0", "6"], "what is received")
    answered(connection, COMPLETED, 2)


@vector
def withdrawals_of_what_is_not_there_is_held_or_was_taken(lab):
    connection = lab.survives(Frame(CANCEL, 1), Frame(CANCEL, 77))
    connection.lanes[0].send(envelope(1).pack() + Frame(CANCEL, 1).pack() * 3)
    answered(connection, QUEUED, 1)
    answered(connection, COMPLETED, 1, status=wire.ECANCELED)
    connection.lanes[0].send(message(2).pack() + Frame(CANCEL, 2).pack())
    answered(connection, QUEUED, 2, HELD)
    connection.lanes[0].send(message(3, flags=SYNC).pack() + Frame(CANCEL, 3).pack())
    answered(connection, QUEUED, 3, HELD)
    answered(connection, COMPLETED, 3, status=wire.ECANCELED)
    lab.server.say(f"recv {TAG} 100")
    same(lab.server.wait("received"), [str(TAG), "0", "6"], "what was held")
    answered(connection, COMPLETED, 2)


@vector
def envelopes_of_more_than_any_memory_has(lab):
    for length in (1 << 63, (1 << 64) - 1):
        lab.breaks(envelope(1, length))


@vector
def an_envelope_of_everything_that_is_not_there_when_it_is_pulled(lab):
    connection = lab.connect()
    connection.lanes[0].send(envelope(1, (1 << 63) - 1).pack())
    lab.server.say(f"recv {TAG} 100")
    pull = heard(connection, wire.GET)
    same((pull.region, pull.generation), (PULLED | 1, 0), "what it pulls")
    connection.lanes[0].send(Frame(wire.ERROR, pull.seq, status=wire.ESTALE).pack())
    same(lab.server.wait("received")[1], str(wire.ESTALE), "how the receive ends")
    answered(connection, COMPLETED, 1, status=wire.ESTALE)


@vector
def more_bytes_than_were_pulled(lab):
    connection = lab.connect()
    connection.lanes[0].send(envelope(1).pack())
    lab.server.say(f"recv {TAG} 100")
    pull = heard(connection, wire.GET)
    connection.lanes[0].send(Frame(wire.DATA, pull.seq, body=bytes(101)).pack())
    lab.ended(connection)
    same(lab.server.wait("received")[1], str(wire.EPEERLOST), "how the receive ends")


@vector
def a_sender_that_goes_while_it_is_pulled(lab):
    connection = lab.connect()
    connection.lanes[0].send(envelope(1).pack())
    lab.server.say(f"recv {TAG} 100")
    heard(connection, wire.GET)
    lab.close_all()
    same(lab.server.wait("received")[1], str(wire.EPEERLOST), "how the receive ends")


@vector
def an_envelope_whose_sender_has_gone(lab):
    lab.survives(envelope(1, tag=3))
    lab.close_all()
    while lab.server.report()["connections"] > lab.normal["connections"]:
        pass
    lab.server.say("recv 3 100")
    lab.connect().lanes[0].send(message(1, tag=3).pack())
    same(lab.server.wait("received"), ["3", "0", "6"], "what is received")


# To one who sends.

def sent(lab, length, flags=0):
    """A connection on which the server has sent a message."""
    connection = lab.connect()
    connection.lanes[0].send(Frame(wire.NOTIFY, 1).pack())
    lab.server.wait("notify")  # so its application knows of us
    lab.server.say(f"send {TAG} {length} {flags}")
    return connection, heard(connection, MESSAGE)


@vector
def answers_to_messages_that_were_not_sent(lab):
    for type in (QUEUED, COMPLETED):
        for seq in (1, 2, 1 << 63, (1 << 64) - 1):
            lab.breaks(Frame(type, seq))


@vector
def answers_that_come_twice_or_say_what_can_not_be(lab):
    kept, held, taken = Frame(QUEUED, 1), Frame(QUEUED, 1, HELD), Frame(COMPLETED, 1)
    for length, frames in ((6, (kept, kept)), (6, (held, held)), (6, (taken, taken)), (6, (taken, kept)),
                           (4096 + 1, (held,)), (6, (taken._replace(status=1),))):
        connection, _ = sent(lab, min(length, 4096) if length <= INLINE else 4096)
        for frame in frames:
            connection.lanes[0].send(frame.pack())
        lab.ends(connection)
        lab.server.wait("sent")


@vector
def pulls_of_what_is_not_the_message(lab):
    connection, letter = sent(lab, 4096)
    same((letter.flags & ENVELOPE, letter.seq), (ENVELOPE, 1), "an envelope")
    there = lab.vault._replace(region=PULLED | 1, generation=0, key=0)
    gets = [(there._replace(region=PULLED | 2), ((0, 4),), wire.ESTALE),
            (there._replace(region=PULLED), ((0, 4),), wire.ESTALE),
            (there._replace(generation=1), ((0, 4),), wire.ESTALE), (there._replace(key=1), ((0, 4),), wire.ESTALE),
            (there, ((4093, 4),), wire.ERANGE), (there, ((1 << 63, 4),), wire.ERANGE),
            (there, (((1 << 64) - 4, 4),), wire.ERANGE)]
    for seq, (ref, pieces, status) in enumerate(gets, 1):
        same(lab.answers(connection, lab.get(seq, pieces, ref)), [(wire.ERROR, status)], "the answer to a pull")
    seq = len(gets) + 1
    same(lab.answers(connection, lab.put(seq, ref=there)), [(wire.ERROR, wire.EACCESS)], "a put into a message")
    connection.lanes[0].send(lab.get(seq + 1, ((0, 4096),), there).pack() + Frame(COMPLETED, 1).pack())
    answer = heard(connection, wire.DATA, wire.ERROR)
    check(answer.body == b"s" * 4096 or answer.status == wire.ESTALE, "the message, or that it has ended")
    same(lab.server.wait("sent"), ["0"], "how the send ends")
    late = lab.get(seq + 2, ref=there)
    same(lab.answers(connection, late), [(wire.ERROR, wire.ESTALE)], "a pull that comes too late")


@vector
def a_receiver_that_throws_away_or_goes(lab):
    connection, _ = sent(lab, 6, SYNC)
    connection.lanes[0].send(Frame(COMPLETED, 1, status=wire.ECANCELED).pack())
    same(lab.server.wait("sent"), [str(wire.ECANCELED)], "how the send ends")
    lab.is_up(connection)
    sent(lab, 4096)
    lab.close_all()
    same(lab.server.wait("sent"), [str(wire.EPEERLOST)], "how the send ends")


@vector
def a_message_is_taken_while_its_bytes_leave(lab):
    size = wire.MAX_PAYLOAD
    connection, _ = sent(lab, size)
    there = lab.vault._replace(region=PULLED | 1, generation=0, key=0)
    pulls = b"".join(lab.get(seq, ((0, size),), there).pack() for seq in range(1, 61))
    connection.lanes[0].send(pulls + Frame(COMPLETED, 1).pack())
    time.sleep(0.3)  # its application may not have its memory back while we do not read
    for _ in range(60):
        frame = heard(connection, wire.DATA, wire.ERROR)
        check(frame.type == wire.ERROR or frame.body.count(b"s") == size, "bytes from after the end of the send")
    same(lab.server.wait("sent"), ["0"], "how the send ends")
