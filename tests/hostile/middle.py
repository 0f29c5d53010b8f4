# SPDX-License-Identifier: Apache-2.0
"""One who stands between members that have a key, and changes, holds or repeats what they say."""

import os
import select
import socket
import struct
import threading

import initiator as wire
from initiator import EAUTH, EIDENTITY, Initiator
from lab import check, listen, same, vector

KEYED = True
ETIMEDOUT = -18
SECRETS = (b"vault", b"what only members see", b"an engine's blob")
HELLO, REPLY, PROOF = (False, 0), (True, 0), (False, 1)  # turns: whether the server speaks, and how many words before


class Middle:
    """Passes each message of the handshake on through `alter(turn, message)`, and then the frames as they are.

    It keeps what the server told, but for readies, which it counts.
    """

    def __init__(self, lab, alter=lambda turn, message: message, address=None):
        self.address, self.alter = address or lab.server.address, alter
        self.told, self.ready, self.sockets = [], 0, []
        self.listener = listen()
        self.here = self.listener.getsockname()
        self.uri = f"tcp://127.0.0.1:{self.here[1]}"
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()
        lab.opened.append(self.close)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()
        for sock in self.sockets:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed already

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.address)
            self.sockets = [sock for sock in self.sockets if sock.fileno() >= 0] + [client, server]
            threading.Thread(target=self.carry, args=(client, server), daemon=True).start()

    def carry(self, client, server):
        with client, server:
            try:
                for number in range(2):
                    first = self.pass_on(client, server, (False, number))
                    self.pass_on(server, client, (True, number))
                    if first[4] == wire.LANE:
                        break  # joins with one message and its answer
                self.relay(client, server)
            except (OSError, wire.Ended):
                pass

    def pass_on(self, source, target, turn):
        start = wire.receive(source, 16)
        message = start + wire.receive(source, struct.unpack_from("<I", start, 8)[0])
        if turn[0] and start[4] == wire.READY:
            self.ready += 1
        elif turn[0]:
            self.told.append(message)
        changed = self.alter(turn, message)
        target.sendall(changed)
        if changed[8:12] != message[8:12]:
            raise wire.Ended(wire.EPROTO)  # nobody needs to wait for bytes that never come
        return message

    def relay(self, client, server):
        while True:
            for source in select.select([client, server], [], [])[0]:
                data = source.recv(1 << 16)
                if not data:
                    return
                (server if source is client else client).sendall(data)


def visit(lab, middle, limit=3000, identity=""):
    return lab.client.ask(f"{middle.uri} {limit} {identity}", "visit")


def nothing_came_of_it(middle, what):
    same(middle.ready, 0, f"{what}: connections that became ready")
    said = b"".join(middle.told)
    check(not any(secret in said for secret in SECRETS), f"{what}: the server told what only members may know")


def flip(message, at, bit):
    data = bytearray(message)
    data[at] ^= 1 << bit
    return bytes(data)


def lengths(lab):
    """Of the messages of a handshake, by their turns."""
    found = {}

    def measure(turn, message):
        found[turn] = len(message)
        return message
    middle = Middle(lab, measure)
    Initiator(middle.here, lab.key).open([(b"vault", False)]).drop()
    return found


def flipped(lab, due, places):
    """The initiator in Python: neither end lets the attempt become ready."""
    now = [0, 0]
    middle = Middle(lab, lambda turn, message: flip(message, *now) if turn == due else message)
    for at in places:
        for bit in (0, 7):
            now[:] = at, bit
            attempt = Initiator(middle.here, lab.key)
            try:
                attempt.open([(b"vault", False)])
            except wire.Ended:
                attempt.drop()
            else:
                raise AssertionError(f"ready with byte {at} flipped")
    nothing_came_of_it(middle, "flips")


@vector
def one_in_the_middle_who_changes_nothing(lab):
    middle = Middle(lab)
    told = visit(lab, middle)
    same((told["found"], told["got"], told["put"], told["same"]), (0, 0, 0, 1), "through one who passes on")
    check(middle.ready == 1, "it is ready")


@vector
def each_byte_of_a_hello_flipped(lab):
    flipped(lab, HELLO, range(lengths(lab)[HELLO]))


@vector
def each_byte_of_a_reply_flipped(lab):
    flipped(lab, REPLY, range(lengths(lab)[REPLY]))


@vector
def each_byte_of_the_proof_of_the_initiator_flipped(lab):
    size = lengths(lab)[PROOF]  # the map between is not covered, as the page says
    flipped(lab, PROOF, [*range(5), *range(7, 16), *range(size - 32, size)])


