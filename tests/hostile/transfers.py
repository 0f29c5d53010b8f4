# SPDX-License-Identifier: Apache-2.0
"""Puts and gets with lengths, places, keys and numbers that they may not have."""

import os
import struct
import time

import initiator as wire
from initiator import ACK, DATA, ERROR, Frame
from lab import VAULT, check, same, vector

EDGE = 1 << 64
BIG = wire.MAX_PAYLOAD


def refused(lab, status, *frames):
    """Each is answered by an error with that status, and the connection goes on."""
    connection = lab.connect()
    same(lab.answers(connection, *frames), [(ERROR, status)] * len(frames), "the answers")
    lab.is_up(connection)


def altered(frame, at, value, form):
    """A frame with another number in its bytes."""
    data = bytearray(frame.pack())
    struct.pack_into(form, data, at, value)
    return bytes(data)


# Lengths.

@vector
def a_put_that_declares_four_gib(lab):
    for length in (0xFFFFFFFF, 0x80000000, 0x40000000, BIG + 25, 1 << 20):
        lab.breaks(altered(lab.put(), 4, length, "<I"))


@vector
def a_put_shorter_than_its_access(lab):
    for length in (0, 1, 7, 8, 23):
        lab.breaks(altered(lab.put(), 4, length, "<I"))


@vector
def a_put_one_byte_too_long_or_too_short(lab):
    for size in (3, 5):
        lab.breaks(lab.put(data=bytes(size)))


@vector
def a_put_of_five_gib_in_its_pieces(lab):
    lab.breaks(lab.put(pieces=((0, 0xFFFFFFFF), (0, 0x50000001)), data=b"evil"))


@vector
def a_put_whose_pieces_wrap_in_32_bits(lab):
    lab.breaks(lab.put(pieces=((0, 0x80000000), (0, 0x80000004)), data=b"evil"))
    lab.breaks(lab.put(pieces=((0, 1 << 23),) * 511 + ((0, (1 << 23) + 4),), data=b"evil"))


@vector
def counts_of_pieces_at_every_edge(lab):
    for count in (0, 513, 4096, 65535):
        lab.breaks(altered(lab.put(), 2, count, "<H"))
        lab.breaks(altered(lab.get(), 2, count, "<H"))


@vector
def more_pieces_declared_than_sent(lab):
    lab.breaks(altered(lab.put(), 2, 2, "<H"))
    lab.breaks(altered(lab.get(), 2, 512, "<H"))


@vector
def fewer_pieces_declared_than_sent(lab):
    lab.breaks(altered(lab.get(pieces=((0, 4), (4, 4))), 2, 1, "<H"))


@vector
def a_get_of_one_byte_too_many(lab):
    for pieces in (((0, BIG + 1),), ((0, BIG), (0, 1)), ((0, 0xFFFFFFFF),), ((0, 0x80000000),) * 2, ((0, BIG),) * 512):
        lab.breaks(lab.get(pieces=pieces))


@vector
def a_get_with_a_payload(lab):
    lab.breaks(altered(lab.get(), 4, 28, "<I") + b"more")


@vector
def a_get_that_is_notified(lab):
    lab.breaks(lab.get(flags=wire.NOTIFIED, notification=(1, 1)))
    lab.breaks(lab.get(flags=wire.NOTIFIED))


@vector
def a_put_whose_flags_demand_more_than_it_has(lab):
    for flags in (wire.NOTIFIED, wire.CHECKED, wire.NOTIFIED | wire.CHECKED):
        lab.breaks(lab.put(data=b"", pieces=((0, 0),), flags=flags))


# Places.

@vector
def pieces_outside_the_region(lab):
    for offset, length in ((VAULT, 1), (VAULT - 1, 2), (VAULT - 3, 4), (1 << 63, 4), (EDGE - 1, 1), (EDGE - 4, 4),
                           (EDGE - 4, 8), (EDGE - VAULT, 4), (VAULT + 65536, 4), (EDGE - 65536, 4)):
        refused(lab, wire.ERANGE, lab.put(pieces=((offset, length),), data=bytes(length)),
                lab.get(2, pieces=((offset, length),)))


