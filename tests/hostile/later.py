# SPDX-License-Identifier: Apache-2.0
"""Peers of a later version, as initiators and as acceptors. What an engine of this version does not know it passes over,
or refuses for that reason; lib/wire/README.md, "Later versions", has which."""

import os
import socket
import struct
import threading

import initiator as wire
import local
from acceptor import LIMIT, Acceptor, visit, with_steps
from initiator import EPROTO, EVERSION, Frame, Initiator
from lab import check, raw_message, same, vector

EVERY_BIT = (1 << 64) - 1
KEYS = {"later": {"nested": [1, {"deep": b""}]}, "zz": -5, "feat2": b"\xff" * 32}
ADDRESSES = ["quic://192.0.2.1:7000", "rdma+tcp://[::1]:7000?rail=2", "later:anything#goes"]
TRANSPORTS = ["tcp", "quic", "later/2"]
NO_TYPE = 23, 24, 40, 100, 255
OTHER_FLAGS = 0xF8  # that no frame has


class Later(Initiator):
    """Speaks versions to come, but also this one."""

    versions = 1, 9


def later_acceptor(lab, **steps):
    acceptor = with_steps(lab, **steps)
    acceptor.versions = 1, 9
    return acceptor


def serves(lab, **steps):
    """The client does all its work, on one connection."""
    acceptor = later_acceptor(lab, **steps)
    told = visit(lab, acceptor, 3000)
    same((told["connected"], acceptor.visits), (0, 1), "the one connection")


def fails(lab, status, why, **steps):
    """The client gives up at once, and says why."""
    lab.client.said.clear()
    told = visit(lab, later_acceptor(lab, **steps), LIMIT, status)
    same(told["connected"], status, "how it could not connect")
    said = " ".join(lab.client.wait("why"))
    check(why in said, f"'{said}' does not say '{why}'")


def bye_of(lab, **steps):
    """The status of the client's first bye to an acceptor that takes these steps, and no more of its frames."""
    byes = []

    def serve(self, frame):
        if frame.type == wire.BYE:
            byes.append(frame.status)
        Acceptor.serve(self, frame)
    lab.client.ask(f"{with_steps(lab, serve=serve, **steps).uri} 150", "visit")
    lab.close_all()
    return byes[0]


# The handshake, of one who dials.

@vector
def an_initiator_that_can_do_more(lab):
    connection = Later(lab.server.address)
    lab.opened.append(connection.drop)
    connection.greet(**{**KEYS, "feat": EVERY_BIT})
    connection.prove([(b"desk", False)], **KEYS, lis=ADDRESSES, tra=TRANSPORTS)
    desk = connection.answer_of(1)[0]
    connection.put(desk, [(0, 5)], b"later")
    same(connection.get(desk, [(0, 5)]), b"later", "what was put")
    lane = connection.lane()
    lane.send(connection.lane_message(1, **KEYS))
    lab.opened.append(lane.socket.close)
    same(wire.read_message(lane.socket, wire.LANE_READY)[1]["lane"], 1, "a lane")


@vector
def an_initiator_that_needs_more(lab):
    lab.refused(EVERSION, lab.dial().greet, need=["later"], **KEYS)
    attempt = lab.dial()
    attempt.greet()
    lab.refused(EVERSION, attempt.prove, need=["ops", "later"], **KEYS)


@vector
def a_reply_has_the_range_of_this_version(lab):
    lane = lab.lane()
    lane.send(raw_message(77, b"", versions=(2, 9), length=1 << 31))
    start = wire.receive(lane.socket, 16)
    same((start[4], start[5:7]), (wire.REFUSE, b"\1\1"), "kind and versions of what is said to one of another version")


# The handshake, of one who is dialed.

@vector
def an_acceptor_that_can_do_more(lab):
    serves(lab, greet=lambda self, fields: Acceptor.greet(self, fields, feat=EVERY_BIT, **KEYS),
           welcome=lambda self: Acceptor.welcome(self, lis=ADDRESSES, tra=TRANSPORTS, **KEYS))


@vector
def an_acceptor_that_needs_more(lab):
    lacks = 'the peer needs "later", which this version lacks'
    fails(lab, EVERSION, lacks, greet=lambda self, fields: Acceptor.greet(self, fields, need=["id", "later"]))
    fails(lab, EVERSION, lacks, welcome=lambda self: Acceptor.welcome(self, need=["later"]))


@vector
def an_acceptor_of_another_version(lab):
    speaks = "the peer speaks versions 2 to 9, this engine only 1"
    for kind in (wire.REPLY, wire.REFUSE, 77):
        fails(lab, EVERSION, speaks, greet=lambda self, fields, kind=kind: self.say(
            raw_message(kind, b"", versions=(2, 9), length=99)))
    fails(lab, EVERSION, "the peer refused the connection", greet=lambda self, fields: self.say(
        wire.message(wire.REFUSE, {"st": EVERSION, "retry": 0, **KEYS}, (1, 9))))


@vector
def a_refusal_for_a_reason_to_come(lab):
    visit(lab, later_acceptor(lab, greet=lambda self, fields: self.say(
        wire.message(wire.REFUSE, {"st": -1000, "retry": 0, **KEYS}, (1, 9)))), 100, -18)


# Frames.

@vector
def frames_of_types_to_come(lab):
    for type in NO_TYPE:
        lab.breaks(Frame(type, 1, body=b"later"))

        def welcome(self, type=type):
            Acceptor.welcome(self)
            self.send(type, 1, body=b"later")
        same(bye_of(lab, welcome=welcome), EPROTO, "the bye")


