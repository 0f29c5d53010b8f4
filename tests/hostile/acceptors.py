# SPDX-License-Identifier: Apache-2.0
"""Hostile acceptors, against an engine of the library that dials them, looks up, gets and puts."""

import os
import socket
import struct

import initiator as wire
from acceptor import LIMIT, OK, Acceptor, visit, with_steps
from initiator import EAUTH, EIDENTITY, EPEERLOST, EPROTO, EVERSION, Frame
from lab import SOON, check, raw_message, reset, same, vector

ETIMEDOUT, ESTALE, ECHECKSUM = -18, wire.ESTALE, wire.ECHECKSUM


def broken(lab, identity="-", found=ETIMEDOUT, limit=None, patient=0, **steps):
    """One with whom no connection becomes ready. Where its answer ends the visit, the limit is against hanging alone."""
    limit = limit or (150 if found == ETIMEDOUT else 3000)
    return visit(lab, with_steps(lab, **steps), limit, found, identity=identity, patient=patient)


@vector
def an_acceptor_that_is_honest(lab):
    visit(lab, Acceptor(lab), 3000)


# The handshake.

@vector
def an_acceptor_that_never_answers(lab):
    told = broken(lab, greet=lambda self, fields: self.over.wait(8))
    check(told["took"] >= 140, "the deadline comes no earlier")


@vector
def an_acceptor_that_closes_at_each_stage(lab):
    broken(lab, visit=lambda self: None)
    broken(lab, visit=lambda self: reset(self.sock))
    broken(lab, greet=lambda self, fields: self.sock.close())
    broken(lab, welcome=lambda self: self.sock.close())
    broken(lab, tell=lambda self, number, name: self.sock.close())
    broken(lab, tell=lambda self, number, name: reset(self.sock))


@vector
def an_acceptor_that_resets_whatever_was_ready(lab):
    acceptor = with_steps(lab, tell=lambda self, number, name: reset(self.sock))
    visit(lab, acceptor, 300, ETIMEDOUT)
    check(2 <= acceptor.visits <= 10, f"dialed {acceptor.visits} times in 300 ms")


@vector
def an_acceptor_that_speaks_another_protocol(lab):
    for words in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x46" + bytes(32), os.urandom(5000),
                  b"\0" * 5000):
        broken(lab, greet=lambda self, fields, words=words: self.say(words))


@vector
def a_reply_cut_at_many_places(lab):
    def cut(self, fields):
        reply = wire.message(wire.REPLY, {"id": self.id, "inc": 1, "non": bytes(16), "seq": fields["seq"], "feat": 0,
                                          "key": False, "ab": 0, "seen": 0, "held": 0}) + bytes(32)
        self.say(reply[:self.visits * 9 % len(reply)])
        self.sock.close()
    broken(lab, greet=cut, limit=500)


@vector
def a_reply_of_an_engine_of_another_version(lab):
    broken(lab, greet=lambda self, fields: self.say(raw_message(wire.REPLY, b"", versions=(2, 3), length=99)),
           found=EVERSION)


@vector
def replies_that_are_malformed(lab):
    for changes in ({"id": bytes(15)}, {"seq": 0}, {"seq": 1 << 63}, {"key": 0}, {"inc": -1}, {"new": [[[[1]]]]},
                    {"need": [""]}):
        broken(lab, limit=100, greet=lambda self, fields, changes=changes: Acceptor.greet(self, fields, **changes))
    broken(lab, greet=lambda self, fields: Acceptor.greet(self, fields, need=["new"]), found=EVERSION)


@vector
def a_reply_that_declares_too_much(lab):
    for length in (8177, 0x7FFFFFFF, 0xFFFFFFFF, 0, 32):
        broken(lab, limit=100, greet=lambda self, fields, length=length: self.say(
            raw_message(wire.REPLY, bytes(64), proof=32, length=length)))


@vector
def a_reply_with_a_proof_where_there_is_no_key(lab):
    broken(lab, greet=lambda self, fields: Acceptor.greet(self, fields, proof=b"\x01" * 32), found=EAUTH)
    broken(lab, greet=lambda self, fields: Acceptor.greet(self, fields, key=True), found=EAUTH)


@vector
def an_acceptor_that_is_another_than_expected(lab):
    broken(lab, identity=os.urandom(16).hex(), found=EIDENTITY)


@vector
def an_acceptor_that_says_it_is_the_one_who_dials(lab):
    def mirror(self, fields):
        Acceptor.greet(self, fields, id=fields["id"], inc=fields["inc"] ^ 1)
    broken(lab, greet=mirror, found=(EIDENTITY, ETIMEDOUT), limit=150)