@vector
def pieces_of_nothing_outside_the_region(lab):
    for offset in (VAULT + 1, 1 << 63, EDGE - 1):
        refused(lab, wire.ERANGE, lab.put(pieces=((offset, 0),), data=b""), lab.get(2, pieces=((offset, 0),)))


@vector
def one_bad_piece_behind_many_good_ones(lab):
    for bad in ((VAULT, 1), (EDGE - 1, 1)):
        refused(lab, wire.ERANGE, lab.put(pieces=((0, 512),) * 511 + (bad,), data=bytes(512 * 511 + 1)))


@vector
def a_reserved_word_in_every_piece_is_not_looked_at(lab):
    body = struct.pack("<Q", lab.desk.key) + struct.pack("<QII", 0, 4, 0xFFFFFFFF) + b"fine"
    put = Frame(wire.PUT, 1, wire.ACK_WANTED, 1, lab.desk.region, lab.desk.generation, body=body)
    same(lab.answers(lab.connect(), put), [(ACK, 0)], "the answer")


@vector
def a_put_into_what_may_only_be_read(lab):
    sealed = lab.honest.lookup(b"sealed")
    refused(lab, wire.EACCESS, lab.put(ref=sealed), lab.put(2, ref=sealed, pieces=((EDGE - 4, 4),)))
    same(lab.honest.get(sealed, [(0, 4)]), b"ssss", "what is sealed")


# Keys, regions, generations.

@vector
def guesses_of_the_key_of_a_region(lab):
    key = lab.vault.key
    keys = [0, 1, EDGE - 1, key + 1, key - 1, key >> 1, lab.desk.key] + [key ^ 1 << bit for bit in range(64)]
    for at in range(0, len(keys), 32):
        refused(lab, wire.ESTALE, *[lab.put(seq, ref=lab.vault._replace(key=guess % EDGE))
                                    for seq, guess in enumerate(keys[at:at + 32], 1)])


@vector
def a_thousand_random_keys_on_one_connection(lab):
    connection = lab.connect()
    for first in range(1, 1001, 50):
        gets = [lab.get(seq, ref=lab.vault._replace(key=int.from_bytes(os.urandom(8), "little")))
                for seq in range(first, first + 50)]
        same(lab.answers(connection, *gets), [(ERROR, wire.ESTALE)] * 50, "the answers")


@vector
def regions_at_the_edges(lab):
    for region in (0, lab.desk.region + 100, 1 << 32, 1 << 63, EDGE - 1, lab.vault.region ^ 1 << 63,
                   lab.vault.region + (1 << 32)):
        refused(lab, wire.ESTALE, lab.put(ref=lab.vault._replace(region=region)),
                lab.get(2, ref=lab.vault._replace(region=region)))


@vector
def one_regions_key_for_another(lab):
    refused(lab, wire.ESTALE, lab.put(ref=lab.desk._replace(region=lab.vault.region)),
            lab.get(2, ref=lab.vault._replace(region=lab.desk.region)))


@vector
def generations_that_are_over_or_to_come(lab):
    for change in (1, -1, 1 << 31):
        generation = (lab.vault.generation + change) % (1 << 32)
        refused(lab, wire.ESTALE, lab.put(ref=lab.vault._replace(generation=generation)))


