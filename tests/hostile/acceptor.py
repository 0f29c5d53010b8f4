# SPDX-License-Identifier: Apache-2.0
"""The acceptor's side of the wire, from lib/wire/README.md: honest, until a vector changes one of its steps."""

import os
import socket
import struct
import threading

import initiator as wire
from initiator import ACK, ATOMIC, DATA, ERROR, FOUND, GET, PING, PONG, PUT, READY, REPLY, Frame
from lab import SOON, check, listen, same

OFFSET, LENGTH = 65536, 1 << 20  # of the pattern that the server's vault shows, and how much of it
OK, FENCED, MAYBE_APPLIED = 0, 1, 2
LIMIT = 2000  # milliseconds of each step that shall end well: Python is slow on a busy machine
BEFORE = 0x1122334455667788  # what an atomic finds
WORD = struct.pack("<Q", BEFORE)
FLAGS = {wire.EPEERLOST: MAYBE_APPLIED, wire.ETIMEDOUT: MAYBE_APPLIED}  # of atomics that end so; others are fenced
LATE = 1000  # milliseconds that a deadline may be missed by, on a machine that is busy


def pattern():
    """The bytes of the vault, as process.h has them."""
    return b"".join(struct.pack("<Q", (i + 1) * 0x9E3779B97F4A7C15 % (1 << 64))
                    for i in range(OFFSET // 8, (OFFSET + LENGTH) // 8))


class Acceptor:
    """Listens, and lends "vault", and "words" for atomics, to whoever dials. Each step is a method that a vector may
    replace."""

    memory = pattern()
    versions = 1, 1  # that it says it speaks

    def __init__(self, lab):
        self.key, self.id, self.incarnation = lab.key, os.urandom(16), 7
        self.visits, self.sockets, self.over = 0, [], threading.Event()
        self.listener, self.uri = self.open()
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()
        lab.opened.append(self.close)

    def open(self):
        """(listener, its URI)."""
        listener = listen()
        return listener, f"tcp://127.0.0.1:{listener.getsockname()[1]}"

    def close(self):
        self.over.set()
        for sock in (self.listener, *self.sockets):
            try:
                sock.shutdown(socket.SHUT_RDWR)  # wakes who reads
            except OSError:
                pass  # it is over already
        self.thread.join()
        for sock in (self.listener, *self.sockets):
            sock.close()

    def accept(self):
        while True:
            try:
                self.sock, _ = self.listener.accept()
            except OSError:
                return
            self.sockets.append(self.sock)
            if self.over.is_set():  # it came too late for close() to see it
                return
            self.sock.settimeout(5)
            self.visits += 1
            try:
                self.visit()
            except (OSError, wire.Ended):
                pass
            self.sock.close()

    def visit(self):
        """One connection, from its hello to its end."""
        self.hello, fields, _ = self.hear()
        self.greet(fields)
        _, self.terms, _ = self.hear()
        self.welcome()
        for number, (name, _) in enumerate(self.terms["ask"], 1):
            self.tell(number, name)
        while True:
            self.serve(self.read())

    def hear(self):
        """A message of the initiator, which is honest."""
        start = wire.receive(self.sock, 16)
        length, proof = int.from_bytes(start[8:12], "little"), start[7]
        body = wire.receive(self.sock, length)
        return start + body[:length - proof], wire.read_map(body[:length - proof]), body[length - proof:]

    def greet(self, fields, proof=None, **changes):
        self.reply = wire.message(REPLY, {
            "id": self.id, "inc": self.incarnation, "non": os.urandom(16), "seq": fields["seq"], "feat": 0,
            "key": self.key is not None, "ab": 0, "seen": 0, "held": 0, **changes}, self.versions)
        self.say(self.reply + (proof or wire.proof_of(self.key, 2, self.hello, self.reply)))

    def welcome(self, **changes):
        self.say(wire.message(READY, {
            "ops": 64, "sil": 0, "blob": b"", "lis": [], "tra": ["tcp"], "tok": os.urandom(16), "ab": 0, "seen": 1,
            "held": 0, **changes}, self.versions))

    def ref(self, **changes):
        """The bytes of the vault's ref, or of that of the words."""
        fields = {"magic": b"xref", "version": 1, "id": self.id, "inc": self.incarnation, "region": 5, "key": 9,
                  "offset": 0, "length": LENGTH, "generation": 1, "access": 3, "kind": 1, **changes}
        start = struct.pack("<4sI16s5QIII12x", *fields.values())
        return start + struct.pack("<Q", wire.ref_sum(start + bytes(8)))

    def tell(self, number, name):
        atomics = {"version": 2, "access": 7} if name == b"words" else {}
        self.send(FOUND, number, body=self.ref(**atomics))

    def read(self):
        fields = wire.FRAME.unpack(wire.receive(self.sock, 32))
        type, flags, pieces, length, seq, region, generation, status = fields
        return Frame(type, seq, flags, pieces, region, generation, status, wire.receive(self.sock, length))

    def serve(self, frame):
        if frame.type == PING:
            self.send(PONG, frame.seq)
        elif frame.type == GET:
            self.give(frame, self.bytes_of(frame))
        elif frame.type == PUT:
            self.take(frame)
        elif frame.type == ATOMIC:
            self.change(frame)
        elif frame.type == wire.LOOKUP:
            self.tell(frame.seq, frame.body)

    def bytes_of(self, frame):
        parts = (struct.unpack_from("<QI", frame.body, 8 + 16 * i) for i in range(frame.pieces))
        return b"".join(self.memory[offset:offset + length] for offset, length in parts)

    def give(self, frame, data):
        self.send(DATA, frame.seq, body=data)

    def take(self, frame):
        self.send(ACK, frame.seq)

    def change(self, frame):
        self.send(DATA, frame.seq, body=WORD)

    def refuse(self, frame, status):
        self.send(ERROR, frame.seq, status=status)

    def send(self, type, seq=0, **fields):
        self.say(Frame(type, seq, **fields).pack())

    def say(self, data):
        self.sock.sendall(data)


def visit(lab, acceptor, limit=LIMIT, found=OK, got=OK, put=OK, identity="-", patient=0):
    """What the client says of its visit; the statuses that are expected are one, or several."""
    told = lab.client.ask(f"{acceptor.uri} {limit} {identity} {patient}", "visit", SOON + 3 * limit / 1000)
    for name, wanted in (("found", found), ("got", got), ("put", put)):
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        check(told[name] in wanted, f"{name}: {told[name]} in place of {wanted}")
    same(told["around"], 1, "memory around what was got")
    check(told["took"] <= 3 * limit + LATE, f"took {told['took']} ms with deadlines of {limit} ms")
    if told["found"] == OK:
        same(told["same"], int(told["got"] == OK), "whether the bytes are the vault's")
    acceptor.close()
    lab.opened.remove(acceptor.close)
    honest = lab.client.ask(f"{lab.server.uri} 3000", "visit")  # and the client still does its work
    same([honest[name] for name in ("found", "got", "put", "same", "around")], [0, 0, 0, 1, 1], "an honest visit")
    return told


def change(lab, acceptor, put=OK, done=OK, down=OK, probed=OK, limit=LIMIT):
    """What the client says of a put and an atomic that are under way at once; `down`: the end of their connection."""
    told = lab.client.ask(f"change {acceptor.uri} {limit}", "changed", SOON + 3 * limit / 1000)
    same((told["put"], told["done"], told["down"]), (put, done, down), "how put, atomic and connection ended")
    check(told["probed"] in (OK, probed), f"the probe behind them: {told['probed']}")
    same((told["same"], told["kept"], told["around"]), (1, 1, 1), "result, its memory, and what is around it")
    same(told["done_flags"], FLAGS.get(done, FENCED), "the flags of the atomic")
    same(told["before"], BEFORE if done == OK else 0, "what was there before")
    acceptor.close()
    lab.opened.remove(acceptor.close)
    before = lab.honest.lookup(b"words")
    honest = lab.client.ask(f"change {lab.server.uri} 3000", "changed")  # and the client still does its work
    wanted = int.from_bytes(lab.honest.get(before, [(488, 8)]), "little") - 3
    same([honest[name] for name in ("put", "done", "before", "same", "around", "down")], [0, 0, wanted, 1, 1, 0],
         "an honest atomic")
    return told


def with_steps(lab, **steps):
    """An acceptor that takes these steps in another way."""
    acceptor = Acceptor(lab)
    for name, step in steps.items():
        setattr(acceptor, name, step.__get__(acceptor))
    return acceptor
