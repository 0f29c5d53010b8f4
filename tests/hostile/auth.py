# SPDX-License-Identifier: Apache-2.0
"""Attempts to pass for a member without the key, against an engine that has one."""

import os
import re

import initiator as wire
from initiator import EAUTH, EPROTO, HELLO, PROOF, READY, REPLY, Frame, Initiator
from lab import KEY, Program, check, raw_message, same, vector

KEYED = True
ZEROS = bytes(32)
SECRETS = (b"vault", b"sealed", b"desk", b"what only members see", b"an engine's blob", b"tcp", b"/tmp", b"127.0.0.1")


class Careless(Initiator):
    """Goes on whatever the reply's proof is, which is kept."""

    def check_proof(self, proof):
        self.proof = proof


def dial(lab, **who):
    """An attempt that has the server's reply."""
    attempt = Careless(lab.server.address, lab.key, **who)
    lab.opened.append(attempt.drop)
    attempt.greet()
    return attempt


def terms(ask=((b"vault", False),)):
    """A proof message without its proof, which asks for what only members may know."""
    return wire.message(PROOF, {"ab": 0, "seen": 0, "held": 0, "ops": 64, "sil": 0, "blob": b"", "lis": [], "tra": [],
                                "ask": [list(question) for question in ask]})


def proves_nothing(lab, attempt, proof, status=EAUTH):
    """That this proof is refused, and nothing is told before that."""
    attempt.lanes[0].send(terms() + proof)
    lab.refused(status, wire.read_message, attempt.lanes[0].socket, READY)
    lab.hung_up(attempt.lanes[0])


# Reflection.

@vector
def the_servers_proof_sent_back_to_it(lab):
    attempt = dial(lab)
    proves_nothing(lab, attempt, attempt.proof)


@vector
def the_servers_reply_sent_back_to_it(lab):
    attempt = dial(lab)
    attempt.lanes[0].send(attempt.reply + attempt.proof)
    lab.refused(EPROTO, wire.read_message, attempt.lanes[0].socket, READY)


@vector
def the_servers_reply_as_a_hello(lab):
    attempt = dial(lab)
    body = attempt.reply[16:]
    lane = lab.lane()  # its own id and incarnation: it knows itself, and wants no proof from itself
    lane.send(raw_message(HELLO, body))
    reply, fields, proof = wire.read_message(lane.socket, REPLY)
    same(proof, wire.proof_of(lab.key, 2, raw_message(HELLO, body), reply), "the proof")
    lane.send(terms() + proof)
    lab.refused(EAUTH, wire.read_message, lane.socket, READY)


@vector
def a_second_connection_as_an_oracle(lab):
    first, second = dial(lab), dial(lab)  # what the server says there answers its challenge here
    proves_nothing(lab, first, second.proof)


@vector
def a_second_connection_with_the_same_hello_as_an_oracle(lab):
    first = dial(lab)
    lane = lab.lane()
    lane.send(first.hello)  # the same challenge of ours; its own is another
    _, _, proof = wire.read_message(lane.socket, REPLY)
    proves_nothing(lab, first, proof)


@vector
def a_hello_made_of_the_servers_challenge_as_an_oracle(lab):
    first = dial(lab)
    theirs = wire.read_map(first.reply[16:])
    fields = {**wire.read_map(first.hello[16:]), "non": theirs["non"]}
    lane = lab.lane()
    lane.send(wire.message(HELLO, fields))
    _, _, proof = wire.read_message(lane.socket, REPLY)
    proves_nothing(lab, first, proof)


# Replay.

@vector
def a_whole_handshake_replayed(lab):
    member = lab.connect()
    said = [member.hello, terms(()) + wire.proof_of(lab.key, 1, member.hello, member.reply)]
    member.drop()
    lane = lab.lane()
    lane.send(said[0])
    wire.read_message(lane.socket, REPLY)
    lane.send(said[1])
    lab.refused(EAUTH, wire.read_message, lane.socket, READY)


@vector
def a_whole_handshake_replayed_in_one_breath(lab):
    member = lab.connect()
    said = member.hello + terms(()) + wire.proof_of(lab.key, 1, member.hello, member.reply)
    lane = lab.lane()
    lane.send(said + lab.get().pack())
    wire.read_message(lane.socket, REPLY)
    lab.refused(EAUTH, wire.read_message, lane.socket, READY)
    lab.is_up(member)


@vector
def a_recorded_proof_behind_another_hello(lab):
    member = lab.connect()
    recorded = wire.proof_of(lab.key, 1, member.hello, member.reply)
    for who in ({}, {"id": member.id, "incarnation": member.incarnation, "seq": 2}):
        proves_nothing(lab, dial(lab, **who), recorded)
    lab.is_up(member)


@vector
def no_two_challenges_of_the_server_are_the_same(lab):
    challenges = {wire.read_map(dial(lab).reply[16:])["non"] for _ in range(200)}
    same(len(challenges), 200, "different challenges")