@vector
def a_region_that_was_closed_in_the_middle_of_a_put(lab):
    lab.server.say("open")
    connection = lab.connect()
    ref = connection.lookup(b"later", wait=True)
    put = lab.put(ref=ref, pieces=((0, 4096),), data=b"x" * 4096).pack()
    connection.lanes[0].send(put[:2000])
    lab.is_up(lab.honest)
    lab.server.say("close")
    lab.server.report()
    time.sleep(0.05)
    connection.lanes[0].send(put[2000:])
    while (frame := connection.lanes[0].read()).type != ERROR:
        pass
    same((frame.seq, frame.status), (1, wire.ESTALE), "the answer")
    lab.server.say("open")  # the next one of that name is another
    fresh = connection.lookup(b"later", wait=True)
    check((fresh.region, fresh.key) != (ref.region, ref.key), "a name that comes again is another region")
    same(lab.answers(connection, lab.put(2, ref=ref)), [(ERROR, wire.ESTALE)], "the old ref")
    lab.server.say("close")


# Numbers.

@vector
def numbers_of_requests_that_are_not_the_next(lab):
    for seq in (0, 2, 64, 1 << 32, EDGE - 1):
        lab.breaks(lab.put(seq, ref=lab.desk))
        lab.breaks(lab.get(seq))


@vector
def numbers_of_requests_that_come_again_or_go_back(lab):
    for seq in (1, 2, 0, 4):
        connection = lab.connect()
        same(lab.answers(connection, lab.put(1, ref=lab.desk), lab.get(2)), [(ACK, 0), (DATA, 0)], "the answers")
        connection.lanes[0].send(lab.put(seq, ref=lab.desk).pack())
        lab.ends(connection)


@vector
def more_requests_than_may_be_unanswered(lab):
    connection = lab.connect()  # puts that want no ack fill the window as well
    connection.lanes[0].send(b"".join(lab.get(seq, pieces=((0, BIG),)).pack() for seq in range(1, 200)))
    lab.ended(connection)


@vector
def data_lanes_count_for_themselves(lab):
    connection = lab.connect()
    first, second = connection.join_lane(), connection.join_lane()
    for lane in (first, second):
        connection.lanes[lane].send(lab.put(1, ref=lab.desk).pack())
        same(connection.lanes[lane].read().type, ACK, "the answer")
    connection.lanes[first].send(lab.put(3, ref=lab.desk).pack())
    lab.ended(connection)


# Checksums.

@vector
def checksums_that_are_wrong_in_every_bit(lab):
    right, connection = wire.crc32c(b"evil"), lab.connect()
    flags = wire.CHECKED | wire.ACK_WANTED
    for bit in range(32):
        put = lab.put(bit + 1, ref=lab.desk, flags=flags, checksum=right ^ 1 << bit)
        same(lab.answers(connection, put), [(ERROR, wire.ECHECKSUM)], "the answer")


@vector
def a_checksum_for_a_put_that_is_refused_anyway(lab):
    flags = wire.CHECKED | wire.ACK_WANTED
    refused(lab, wire.ESTALE, lab.put(ref=lab.vault._replace(key=1), flags=flags, checksum=0))
    refused(lab, wire.ERANGE, lab.put(pieces=((VAULT, 4),), flags=flags, checksum=0))


@vector
def a_checksum_with_its_upper_half_set_is_not_looked_at(lab):
    put = lab.put(ref=lab.desk, flags=wire.CHECKED | wire.ACK_WANTED, checksum=wire.crc32c(b"evil") | 1 << 63)
    same(lab.answers(lab.connect(), put), [(ACK, 0)], "the answer")


# Answers to requests of which the payload never comes.

@vector
def a_put_without_its_end(lab):
    put = lab.put(ref=lab.desk, pieces=((0, 65536),), data=bytes(65536)).pack()
    for size in (33, 40, 56, 57, 1000, len(put) - 1):
        lab.connect().lanes[0].send(put[:size])
        lab.close_all()


@vector
def a_put_into_the_vault_that_is_refused_is_read_to_its_end(lab):
    connection, data = lab.connect(), lab.put(2, ref=lab.desk).pack() * 100
    put = lab.put(pieces=((VAULT - 1, len(data)),), data=data)
    same(lab.answers(connection, put, lab.put(2, ref=lab.desk)), [(ERROR, wire.ERANGE), (ACK, 0)], "the answers")