@vector
def refusals_of_every_kind(lab):
    def refuse(status, retry=0xFFFFFFFF):
        return lambda self, fields: self.say(wire.message(wire.REFUSE, {"st": status, "retry": retry}))
    for status in (EAUTH, EIDENTITY, EVERSION):
        broken(lab, greet=refuse(status, retry=0), found=status)
        # The client connects, then looks up: what comes behind the refusal waits for the next attempt.
        broken(lab, greet=refuse(status), found=(status, ETIMEDOUT), limit=150)
    for status in (-1, -32, -1000, -(1 << 31) + 1, 0, 5):
        broken(lab, limit=100, greet=refuse(status))


@vector
def readies_that_are_malformed(lab):
    for changes in ({"ops": 0}, {"tok": bytes(15)}, {"blob": bytes(1025)}, {"lis": ["a b"]}, {"lis": ["x"] * 9},
                    {"sil": -1}, {"tra": [1]}):
        told = broken(lab, limit=100, patient=5000,
                      welcome=lambda self, changes=changes: Acceptor.welcome(self, **changes))
        same(told["connected"], EPROTO, f"the status of the first attempt, with {changes}")


@vector
def a_ready_in_place_of_a_reply_and_twice(lab):
    broken(lab, greet=lambda self, fields: self.welcome())

    def twice(self):
        Acceptor.welcome(self)
        Acceptor.welcome(self)
    broken(lab, welcome=twice)


@vector
def a_ready_while_our_proof_is_withheld(lab):
    """The engine is connected to an earlier life of that one, which it probes first, and which is silent."""
    earlier = with_steps(lab, serve=lambda self, frame: None if self.silent else Acceptor.serve(self, frame))
    earlier.silent = False
    same(lab.client.ask(f"{earlier.uri} 3000 - 0", "visit")["found"], OK, "a visit of the earlier life")
    earlier.silent = True
    earlier.listener.shutdown(socket.SHUT_RDWR)  # and takes nobody any more

    def greet(self, fields):
        Acceptor.greet(self, fields)
        if self.visits == 1:
            self.welcome()
    later = with_steps(lab, greet=greet)
    later.id, later.incarnation = earlier.id, earlier.incarnation + 1
    visit(lab, later, 3000)
    check(later.visits > 1, "the ready was refused")


@vector
def an_acceptor_that_never_says_ready(lab):
    broken(lab, welcome=lambda self: self.over.wait(8))


# Answers to lookups.

@vector
def a_lookup_that_is_never_answered(lab):
    broken(lab, tell=lambda self, number, name: None)


@vector
def a_found_of_the_wrong_length(lab):
    for size in (0, 1, 95, 96 + 1025, 4096, 4097, 1 << 31):
        def tell(self, number, name, size=size):
            self.say(struct.pack("<BBHIQQIi", wire.FOUND, 0, 0, size, number, 0, 0, 0) + bytes(min(size, 5000)))
        broken(lab, tell=tell, limit=100)


@vector
def a_found_with_a_ref_that_is_none(lab):
    for ref in (bytes(96), b"\xff" * 96, os.urandom(96)):
        for blob in (b"", b"blob"):
            broken(lab, limit=100, tell=lambda self, number, name, found=ref + blob: self.send(
                wire.FOUND, number, body=found))


@vector
def a_found_with_the_ref_of_another_owner_or_life(lab):
    for changes in ({"id": os.urandom(16)}, {"inc": 8}):
        visit(lab, with_steps(lab, tell=lambda self, number, name, changes=changes: self.send(
            wire.FOUND, number, body=self.ref(**changes))), got=ESTALE, put=ESTALE)


@vector
def a_found_for_everything_but_the_question(lab):
    def tell(self, number, name):
        for other in (0, number + 1, number + 100, (1 << 64) - 1):
            self.send(wire.FOUND, other, body=self.ref(key=1))
        Acceptor.tell(self, number, name)
        for _ in range(100):
            self.send(wire.FOUND, number, body=self.ref(key=2))
    visit(lab, with_steps(lab, tell=tell), 3000)


@vector
def a_found_with_a_positive_status(lab):
    broken(lab, tell=lambda self, number, name: self.send(wire.FOUND, number, status=1))


# Answers to gets.

LOST = (EPEERLOST, ETIMEDOUT)


