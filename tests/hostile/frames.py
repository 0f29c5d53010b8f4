# SPDX-License-Identifier: Apache-2.0
"""Frames on a ready connection that nobody may send, or that ask for what is not there."""

import os
import struct

import initiator as wire
from initiator import Frame
from lab import check, same, vector

NAME = b"vault"


def header(type, flags=0, pieces=0, length=0, seq=0, region=0, generation=0, status=0):
    """The start of a frame whose length may say anything."""
    return wire.FRAME.pack(type, flags, pieces, length, seq, region, generation, status)


# Types and fixed fields.

@vector
def every_type_that_there_is_not(lab):
    for type in (0, 17, 18, 31, 64, 127, 128, 254, 255):
        lab.breaks(header(type))


@vector
def pieces_in_frames_that_have_none(lab):
    for type in (wire.ACK, wire.ERROR, wire.DATA, wire.FOUND, wire.GONE, wire.PING, wire.BYE, wire.NOTIFY, wire.DRAIN):
        lab.breaks(header(type, pieces=1, status=-1 if type in (wire.ERROR, wire.BYE, wire.FOUND) else 0, seq=1))


@vector
def bodies_in_frames_that_have_none(lab):
    for type in (wire.ACK, wire.ERROR, wire.PING, wire.PONG, wire.LANES, wire.BYE, wire.FORGET, wire.NOTED, wire.DRAIN):
        lab.breaks(header(type, length=1, status=-9 if type in (wire.ERROR, wire.BYE) else 0, seq=1) + b"x")


@vector
def control_frames_that_declare_four_gib(lab):
    for type in (wire.LOOKUP, wire.FOUND, wire.GONE, wire.PING, wire.NOTED):
        lab.breaks(header(type, length=0xFFFFFFFF, seq=1))


@vector
def statuses_of_the_wrong_sign(lab):
    for type in (wire.ERROR, wire.BYE, wire.FOUND, wire.NOTIFY):
        lab.breaks(header(type, status=1, seq=1))
        lab.breaks(header(type, status=0x7FFFFFFF, seq=1))
    for type in (wire.ACK, wire.PONG, wire.LANES, wire.FORGET, wire.NOTED, wire.DRAIN):
        lab.breaks(header(type, status=-1))


@vector
def unknown_flags_and_fields_without_meaning_are_not_looked_at(lab):
    ping = Frame(wire.PING, 1, flags=0xFF, region=1 << 63, generation=0xFFFFFFFF)
    lookup = Frame(wire.LOOKUP, 1, flags=0xFE, region=7, generation=7, status=-7, body=NAME)
    connection = lab.survives(ping, lookup)
    connection.questions = 1
    same(connection.answer_of(1)[0], lab.vault, "the ref")


# Answers.

@vector
def an_ack_of_everything_that_could_be(lab):
    for seq in (0, 1, 64, 1 << 63, (1 << 64) - 1):
        lab.breaks(Frame(wire.ACK, seq))


@vector
def an_error_for_what_was_never_asked(lab):
    for seq in (0, 1, (1 << 64) - 1):
        lab.breaks(Frame(wire.ERROR, seq, status=wire.EACCESS))


@vector
def data_for_what_was_never_asked(lab):
    for size in (0, 1, 4096, wire.MAX_PAYLOAD):
        lab.breaks(header(wire.DATA, length=size, seq=1))
    lab.breaks(header(wire.DATA, flags=wire.CHECKED, length=8, seq=1) + bytes(8))


@vector
def data_longer_than_any_may_be(lab):
    lab.breaks(header(wire.DATA, length=wire.MAX_PAYLOAD + 1, seq=1))
    lab.breaks(header(wire.DATA, flags=wire.CHECKED, length=7, seq=1))
    lab.breaks(header(wire.DATA, length=0xFFFFFFFF, seq=1))


@vector
def a_found_that_nobody_waits_for(lab):
    refs = [bytes(96), b"\xff" * 96, os.urandom(96 + 1024)]
    lab.survives(*[Frame(wire.FOUND, seq, body=body) for seq, body in enumerate(refs)],
                 Frame(wire.FOUND, (1 << 64) - 1, status=-14), Frame(wire.FOUND, 5, status=-(1 << 31)))


