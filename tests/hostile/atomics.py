# SPDX-License-Identifier: Apache-2.0
"""Atomics of what may not be changed, is not aligned, is not there, or is asked for in a wrong form."""

import os
import struct
import threading

import initiator as wire
from initiator import ACK, DATA, ERROR, Frame
from lab import VAULT, check, same, vector

EDGE = 1 << 64


def refused(lab, status, *frames):
    """Each is answered by an error with that status, and the connection goes on."""
    connection = lab.connect()
    same(lab.answers(connection, *frames), [(ERROR, status)] * len(frames), "the answers")
    lab.is_up(connection)


def atomic(ref, seq=1, offset=0, op=wire.ADD, operand=1, compare=0, **fields):
    frame = Frame(wire.ATOMIC, seq, op, 0, ref.region, ref.generation,
                  body=wire.body_of_atomic(ref, offset, operand, compare))
    return frame._replace(**fields)


def words(lab):
    return lab.connect().lookup(b"words")


def value(lab, ref, offset=0):
    return int.from_bytes(lab.connect().get(ref, [(offset, 8)]), "little")


# Forms.

@vector
def atomics_of_every_kind_that_there_is_not(lab):
    ref = words(lab)
    before = value(lab, ref)
    for op in (0, 3, 4, 5, 6, 8, 16, 64, 127, 128, 129, 130, 255):
        lab.breaks(atomic(ref, op=op))
    same(value(lab, ref), before, "the word")


@vector
def atomics_of_other_lengths(lab):
    ref = words(lab)
    for size in (0, 8, 24, 31, 33, 40, 48, 4096):
        lab.breaks(atomic(ref, body=bytes(size)))
    for length in (0xFFFFFFFF, 0x80000000, 1 << 20):
        data = bytearray(atomic(ref).pack())
        struct.pack_into("<I", data, 4, length)
        lab.breaks(bytes(data))


@vector
def atomics_with_pieces(lab):
    ref = words(lab)
    for pieces in (1, 2, 512, 0xFFFF):
        lab.breaks(atomic(ref, pieces=pieces))


@vector
def atomics_without_their_end(lab):
    frame = atomic(words(lab)).pack()
    for size in (1, 31, 32, 40, len(frame) - 1):
        lab.connect().lanes[0].send(frame[:size])
        lab.close_all()


@vector
def atomics_whose_numbers_are_not_the_next(lab):
    ref = words(lab)
    before = value(lab, ref)
    for seq in (0, 2, 64, 1 << 32, EDGE - 1):
        lab.breaks(atomic(ref, seq))
    same(value(lab, ref), before, "the word")


@vector
def more_atomics_than_may_be_unanswered(lab):
    ref, connection = words(lab), lab.connect()
    gets = [lab.get(seq, pieces=((0, wire.MAX_PAYLOAD),)) for seq in range(1, 64)]
    connection.lanes[0].send(b"".join(frame.pack() for frame in gets + [atomic(ref, seq) for seq in range(64, 200)]))
    lab.ended(connection)


# What they are about.

@vector
def atomics_of_the_vault_which_does_not_allow_them(lab):
    for offset in (0, 8, VAULT - 8):
        refused(lab, wire.EACCESS, atomic(lab.vault, 1, offset), atomic(lab.vault, 2, offset, wire.CAS, 1, 0))


@vector
def atomics_that_are_not_aligned(lab):
    ref = words(lab)
    before = value(lab, ref)
    for offset in (1, 2, 3, 4, 5, 6, 7, 9, 63, ref.length - 12):
        refused(lab, wire.EINVAL, atomic(ref, 1, offset), atomic(ref, 2, offset, wire.CAS, 1, before))
    same(value(lab, ref), before, "the word")


@vector
def atomics_past_the_end(lab):
    ref = words(lab)
    for offset in (ref.length - 7, ref.length - 4, ref.length, ref.length + 8, 1 << 32, 1 << 63, EDGE - 8, EDGE - 1):
        refused(lab, wire.ERANGE, atomic(ref, 1, offset))


@vector
def atomics_of_regions_keys_and_generations_that_are_not_there(lab):
    ref = words(lab)
    for other in (ref._replace(region=0), ref._replace(region=ref.region + 100), ref._replace(key=ref.key ^ 1),
                  ref._replace(generation=ref.generation + 1), ref._replace(key=lab.vault.key)):
        refused(lab, wire.ESTALE, atomic(other))
    refused(lab, wire.EREVOKED, atomic(ref._replace(region=1 << 62 | 4711)))


@vector
def atomics_of_messages(lab):
    connection = lab.connect()
    connection.lanes[0].send(Frame(wire.NOTIFY, 1).pack())
    lab.server.wait("notify")  # so its application knows of us
    lab.server.say("send 5 100000 0")  # an envelope, whose bytes stay with the server
    while (message := connection.lanes[0].read()).type != wire.MESSAGE:
        pass
    for seq, (region, status) in enumerate([(1 << 63, wire.ESTALE), ((1 << 63) + message.seq, wire.EACCESS),
                                            ((1 << 63) + message.seq + 1, wire.ESTALE), (EDGE - 1, wire.ESTALE)], 1):
        frame = Frame(wire.ATOMIC, seq, wire.ADD, 0, region, 0, body=struct.pack("<4Q", 0, 0, 1, 0))
        same(lab.answers(connection, frame), [(ERROR, status)], "the answer")


# What comes of them.

@vector
def atomics_on_many_connections_are_done_once_each(lab):
    ref, count, found = words(lab), 40, []
    before = value(lab, ref, 8)

    def add(connection):
        found.extend(connection.atomic(wire.ADD, ref, 8, 1) for _ in range(count))
    threads = [threading.Thread(target=add, args=(lab.connect(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(sorted(found), list(range(before, before + 4 * count)), "what was there before each")


@vector
def atomics_of_who_hangs_up_before_the_answer(lab):
    ref = words(lab)
    before = value(lab, ref, 16)
    for _ in range(20):
        connection = lab.connect()
        connection.lanes[0].send(b"".join(atomic(ref, seq, 16).pack() for seq in range(1, 17)))
        connection.drop()
    check(before <= value(lab, ref, 16) <= before + 20 * 16, "the word")


@vector
def atomics_among_garbage(lab):
    ref = words(lab)
    for _ in range(30):
        data = bytearray(atomic(ref, 1, 24).pack())
        data[os.urandom(1)[0] % len(data)] ^= 1 << os.urandom(1)[0] % 8
        connection = lab.connect()
        connection.lanes[0].send(bytes(data))
        connection.drop()


@vector
def an_atomic_between_puts(lab):
    ref = words(lab)
    puts = [Frame(wire.PUT, seq, 0, 1, ref.region, ref.generation, body=wire.access_of(ref, [(32, 8)]) + bytes(8))
            for seq in (1, 2, 4)]
    connection = lab.connect()
    last = puts[2]._replace(flags=wire.ACK_WANTED)
    same(lab.answers(connection, puts[0], puts[1], atomic(ref, 3, 32), last), [(ACK, 0), (ACK, 0), (DATA, 0), (ACK, 0)],
         "the answers")