@vector
def a_get_that_is_never_answered(lab):
    told = visit(lab, with_steps(lab, give=lambda self, frame, data: None), got=ETIMEDOUT, put=(OK, *LOST))
    check(told["took"] >= LIMIT - 10, "the deadline comes no earlier")


@vector
def data_of_other_lengths(lab):
    for change in (lambda data: data + b"x", lambda data: data[:-1], lambda data: b"", lambda data: data * 64):
        visit(lab, with_steps(lab, give=lambda self, frame, data, change=change: self.send(
            wire.DATA, frame.seq, body=change(data))), got=LOST, put=(OK, *LOST))


@vector
def data_that_declare_more_than_may_be(lab):
    for length in (wire.MAX_PAYLOAD + 1, 0xFFFFFFFF):
        visit(lab, with_steps(lab, give=lambda self, frame, data, length=length: self.say(
            struct.pack("<BBHIQQIi", wire.DATA, 0, 0, length, frame.seq, 0, 0, 0) + bytes(9000))), got=LOST,
              put=(OK, *LOST))


@vector
def data_with_a_number_that_is_not_due(lab):
    for seq in (0, 2, (1 << 64) - 1):
        visit(lab, with_steps(lab, give=lambda self, frame, data, seq=seq: self.send(wire.DATA, seq, body=data)),
              got=LOST, put=(OK, *LOST))


@vector
def data_with_a_checksum_that_nobody_wanted(lab):
    visit(lab, with_steps(lab, give=lambda self, frame, data: self.send(
        wire.DATA, frame.seq, flags=wire.CHECKED, body=struct.pack("<Q", wire.crc32c(data)) + data)), got=LOST,
        put=(OK, *LOST))


@vector
def data_twice(lab):
    def give(self, frame, data):
        Acceptor.give(self, frame, data)
        Acceptor.give(self, frame, data[::-1])
    visit(lab, with_steps(lab, give=give), got=(OK, *LOST), put=(OK, *LOST))


@vector
def data_that_end_in_the_middle(lab):
    def give(self, frame, data):
        self.say(Frame(wire.DATA, frame.seq, body=data).pack()[:2000])
        reset(self.sock)
    visit(lab, with_steps(lab, give=give), got=LOST, put=(OK, *LOST))


@vector
def data_that_stop_in_the_middle(lab):
    def give(self, frame, data):
        self.say(Frame(wire.DATA, frame.seq, body=data).pack()[:2000])
        self.over.wait(8)
    visit(lab, with_steps(lab, give=give), got=LOST, put=(OK, *LOST))


@vector
def an_ack_for_a_get(lab):
    acceptor = with_steps(lab, give=lambda self, frame, data: self.send(wire.ACK, frame.seq))
    visit(lab, acceptor, got=LOST, put=(OK, *LOST))


@vector
def an_error_for_a_get_with_any_status(lab):
    for status in (wire.EACCESS, -38, -1000, -(1 << 31)):
        acceptor = with_steps(lab, give=lambda self, frame, data, status=status: self.refuse(frame, status))
        told = lab.client.ask(f"{acceptor.uri} {LIMIT}", "visit", 3 * SOON)
        wanted = status if status == wire.EACCESS else EPROTO  # never a number without a name
        check(told["got"] == wanted and told["put"] == 0 and told["around"] == 1, f"{status}: {told}")
        lab.close_all()
    visit(lab, with_steps(lab, give=lambda self, frame, data: self.refuse(frame, 0)), got=LOST, put=(OK, *LOST))


# Answers to puts.

@vector
def acks_beyond_what_was_put(lab):
    for more in (1, 64, 1 << 63):
        visit(lab, with_steps(lab, take=lambda self, frame, more=more: self.send(wire.ACK, frame.seq + more)), put=LOST)


@vector
def acks_twice_and_before_anything_was_asked(lab):
    def take(self, frame):
        self.send(wire.ACK, frame.seq)
        self.send(wire.ACK, frame.seq)
    visit(lab, with_steps(lab, take=take), put=(OK, *LOST))

    def early(self):
        Acceptor.welcome(self)
        self.send(wire.ACK, 1)
    broken(lab, welcome=early)


@vector
def data_for_a_put(lab):
    visit(lab, with_steps(lab, take=lambda self, frame: self.send(wire.DATA, frame.seq, body=bytes(4096))), put=LOST)


@vector
def a_put_that_is_never_acknowledged(lab):
    visit(lab, with_steps(lab, take=lambda self, frame: None), put=ETIMEDOUT)