@vector
def a_found_with_less_than_a_ref_or_more_than_a_blob(lab):
    for size in (0, 1, 95, 96 + 1025, 4096, 4097, 65536):
        lab.breaks(Frame(wire.FOUND, 1, body=bytes(size)))
    lab.breaks(Frame(wire.FOUND, 1, status=-14, body=bytes(96 + 1025)))


@vector
def a_gone_of_garbage(lab):
    lab.survives(*[Frame(wire.GONE, region=region, body=body) for region, body in
                   ((0, bytes(96)), (1 << 63, b"\xff" * 96), (1, os.urandom(96)))])
    for size in (0, 95, 97):
        lab.breaks(Frame(wire.GONE, body=bytes(size)))


@vector
def a_gone_of_the_servers_own_region(lab):
    connection = lab.connect()
    question = connection.ask(NAME)
    while question not in connection.found:
        connection.turn()
    connection.lanes[0].send(Frame(wire.GONE, region=lab.vault.region, generation=lab.vault.generation,
                                   body=connection.found[question].body[:96]).pack())
    connection.found.clear()
    same(connection.get(lab.vault, [(0, 4)]), lab.honest.get(lab.vault, [(0, 4)]), "what is there still")


@vector
def pongs_that_nobody_asked_for(lab):
    lab.survives(*[Frame(wire.PONG, seq) for seq in (0, 1, 1 << 32, (1 << 64) - 1)] * 50)


@vector
def noted_from_a_peer_that_owes_none(lab):
    lab.breaks(Frame(wire.NOTED, 1))
    lab.breaks(Frame(wire.NOTED, (1 << 64) - 1, region=1))
    lab.breaks(Frame(wire.NOTED, 0, region=(1 << 64) - 1))


# Lookups.

@vector
def a_lookup_of_names_that_no_region_can_have(lab):
    names = [b"\0", b"vault\0", b"vault\0x", b"\xff\xfe\xfd", b"\xc3\x28", b"\xed\xa0\x80", b"../vault", b"VAULT",
             b"vaul", b"v" * 255, b"%s%n%n", b"\x1b[2J"]
    connection = lab.connect()
    for name in names:
        lab.fails(wire.Failed, wire.ENOTFOUND, connection.lookup, name)
    lab.is_up(connection)


@vector
def a_lookup_of_a_name_that_is_too_long(lab):
    for size in (0, 256, 257, 4096):
        lab.breaks(Frame(wire.LOOKUP, 1, body=b"v" * size))


@vector
def lookups_whose_numbers_repeat_and_go_back(lab):
    connection = lab.connect()
    for seq in (7, 7, 0, (1 << 64) - 1, 1, 7):
        connection.lanes[0].send(Frame(wire.LOOKUP, seq, body=NAME).pack())
        while seq not in connection.found:
            connection.turn()
        same(connection.found.pop(seq).status, 0, "each is answered")


@vector
def lookups_that_wait_up_to_the_bound_and_past_it(lab):
    connection = lab.connect()
    many = b"".join(Frame(wire.LOOKUP, seq, wire.WAIT, body=b"never").pack() for seq in range(1, 3001))
    connection.lanes[0].send(many)
    while len(connection.found) < 3000 - 1024:
        connection.turn()
    check(all(frame.status == wire.EAGAIN for frame in connection.found.values()), "refused with EAGAIN")
    same(min(connection.found), 1025, "the first that may not wait")


@vector
def a_lookup_that_waits_under_one_number_a_thousand_times(lab):
    connection = lab.connect()
    connection.lanes[0].send(Frame(wire.LOOKUP, 1, wire.WAIT, body=b"later").pack() * 1000)
    lab.is_up(connection)
    lab.server.say("open")
    while 1 not in connection.found:
        connection.turn()
    lab.is_up(connection)
    lab.server.say("close")
    while not connection.gone:
        connection.turn()


@vector
def a_forget_of_what_was_never_asked(lab):
    lab.survives(*[Frame(wire.FORGET, seq) for seq in (0, 1, 2, 1 << 40, (1 << 64) - 1)] * 20)


