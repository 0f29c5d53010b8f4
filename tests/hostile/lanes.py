# SPDX-License-Identifier: Apache-2.0
"""Lanes that join connections which are not theirs, against an engine that has a key."""

import os

import initiator as wire
from initiator import ACK, EAUTH, EPEERLOST, EPROTO, LANE, LANE_CLOSED, LANE_READY, Frame, Initiator
from lab import Program, check, hears_closed, raw_message, same, vector

KEYED = True


def words(connection, number=1, lane_key=None, token=None, **fields):
    """A lane message of that connection, with its proof."""
    fields = {"id": connection.id, "inc": connection.incarnation, "seq": connection.seq, "non": os.urandom(16),
              "lane": number, **fields}
    start = wire.message(LANE, fields)
    if lane_key is None:
        lane_key = wire.lane_key_of(connection.key, connection.hello, connection.reply)
    return start + wire.proof_of_lane(lane_key, token or connection.token, start)


def refused(lab, data, status=EAUTH):
    lane = lab.lane()
    lane.send(data)
    lab.refused(status, wire.read_message, lane.socket, LANE_READY)
    lab.hung_up(lane)


def joins(lab, data):
    lane = lab.lane()
    lane.send(data)
    wire.read_message(lane.socket, LANE_READY)
    return lane


@vector
def a_lane_whose_proof_is_wrong_in_every_byte(lab):
    connection = lab.connect()
    for at in range(1, 33):
        data = bytearray(words(connection))
        data[-at] ^= 1 << at % 8
        refused(lab, bytes(data))
    lab.is_up(connection)


@vector
def a_lane_flipped_in_every_byte_of_its_map(lab):
    connection = lab.connect()
    good = words(connection)
    for at in range(16, len(good) - 32):
        data = bytearray(good)
        data[at] ^= 1
        lane = lab.lane()
        lane.send(bytes(data))
        try:
            wire.read_message(lane.socket, LANE_READY)
        except wire.Refused as why:
            same(why.status in (EAUTH, EPROTO), True, f"byte {at}: {why.status}")
        else:
            raise AssertionError(f"taken with byte {at} flipped")
    lab.is_up(connection)


@vector
def a_lane_without_a_proof(lab):
    connection = lab.connect()
    good = words(connection)
    refused(lab, good[:-32] + bytes(32))
    body = good[16:-32]
    lab.refuses(raw_message(LANE, body, proof=0), None)


@vector
def a_lane_signed_with_other_keys(lab):
    connection = lab.connect()
    for lane_key in (b"", lab.key, bytes(32), wire.lane_key_of(lab.key, connection.reply, connection.hello)):
        start = wire.message(LANE, {"id": connection.id, "inc": connection.incarnation, "seq": 1, "non": bytes(16),
                                    "lane": 1})
        refused(lab, start + wire.proof_of_lane(lane_key, connection.token, start))
    lab.is_up(connection)


@vector
def a_lane_with_another_token(lab):
    connection, other = lab.connect(), lab.connect()
    for token in (bytes(16), b"\xff" * 16, other.token):
        refused(lab, words(connection, token=token))
    lab.is_up(connection)


@vector
def a_lane_replayed_while_the_first_is_there(lab):
    connection = lab.connect()
    data = words(connection)
    joins(lab, data)
    refused(lab, data)
    lab.is_up(connection)


@vector
def a_lane_replayed_on_the_next_connection(lab):
    first = lab.connect()
    data = words(first)
    joins(lab, data)
    first.close()
    refused(lab, data)
    second = lab.connect(id=first.id, incarnation=first.incarnation, seq=2)
    refused(lab, data)
    refused(lab, words(second, token=first.token))
    joins(lab, words(second))


@vector
def a_lane_of_another_connection(lab):
    first, second = lab.connect(), lab.connect()
    refused(lab, words(first, id=second.id))
    refused(lab, words(first, id=second.id, inc=second.incarnation))
    refused(lab, words(first, token=second.token))
    key = wire.lane_key_of(lab.key, second.hello, second.reply)
    refused(lab, words(first, lane_key=key))
    lab.is_up(first)
    lab.is_up(second)


