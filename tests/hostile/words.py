# SPDX-License-Identifier: Apache-2.0
"""Handshakes: headers, maps and messages that nobody may send, and other protocols."""

import os
import struct

import initiator as wire
from initiator import EPROTO, EVERSION, HELLO, encode
from lab import raw_message, same, vector

TLS = bytes.fromhex("1603010200010001fc0303") + bytes(range(256)) * 2
FIELDS = {"id": b"\x11" * 16, "inc": 5, "non": bytes(16), "seq": 1, "feat": 0, "key": False, "ab": 0, "seen": 0,
          "held": 0}


def hello(**changes):
    fields = {**FIELDS, **changes}
    return encode({key: value for key, value in fields.items() if value is not None})


def with_entry(entry):
    """The map of a sound hello, and one more entry that is CBOR only by name."""
    body = hello()
    return bytes([body[0] + 1]) + body[1:] + entry


def body(lab, data, status=EPROTO):
    lab.refuses(raw_message(HELLO, data), status)


# Other protocols.

@vector
def a_tls_client_hello(lab):
    lab.refuses(TLS, None)


@vector
def an_http_request(lab):
    for text in (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", b"POST /xfer HTTP/1.0\r\nContent-Length: 9999999999\r\n\r\n",
                 b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        lab.refuses(text, None)


@vector
def an_ssh_banner(lab):
    lab.refuses(b"SSH-2.0-OpenSSH_9.6\r\n" + bytes(16), None)


@vector
def random_bytes_of_many_lengths(lab):
    for size in (16, 17, 31, 32, 33, 100, 1000, 8192, 8193, 70000):
        lab.refuses(b"\0" + os.urandom(size - 1), None)


@vector
def zeros_and_ones(lab):
    for byte in (b"\0", b"\xff", b"X"):
        lab.refuses(byte * 9000, None)


# Headers.

@vector
def a_magic_wrong_in_every_bit(lab):
    for bit in range(32):
        magic = (int.from_bytes(b"XFER", "little") ^ 1 << bit).to_bytes(4, "little")
        lab.refuses(raw_message(HELLO, hello(), magic=magic), None)


@vector
def version_ranges_that_are_none(lab):
    for versions in ((0, 0), (0, 1), (2, 1), (255, 0), (255, 1)):
        lab.refuses(raw_message(HELLO, hello(), versions=versions), None)


@vector
def versions_to_come(lab):
    for versions in ((2, 2), (2, 255), (255, 255)):
        lab.refuses(raw_message(HELLO, b"", versions=versions, length=1 << 31), EVERSION)
        lab.refuses(raw_message(200, b"", versions=versions, zero=7), EVERSION)


@vector
def kinds_that_are_none(lab):
    for kind in (0, 8, 9, 127, 255):
        lab.refuses(raw_message(kind, hello()), None)


@vector
def kinds_out_of_turn_come_first(lab):
    for kind in (wire.REPLY, wire.PROOF, wire.READY, wire.LANE_READY):
        proof = wire.PROOF_LENGTH[kind]
        fields = {**FIELDS, "ops": 1, "sil": 0, "blob": b"", "lis": [], "tra": [], "ask": [], "tok": bytes(16),
                  "lane": 1}
        lab.refuses(raw_message(kind, encode(fields) + bytes(proof), proof=proof), EPROTO)


@vector
def a_refuse_as_the_first_word(lab):
    lab.refuses(raw_message(wire.REFUSE, encode({"st": -25, "retry": 0})), None)


@vector
def lengths_of_the_proof_that_are_wrong(lab):
    for kind, proof in ((HELLO, 1), (HELLO, 32), (HELLO, 255), (wire.LANE, 0), (wire.LANE, 31), (wire.LANE, 33)):
        lab.refuses(raw_message(kind, hello() + bytes(proof), proof=proof), None)


@vector
def words_in_the_header_that_should_be_zero(lab):
    for zero in (1, 1 << 31, 0xFFFFFFFF):
        lab.refuses(raw_message(HELLO, hello(), zero=zero), None)


@vector
def messages_too_long_or_empty(lab):
    for length in (0, 8177, 8192, 65536, 0x7FFFFFFF, 0xFFFFFFFF):
        lab.refuses(raw_message(HELLO, hello(), length=length), None)
    for length in (0, 32):
        lab.refuses(raw_message(wire.LANE, bytes(32), proof=32, length=length), None)


@vector
def the_longest_message_there_may_be(lab):
    filler = 8176 - len(hello()) - len(b"\x61z\x59\x00\x00")
    data = with_entry(b"\x61z\x59" + struct.pack(">H", filler) + bytes(filler))
    lane = lab.lane()
    lane.send(raw_message(HELLO, data))
    same(len(data), 8176, "bytes behind the header")
    wire.read_message(lane.socket, wire.REPLY)


# CBOR.

@vector
def maps_nested_deeply(lab):
    for first in (b"\x81", b"\xa1\x61a", b"\x82\x01"):
        for depth in (4, 100, 2000):
            body(lab, with_entry(b"\x61z" + first * depth + b"\x01"))


@vector
def the_deepest_map_there_may_be(lab):
    lane = lab.lane()
    lane.send(raw_message(HELLO, with_entry(b"\x61z\x81\x81\x81\x01")))
    wire.read_message(lane.socket, wire.REPLY)


@vector
def counts_larger_than_the_message(lab):
    for major in (2, 3, 4, 5):
        for count in (100, 1 << 16, 0xFFFFFFFF, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
            body(lab, with_entry(b"\x61z" + wire.head(major, count)))
            body(lab, wire.head(major, count))


@vector
def a_map_that_ends_in_the_middle(lab):
    whole = hello()
    for size in range(1, len(whole)):
        body(lab, whole[:size])


@vector
def bytes_behind_the_map(lab):
    for tail in (b"\0", b"\xf6", hello(), b"\xff"):
        body(lab, hello() + tail)


@vector
def a_key_that_stands_twice(lab):
    for key in ("id", "key", "seq"):
        body(lab, with_entry(encode(key) + encode(FIELDS[key])))


@vector
def lengths_that_are_indefinite(lab):
    for item in (b"\xbf\xff", b"\x9f\xff", b"\x5f\x41a\xff", b"\x7f\x61a\xff", b"\x9f" * 100):
        body(lab, with_entry(b"\x61z" + item))
    body(lab, b"\xbf" + hello()[1:] + b"\xff")


@vector
def tags_and_simple_values_that_are_none(lab):
    for item in (b"\xc0\x61a", b"\xd9\xd9\xf7\x01", b"\xdb" + b"\xff" * 8 + b"\x01", b"\xf7", b"\xe0", b"\xf8\x20",
                 b"\xf8\xff", b"\xfc", b"\xfd", b"\xfe", b"\xff"):
        body(lab, with_entry(b"\x61z" + item))


@vector
def keys_that_are_no_text(lab):
    for key in (b"\x01", b"\x41a", b"\xf5", b"\x80", b"\xa0", b"\x20", b"\xf6"):
        body(lab, with_entry(key + b"\x01"))


@vector
def what_is_no_map(lab):
    for item in (b"\x01", b"\x80", b"\x40", b"\x60", b"\xf6", b"\xf5", b"\xfb" + bytes(8)):
        body(lab, item)


@vector
def numbers_longer_than_needed_are_taken(lab):
    data = hello().replace(b"\x63seq\x01", b"\x63seq\x1b" + bytes(7) + b"\x01")
    lane = lab.lane()
    lane.send(raw_message(HELLO, data))
    wire.read_message(lane.socket, wire.REPLY)


@vector
def every_key_left_out(lab):
    for key in FIELDS:
        body(lab, hello(**{key: None}))


@vector
def every_key_of_another_type(lab):
    for key, right in FIELDS.items():
        for value in (1, -1, b"x", "x", True, [], {}, 1 << 63):
            both_numbers = type(right) is type(value) is int and value > 0
            if not both_numbers and not (key == "key" and value is True):
                body(lab, hello(**{key: value}))
    body(lab, hello(key=True), wire.EAUTH)


@vector
def ids_and_nonces_of_other_lengths(lab):
    for size in (0, 1, 15, 17, 255, 1000):
        body(lab, hello(id=bytes(size)))
        body(lab, hello(non=bytes(size)))


@vector
def numbers_at_their_edges(lab):
    body(lab, hello(seq=0))
    for fields in ({"seq": (1 << 64) - 1}, {"inc": 0}, {"inc": (1 << 64) - 1}, {"feat": (1 << 64) - 1},
                   {"ab": (1 << 64) - 1, "seen": (1 << 64) - 1, "held": (1 << 64) - 1}):
        attempt = lab.dial(id=os.urandom(16))
        attempt.seq = fields.get("seq", 1)
        attempt.greet(**fields)
        attempt.prove(**{key: value for key, value in fields.items() if key in ("ab", "seen", "held")})
        lab.is_up(attempt)
        attempt.drop()


@vector
def features_that_must_be_understood_and_are_not(lab):
    for need in (["new"], ["id", "new"], ["x" * 255], ["ID"], ["ids"]):
        body(lab, hello(need=need), EVERSION)


@vector
def a_need_that_is_malformed(lab):
    for need in (["id"] * 17, [""], ["a b"], ["x" * 256], ["\x7f"], ["\u00e9"], [1], [b"id"], {}, "id", [["id"]]):
        body(lab, hello(need=need))


# The proof message.

def proof(lab, status, **fields):
    attempt = lab.dial()
    attempt.greet()
    lab.refused(status, attempt.prove, **fields)


@vector
def too_many_questions(lab):
    proof(lab, EPROTO, ask=[[b"vault", False]] * 9)


@vector
def questions_that_are_none(lab):
    for ask in ([b"vault"], [[b"vault"]], [[b"vault", False, 1]], [["vault", False]], [[b"vault", 1]], [[b"", False]],
                [[b"v" * 256, False]], [[]], [{}], [7]):
        attempt = lab.dial()
        attempt.greet()
        start = wire.message(wire.PROOF, {**attempt.statement, "ops": 64, "sil": 0, "blob": b"", "lis": [], "tra": [],
                                          "ask": ask})
        attempt.lanes[0].send(start + bytes(32))
        lab.refused(EPROTO, wire.read_message, attempt.lanes[0].socket, wire.READY)


@vector
def terms_out_of_bounds(lab):
    for fields in ({"blob": bytes(1025)}, {"lis": ["tcp://h:1"] * 9}, {"lis": ["x" * 256]}, {"lis": [""]},
                   {"lis": ["tcp://h :1"]}, {"tra": ["t"] * 17}, {"tra": ["t" * 33]}, {"ops": 0}, {"ops": 1 << 32},
                   {"sil": 1 << 32}, {"ops": -1}, {"blob": "text"}):
        proof(lab, EPROTO, **fields)


@vector
def addresses_that_cannot_be_dialed_are_taken_and_do_no_harm(lab):
    attempt = lab.dial()
    attempt.greet()
    attempt.prove(lis=["tcp://0.0.0.0:0", "x", "unix:///etc/passwd", "tcp://[::]:99999", "%n%s%n"], ops=0xFFFFFFFF)
    lab.is_up(attempt)


@vector
def a_second_hello_in_place_of_a_proof(lab):
    attempt = lab.dial()
    attempt.greet()
    attempt.lanes[0].send(attempt.hello)
    lab.refused(EPROTO, wire.read_message, attempt.lanes[0].socket, wire.READY)


@vector
def a_second_proof_in_place_of_frames(lab):
    connection = lab.connect()
    connection.lanes[0].send(wire.message(wire.PROOF, {"ab": 0}) + bytes(32))
    lab.ends(connection)


@vector
def a_hello_and_its_proof_in_one_breath(lab):
    lane = lab.lane()  # without a key the proof is known beforehand
    terms = {"ops": 64, "sil": 0, "blob": b"", "lis": [], "tra": [], "ask": [[b"vault", False]]}
    statement = {"ab": 0, "seen": 0, "held": 0}
    lane.send(raw_message(HELLO, hello(id=os.urandom(16)))
              + wire.message(wire.PROOF, {**statement, **terms}) + bytes(32) + lab.put(ref=lab.desk).pack())
    wire.read_message(lane.socket, wire.REPLY)
    wire.read_message(lane.socket, wire.READY)
    same({lane.read().type for _ in range(2)}, {wire.FOUND, wire.ACK}, "what follows ready")