# Splicing.

@vector
def the_proof_of_one_behind_the_hello_of_another(lab):
    first, second = dial(lab), dial(lab)
    proofs = [wire.proof_of(lab.key, 1, attempt.hello, attempt.reply) for attempt in (first, second)]
    proves_nothing(lab, first, proofs[1])
    proves_nothing(lab, second, proofs[0])


@vector
def a_proof_over_parts_of_two_handshakes(lab):
    first, second = dial(lab), dial(lab)
    proves_nothing(lab, first, wire.proof_of(lab.key, 1, first.hello, second.reply))
    proves_nothing(lab, second, wire.proof_of(lab.key, 1, first.hello, second.reply))


@vector
def a_proof_whose_border_between_hello_and_reply_moved(lab):
    attempt = dial(lab)
    both, at = attempt.hello + attempt.reply, len(attempt.hello)
    for border in (0, at - 1, at + 1, len(both)):
        again = dial(lab)
        both = again.hello + again.reply
        proves_nothing(lab, again, wire.proof_of(lab.key, 1, both[:border], both[border:]))


@vector
def a_proof_flipped_in_every_bit(lab):
    for bit in range(256):
        attempt = dial(lab)
        right = int.from_bytes(wire.proof_of(lab.key, 1, attempt.hello, attempt.reply), "big")
        proves_nothing(lab, attempt, (right ^ 1 << bit).to_bytes(32, "big"))


@vector
def a_proof_of_another_role_label_or_key(lab):
    for key, role, label in ((KEY, 2, b"xfer 1 proof"), (KEY, 0, b"xfer 1 proof"), (KEY, 3, b"xfer 1 proof"),
                             (KEY, 1, b"xfer 2 proof"), (KEY, 1, b""), (KEY, 1, b"xfer 1 lane"),
                             (KEY[:-1], 1, b"xfer 1 proof"), (KEY + b"x", 1, b"xfer 1 proof"),
                             (b"", 1, b"xfer 1 proof"), (ZEROS, 1, b"xfer 1 proof")):
        attempt = dial(lab)
        made = wire.mac(key, label + bytes([role]) + wire.counted(attempt.hello, attempt.reply))
        proves_nothing(lab, attempt, made)


@vector
def a_proof_by_the_key_of_lanes(lab):
    attempt = dial(lab)
    lane_key = wire.lane_key_of(lab.key, attempt.hello, attempt.reply)
    proves_nothing(lab, attempt, wire.proof_of(lane_key, 1, attempt.hello, attempt.reply))


# Downgrade.

@vector
def an_empty_proof(lab):
    for proof in (ZEROS, b"\xff" * 32):
        proves_nothing(lab, dial(lab), proof)


@vector
def a_proof_cut_to_nothing_by_its_header(lab):
    for length in (0, 1, 16, 31, 33, 64):
        attempt = dial(lab)
        body = terms()[16:]
        attempt.lanes[0].send(raw_message(PROOF, body + bytes(length), proof=length))
        lab.hung_up(attempt.lanes[0])


@vector
def a_hello_that_says_it_has_no_key(lab):
    attempt = lab.dial(key=None)
    lab.refused(EAUTH, attempt.greet)


@vector
def a_hello_that_says_so_and_goes_on_all_the_same(lab):
    lane = lab.lane()
    hello = {"id": os.urandom(16), "inc": 1, "non": bytes(16), "seq": 1, "feat": 0, "key": False, "ab": 0, "seen": 0,
             "held": 0}
    lane.send(wire.message(HELLO, hello) + terms() + ZEROS + lab.get().pack())
    lab.refused(EAUTH, wire.read_message, lane.socket, REPLY)
    lab.hung_up(lane)


@vector
def a_hello_that_does_not_say_whether_it_has_a_key(lab):
    fields = {"id": os.urandom(16), "inc": 1, "non": bytes(16), "seq": 1, "feat": 0, "ab": 0, "seen": 0, "held": 0}
    for more in ({}, {"key": 0}, {"key": "no"}, {"KEY": False}):
        lab.refuses(wire.message(HELLO, {**fields, **more}), EPROTO)


@vector
def an_older_version(lab):
    hello = wire.message(HELLO, {"id": os.urandom(16), "inc": 1, "non": bytes(16), "seq": 1, "feat": 0, "key": True,
                                 "ab": 0, "seen": 0, "held": 0})
    lab.refuses(hello[:5] + b"\0\0" + hello[7:], None)
    lab.refuses(hello[:5] + b"\0\1" + hello[7:], None)


@vector
def features_that_ask_for_no_proof(lab):
    for feat in (0, 1, (1 << 64) - 1):
        attempt = Careless(lab.server.address, lab.key)
        lab.opened.append(attempt.drop)
        attempt.greet(feat=feat, auth=False, plain=True)
        proves_nothing(lab, attempt, ZEROS)