@vector
def a_lane_of_nobody(lab):
    connection = lab.connect()
    refused(lab, words(connection, id=os.urandom(16)))
    refused(lab, words(connection, id=connection.peer_id, inc=connection.peer_incarnation))
    refused(lab, words(connection, inc=connection.incarnation + 1))
    refused(lab, words(connection, seq=2))
    lab.is_up(connection)


@vector
def what_the_log_says_of_lanes_that_are_not_taken(lab):
    for key in (lab.key, None):
        server = Program(lab.server.process.args[0], *([key] if key else []), HOSTILE_LOG="1")

        def says(data, words):
            lane = wire.Lane(server.address)
            lab.opened.append(lane.socket.close)
            lane.send(data)
            lab.refused(EAUTH, wire.read_message, lane.socket, LANE_READY)
            logged = " ".join(server.wait("log"))
            check(logged.endswith(words), logged)
            check("key" not in logged, logged)

        try:
            connection = Initiator(server.address, key).open()
            lab.opened.append(connection.drop)
            says(words(connection, id=os.urandom(16)), "a lane of a connection that is not here")
            says(words(connection, seq=2), "a lane of a connection that is not here")
            says(words(connection, token=bytes(16)), "the proof of the lane does not hold")
            says(words(connection, 17), "no lane has that number")
            says(words(connection, 255), "not the transport of that lane")
            taken = wire.Lane(server.address)
            lab.opened.append(taken.socket.close)
            taken.send(words(connection))
            wire.read_message(taken.socket, LANE_READY)
            says(words(connection), "that connection has a lane of that number")
            connection.drop()
        finally:
            same(server.stop(), 0, "how the server ended")


@vector
def lanes_with_numbers_that_are_none(lab):
    connection = lab.connect()
    refused(lab, words(connection, 0), EPROTO)
    for number in (17, 18, 254, 255, 1 << 16, 0xFFFFFFFF):
        refused(lab, words(connection, number))
    refused(lab, words(connection, 1 << 32), EPROTO)
    lab.is_up(connection)


@vector
def as_many_lanes_as_there_may_be_and_one_more(lab):
    connection = lab.connect()
    lanes = [joins(lab, words(connection, number)) for number in range(16, 0, -1)]
    for number in (1, 16, 17):
        refused(lab, words(connection, number))
    for lane in lanes:
        lane.send(lab.put(ref=lab.desk).pack())
        same(lane.read().type, ACK, "the answer")


@vector
def a_lane_before_its_connection_is_ready(lab):
    attempt = lab.dial()
    attempt.greet()
    attempt.token = bytes(16)
    refused(lab, words(attempt))
    attempt.prove()
    lab.is_up(attempt)


@vector
def a_lane_on_the_connection_itself(lab):
    attempt = lab.dial()
    attempt.greet()
    attempt.token = bytes(16)
    attempt.lanes[0].send(words(attempt))
    lab.refused(EPROTO, wire.read_message, attempt.lanes[0].socket, LANE_READY)


@vector
def frames_in_the_breath_of_a_lane_that_is_refused(lab):
    connection = lab.connect()
    lane = lab.lane()
    lane.send(words(connection, token=bytes(16)) + lab.put().pack() * 100)
    lab.refused(EAUTH, wire.read_message, lane.socket, LANE_READY)
    lab.is_up(connection)


@vector
def every_type_that_may_not_run_on_a_data_lane(lab):
    for type in range(6, 17):
        connection = lab.connect()
        lane = joins(lab, words(connection))
        lane.send(Frame(type, 1, status=-9 if type in (wire.FOUND, wire.BYE) else 0,
                        body=b"vault" if type == wire.LOOKUP else bytes(96) if type == wire.GONE else b"").pack())
        lab.ends(connection)


@vector
def a_lane_that_says_hello_again(lab):
    connection = lab.connect()
    data = words(connection)
    joins(lab, data).send(data)
    lab.ends(connection)


@vector
def many_lanes_that_never_finish_their_words(lab):
    connection = lab.connect()
    data = words(connection)
    for size in (1, 15, 16, 17, 60, len(data) - 1):
        lab.lane().send(data[:size])
    joins(lab, data)
    lab.is_up(connection)


# ---- a lane that ends alone