# Lanes, drain, bye.

@vector
def lanes_asked_for_by_the_initiator_again_and_again(lab):
    connection = lab.survives(*[Frame(wire.LANES, region=9)] * 500)
    same(connection.lanes[0].socket.getpeername()[1], lab.server.address[1], "the peer")


@vector
def drain_with_strange_numbers(lab):
    for seq in (2, 255, 1 << 32, (1 << 64) - 1):
        lab.breaks(Frame(wire.DRAIN, seq))


@vector
def drain_again_and_again(lab):
    lab.survives(*[Frame(wire.DRAIN)] * 300)


@vector
def drained_again_and_again(lab):
    connection = lab.connect()
    connection.lanes[0].send(Frame(wire.DRAIN, 1).pack() * 300)
    lab.ends(connection, wire.ECLOSED)


@vector
def bye_with_statuses_that_are_none(lab):
    for status in (-1, -38, -1000, -(1 << 31)):
        connection = lab.connect()
        connection.lanes[0].send(Frame(wire.BYE, status=status).pack())
        lab.ended(connection)


@vector
def offers_to_end_again_and_again(lab):
    connection = lab.connect()
    connection.lanes[0].send(Frame(wire.BYE, status=wire.EAGAIN).pack() * 500)
    for _ in range(500):
        frame = connection.lanes[0].read()
        same((frame.type, frame.status), (wire.BYE, wire.EBUSY), "the answer to an offer")
    lab.is_up(connection)


@vector
def no_to_an_offer_that_was_never_made(lab):
    lab.survives(*[Frame(wire.BYE, status=wire.EBUSY)] * 300)


@vector
def frames_behind_a_bye(lab):
    connection = lab.connect()
    connection.lanes[0].send(Frame(wire.BYE, status=wire.ECLOSED).pack() + lab.put().pack() + b"\xff" * 4000)
    lab.ended(connection)


# Notifications.

@vector
def a_notification_with_the_number_zero(lab):
    lab.breaks(Frame(wire.NOTIFY, 0))
    connection = lab.connect()
    put = lab.put(data=b"zero", ref=lab.desk, flags=wire.NOTIFIED | wire.ACK_WANTED, notification=(0, 5))
    same(lab.answers(connection, put), [(wire.ACK, 0)], "a put that belongs to none")


@vector
def notifications_far_ahead(lab):
    for seq in (4097, 1 << 32, (1 << 63), (1 << 64) - 1):
        lab.breaks(Frame(wire.NOTIFY, seq))
        lab.breaks(lab.put(ref=lab.desk, flags=wire.NOTIFIED, notification=(seq, 1)))


@vector
def notifications_with_more_bytes_than_they_may(lab):
    lab.breaks(Frame(wire.NOTIFY, 1, body=bytes(1025)))
    lab.breaks(header(wire.NOTIFY, seq=1, length=(1 << 32) - 1))
    lab.breaks(Frame(wire.NOTIFY, 1, body=b"why", status=wire.ECANCELED))


@vector
def a_notification_that_ends_in_its_bytes(lab):
    connection = lab.connect()
    put = lab.put(ref=lab.desk, flags=wire.NOTIFIED | wire.ACK_WANTED, notification=(1, 51))
    same(lab.answers(connection, put), [(wire.ACK, 0)], "its put")
    connection.lanes[0].send(Frame(wire.NOTIFY, 1, region=51, body=bytes(1000)).pack()[:-1])
    connection.drop()
    same(lab.server.wait("notify"), ["51", str(wire.EPEERLOST)], "what the application is told")


@vector
def a_notification_twice_is_told_once(lab):
    connection = lab.connect()
    connection.lanes[0].send(Frame(wire.NOTIFY, 1, region=11, body=b"once").pack()
                                   + Frame(wire.NOTIFY, 1, region=11, body=b"twice").pack() * 2
                                   + Frame(wire.NOTIFY, 2, region=12).pack())
    lab.is_up(connection)
    same([lab.server.wait("notify") for _ in range(2)], [["11", "0", "once"], ["12", "0"]], "what the application is told")
    lab.server.report()
    check(all(line[0] != "notify" for line in lab.server.said), "and nothing more")