# What comes unasked.

@vector
def a_gone_for_what_was_just_found(lab):
    def tell(self, number, name):
        Acceptor.tell(self, number, name)
        self.send(wire.GONE, region=5, generation=1, body=self.ref())
        self.send(wire.GONE, body=os.urandom(96))
    visit(lab, with_steps(lab, tell=tell), got=(OK, ESTALE), put=(OK, ESTALE))


@vector
def requests_of_the_acceptor_for_what_is_not_lent(lab):
    answers = []

    def welcome(self):
        Acceptor.welcome(self)
        for seq in range(1, 33):
            self.say(Frame(wire.GET, seq, 0, 1, seq, 1, body=struct.pack("<QQII", seq, 0, 4096, 0)).pack())

    def serve(self, frame):
        if frame.type == wire.ERROR:
            answers.append((frame.seq, frame.status))
        return Acceptor.serve(self, frame)
    visit(lab, with_steps(lab, welcome=welcome, serve=serve), 3000)
    same(answers, [(seq, ESTALE) for seq in range(1, 33)], "the answers")


@vector
def a_flood_of_what_nobody_asked_for(lab):
    def welcome(self):
        Acceptor.welcome(self)
        for type in (wire.PONG, wire.LANES, wire.FORGET):
            for seq in range(500):
                self.send(type, seq)
        for _ in range(500):
            self.send(wire.BYE, status=wire.EBUSY)
    visit(lab, with_steps(lab, welcome=welcome), 3000)


@vector
def a_lane_closed_before_it_is_let_in(lab):
    """It is hung up on before that is answered, so that nothing is heard by it afterwards; and dialed again."""
    told, generations = [], []

    def lane(self):
        """(the next lane, as it was dialed; what it says)."""
        control, (self.sock, _) = self.sock, self.listener.accept()
        self.sockets.append(self.sock)
        self.sock.settimeout(SOON)
        _, fields, _ = self.hear()
        generations.append(fields.get("gen", 0))
        dialed, self.sock = self.sock, control
        return dialed, wire.message(wire.LANE_READY, {"lane": fields["lane"]})

    def tell(self, number, name):
        self.send(wire.LANES)
        dialed, words = lane(self)
        self.send(wire.LANE_CLOSED, 1)
        answer = self.read()
        told.append((answer.type, answer.seq))
        try:
            dialed.sendall(words + lab.put().pack())
            told.append(dialed.recv(1 << 16))
        except ConnectionError:
            told.append(b"")
        dialed, words = lane(self)
        dialed.sendall(words)
        Acceptor.tell(self, number, name)
    visit(lab, with_steps(lab, greet=lambda self, fields: Acceptor.greet(self, fields, feat=wire.LANES_END_ALONE),
                          tell=tell), 3000)
    same(told, [(wire.LANE_CLOSED, 1), b""], "the answer, and what is said by the lane afterwards")
    check(generations[1] > generations[0], f"generations of the lane: {generations}")


@vector
def a_path_that_only_the_initiator_begins(lab):
    """It was asked for one, which is ignored where there is no fabric, and has begun none, nor the attached lane."""
    for words in ({"region": 256, "body": b"offer"}, {"region": 256, "status": EPEERLOST},
                  {"region": 254, "body": b"offer"}, {"region": 254, "status": EPEERLOST}):
        def tell(self, number, name, words=words):
            self.send(wire.LANES, 256, flags=2)
            self.send(wire.PATH_SIGNAL, 1, generation=4, **words)
            Acceptor.tell(self, number, name)
        broken(lab, tell=tell, limit=300,
               greet=lambda self, fields: Acceptor.greet(self, fields, feat=wire.ATTACHED_PATHS))


@vector
def a_bye_at_once_each_time(lab):
    def welcome(self):
        Acceptor.welcome(self)
        self.send(wire.BYE, status=wire.ECLOSED)
    broken(lab, welcome=welcome)


@vector
def a_drain_at_once_each_time(lab):
    def welcome(self):
        Acceptor.welcome(self)
        self.send(wire.DRAIN, 1)
    broken(lab, welcome=welcome, found=(OK, ETIMEDOUT), limit=200)


@vector
def frames_that_are_none(lab):
    for frame in (Frame(0), Frame(17), Frame(255), Frame(wire.PING, pieces=1), Frame(wire.LOOKUP)):
        def welcome(self, frame=frame):
            Acceptor.welcome(self)
            self.say(frame.pack())
        broken(lab, welcome=welcome, limit=100)