def close_lane(connection, lane, number=1):
    """Our end, as one closes it who keeps the protocol."""
    lane.socket.close()
    connection.control.send(Frame(LANE_CLOSED, number).pack())
    hears_closed(connection, number)


@vector
def a_lane_that_ends_and_comes_back(lab):
    connection = lab.understands()
    for generation in range(4):
        lane = joins(lab, words(connection, gen=generation) if generation else words(connection))
        lane.send(lab.put(ref=lab.desk).pack())
        same(lane.read().type, ACK, "the answer")
        close_lane(connection, lane)
    lab.is_up(connection)


@vector
def a_lane_that_was_there_before_is_replayed(lab):
    connection = lab.understands()
    recorded = [words(connection), words(connection, gen=3)]
    for data in recorded:
        lane = joins(lab, data)
        close_lane(connection, lane)
        for old in recorded[:recorded.index(data) + 1]:
            refused(lab, old)
    refused(lab, words(connection))
    refused(lab, words(connection, gen=2))
    joins(lab, words(connection, gen=4))
    lab.is_up(connection)


@vector
def the_end_of_a_lane_of_one_who_does_not_say_that_it_is_closed(lab):
    """What was sent by it could still land: the connection ends, soon."""
    connection = lab.understands()
    joins(lab, words(connection)).socket.close()
    hears_closed(connection, 1)
    lab.ends(connection, EPEERLOST)


@vector
def the_end_of_a_lane_of_one_who_knows_no_such_end(lab):
    connection = lab.connect()
    joins(lab, words(connection)).socket.close()
    lab.ends(connection, EPEERLOST)


@vector
def a_lane_closed_by_one_who_knows_no_such_end(lab):
    connection = lab.connect()
    joins(lab, words(connection))
    connection.control.send(Frame(LANE_CLOSED, 1).pack())
    lab.ends(connection)


@vector
def the_control_channel_closed_alone(lab):
    connection = lab.understands()
    connection.control.send(Frame(LANE_CLOSED, 0).pack())
    lab.ends(connection)


@vector
def lanes_closed_that_are_not_there(lab):
    """Each is answered, since what is not here is closed here."""
    connection = lab.understands()
    for number in (1, 16, 17, 255, 1 << 32, (1 << 64) - 1):
        connection.control.send(Frame(LANE_CLOSED, number).pack())
        hears_closed(connection, number)
    lab.is_up(connection)


@vector
def a_lane_closed_by_a_word_alone(lab):
    """Its socket is open at our end: the server closes its own, and says so."""
    connection = lab.understands()
    lane = joins(lab, words(connection))
    connection.control.send(Frame(LANE_CLOSED, 1).pack())
    hears_closed(connection, 1)
    lab.hung_up(lane)
    lane.send(lab.put(ref=lab.desk).pack())
    lab.is_up(connection)


@vector
def a_lane_closed_with_more_in_the_frame(lab):
    for fields in ({"status": -9}, {"body": bytes(1)}):
        connection = lab.understands()
        joins(lab, words(connection))
        connection.control.send(Frame(LANE_CLOSED, 1, **fields).pack())
        lab.ends(connection)


@vector
def a_lane_with_a_generation_that_is_none(lab):
    connection = lab.understands()
    refused(lab, words(connection, gen=0), EPROTO)
    joins(lab, words(connection, gen=(1 << 64) - 1))
    lab.is_up(connection)


# Paths beside the lanes, and the attached lane. The server has no fabric.

ATTACHED_LANE = 254

def signals(lab):
    """A connection of one who knows of such paths, and says that of one."""
    connection = lab.dial()
    connection.features = wire.ATTACHED_PATHS
    return connection.open()


def signal(connection, attempt, body=b"offer", **fields):
    connection.paths.setdefault(attempt, [])
    fields = {"region": 256, "generation": 4, **fields}
    connection.control.send(Frame(wire.PATH_SIGNAL, attempt, body=body, **fields).pack())


def hears_no_path(connection, attempt, status=wire.EUNSUPPORTED):
    while not connection.paths[attempt]:
        connection.turn()
    same(connection.paths[attempt], [status], f"the end of path {attempt}")