@vector
def a_notification_whose_count_changes(lab):
    connection = lab.connect()
    put = lab.put(ref=lab.desk, flags=wire.NOTIFIED | wire.ACK_WANTED, notification=(1, 51))
    connection.lanes[0].send(connection.counted((1, 51), (1 << 64) - 1, b"never").pack())
    same(lab.answers(connection, put), [(wire.ACK, 0)], "its put")
    connection.lanes[0].send(connection.counted((1, 51), 1, b"at once").pack()
                             + connection.counted((1, 51), 1, b"twice").pack())
    same(lab.server.wait("notify"), ["51", "0", "at", "once"], "what the application is told")
    connection.lanes[0].send(connection.counted((2, 52), (1 << 63), b"never").pack())
    lab.is_up(connection)
    connection.drop()
    same(lab.server.wait("notify"), ["52", str(wire.EPEERLOST)], "one that never had so many")


@vector
def notifications_out_of_order_and_with_gaps(lab):
    lab.survives(*[Frame(wire.NOTIFY, seq, region=seq) for seq in (4096, 2, 4000, 3)])
    same([lab.server.wait("notify")[0] for _ in range(4)], ["4096", "2", "4000", "3"], "each is told")


@vector
def a_notification_that_failed_and_then_did_not(lab):
    connection = lab.survives(Frame(wire.NOTIFY, 1, region=21, status=wire.ECANCELED), Frame(wire.NOTIFY, 1, region=21))
    same(lab.server.wait("notify"), ["21", str(wire.ECANCELED)], "what the application is told")
    late = lab.put(flags=wire.NOTIFIED | wire.ACK_WANTED, notification=(1, 21))
    same(lab.answers(connection, late), [(wire.ERROR, wire.ECANCELED)], "a put that comes too late")
    check(all(line[0] != "notify" for line in lab.server.said), "and nothing more")


@vector
def a_put_that_belongs_to_a_notification_that_is_over(lab):
    connection = lab.survives(Frame(wire.NOTIFY, 1, region=31))
    late = lab.put(flags=wire.NOTIFIED | wire.ACK_WANTED, notification=(1, 99))
    same(lab.answers(connection, late), [(wire.ERROR, wire.ECANCELED)], "a put that comes too late")
    lab.server.wait("notify")


@vector
def a_notification_that_changes_its_key(lab):
    connection = lab.connect()
    puts = [lab.put(seq, ref=lab.desk, flags=wire.NOTIFIED | wire.ACK_WANTED, notification=(1, key))
            for seq, key in ((1, 41), (2, 42))]
    same(lab.answers(connection, *puts), [(wire.ACK, 0)] * 2, "both puts")
    connection.lanes[0].send(Frame(wire.NOTIFY, 1, region=43).pack())
    same(lab.server.wait("notify"), ["41", "0"], "the key with which it began")


@vector
def a_flood_of_refused_puts_begins_no_notification(lab):
    connection = lab.connect()
    stale = lab.vault._replace(key=lab.vault.key ^ 1)
    for seq in range(1, 301):
        put = lab.put(seq, ref=stale, flags=wire.NOTIFIED | wire.ACK_WANTED, notification=(seq, 1))
        same(lab.answers(connection, put), [(wire.ERROR, wire.ESTALE)], "a put that is refused")
    lab.is_up(connection)


@vector
def random_frames_of_every_type(lab):
    for type in list(range(1, 17)) * 8:
        connection = lab.connect()
        fields = struct.unpack("<BHQQIi", os.urandom(27))
        body = os.urandom(fields[1] % 300)
        connection.lanes[0].send(header(type, fields[0], fields[1], len(body), *fields[2:]) + body)
        connection.lanes[0].socket.shutdown(1)
        connection.lanes[0].socket.settimeout(5)
        try:
            while connection.lanes[0].socket.recv(1 << 16):
                pass
        except ConnectionError:
            pass
    lab.server.report()
    lab.server.said.clear()