@vector
def a_member_without_its_key_and_the_reverse(lab):
    insecure = Program(lab.server.process.args[0])
    client, member = Program(lab.client.process.args[0]), Program(*lab.client.process.args)
    try:
        told = client.ask(f"{lab.server.uri} 2000", "visit")
        same((told["found"], told["around"]), (EAUTH, 1), "without a key at one that has a key")
        told = member.ask(f"{insecure.uri} 2000", "visit")
        same((told["found"], told["around"]), (EAUTH, 1), "with a key at one that has none")
        told = member.ask(f"{lab.server.uri} 2000", "visit")
        same((told["found"], told["got"], told["put"], told["same"]), (0, 0, 0, 1), "among members")
    finally:
        same([program.stop() for program in (insecure, client, member)], [0, 0, 0], "how they ended")


@vector
def what_the_log_says_of_strangers_is_bounded(lab):
    server = Program(*lab.server.process.args, HOSTILE_LOG="1")

    def attempt():
        one = Careless(server.address, lab.key)
        one.greet()
        return one

    def logged(words):
        line = " ".join(server.wait("log"))
        check(words in line, line)
        check(re.match(r"engine [0-9a-f]{8}: ", line), line)

    try:
        # As who has another key, and checks the reply's proof.
        attempt().drop()
        logged("it may have another one")
        for number in range(30):
            one = attempt()
            one.lanes[0].send(terms() + ZEROS)
            lab.refused(EAUTH, wire.read_message, one.lanes[0].socket, READY)
            if number < 9:
                logged("was refused: handshake: the peer has another key")
        server.report()
        same([line for line in server.said if line[0] == "log"], [], "what was logged past the limit")
    finally:
        same(server.stop(), 0, "how the server ended")


# What is told before the proof.

@vector
def nothing_is_told_before_the_proof_but_what_the_page_says(lab):
    attempt = dial(lab)
    fields = wire.read_map(attempt.reply[16:])
    same(sorted(fields), ["ab", "feat", "held", "id", "inc", "key", "non", "seen", "seq"], "the keys of a reply")
    same([fields[name] for name in ("feat", "key", "ab", "seen", "held")],
         [wire.LANES_END_ALONE | wire.COUNTED_NOTIFY | wire.ATTACHED_PATHS, True, 0, 0, 0], "their values")
    for secret in SECRETS + (os.uname().nodename.encode(), lab.key):
        check(secret not in attempt.reply, f"{secret} is told to strangers")
    attempt.lanes[0].send(terms() + ZEROS)
    start = wire.receive(attempt.lanes[0].socket, 16)
    refuse = wire.receive(attempt.lanes[0].socket, int.from_bytes(start[8:12], "little"))
    same(wire.read_map(refuse), {"st": EAUTH, "retry": 0}, "the refuse")
    lab.hung_up(attempt.lanes[0])


@vector
def what_the_server_holds_is_not_told_before_the_proof(lab):
    member = lab.connect()  # a stranger uses a member's name to learn what state it is in
    attempt = dial(lab, id=member.id, incarnation=member.incarnation, seq=9)
    fields = wire.read_map(attempt.reply[16:])
    same([fields[name] for name in ("ab", "seen", "held")], [0, 0, 0], "the statement of a reply")
    proves_nothing(lab, attempt, ZEROS)
    lab.is_up(member)


@vector
def frames_before_the_proof(lab):
    for frame in (Frame(wire.LOOKUP, 1, body=b"vault"), lab.get(), lab.put(), Frame(wire.PING),
                  Frame(wire.BYE, status=-9)):
        lab.refuses(frame.pack() + bytes(32), None)
        attempt = dial(lab)
        attempt.lanes[0].send(frame.pack())
        lab.hung_up(attempt.lanes[0])


@vector
def frames_in_the_breath_of_a_wrong_proof(lab):
    attempt = dial(lab)
    attempt.lanes[0].send(terms() + ZEROS + Frame(wire.LOOKUP, 1, body=b"vault").pack() + lab.put().pack())
    lab.refused(EAUTH, wire.read_message, attempt.lanes[0].socket, READY)
    lab.hung_up(attempt.lanes[0])


@vector
def a_members_connection_is_not_ended_by_who_has_no_key(lab):
    member = lab.connect(seq=5)
    for incarnation in (member.incarnation, member.incarnation + 1):
        for seq in (1, 5, 6, (1 << 64) - 1):
            attempt = Careless(lab.server.address, lab.key, id=member.id, incarnation=incarnation, seq=seq)
            lab.opened.append(attempt.drop)
            attempt.greet(ab=(1 << 64) - 1)
            proves_nothing(lab, attempt, ZEROS)
    lab.is_up(member)


@vector
def a_member_is_not_kept_out_by_who_claims_its_id(lab):
    name = os.urandom(16)
    for incarnation in (7, 8):
        for seq in range(1, 33):
            dial(lab, id=name, incarnation=incarnation, seq=seq)
    member = lab.dial(id=name, incarnation=8)
    lab.is_up(member.open())