@vector
def bytes_of_a_hello_and_a_reply_flipped_between_two_of_the_library(lab):
    now = [HELLO, 0, 0]
    middle = Middle(lab, lambda turn, message: flip(message, *now[1:]) if turn == now[0] else message)
    for due, size in ((HELLO, 100), (REPLY, 130)):
        for at in range(0, size, 7):
            now[:] = due, at, at % 8
            told = visit(lab, middle, 100)
            check(told["found"] in (EAUTH, wire.EVERSION, ETIMEDOUT), f"byte {at}: it ended with {told['found']}")
            same(told["around"], 1, "memory of the client")
    nothing_came_of_it(middle, "flips")


@vector
def a_middle_that_says_there_is_no_key(lab):
    """In either direction, or both: each end finds that it has another one before it than it has itself."""
    true, false = b"\x63key\xf5", b"\x63key\xf4"
    for due in ((HELLO,), (REPLY,), (HELLO, REPLY)):
        middle = Middle(lab, lambda turn, message: message.replace(true, false) if turn in due else message)
        told = visit(lab, middle)
        same((told["found"], told["around"]), (EAUTH, 1), "how the lookup ended")
        nothing_came_of_it(middle, "a key denied")


@vector
def a_reply_recorded_before(lab):
    recorded = []

    def replay(turn, message):
        if turn == REPLY:
            recorded.append(message)
            return recorded[0]
        return message
    middle = Middle(lab, replay)
    Initiator(middle.here, lab.key).open().drop()
    for _ in range(3):
        told = visit(lab, middle, 200)
        check(told["found"] in (EAUTH, ETIMEDOUT), f"the lookup ended with {told['found']}")
    same(middle.ready, 1, "only the one that was recorded is ready")


@vector
def the_hello_of_one_with_the_proof_of_another(lab):
    other = Initiator(lab.server.address, lab.key)
    lab.opened.append(other.drop)
    other.greet()
    middle = Middle(lab, lambda turn, message: other.hello if turn == HELLO else message)
    told = visit(lab, middle, 200)
    check(told["found"] in (EAUTH, ETIMEDOUT), f"the lookup ended with {told['found']}")
    nothing_came_of_it(middle, "another's hello")


@vector
def the_reply_of_one_handshake_in_another(lab):
    other = Initiator(lab.server.address, lab.key)
    lab.opened.append(other.drop)
    other.greet()
    stolen = other.reply + wire.proof_of(lab.key, 2, other.hello, other.reply)
    middle = Middle(lab, lambda turn, message: stolen if turn == REPLY else message)
    told = visit(lab, middle, 200)  # its number is another as well, before which nothing is proved
    check(told["found"] in (EAUTH, ETIMEDOUT), f"the lookup ended with {told['found']}")
    nothing_came_of_it(middle, "another's reply")


@vector
def the_hello_of_an_engine_sent_back_to_it(lab):
    said = []

    def reflect(turn, message):
        if turn == HELLO:
            said.append(message)
        if turn != REPLY:
            return message
        body = said[-1][16:] + os.urandom(32)
        return said[-1][:4] + bytes([wire.REPLY, 1, 1, 32]) + struct.pack("<II", len(body), 0) + body
    middle = Middle(lab, reflect)
    told = visit(lab, middle, 300)
    check(told["found"] in (EAUTH, EIDENTITY, ETIMEDOUT), f"the lookup ended with {told['found']}")
    nothing_came_of_it(middle, "its own hello")


@vector
def an_engine_as_its_own_oracle(lab):
    """What it says where it listens answers what it asks where it dials: it finds itself, and not who is in between."""
    middle = Middle(lab, address=lab.client.address)
    identity = lab.honest.peer_id.hex()
    same(visit(lab, middle, identity=identity)["found"], EIDENTITY, "who expects another")
    check(visit(lab, middle)["found"] in (wire.ENOTFOUND, EIDENTITY), "who expects nobody has no such region")
    nothing_came_of_it(middle, "itself")


@vector
def a_member_in_place_of_another(lab):
    """All members have the key; who expects one of them does not take another."""
    middle = Middle(lab)
    same(visit(lab, middle, identity=os.urandom(16).hex())["found"], EIDENTITY, "who expects another")
    same(middle.ready, 0, "connections that became ready")


@vector
def messages_that_are_held_for_ever(lab):
    for due in (HELLO, REPLY, PROOF, (True, 1)):
        gate = threading.Event()
        lab.opened.append(gate.set)
        middle = Middle(lab, lambda turn, message: (gate.wait(8) if turn == due else None, message)[1])
        told = visit(lab, middle, 200)
        same(told["found"], ETIMEDOUT, "how the lookup ended")
        check(180 <= told["took"] < 1500, f"took {told['took']} ms in place of 200")
        gate.set()
