# SPDX-License-Identifier: Apache-2.0
"""The initiator's side of libxfer's wire protocol, written from lib/wire/README.md alone, on plain blocking sockets.

It dials one acceptor, one attempt at a time, and owns no regions. `Initiator` is one connection. What goes wrong is
raised as a `Fault`: `Failed` for one request or lookup, `Ended` for the connection or the attempt to make one.
"""

import hashlib
import hmac
import os
import select
import socket
import struct
from collections import deque
from typing import NamedTuple

EINVAL = -1
EAGAIN, ETOOBIG, EBUSY, ECLOSED, EEXIST, ENOTFOUND, EACCESS, ERANGE, ESTALE = -5, -6, -8, -9, -13, -14, -15, -16, -17
ECANCELED, EPEERLOST, EAUTH, EIDENTITY, EPROTO, EVERSION, ECHECKSUM, EOVERLOAD = -19, -20, -25, -26, -27, -28, -30, -32
EREVOKED, ETIMEDOUT, EUNSUPPORTED = -33, -18, -12

HELLO, REPLY, PROOF, READY, REFUSE, LANE, LANE_READY = range(1, 8)
PUT, GET, ACK, ERROR, DATA, LOOKUP, FOUND, GONE, PING, PONG, LANES, BYE, FORGET, NOTIFY, NOTED, DRAIN = range(1, 17)
MESSAGE, QUEUED, COMPLETED, CANCEL, CONTROL_SWITCH, ATOMIC, LANE_CLOSED, REQUEST_EXPORT, EXPORTED, WITHDRAW, \
    PATH_SIGNAL, WITHDRAWN = range(17, 29)
LANES_END_ALONE, COUNTED_NOTIFY, ATTACHED_PATHS = 1, 2, 4  # features
ADD, CAS = 1, 2  # flags of an atomic: which it is
SYNC, ENVELOPE, HELD = 1, 2, 1  # flags of a message; of queued
COUNTED = 1  # flag of a notify
ACK_WANTED, NOTIFIED, CHECKED = 1, 2, 4  # flags of a put; CHECKED also of a get and its data
WAIT = 1  # flag of a lookup

MAX_MESSAGE, MAX_PAYLOAD, MAX_PIECES, MAX_DEPTH, MAX_BEGUN, MAX_TOLD = 8192, 262144, 512, 4, 256, 1024
MAX_EXPORT_KEY, MAX_SIGNAL = 128, 1024
REF = 96  # bytes
PATIENCE = 10  # seconds without a byte that is due; only so that nothing waits for ever


class Fault(Exception):
    """Something failed for the reason that `status` says."""

    def __init__(self, status):
        super().__init__(status)
        self.status = status


class Failed(Fault):
    """A request or a lookup; the connection goes on."""


class Ended(Fault):
    """The connection, or the attempt to make one."""


class Refused(Ended):
    """The attempt, or a lane, by a refuse."""


class Closed(Ended):
    """The connection, by a bye."""


# ---- CBOR ----


def head(major, number):
    if number < 24:
        return bytes([major << 5 | number])
    size = next(i for i in range(4) if number < 1 << (8 << i))
    return bytes([major << 5 | 24 + size]) + number.to_bytes(1 << size, "big")


def encode(value):
    """CBOR of a value; the keys of a map in alphabetical order."""
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, dict):
        return head(5, len(value)) + b"".join(encode(key) + encode(value[key]) for key in sorted(value))
    return head(4, len(value)) + b"".join(map(encode, value))