@vector
def a_path_by_a_fabric_that_is_not_there(lab):
    """Each attempt is closed, once, whatever more is said of it."""
    connection = signals(lab)
    for attempt in (1, 2, 7, 1 << 32, (1 << 64) - 1):
        signal(connection, attempt)
        hears_no_path(connection, attempt)
        signal(connection, attempt, bytes(1024))
        signal(connection, attempt, b"", status=EPEERLOST)
        signal(connection, 1)
    lab.is_up(connection)
    same(sum(len(ends) for ends in connection.paths.values()), 5, "ends")


@vector
def paths_of_many_numbers(lab):
    """Those that have one are answered, whatever the order; of others there are none."""
    connection = signals(lab)
    for attempt, number in enumerate((271, 256, 263), 1):
        signal(connection, attempt, region=number)
        hears_no_path(connection, attempt)
    lab.is_up(connection)
    for number in (0, 1, 255, 272, (1 << 64) - 1):
        connection = signals(lab)
        signal(connection, 1, region=number)
        lab.ends(connection)


@vector
def a_path_closed_that_was_never_begun(lab):
    connection = signals(lab)
    signal(connection, 3, b"", status=EPEERLOST)
    hears_no_path(connection, 3, EPEERLOST)
    lab.is_up(connection)


@vector
def a_path_by_one_who_knows_of_none(lab):
    for number in (256, ATTACHED_LANE):
        connection = lab.connect()
        signal(connection, 1, region=number)
        lab.ends(connection)


@vector
def the_attached_lane_by_a_fabric_that_is_not_there(lab):
    """Its attempts are told from those of paths."""
    connection = signals(lab)
    signal(connection, 7)
    hears_no_path(connection, 7)
    for attempt in (1, 2, 5, 1 << 32):
        signal(connection, attempt, region=ATTACHED_LANE)
        hears_no_path(connection, attempt)
        signal(connection, attempt, bytes(1024), region=ATTACHED_LANE)
        signal(connection, attempt, b"", region=ATTACHED_LANE, status=EPEERLOST)
        signal(connection, 1, region=ATTACHED_LANE)
    lab.is_up(connection)
    same(sum(len(ends) for ends in connection.paths.values()), 5, "ends")


@vector
def frames_moved_to_an_attached_lane_that_is_not_there(lab):
    for attempts in (0, 1, 2):
        connection = signals(lab)
        for attempt in range(1, attempts + 1):
            signal(connection, attempt, region=ATTACHED_LANE)
            hears_no_path(connection, attempt)
        connection.control.send(Frame(wire.CONTROL_SWITCH).pack())
        lab.ends(connection)


@vector
def a_signal_of_the_attached_lane_on_a_data_lane(lab):
    connection = lab.dial()
    connection.features = wire.ATTACHED_PATHS
    connection.open()
    lane = joins(lab, words(connection))
    lane.send(Frame(wire.PATH_SIGNAL, 1, region=ATTACHED_LANE, generation=4, body=b"offer").pack())
    lab.ends(connection)


@vector
def the_attached_lane_closed_as_a_data_lane(lab):
    """Nobody has begun it: there is nothing to close, and it is said so."""
    connection = lab.understands()
    connection.control.send(Frame(LANE_CLOSED, ATTACHED_LANE).pack())
    lab.is_up(connection)


@vector
def a_signal_that_is_malformed(lab):
    for fields in ({"body": b""}, {"body": bytes(1025)}, {"body": b"x", "status": -9}, {"status": 9},
                   {"attempt": 0}, {"pieces": 1}):
        connection = signals(lab)
        signal(connection, **{"attempt": 1, **fields})
        lab.ends(connection)


@vector
def a_region_let_go_of_by_one_who_was_asked_for_nothing(lab):
    for number in (0, 1, 255, 1 << 40):
        connection = signals(lab)
        connection.control.send(Frame(wire.WITHDRAWN, number, region=lab.desk.region).pack())
        lab.is_up(connection)


@vector
def a_flood_of_paths(lab):
    connection = signals(lab)
    for attempt in range(1, 5001):
        signal(connection, attempt)
        if attempt % 100 == 0:
            hears_no_path(connection, attempt)
    lab.is_up(connection)