@vector
def flags_and_fields_to_come_in_what_is_asked(lab):
    more = {"flags": OTHER_FLAGS, "generation": 7}
    connection = lab.survives(Frame(wire.PONG, 3, region=9, **more), Frame(wire.FORGET, 3, region=9, **more),
                              Frame(wire.LANES, 3, region=9, **more), Frame(wire.DRAIN, 0, region=9, **more),
                              Frame(wire.BYE, 3, status=wire.EBUSY, region=9, **more))
    connection.lanes[0].send(Frame(wire.NOTIFY, 1, region=61, body=b"later", **more).pack())
    same(lab.server.wait("notify"), ["61", "0", "later"], "what the application is told")
    lab.server.say("recv 62 100")
    connection.lanes[0].send(Frame(wire.MESSAGE, 1, region=62, body=b"later", **more).pack())
    same(lab.server.wait("received"), ["62", "0", "5"], "what is received")
    put = lab.put(1, data=b"late", ref=lab.desk, flags=wire.ACK_WANTED | OTHER_FLAGS, status=-1)
    get = lab.get(2, ref=lab.desk, flags=OTHER_FLAGS, status=-1)
    same(lab.answers(connection, put), [(wire.ACK, 0)], "a put")
    same(lab.answers(connection, get), [(wire.DATA, 0)], "a get")


@vector
def flags_and_fields_to_come_in_answers(lab):
    more = {"flags": OTHER_FLAGS, "region": 9, "generation": 7}
    serves(lab, tell=lambda self, number, name: self.send(wire.FOUND, number, body=self.ref(), **more),
           give=lambda self, frame, data: self.send(wire.DATA, frame.seq, body=data, status=-7, **more),
           take=lambda self, frame: self.send(wire.ACK, frame.seq, **more))


@vector
def statuses_to_come(lab):
    def tell(self, number, name):
        self.send(wire.FOUND, number, status=-1000)
    acceptor = with_steps(lab, tell=tell)
    same(visit(lab, acceptor, 3000, EPROTO)["connected"], 0, "the connection, which goes on")
    same(acceptor.visits, 1, "connections")


# Refs.

@vector
def a_ref_of_a_later_version_is_found(lab):
    """The lookup ends with XFER_EVERSION, whatever else is in the ref, and nothing else ends."""
    for version in (3, 4, 1 << 31):
        for rest in (bytes(88), os.urandom(88)):
            acceptor = with_steps(lab, tell=lambda self, number, name, version=version, rest=rest: self.send(
                wire.FOUND, number, body=b"xref" + struct.pack("<I", version) + rest + b"blob"))
            told = visit(lab, acceptor, 3000, EVERSION)
            same((told["connected"], acceptor.visits), (0, 1), "the connection, which goes on")


@vector
def a_ref_of_memory_to_come(lab):
    for kind in (0, 6, 1 << 31):
        serves(lab, tell=lambda self, number, name, kind=kind: self.send(wire.FOUND, number, body=self.ref(kind=kind)))


@vector
def a_ref_with_an_access_that_its_version_has_not(lab):
    for version, access in ((1, 8), (1, 1 << 31), (2, 12), (1, 4), (2, 3)):
        same(bye_of(lab, tell=lambda self, number, name, changes={"version": version, "access": access}: self.send(
            wire.FOUND, number, body=self.ref(**changes))), EPROTO, "the bye")


@vector
def a_gone_with_a_ref_of_a_later_version(lab):
    later = b"xref" + struct.pack("<I", 9) + os.urandom(88)
    lab.survives(Frame(wire.GONE, region=5, generation=1, body=later))

    def tell(self, number, name):
        self.send(wire.GONE, region=5, generation=1, body=later)
        Acceptor.tell(self, number, name)
    serves(lab, tell=tell)


# Shared memory.

class LaterNeighbour(Acceptor):
    """Lists an address of shared memory, where a segment of another version is offered."""

    def __init__(self, lab):
        self.name, self.joined = os.urandom(16).hex(), threading.Event()
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.door.bind(b"\0xfer-" + self.name.encode())
        self.door.listen()
        self.door.settimeout(10)
        self.inside = threading.Thread(target=self.offer, daemon=True)
        self.inside.start()
        super().__init__(lab)

    def offer(self):
        sock, _ = self.door.accept()
        with sock, self.door:
            packet = sock.recv(local.MAX_PACKET)
            lane = wire.read_map(packet[16:-packet[7]])["lane"]
            segment, fd = local.Segment.make()
            struct.pack_into("=I", segment.memory, 8, local.VERSION + 1)
            socket.send_fds(sock, [wire.message(wire.LANE_READY, {"lane": lane, **KEYS})], [fd])
            os.close(fd)
            if lane == local.LOCAL_LANE and sock.recv(local.MAX_PACKET) == b"":
                self.joined.set()

    def welcome(self):
        super().welcome(lis=[f"shm://{self.name}"], tra=["tcp", "shm"])

    def give(self, frame, data):
        check(self.joined.wait(5), "the client came to the door, and left")
        super().give(frame, data)


@vector
def a_segment_of_a_later_version(lab):
    """The connection stays with its sockets."""
    acceptor = LaterNeighbour(lab)
    told = visit(lab, acceptor, 3000)
    acceptor.inside.join()
    same((told["connected"], acceptor.visits), (0, 1), "the one connection")