class Decoder:
    """Takes values from the front of `data`; refuses what the protocol does not take."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if count > len(self.data) - self.at:
            raise Ended(EPROTO)
        self.at += count
        return self.data[self.at - count:self.at]

    def value(self, depth=0):
        first = self.take(1)[0]
        major, low = first >> 5, first & 31
        if low >= 28 or major == 6:  # indefinite lengths and what is no CBOR; tags
            raise Ended(EPROTO)
        if major == 7:
            return self.simple(low)
        number = low if low < 24 else int.from_bytes(self.take(1 << low - 24), "big")
        if major < 2:
            return number if major == 0 else -1 - number
        if major == 2:
            return self.take(number)
        if major == 3:
            return self.take(number).decode(errors="surrogateescape")  # nobody looks where it is not ASCII
        if depth == MAX_DEPTH:
            raise Ended(EPROTO)
        if major == 4:
            return [self.value(depth + 1) for _ in range(number)]
        return self.map(number, depth + 1)

    def simple(self, low):
        if low in (25, 26, 27):
            self.take(1 << low - 24)
            return None  # a float; nobody looks
        if low not in (20, 21, 22):
            raise Ended(EPROTO)
        return {20: False, 21: True, 22: None}[low]

    def map(self, count, depth):
        found = {}
        for _ in range(count):
            key = self.value(depth)
            if not isinstance(key, str) or (depth == 1 and key in found):
                raise Ended(EPROTO)
            found[key] = self.value(depth)
        return found


# ---- messages of the handshake ----


def number(bits, least=0):
    return lambda value: type(value) is int and least <= value < 1 << bits


def octets(least, most):
    return lambda value: isinstance(value, bytes) and least <= len(value) <= most


def texts(count, most):
    return lambda value: isinstance(value, list) and len(value) <= count and all(
        isinstance(text, str) and 1 <= len(text) <= most and all("!" <= char <= "~" for char in text) for text in value)


# What the acceptor's messages must hold.
STATEMENT = {"ab": number(64), "seen": number(64), "held": number(64)}
KEYS = {
    REPLY: {"id": octets(16, 16), "inc": number(64), "non": octets(16, 16), "seq": number(64, 1), "feat": number(64),
            "key": lambda value: isinstance(value, bool), **STATEMENT},
    READY: {"ops": number(32, 1), "sil": number(32), "blob": octets(0, 1024), "lis": texts(8, 255),
            "tra": texts(16, 32), "tok": octets(16, 16), **STATEMENT},
    REFUSE: {"st": lambda value: type(value) is int and -1 << 31 < value < 0, "retry": number(32)},
    LANE_READY: {"lane": number(32, 1)},
}
KNOWN = {"need", "ask"}.union(*KEYS.values())
PROOF_LENGTH = {kind: 32 if kind in (REPLY, PROOF, LANE) else 0 for kind in range(HELLO, LANE_READY + 1)}


def message(kind, fields, versions=(1, 1)):
    """A message without its proof, which the header counts already."""
    body, proof = encode(fields), PROOF_LENGTH[kind]
    return struct.pack("<4s4BII", b"XFER", kind, *versions, proof, len(body) + proof, 0) + body


def receive(sock, count):
    """Exactly `count` bytes."""
    parts = []
    while count:
        try:
            part = sock.recv(min(count, 1 << 20))
        except ConnectionError:
            part = b""
        if not part:
            raise Ended(EPEERLOST)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def read_message(sock, due):
    """(message without proof, its map, its proof) of the kind that is due; raises Refused if a refuse came instead."""
    return take_message(lambda count: receive(sock, count), due)


def take_message(take, due):
    """The same of bytes that `take` has."""
    start = take(16)
    magic, kind, lowest, highest, proof, length, zero = struct.unpack("<4s4BII", start)
    if magic != b"XFER" or zero or not 1 <= lowest <= highest:
        raise Ended(EPROTO)
    if lowest > 1:  # looked at before the kind: that may be one of a later version
        raise Ended(EVERSION)
    if length > MAX_MESSAGE - 16:
        raise Ended(ETOOBIG)
    if proof != PROOF_LENGTH.get(kind) or length <= proof:
        raise Ended(EPROTO)
    body = take(length)
    start, proof = start + body[:length - proof], body[length - proof:]
    fields = read_map(start[16:])
    if kind not in (due, REFUSE) or not all(key in fields and fits(fields[key]) for key, fits in KEYS[kind].items()):
        raise Ended(EPROTO)
    if kind == REFUSE:
        raise Refused(fields["st"])
    return start, fields, proof


def read_map(data):
    decoder = Decoder(data)
    fields = decoder.value()
    if not isinstance(fields, dict) or decoder.at != len(data):
        raise Ended(EPROTO)
    if "need" in fields:
        if not texts(16, 255)(fields["need"]):
            raise Ended(EPROTO)
        if not KNOWN.issuperset(fields["need"]):
            raise Ended(EVERSION)
    return fields


# ---- proofs ----


def mac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def counted(*parts):
    return b"".join(struct.pack("<Q", len(part)) + part for part in parts)


def proof_of(key, role, hello, reply):
    """Of the initiator (role 1) or the acceptor (role 2)."""
    return mac(key, b"xfer 1 proof" + bytes([role]) + counted(hello, reply)) if key else bytes(32)


def lane_key_of(key, hello, reply):
    salt = mac(b"", counted(hello, reply))
    return mac(mac(salt, key), b"xfer 1 lane key\x01") if key else b""


def proof_of_lane(lane_key, token, lane):
    return mac(lane_key, b"xfer 1 lane" + token + counted(lane))


# ---- refs and frames ----


class Ref(NamedTuple):
    """What names a region, or a part of one."""

    id: bytes
    incarnation: int
    region: int
    key: int
    offset: int
    length: int
    generation: int
    access: int

    @staticmethod
    def parse(data):
        magic, version, owner, *fields, access, _, zero, total = struct.unpack("<4sI16s5QIII12sQ", data)
        if magic == b"xref" and version > 2:
            raise Failed(EVERSION)
        ref = Ref(owner, *fields, access)
        wraps = ref.offset + ref.length > 1 << 64
        fits = access < 8 and version == (2 if access & 4 else 1)
        if magic != b"xref" or version == 0 or total != ref_sum(data) or any(zero) or not fits or wraps:
            raise Failed(EPROTO)
        return ref


def ref_sum(data):
    total = 0
    for word in struct.unpack_from("<11Q", data):
        total = (total ^ word) * 0x9E3779B97F4A7C15 % (1 << 64)
        total = (total << 29 | total >> 35) % (1 << 64)
    return total


FRAME = struct.Struct("<BBHIQQIi")


class Frame(NamedTuple):
    type: int
    seq: int = 0
    flags: int = 0
    pieces: int = 0
    region: int = 0
    generation: int = 0
    status: int = 0
    body: bytes = b""

    def pack(self):
        return FRAME.pack(self.type, self.flags, self.pieces, len(self.body), self.seq, self.region, self.generation,
                          self.status) + self.body


def is_well_formed(type, flags, pieces, length, seq, status):
    """Whether a header is as a receiver demands."""
    checksum = 8 if flags & CHECKED else 0
    if type == PUT:
        access = 8 + (16 if flags & NOTIFIED else 0) + checksum + 16 * pieces
        return 1 <= pieces <= MAX_PIECES and access <= length <= access + MAX_PAYLOAD
    if type == GET:
        return 1 <= pieces <= MAX_PIECES and length == 8 + 16 * pieces and not flags & NOTIFIED
    if type == ATOMIC:
        return pieces == 0 and length == 32 and flags in (ADD, CAS)
    least, most = {DATA: (checksum, MAX_PAYLOAD + checksum),
                   MESSAGE: (8, 8) if flags & ENVELOPE else (checksum, 4096), LOOKUP: (1, 255), GONE: (REF, REF),
                   FOUND: (0 if status else REF, REF + 1024),
                   NOTIFY: (8, MAX_TOLD + 8) if flags & COUNTED else (0, 0 if status else MAX_TOLD),
                   REQUEST_EXPORT: (8, 8), PATH_SIGNAL: (0, 0) if status else (1, MAX_SIGNAL),
                   EXPORTED: (0, 0 if status else MAX_EXPORT_KEY)}.get(type, (0, 0))
    if pieces or not least <= length <= most:
        return False
    if type in (ERROR, BYE):
        return status < 0
    if type in (FOUND, NOTIFY, EXPORTED, PATH_SIGNAL):
        if type == PATH_SIGNAL and seq == 0:
            return False
        if type == NOTIFY and (seq == 0 or status and flags & COUNTED):
            return False
        return status <= 0
    if type == DRAIN:
        return status == 0 and seq <= 1
    if type in (MESSAGE, QUEUED, COMPLETED, CANCEL):
        return seq > 0 and (status == 0 or type == COMPLETED and status < 0)
    if type in (DATA, LOOKUP, GONE):
        return True
    return type in (ACK, PING, PONG, LANES, FORGET, NOTED, CONTROL_SWITCH, LANE_CLOSED, REQUEST_EXPORT, WITHDRAW,
                    WITHDRAWN) and status == 0


def access_of(ref, pieces, notification=None, checksum=None):
    """The start of the body of a put or get."""
    return b"".join([
        struct.pack("<Q", ref.key), struct.pack("<QQ", *notification) if notification else b"",
        struct.pack("<Q", checksum) if checksum is not None else b"",
        *(struct.pack("<QII", ref.offset + offset, length, 0) for offset, length in pieces)])


def body_of_atomic(ref, offset, operand, compare=0):
    return struct.pack("<4Q", ref.key, (ref.offset + offset) % (1 << 64), operand, compare)


def crc32c_table():
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        yield value


CRC32C = tuple(crc32c_table())


def crc32c(data):
    total = 0xFFFFFFFF
    for byte in data:
        total = CRC32C[(total ^ byte) & 255] ^ total >> 8
    return total ^ 0xFFFFFFFF


def cut(pieces):
    """The (offset, length) of an operation as lists that fit into one request each."""
    request, room = [], MAX_PAYLOAD
    for offset, left in pieces:
        more = True
        while more:
            part = min(left, room)
            request.append((offset, part))
            offset, left, room = offset + part, left - part, room - part
            more = left > 0
            if len(request) == MAX_PIECES or room == 0:
                yield request
                request, room = [], MAX_PAYLOAD
    if request:
        yield request


# ---- the connection ----


class Request:
    """A put (`length` is None), get or atomic of ours; `answer` is 0, a negative status, or what came back."""

    def __init__(self, seq, length, checked):
        self.seq, self.length, self.checked, self.answer = seq, length, checked, None

    def matches(self, frame):
        """Whether an error, or data of that length and kind, answers this request."""
        if frame.seq != self.seq or frame.type == ERROR:
            return frame.seq == self.seq
        size = None if self.length is None else self.length + (8 if self.checked else 0)
        return len(frame.body) == size and bool(frame.flags & CHECKED) == self.checked

    def take(self, frame):
        self.answer = frame.status
        if frame.type == DATA:
            self.answer = frame.body[8:] if self.checked else frame.body
            if self.checked and int.from_bytes(frame.body[:8], "little") != crc32c(self.answer):
                self.answer = ECHECKSUM


class Lane:
    """One TCP connection: it carries frames, and has requests of ours that are not answered yet."""

    def __init__(self, address):
        self.socket = self.dial(address)
        self.seq, self.unanswered, self.seq_of_peer = 0, deque(), 0

    def dial(self, address):
        try:
            dialed = socket.create_connection(address, PATIENCE)
        except OSError:
            raise Ended(EPEERLOST) from None
        dialed.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return dialed

    def say(self, message):
        """A message of the handshake."""
        self.send(message)

    def hear(self, due):
        """A message of the handshake, as read_message() gives it."""
        return read_message(self.socket, due)

    def send(self, data):
        try:
            self.socket.sendall(data)
        except ConnectionError:
            pass  # what the peer said before it closed is still to be read, and says more

    def take(self, count):
        return receive(self.socket, count)

    def waiting(self):
        """Whether there is something to read of which the socket does not tell."""
        return False

    def due(self):
        """Whether what the socket tells of is a frame."""
        return True

    def read(self):
        """The next frame; None if its header is not well-formed."""
        type, flags, pieces, length, seq, region, generation, status = FRAME.unpack(self.take(FRAME.size))
        if not is_well_formed(type, flags, pieces, length, seq, status):
            return None
        return Frame(type, seq, flags, pieces, region, generation, status, self.take(length))

    def hear_export(self, frame):
        """What the owner says of regions that are reached without it: by no lane of this kind."""

    def answer(self, frame):
        """Notes the answer to requests of ours; False if it was not due."""
        due = list(self.unanswered)[:1]
        if frame.type == ACK:
            due = [request for request in self.unanswered if request.seq <= frame.seq]
            if any(request.length is not None for request in due) or due and due[-1].seq != frame.seq:
                return False
        elif due and not due[0].matches(frame):
            return False
        for request in due:
            request.take(frame)
            self.unanswered.popleft()
        return bool(due)


class Initiator:
    """One connection. `id`, `incarnation` and `seq` may be given, to come back as the same engine."""

    versions = 1, 1  # that it says it speaks
    features = 0

    def __init__(self, address, key=None, id=None, incarnation=None, seq=1, expected=None):
        self.address, self.key, self.seq, self.expected = address, key, seq, expected
        self.id = id or os.urandom(16)
        self.incarnation = int.from_bytes(os.urandom(8), "little") or 1 if incarnation is None else incarnation
        self.statement = {"ab": seq - 1, "seen": 0, "held": 0}
        self.lanes = []
        self.control = self.heard = None  # the lanes where we, and the peer, say control frames
        self.questions, self.found = 0, {}
        self.notifications, self.begun, self.had = 0, set(), 0
        self.sent, self.letters, self.kept, self.taken = 0, {}, {}, {}  # messages, by their numbers
        self.paths = {}  # beside the lanes: how the other end closed each attempt
        self.gone, self.pongs, self.notified = [], [], []
        self.draining = self.drained = False  # begin nothing new; and end when nothing is under way

    def open(self, ask=(), **more):
        """The whole handshake; `ask` has pairs of a name and whether to wait for it. Returns self."""
        try:
            self.greet()
            self.prove(ask, **more)
        except Fault:
            self.drop()
            raise
        return self

    def greet(self, **more):
        """Sends hello, with `more` keys, and checks the reply."""
        self.lanes = [self.lane()]
        self.control = self.heard = self.lanes[0]
        self.hello = message(HELLO, {
            "id": self.id, "inc": self.incarnation, "non": os.urandom(16), "seq": self.seq, "feat": self.features,
            "key": self.key is not None, **self.statement, **more}, self.versions)
        self.control.say(self.hello)
        self.reply, fields, proof = self.control.hear(REPLY)
        if fields["key"] != (self.key is not None):
            raise Ended(EAUTH)
        if fields["seq"] != self.seq:
            raise Ended(EPROTO)
        self.check_proof(proof)
        self.peer_id, self.peer_incarnation = fields["id"], fields["inc"]
        if self.peer_id == self.id or self.expected not in (None, self.peer_id):
            raise Ended(EIDENTITY)

    def check_proof(self, proof):
        if not hmac.compare_digest(proof, proof_of(self.key, 2, self.hello, self.reply)):
            raise Ended(EAUTH)

    def prove(self, ask=(), **more):
        """Sends proof, with `more` keys, and waits for ready."""
        self.say_proof(ask, **more)
        self.hear_ready()
        self.questions = len(ask)

    def say_proof(self, ask=(), **more):
        start = message(PROOF, {
            **self.statement, "ops": 64, "sil": 0, "blob": b"", "lis": [], "tra": ["tcp"],
            "ask": [list(question) for question in ask], **more}, self.versions)
        self.control.say(start + proof_of(self.key, 1, self.hello, self.reply))

    def hear_ready(self):
        _, fields, _ = self.control.hear(READY)
        self.ops, self.token, self.listens = fields["ops"], fields["tok"], fields["lis"]

    def lane(self):
        return Lane(self.address)

    def lane_message(self, number, **more):
        start = message(LANE, {"id": self.id, "inc": self.incarnation, "seq": self.seq, "non": os.urandom(16),
                               "lane": number, **more}, self.versions)
        return start + proof_of_lane(lane_key_of(self.key, self.hello, self.reply), self.token, start)

    def join_lane(self):
        """Opens the next data lane; returns its number."""
        lane, count = self.lane(), len(self.lanes)
        lane.send(self.lane_message(count))
        self.lanes.append(lane)
        try:
            _, fields, _ = read_message(lane.socket, LANE_READY)
        except Ended as ended:
            self.lanes.pop().socket.close()
            if ended.status == EPEERLOST or isinstance(ended, Refused):
                raise  # only the lane does not come to be
            self.end(ended.status)
        if fields["lane"] != count:
            self.end(EPROTO)
        return count

    # What arrives.

    def turn(self):
        """Waits for a frame on any lane and does what it asks for; raises Ended."""
        if self.drained and not self.begun and not any(lane.unanswered for lane in self.lanes):
            self.end(ECLOSED)
        lane = next((lane for lane in self.lanes if lane.waiting()), None)
        if not lane:
            ready, _, _ = select.select([lane.socket for lane in self.lanes], [], [], PATIENCE)
            if not ready:
                raise TimeoutError("nothing came")
            lane = next(lane for lane in self.lanes if lane.socket in ready)
            if not lane.due():
                return
        try:
            frame = lane.read()
        except Ended:
            return self.lose(lane)
        if frame is None or not self.take(lane, frame):
            self.end(EPROTO)

    def lose(self, lane):
        """A lane has ended: so has the connection, but why is for the control lane to say."""
        if lane is self.heard:
            self.drop()
            raise Ended(EPEERLOST)
        for other in self.lanes:
            if other is not self.heard:
                other.socket.close()
        self.lanes = [self.heard]
        while True:
            self.turn()

    def take(self, lane, frame):
        """Does what a frame asks for; False if it may not come here and now."""
        if frame.type in (ACK, ERROR, DATA):
            return lane.answer(frame)
        if frame.type == GET and frame.region >> 63 and frame.region - (1 << 63) in self.letters:
            lane.seq_of_peer += 1
            data = self.letters[frame.region - (1 << 63)]
            pieces = [struct.unpack_from("<QI", frame.body, at) for at in range(8, len(frame.body), 16)]
            lane.send(Frame(DATA, frame.seq, body=b"".join(data[at:at + length] for at, length in pieces)).pack())
            return frame.seq == lane.seq_of_peer
        if frame.type in (PUT, GET, ATOMIC):
            lane.seq_of_peer += 1
            lane.send(Frame(ERROR, frame.seq, status=ESTALE).pack())  # there are no regions here
            return frame.seq == lane.seq_of_peer
        if lane is not self.heard:
            return False
        if frame.type == CONTROL_SWITCH:
            if self.control is self.heard:
                return False  # we have not moved ours
            self.heard = self.control
        elif frame.type == BYE:
            self.hear_bye(frame.status)
        elif frame.type == PING:
            self.control.send(Frame(PONG, frame.seq).pack())
        elif frame.type == PONG:
            self.pongs.append(frame.seq)
        elif frame.type == LOOKUP:
            self.control.send(Frame(FOUND, frame.seq, status=ENOTFOUND).pack())
        elif frame.type == FOUND:
            self.found[frame.seq] = frame
        elif frame.type == GONE:
            self.gone.append((frame.region, frame.generation))
        elif frame.type == NOTIFY:
            self.notified.append((frame.region, frame.status, frame.body))
            self.control.send(Frame(NOTED, frame.seq, region=len(self.notified)).pack())
        elif frame.type == DRAIN:
            self.draining, self.drained = True, frame.seq == 1
        elif frame.type == NOTED:
            self.had = frame.region
            self.begun.discard(frame.seq)  # 0 only tells how many the application has had
        elif frame.type == PATH_SIGNAL:  # nor such paths
            self.hear_signal(frame)
        elif frame.type == REQUEST_EXPORT:  # there are no regions here
            self.control.send(Frame(EXPORTED, frame.seq, region=frame.region, status=ESTALE).pack())
        elif frame.type in (EXPORTED, WITHDRAW):
            lane.hear_export(frame)
        elif frame.type == MESSAGE:  # nobody receives here
            self.control.send(Frame(QUEUED, frame.seq).pack())
        elif frame.type == QUEUED:
            self.kept[frame.seq] = frame.flags
        elif frame.type == COMPLETED:
            self.letters.pop(frame.seq, None)
            self.taken[frame.seq] = frame.status
        return True  # lanes and forget: nothing to do

    def hear_signal(self, frame):
        """We begin none, and so hear nothing but that an end which we have named is closed."""
        if frame.seq not in self.paths or not frame.status:
            raise Fault(EPROTO)
        self.paths[frame.seq].append(frame.status)

    def hear_bye(self, status):
        if status == EAGAIN:  # an offer; we can't be dialed again
            self.control.send(Frame(BYE, status=EBUSY).pack())
        elif status != EBUSY:
            self.drop()
            raise Closed(status)

    def drop(self):
        """Closes all lanes, without a word."""
        for lane in self.lanes:
            lane.socket.close()

    def end(self, status):
        """Says why, and ends."""
        self.control.send(Frame(BYE, status=status).pack())
        self.drop()
        raise Ended(status)

    def close(self):
        """Ends the connection in good order: says bye, and reads until the acceptor has closed."""
        self.control.send(Frame(BYE, status=ECLOSED).pack())
        try:
            while True:
                self.turn()
        except Ended:
            pass

    # What we ask for.

    def ask(self, name, wait=False):
        """Asks for a region; returns the number of the question."""
        self.questions += 1
        self.control.send(Frame(LOOKUP, self.questions, flags=WAIT if wait else 0, body=name).pack())
        return self.questions

    def answer_of(self, question):
        """(ref, blob) for a question; raises Failed."""
        while question not in self.found:
            self.turn()
        frame = self.found.pop(question)
        if frame.status:
            raise Failed(frame.status)
        ref = Ref.parse(frame.body[:REF])
        if ref.id != self.peer_id or ref.incarnation != self.peer_incarnation:
            raise Failed(EIDENTITY if ref.id != self.peer_id else ESTALE)
        return ref, frame.body[REF:]

    def lookup(self, name, wait=False):
        """The ref of a region; raises Failed."""
        return self.answer_of(self.ask(name, wait))[0]

    def request(self, type, ref, pieces, payload=b"", lane=0, flags=0, notification=None):
        """Sends one put or get as soon as the credit allows it."""
        lane = self.lanes[lane]
        while len(lane.unanswered) >= self.ops:
            self.turn()
        checksum = crc32c(payload) if type == PUT and flags & CHECKED else None
        if type == PUT and len(lane.unanswered) + 1 == self.ops:
            flags |= ACK_WANTED
        lane.seq += 1
        length = None if type == PUT else sum(length for _, length in pieces)
        request = Request(lane.seq, length, bool(flags & CHECKED))
        lane.unanswered.append(request)
        lane.send(Frame(type, lane.seq, flags, len(pieces), ref.region, ref.generation,
                        body=access_of(ref, pieces, notification, checksum) + payload).pack())
        return request

    def finish(self, requests):
        """The answers; raises Failed with the first status that is not success."""
        while requests[-1].answer is None:  # they come in order
            self.turn()
        for request in requests:
            if isinstance(request.answer, int) and request.answer:
                raise Failed(request.answer)
        return [request.answer for request in requests]

    def put(self, ref, pieces, data, lane=0, notification=None, flags=0):
        """Writes `data` to the pieces, each (offset, length); `notification` is what it belongs to."""
        flags |= NOTIFIED if notification else 0
        requests, at, parts = [], 0, list(cut(pieces))
        for part in parts:
            size = sum(length for _, length in part)
            last = ACK_WANTED if len(requests) + 1 == len(parts) else 0
            requests.append(self.request(PUT, ref, part, data[at:at + size], lane, flags | last, notification))
            at += size
        self.finish(requests)

    def get(self, ref, pieces, lane=0, flags=0):
        """The bytes of the pieces, each (offset, length)."""
        return b"".join(self.finish([self.request(GET, ref, part, b"", lane, flags) for part in cut(pieces)]))

    def atomic(self, op, ref, offset, operand, compare=0, lane=0):
        """Adds, or compares and swaps; the number that was there before."""
        lane = self.lanes[lane]
        while len(lane.unanswered) >= self.ops:
            self.turn()
        lane.seq += 1
        request = Request(lane.seq, 8, False)
        lane.unanswered.append(request)
        lane.send(Frame(ATOMIC, lane.seq, op, 0, ref.region, ref.generation,
                        body=body_of_atomic(ref, offset, operand, compare)).pack())
        return int.from_bytes(self.finish([request])[0], "little")

    def send(self, data, tag, flags=0):
        """Sends a message, and waits until the peer holds it, or has received it; the status of its end."""
        self.sent += 1
        self.letters[self.sent] = data
        body = data if len(data) <= 4088 else struct.pack("<Q", len(data))
        flags |= 0 if body is data else ENVELOPE
        self.control.send(Frame(MESSAGE, self.sent, flags, region=tag, body=body).pack())
        number = self.sent
        while number not in self.taken and (flags & SYNC or not self.kept.get(number, 0) & HELD):
            self.turn()
        return self.taken.get(number, 0)

    def begin_notification(self, key):
        """(number, key) for puts that belong to it and for `notify`; waits while too many are under way."""
        while self.notifications - self.had >= MAX_BEGUN:
            self.turn()
        self.notifications += 1
        self.begun.add(self.notifications)
        return self.notifications, key

    def counted(self, notification, count, data=b""):
        """The notify that counts the bytes of its puts, to be sent before, among or behind them."""
        seq, key = notification
        return Frame(NOTIFY, seq, COUNTED, region=key, body=data + struct.pack("<Q", count))

    def notify(self, notification, status=0, data=b""):
        """Closes a notification, and waits until the owner holds it."""
        seq, key = notification
        self.control.send(Frame(NOTIFY, seq, region=key, status=status, body=data).pack())
        while seq in self.begun:
            self.turn()
