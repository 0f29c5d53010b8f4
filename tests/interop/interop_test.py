# SPDX-License-Identifier: Apache-2.0
"""The initiator in Python against an engine of the library, without a key and with one.

Usage: interop_test.py SERVER, the program of server.c. Prints `ok NAME` or `not ok NAME: why` for each case, and last
how many there were of each.
"""

import os
import queue
import re
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is
import initiator as wire
import local
from initiator import Closed, Ended, Failed, Frame, Initiator, Lane, Refused

PAGE = Path(__file__).parents[2] / "lib" / "wire" / "README.md"
KEY = b"a key of the interop test, 32 bytes or more"
MIB = 1 << 20
SOON = 5  # seconds for what should come at once
LIMIT = 10  # seconds for a case
REGION = 4 * MIB  # length of "memory"


class Server:
    """The server's process, and the lines that it has printed."""

    def __init__(self, program, key):
        self.process = subprocess.Popen([program, *([key] if key else [])], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        host, _, port = self.process.stdout.readline().decode().strip().removeprefix("tcp://").rpartition(":")
        self.address = host, int(port)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.decode().split())

    def say(self, line):
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def notification(self):
        """(key, status) of the next one that its application was told of, and its bytes if it has some."""
        _, key, status, *data = self.lines.get(timeout=SOON)
        return int(key), int(status), *data

    def stop(self):
        self.process.stdin.close()
        status = self.process.wait(SOON)
        self.reader.join()
        self.process.stdout.close()
        return status


class Careless(Initiator):
    """Sends its proof whatever the reply's proof is."""

    def check_proof(self, proof):
        pass


def vectors():
    """The byte strings in the code blocks of the page: {name: [each of that name]}."""
    found = {}
    for block in re.findall(r"^```\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M):
        for line in block.splitlines():
            match = re.match(r"([a-z_()0-9]+(?: key)?)? +((?:[0-9a-f]{2}){5,})(?:$| )", line)
            if match and match.group(1):
                found.setdefault(match.group(1), []).append(b"")
                last = match.group(1)
            if match:
                found[last][-1] += bytes.fromhex(match.group(2))
    return found


class Vectors(unittest.TestCase):
    """What the page shows is what the initiator sends."""

    def setUp(self):
        self.page = vectors()
        self.key, self.hello, self.reply = (self.page[name][0] for name in ("key", "hello", "reply"))

    def test_messages(self):
        statement = {"ab": 0, "seen": 0, "held": 0}
        hello = {"id": b"\x11" * 16, "inc": 0x2222222222222222, "non": b"\x33" * 16, "seq": 1, "feat": 0, "key": True}
        proof = {"ops": 64, "sil": 0, "blob": b"", "lis": [], "tra": ["tcp"], "ask": [[b"weights", False]]}
        lane = {"id": b"\x11" * 16, "inc": hello["inc"], "seq": 1, "non": b"\x88" * 16, "lane": 1}
        self.assertEqual(wire.message(wire.HELLO, {**hello, **statement}), self.hello)
        self.assertEqual(wire.message(wire.PROOF, {**proof, **statement}), self.page["proof"][0])
        self.assertEqual(wire.message(wire.LANE, lane), self.page["lane"][0])

    def test_proofs(self):
        for role in (1, 2):
            self.assertEqual(wire.proof_of(self.key, role, self.hello, self.reply), self.page[f"proof({role})"][0])
        token = wire.read_map(self.page["ready"][0][16:])["tok"]
        for name, key in (("proof", self.key), ("no key", None)):
            lane_key = wire.lane_key_of(key, self.hello, self.reply)
            self.assertEqual(wire.proof_of_lane(lane_key, token, self.page["lane"][0]), self.page[name][-1])

    def test_ref_and_frames(self):
        ref = wire.Ref.parse(self.page["ref"][0])
        pieces = [(256, 5)]
        put = Frame(wire.PUT, 1, wire.ACK_WANTED, 1, ref.region, ref.generation,
                    body=wire.access_of(ref, pieces) + b"hello")
        get = Frame(wire.GET, 2, 0, 1, ref.region, ref.generation, body=wire.access_of(ref, pieces))
        self.assertEqual(put.pack(), self.page["put"][0])
        self.assertEqual(get.pack(), self.page["get"][0])
        for at, fields in enumerate([(wire.ADD, 264, 5, 0), (wire.CAS, 264, 1, 12)]):
            atomic = Frame(wire.ATOMIC, 3 + at, fields[0], 0, ref.region, ref.generation,
                           body=wire.body_of_atomic(ref, *fields[1:]))
            self.assertEqual(atomic.pack(), self.page["atomic"][at])

    def test_checksum(self):
        self.assertEqual(wire.crc32c(b"123456789"), 0xE3069283)  # the check value of CRC-32C
        self.assertEqual(wire.crc32c(b""), 0)


class Dialing:
    """Attempts at an acceptor that has `key`."""

    key = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server(sys.argv[1], cls.key)

    @classmethod
    def tearDownClass(cls):
        if cls.server.process.poll() is None:
            cls.server.stop()

    def dial(self, kind=Initiator, key=Ellipsis, **who):
        """An attempt that has not sent anything."""
        attempt = kind(self.server.address, self.key if key is Ellipsis else key, **who)
        self.addCleanup(attempt.drop)
        return attempt

    def raw_lane(self):
        lane = Lane(self.server.address)
        self.addCleanup(lane.socket.close)
        return lane

    def connect(self, ask=(), **who):
        return self.dial(**who).open(ask)

    def refused(self, status, action, *arguments, kind=Refused, **more):
        """That `action` fails, for that reason."""
        with self.assertRaises(kind) as caught:
            action(*arguments, **more)
        self.assertEqual((type(caught.exception), caught.exception.status), (kind, status))

    def ended(self, status, connection, kind=Closed):
        """That the acceptor ends the connection, for that reason."""
        self.refused(status, self.listen, connection, kind=kind)

    def listen(self, connection):
        while True:
            connection.turn()

    def is_up(self, connection):
        connection.lanes[0].send(Frame(wire.PING, 4711).pack())
        while 4711 not in connection.pongs:
            connection.turn()
        connection.pongs.clear()

    def put_frame(self, ref, seq=1, pieces=((0, 4),), count=None, data=b"data", type=wire.PUT, flags=wire.ACK_WANTED,
                  notification=None):
        count = len(pieces) if count is None else count
        return Frame(type, seq, flags, count, ref.region, ref.generation,
                     body=wire.access_of(ref, pieces, notification) + data)

    # Put and get.


class Cases(Dialing):
    """What an initiator may expect."""

    def test_put_in_one_piece(self):
        connection, data = self.connect(), os.urandom(MIB)
        ref = connection.lookup(b"memory")
        connection.put(ref, [(0, MIB)], data)
        self.assertEqual(connection.get(ref, [(0, MIB)]), data)

    def test_put_in_many_pieces(self):
        connection, data = self.connect(), os.urandom(MIB)
        ref = connection.lookup(b"memory")
        pieces = [(MIB + 16 * i, 16) for i in reversed(range(MIB // 16))]  # 128 requests: more than the credit
        connection.put(ref, pieces, data)
        self.assertEqual(connection.get(ref, pieces), data)
        there = b"".join(data[at:at + 16] for at in reversed(range(0, MIB, 16)))
        self.assertEqual(connection.get(ref, [(MIB, MIB)]), there)

    def test_pieces_of_many_lengths(self):
        connection, pieces, at = self.connect(), [], 0
        for length in (0, 1, 7, wire.MAX_PAYLOAD - 8, 1, 0, wire.MAX_PAYLOAD, wire.MAX_PAYLOAD + 1, 3):
            pieces.append((at, length))
            at += length + 5
        ref, data = connection.lookup(b"memory"), os.urandom(sum(length for _, length in pieces))
        connection.put(ref, pieces, data)
        self.assertEqual(connection.get(ref, pieces), data)

    def test_no_bytes(self):
        connection = self.connect()
        ref = connection.lookup(b"memory")
        connection.put(ref, [(5, 0)], b"")
        self.assertEqual(connection.get(ref, [(5, 0)]), b"")

    def test_several_requests_under_way(self):
        connection = self.connect()
        ref = connection.lookup(b"readonly")
        requests, most = [], 0
        for i in range(3 * connection.ops):
            requests.append(connection.request(wire.GET, ref, [(i, 8)]))
            most = max(most, len(connection.lanes[0].unanswered))
        self.assertEqual(most, connection.ops)
        self.assertEqual(connection.finish(requests), [b"rrrrrrrr"] * len(requests))

    def test_an_ack_that_was_not_asked_for(self):
        connection = self.connect()
        ref = connection.lookup(b"memory")
        requests = [connection.request(wire.PUT, ref, [(i, 1)], b"x") for i in range(3)]
        self.assertEqual(connection.finish(requests), [0, 0, 0])

    def test_checksums(self):
        connection, data = self.connect(), os.urandom(300000)
        ref = connection.lookup(b"memory")
        connection.put(ref, [(0, len(data))], data, flags=wire.CHECKED)
        self.assertEqual(connection.get(ref, [(0, len(data))], flags=wire.CHECKED), data)
        wrong = self.put_frame(ref, connection.lanes[0].seq + 1, flags=wire.CHECKED | wire.ACK_WANTED)
        body = wire.access_of(ref, [(0, 4)], checksum=wire.crc32c(b"date")) + b"data"
        connection.lanes[0].send(wrong._replace(body=body).pack())
        answer = connection.lanes[0].read()
        self.assertEqual((answer.type, answer.status), (wire.ERROR, wire.ECHECKSUM))
        self.is_up(connection)

    def test_refused_requests(self):
        connection = self.connect()
        ref, readonly = connection.lookup(b"memory"), connection.lookup(b"readonly")
        end, data = ref.length, b"data"
        for status, it, offset in [
            (wire.ESTALE, ref._replace(generation=ref.generation + 1), 0),
            (wire.ESTALE, ref._replace(key=ref.key ^ 1), 0),
            (wire.ESTALE, ref._replace(region=4711), 0),
            (wire.EACCESS, readonly, 0),
            (wire.ERANGE, ref, end - 3),
            (wire.ERANGE, ref, end),
            (wire.ERANGE, ref, (1 << 64) - 2),
        ]:
            with self.subTest(status=status, offset=offset):
                self.refused(status, connection.put, it, [(offset, 4)], data, kind=Failed)
                if status != wire.EACCESS:
                    self.refused(status, connection.get, it, [(offset, 4)], kind=Failed)
        connection.put(ref, [(end - 4, 4)], data)
        self.assertEqual(connection.get(ref, [(end - 4, 4)]), data)

    def test_nothing_of_a_refused_put_is_applied(self):
        connection = self.connect()
        ref = connection.lookup(b"memory")
        connection.put(ref, [(0, 4)], b"....")
        self.refused(wire.ERANGE, connection.put, ref, [(0, 4), (REGION, 4)], b"datadata", kind=Failed)
        self.assertEqual(connection.get(ref, [(0, 4)]), b"....")

    # Atomics.

    def test_atomics(self):
        connection = self.connect()
        ref = connection.lookup(b"words")
        self.assertEqual(ref.access, 7)
        connection.put(ref, [(16, 8)], (7).to_bytes(8, "little"))
        for lane in (0, connection.join_lane()):
            self.assertEqual(connection.atomic(wire.ADD, ref, 16, 5, lane=lane), 7)
            self.assertEqual(connection.atomic(wire.ADD, ref, 16, (1 << 64) - 2, lane=lane), 12)
            self.assertEqual(connection.atomic(wire.CAS, ref, 16, 3, compare=11, lane=lane), 10)
            self.assertEqual(connection.atomic(wire.CAS, ref, 16, 7, compare=10, lane=lane), 10)
        self.assertEqual(connection.get(ref, [(8, 24)]), struct.pack("<3Q", 0, 7, 0))

    def test_an_atomic_behind_puts_without_an_ack(self):
        connection = self.connect()
        ref = connection.lookup(b"words")
        put = connection.request(wire.PUT, ref, [(24, 8)], (4).to_bytes(8, "little"))
        self.assertEqual(connection.atomic(wire.ADD, ref, 24, 1), 4)
        self.assertEqual(put.answer, 0)

    def test_refused_atomics(self):
        connection = self.connect()
        ref, memory = connection.lookup(b"words"), connection.lookup(b"memory")
        for status, it, offset in [
            (wire.ESTALE, ref._replace(generation=ref.generation + 1), 0),
            (wire.ESTALE, ref._replace(key=ref.key ^ 1), 0),
            (wire.ESTALE, ref._replace(region=4711), 0),
            (wire.EACCESS, memory, 0),
            (wire.ERANGE, ref, ref.length - 7),
            (wire.ERANGE, ref, ref.length),
            (wire.ERANGE, ref, (1 << 64) - 8),
            *((wire.EINVAL, ref, offset) for offset in range(1, 8)),
        ]:
            with self.subTest(status=status, offset=offset):
                self.refused(status, connection.atomic, wire.ADD, it, offset, 1, kind=Failed)
        self.assertEqual(connection.get(ref, [(0, 16)]), bytes(16))
        self.is_up(connection)

    # Lookups.

    def test_lookup_in_the_proof(self):
        connection = self.connect([(b"memory", False), (b"nothing", False), (b"readonly", True)])
        ref, blob = connection.answer_of(1)
        self.assertEqual((ref.length, ref.access, blob), (REGION, 3, b"memory"))
        self.refused(wire.ENOTFOUND, connection.answer_of, 2, kind=Failed)
        self.assertEqual(connection.answer_of(3)[0].access, 1)
        self.assertEqual(connection.lookup(b"memory"), ref)

    def test_lookup_that_waits(self):
        asked, late = self.connect([(b"later", True)]), self.connect()
        question = late.ask(b"later", wait=True)
        forgotten = late.ask(b"later", wait=True)
        late.lanes[0].send(Frame(wire.FORGET, forgotten).pack())
        self.refused(wire.ENOTFOUND, late.lookup, b"later", kind=Failed)
        self.is_up(asked)
        self.assertFalse(asked.found or late.found)
        self.server.say(b"later")
        refs = {asked.answer_of(1)[0], late.answer_of(question)[0]}
        self.assertEqual(len(refs), 1)
        self.is_up(late)
        self.assertNotIn(forgotten, late.found)
        self.gone(asked, late, refs.pop())

    def gone(self, asked, late, ref):
        """Who was told of a region is told of its end."""
        late.put(ref, [(0, 4)], b"data")
        self.server.say(b"gone")
        for connection in (asked, late):
            while (ref.region, ref.generation) not in connection.gone:
                connection.turn()
            self.refused(wire.ESTALE, connection.get, ref, [(0, 4)], kind=Failed)

    def test_too_many_lookups_that_wait(self):
        connection = self.connect()
        for _ in range(1024):
            connection.ask(b"never", wait=True)
        self.refused(wire.EAGAIN, connection.answer_of, connection.ask(b"never", wait=True), kind=Failed)
        self.assertEqual(connection.lookup(b"memory").length, REGION)

    # Notifications.

    def test_notification(self):
        connection = self.connect()
        ref = connection.lookup(b"memory")
        alone, behind = connection.begin_notification(1 << 63), connection.begin_notification(2)
        connection.put(ref, [(0, MIB)], bytes(MIB), notification=behind)
        connection.notify(alone, data=b"x" * wire.MAX_TOLD)
        connection.notify(behind, data=b"written")
        failed = connection.begin_notification(3)
        connection.put(ref, [(0, 4)], b"data", notification=failed)
        connection.notify(failed, wire.ECANCELED)
        told = [self.server.notification() for _ in range(3)]
        self.assertEqual(told, [(1 << 63, 0, "x" * wire.MAX_TOLD), (2, 0, "written"), (3, wire.ECANCELED)])
        self.refused(wire.ECANCELED, connection.put, ref, [(0, 4)], b"late", notification=behind, kind=Failed)

    def test_notification_that_is_counted(self):
        connection = self.connect()
        ref, other = connection.lookup(b"memory"), connection.join_lane()
        before, among, lane, refused, short = (connection.begin_notification(key) for key in range(30, 35))
        connection.control.send(connection.counted(before, MIB, b"before").pack())
        connection.put(ref, [(0, MIB)], bytes(MIB), notification=before)
        connection.put(ref, [(0, 4)], b"data", notification=among)
        connection.control.send(connection.counted(among, 7).pack())
        connection.put(ref, [(0, 3)], b"all", lane=other, notification=among)
        connection.put(ref, [(0, 4)], b"data", notification=lane)
        connection.lanes[other].send(connection.counted(lane, 4, b"x" * wire.MAX_TOLD).pack())
        told = [self.server.notification() for _ in range(3)]
        self.assertEqual(told, [(30, 0, "before"), (31, 0), (32, 0, "x" * wire.MAX_TOLD)])
        connection.control.send(connection.counted(refused, 8, b"never").pack())
        connection.put(ref, [(0, 4)], b"data", notification=refused)
        self.refused(wire.ERANGE, connection.put, ref, [(REGION, 4)], b"data", notification=refused, kind=Failed)
        connection.notify(refused, wire.ERANGE)
        self.assertEqual(self.server.notification(), (33, wire.ERANGE))
        connection.control.send(connection.counted(short, 5, b"never").pack())
        connection.put(ref, [(0, 4)], b"data", notification=short)
        connection.drop()
        self.assertEqual(self.server.notification(), (34, wire.EPEERLOST))

    def test_notification_whose_connection_dies(self):
        connection = self.connect()
        ref = connection.lookup(b"memory")
        connection.put(ref, [(0, 4)], b"data", notification=connection.begin_notification(10))
        connection.drop()
        self.assertEqual(self.server.notification(), (10, wire.EPEERLOST))

    def test_more_notifications_than_the_credit(self):
        connection = self.connect()
        for key in range(3000):
            seq, _ = connection.begin_notification(key)
            connection.lanes[0].send(Frame(wire.NOTIFY, seq, region=key).pack())
        while connection.begun:
            connection.turn()
        self.assertEqual([self.server.notification() for _ in range(3000)], [(key, 0) for key in range(3000)])

    def test_notifications_past_the_credit(self):
        connection = self.connect()
        ref = connection.lookup(b"memory")
        for i in range(wire.MAX_BEGUN):
            connection.put(ref, [(0, 1)], b"x", notification=(i + 1, 20))
        connection.lanes[0].send(Frame(wire.NOTIFY, wire.MAX_BEGUN + 1, region=20).pack())
        self.ended(wire.EPROTO, connection)
        for _ in range(wire.MAX_BEGUN):
            self.assertEqual(self.server.notification(), (20, wire.EPEERLOST))

    # Handshakes.

    def test_wrong_key(self):
        if self.key is None:
            self.refused(wire.EAUTH, self.connect, key=KEY)
            return
        self.refused(wire.EAUTH, self.connect, key=KEY + b"?", kind=Ended)
        self.refused(wire.EAUTH, self.dial(Careless, key=KEY + b"?").open)
        self.refused(wire.EAUTH, self.connect, key=None)

    def test_other_versions(self):
        hello = {"id": bytes(16), "inc": 1, "non": bytes(16), "seq": 1, "feat": 0, "key": self.key is not None,
                 "ab": 0, "seen": 0, "held": 0}
        lane = self.raw_lane()
        lane.send(wire.message(wire.HELLO, {}, versions=(2, 3)))
        self.refused(wire.EVERSION, wire.read_message, lane.socket, wire.REPLY)
        lane = self.raw_lane()
        lane.send(wire.message(wire.HELLO, hello, versions=(1, 2)))
        self.assertEqual(wire.read_message(lane.socket, wire.REPLY)[0][5:7], b"\1\1")

    def test_unknown_keys(self):
        attempt = self.dial()
        attempt.greet(new=[{"a": [b""]}, -5], need=["id", "tok"])
        attempt.prove(newer=True)
        self.is_up(attempt)
        self.refused(wire.EVERSION, self.dial().greet, new=1, need=["id", "new"])
        attempt = self.dial()
        attempt.greet()
        self.refused(wire.EVERSION, attempt.prove, need=["new"])

    def test_malformed_messages(self):
        for key, value in [("id", bytes(15)), ("seq", 0), ("key", 1), ("ab", -1), ("non", "text"), ("need", ["a b"]),
                           ("new", [[[[1]]]])]:
            with self.subTest(key=key):
                self.refused(wire.EPROTO, self.dial().greet, **{key: value})
        for key, value in [("ops", 0), ("blob", bytes(1025)), ("lis", ["a"] * 9), ("tra", ["a b"]), ("sil", 1 << 32)]:
            with self.subTest(key=key):
                attempt = self.dial()
                attempt.greet()
                self.refused(wire.EPROTO, attempt.prove, **{key: value})
        for body in (b"", b"\x80", b"\xa1\x01\x01", b"\xa1\x61a\xc0\x01", b"\xbf\xff", b"\xa1\x61a"):
            with self.subTest(body=body):
                lane = self.raw_lane()
                lane.send(struct.pack("<4s4BII", b"XFER", wire.HELLO, 1, 1, 0, len(body), 0) + body)
                kind, status = (Refused, wire.EPROTO) if body else (Ended, wire.EPEERLOST)
                self.refused(status, wire.read_message, lane.socket, wire.REPLY, kind=kind)

    def test_identities(self):
        connection = self.connect()
        who = {"id": connection.peer_id, "incarnation": connection.peer_incarnation + 1}
        self.refused(wire.EIDENTITY, self.connect, **who)
        who["incarnation"] -= 1
        attempt = self.dial(**who)
        self.refused(wire.EIDENTITY, attempt.greet, kind=Ended)
        self.refused(wire.EPROTO, attempt.prove)
        self.refused(wire.EIDENTITY, self.connect, expected=bytes(16), kind=Ended)
        self.connect(expected=connection.peer_id)

    def test_one_connection_of_two_engines(self):
        first = self.connect(seq=5)
        who = {"id": first.id, "incarnation": first.incarnation}
        self.refused(wire.EEXIST, self.connect, **who, seq=5)
        self.is_up(first)
        self.connect(**who, seq=6)
        self.ended(wire.EPEERLOST, first)

    def test_an_engine_that_restarts(self):
        old = self.connect(incarnation=1)
        began = time.monotonic()
        new = self.connect(id=old.id, incarnation=2)  # the old one answers no ping: it has died
        self.assertLess(0.4, time.monotonic() - began)
        self.ended(wire.EPEERLOST, old)
        newer = self.dial(id=old.id, incarnation=3)
        newer.greet()
        answering = threading.Thread(target=new.turn)
        answering.start()
        self.refused(wire.EIDENTITY, newer.prove)
        answering.join()
        self.is_up(new)

    def test_many_attempts(self):
        """Before the proof none counts: whoever else says that id, it gets in."""
        attempts = [self.dial(id=b"a" * 16, incarnation=1, seq=seq) for seq in range(1, 33)]
        for attempt in attempts:
            attempt.greet()
        attempts[20].prove()
        self.is_up(attempts[20])
        self.refused(wire.EPEERLOST, attempts[5].prove)  # given up, says the proof of the one that lives
        self.refused(wire.EEXIST, lambda: attempts[31].prove(ab=0))
        self.is_up(attempts[20])
        attempts[30].prove()  # which gives up all before it
        self.is_up(attempts[30])

    # Frames that are not allowed.

    def malformed(self, ref):
        """(name, bytes) of what ends a connection."""
        def put(**more):
            return self.put_frame(ref, **more).pack()

        yield "unknown type", Frame(200).pack()
        yield "type 0", Frame(0).pack()
        yield "put of no piece", put(pieces=(), data=b"")
        yield "put of too many pieces", put(pieces=((0, 0),) * 513, data=b"")
        yield "put that is too long", put(pieces=((0, wire.MAX_PAYLOAD + 1),), data=bytes(wire.MAX_PAYLOAD + 1))
        yield "lengths that say less", put(pieces=((0, 3),))
        yield "lengths that say more", put(pieces=((0, 3), (0, 2)))
        yield "lengths that wrap", put(pieces=((0, 0xFFFFFFFF), (0, 5)))
        yield "get that is too long", put(type=wire.GET, data=b"", pieces=((0, wire.MAX_PAYLOAD), (0, 1)))
        yield "get that is notified", put(type=wire.GET, data=b"", flags=wire.NOTIFIED, notification=(1, 1))
        yield "number out of order", put(seq=2)
        atomic = Frame(wire.ATOMIC, 1, wire.ADD, 0, ref.region, ref.generation,
                       body=wire.body_of_atomic(ref, 0, 1))
        yield "atomic out of order", atomic._replace(seq=2).pack()
        yield "atomic of no kind", atomic._replace(flags=0).pack()
        yield "atomic of an unknown kind", atomic._replace(flags=3).pack()
        yield "atomic with a piece", atomic._replace(pieces=1).pack()
        yield "short atomic", atomic._replace(body=atomic.body[:24]).pack()
        yield "long atomic", atomic._replace(body=atomic.body + bytes(8)).pack()
        yield "number twice", put() + put()
        yield "ack that is not due", Frame(wire.ACK, 1).pack()
        yield "data that are not due", Frame(wire.DATA, 1).pack()
        yield "error without a status", Frame(wire.ERROR, 1).pack()
        yield "ping with a body", Frame(wire.PING, body=b"x").pack()
        yield "ping with a status", Frame(wire.PING, status=-1).pack()
        yield "lookup of no name", Frame(wire.LOOKUP, 1).pack()
        yield "lookup of a long name", Frame(wire.LOOKUP, 1, body=b"x" * 256).pack()
        yield "short found", Frame(wire.FOUND, 1, body=bytes(95)).pack()
        yield "bye without a status", Frame(wire.BYE).pack()
        yield "notify 0", Frame(wire.NOTIFY, 0).pack()
        yield "notify too far ahead", Frame(wire.NOTIFY, 4097).pack()
        yield "notify with too many bytes", Frame(wire.NOTIFY, 1, body=bytes(wire.MAX_TOLD + 1)).pack()
        yield "notify of a failure with bytes", Frame(wire.NOTIFY, 1, status=wire.ECANCELED, body=b"why").pack()
        yield "notify of a failure with a count", Frame(wire.NOTIFY, 1, wire.COUNTED, status=wire.ECANCELED, body=bytes(8)).pack()
        yield "notify without its count", Frame(wire.NOTIFY, 1, wire.COUNTED, body=bytes(7)).pack()
        yield "notify with too many bytes and a count", Frame(wire.NOTIFY, 1, wire.COUNTED, body=bytes(wire.MAX_TOLD + 9)).pack()
        yield "notify that counts nothing", Frame(wire.NOTIFY, 1, wire.COUNTED, body=bytes(8)).pack()
        yield "noise", bytes(range(255, 0, -1))

    def test_malformed_frames(self):
        ref = self.connect().lookup(b"memory")
        for name, data in self.malformed(ref):
            with self.subTest(name):
                connection = self.connect()
                connection.lanes[0].send(data)
                if name == "number twice":
                    connection.lanes[0].unanswered.append(wire.Request(1, None, False))
                self.ended(wire.EPROTO, connection)

    def test_requests_past_the_credit(self):
        connection = self.connect()
        ref = connection.lookup(b"memory")
        ops, connection.ops = connection.ops, 1 << 30
        with self.assertRaises(Ended):  # the reason can't be told if data that we have not read are in its way
            connection.finish([connection.request(wire.GET, ref, [(0, wire.MAX_PAYLOAD)]) for _ in range(2 * ops)])

    # Lanes, and the end.

    def test_data_lane(self):
        connection, data = self.connect(), os.urandom(MIB)
        ref = connection.lookup(b"memory")
        first, second = connection.join_lane(), connection.join_lane()
        connection.put(ref, [(0, MIB)], data, lane=first)
        self.assertEqual(connection.get(ref, [(0, MIB)], lane=second), data)
        self.assertEqual(connection.get(ref, [(0, MIB)]), data)
        connection.lanes[second].socket.close()
        del connection.lanes[second]
        self.ended(wire.EPEERLOST, connection)

    def test_control_frame_on_a_data_lane(self):
        for frame in (Frame(wire.PING), Frame(wire.LOOKUP, 1, body=b"memory"), Frame(wire.NOTIFY, 1),
                      Frame(wire.BYE, status=wire.ECLOSED)):
            with self.subTest(type=frame.type):
                connection = self.connect()
                connection.lanes[connection.join_lane()].send(frame.pack())
                self.ended(wire.EPROTO, connection)

    def test_lanes_that_are_refused(self):
        connection = self.connect()
        token, connection.token = connection.token, bytes(16)
        self.refused(wire.EAUTH, connection.join_lane)
        connection.token = token
        self.assertEqual(connection.join_lane(), 1)
        taken = connection.lanes.pop()
        self.refused(wire.EAUTH, connection.join_lane)
        connection.lanes.append(taken)
        self.is_up(connection)

    # The local lane.

    def near(self):
        """(connection, its local lane)."""
        connection = self.connect()
        return connection, local.join(connection)

    def test_local_lane(self):
        connection, lane = self.near()
        self.is_up_by(lane, connection)
        ref, data = connection.lookup(b"memory"), os.urandom(MIB)
        connection.put(ref, [(0, MIB)], data, lane=1)  # four times what the ring holds
        self.assertEqual(connection.get(ref, [(0, MIB)], lane=1), data)
        self.assertEqual(connection.get(ref, [(0, MIB)]), data)  # lane 0 carries requests still
        self.refused(wire.ERANGE, connection.get, ref, [(REGION, 1)], lane=1, kind=Failed)

    def is_up_by(self, lane, connection):
        lane.send(Frame(wire.PING, 4711).pack())
        while 4711 not in connection.pongs:
            connection.turn()
        connection.pongs.clear()

    def test_local_lane_from_the_beginning(self):
        listens = self.connect().listens
        near = next(uri for uri in listens if uri.startswith("shm://"))
        connection = local.LocalInitiator(near, self.key)
        self.addCleanup(connection.drop)
        connection.open([(b"memory", False)])
        ref, _ = connection.answer_of(1)
        connection.put(ref, [(0, 5)], b"hello")
        self.assertEqual(connection.get(ref, [(0, 5)]), b"hello")
        connection.close()

    def test_copies_of_mapped_memory(self):
        connection, lane = self.near()
        ref, data = connection.lookup(b"mapped"), os.urandom(MIB)
        region = lane.import_region(ref)
        self.assertIsNotNone(region.here)
        self.assertEqual(lane.copy(ref, 0, data), data)
        self.assertEqual(connection.get(ref, [(0, MIB)]), data)  # the owner sees it
        self.assertEqual(lane.copy(ref, 5, length=100), data[5:105])
        self.assertIsNone(lane.copy(ref, MIB, b"x"))
        self.assertEqual(lane.import_region(ref).stamp, region.stamp)

    def test_copies_by_the_kernel(self):
        connection, lane = self.near()
        ref, data = connection.lookup(b"memory"), os.urandom(MIB)
        self.assertIsNone(lane.import_region(ref).here)
        if not lane.reaches():
            self.skipTest("the kernel lets nobody at the memory of others")
        self.assertEqual(lane.copy(ref, MIB, data), data)
        self.assertEqual(connection.get(ref, [(MIB, MIB)]), data)
        self.assertEqual(lane.copy(ref, MIB + 7, length=9), data[7:16])

    def test_regions_that_are_not_exported(self):
        connection, lane = self.near()
        ref = connection.lookup(b"memory")
        for other in (ref._replace(generation=ref.generation + 1), ref._replace(key=ref.key ^ 1),
                      ref._replace(region=99)):
            self.assertIsNone(lane.import_region(other))
            self.assertIsNone(lane.copy(other, 0, b"late"))
            self.refused(wire.ESTALE, connection.put, other, [(0, 4)], b"late", lane=1, kind=Failed)
        lane.import_region(connection.lookup(b"readonly"))
        self.assertIsNone(lane.copy(connection.lookup(b"readonly"), 0, b"late"))

    def test_atomics_by_the_local_lane(self):
        connection, lane = self.near()
        ref = connection.lookup(b"words")
        self.assertIsNone(lane.import_region(ref).here)  # it lies in no memory that could be mapped
        before = connection.atomic(wire.ADD, ref, 40, 3, lane=1)
        self.assertEqual(connection.atomic(wire.CAS, ref, 40, before, before + 3, lane=1), before + 3)
        self.refused(wire.EINVAL, connection.atomic, wire.ADD, ref, 41, 1, lane=1, kind=Failed)

    def test_messages_by_the_local_lane(self):
        connection, _ = self.near()
        for length in (5, 100000):
            self.server.say(b"receive")
            self.assertEqual(connection.send(os.urandom(length), 7, wire.SYNC), 0)
            self.assertEqual(self.server.lines.get(timeout=SOON), ["received", "7", "0", str(length)])

    def test_notification_of_copies(self):
        connection, lane = self.near()
        ref = connection.lookup(b"mapped")
        lane.import_region(ref)
        notification = connection.begin_notification(40)
        lane.copy(ref, 0, b"data", notification=notification)
        connection.notify(notification)
        self.assertEqual(self.server.notification(), (40, 0))
        lane.copy(ref, 0, b"more", notification=connection.begin_notification(41))
        connection.drop()
        self.assertEqual(self.server.notification(), (41, wire.EPEERLOST))

    def test_lanes_of_wrong_numbers(self):
        connection = self.connect()
        uri = next(uri for uri in connection.listens if uri.startswith("shm://"))
        for number, status in ((1, wire.EAUTH), (0, wire.EPROTO)):
            lane = local.LocalLane(uri)
            self.addCleanup(lane.socket.close)
            lane.say(connection.lane_message(number))
            self.refused(status, lane.hear, wire.LANE_READY)
        lane = self.raw_lane()
        lane.send(connection.lane_message(local.LOCAL_LANE))
        self.refused(wire.EAUTH, wire.read_message, lane.socket, wire.LANE_READY)
        self.is_up(connection)

    def test_bye(self):
        connection = self.connect()
        connection.lanes[0].send(Frame(wire.BYE, status=wire.EAGAIN).pack())  # an offer; we can't be dialed
        answer = connection.lanes[0].read()
        self.assertEqual((answer.type, answer.status), (wire.BYE, wire.EBUSY))
        connection.close()
        again = self.connect(id=connection.id, incarnation=connection.incarnation, seq=2)
        self.is_up(again)

    def test_half_an_end_is_an_end(self):
        connection = self.connect()
        connection.lanes[0].socket.shutdown(1)
        self.ended(wire.EPEERLOST, connection, kind=Ended)

    def test_that_an_honest_peer_is_still_served(self):
        self.assertTrue(self.server.lines.empty())  # nobody was told of what did not happen
        connection, data = self.connect([(b"memory", False)]), os.urandom(MIB)
        ref, _ = connection.answer_of(1)
        notification = connection.begin_notification(99)
        connection.put(ref, [(0, MIB)], data, notification=notification)
        connection.notify(notification)
        self.assertEqual(connection.get(ref, [(0, MIB)]), data)
        self.assertEqual(self.server.notification(), (99, 0))

    def test_that_an_engine_drains(self):
        server = Server(sys.argv[1], self.key)
        self.addCleanup(server.stop)
        connection = Initiator(server.address, self.key).open()
        self.addCleanup(connection.drop)
        ref = connection.lookup(b"memory")
        notification = connection.begin_notification(30)
        connection.put(ref, [(0, 4)], b"data", notification=notification)
        server.say(b"drain")
        while not connection.drained:
            connection.turn()
        self.assertTrue(connection.draining)
        connection.put(ref, [(4, 4)], b"more", notification=notification)  # what has begun goes on
        connection.notify(notification)
        self.assertEqual(server.notification(), (30, 0))
        self.refused(wire.ECLOSED, self.listen, connection, kind=Ended)  # nothing is left, so we go

    def test_that_a_region_waits_for_who_copies(self):
        connection, lane = self.near()
        ref = connection.lookup(b"mapped")
        region = lane.import_region(ref)
        with lane.claimed(region) as there:
            self.assertTrue(there)
            self.server.say(b"unmap")
            while ref.region in lane.imports:  # until it is withdrawn
                connection.turn()
            for _ in range(20):
                self.is_up_by(lane, connection)
            self.assertTrue(self.server.lines.empty())
            region.here[0] = 1  # which is nobody else's yet
        self.assertEqual(self.server.lines.get(timeout=SOON), ["closed"])
        with lane.claimed(region) as there:
            self.assertFalse(there)
        self.refused(wire.ESTALE, connection.put, ref, [(0, 4)], b"late", lane=1, kind=Failed)

    def test_that_the_server_says_bye_by_the_local_lane(self):
        server = Server(sys.argv[1], self.key)
        self.addCleanup(server.stop)
        connection = Initiator(server.address, self.key).open()
        self.addCleanup(connection.drop)
        local.join(connection)
        server.stop()
        self.ended(wire.ECLOSED, connection)

    def test_that_the_server_says_bye(self):
        connection = self.connect()
        self.assertEqual(self.server.stop(), 0)
        self.ended(wire.ECLOSED, connection)


class WithoutKey(Cases, unittest.TestCase):
    pass


class WithKey(Cases, unittest.TestCase):
    key = KEY


class Asking(Dialing, unittest.TestCase):
    """The acceptor's application decides who comes in, by the blob."""

    key = "--ask"

    def visit(self, blob, ask=(), **who):
        attempt = self.dial(key=None, **who)
        return attempt.open(ask, blob=blob)

    def asked(self, blob):
        self.assertEqual(self.server.lines.get(timeout=SOON), ["asks", *([blob] if blob else [])])

    def test_who_is_let_in(self):
        connection = self.visit(b"in", ask=[(b"memory", False)])
        self.asked("in")
        self.is_up(connection)

    def test_who_is_turned_away(self):
        for _ in range(3):
            self.refused(wire.EACCESS, self.visit, b"out", id=b"o" * 16, incarnation=7)
            self.asked("out")

    def test_of_whom_nobody_says_anything(self):
        self.refused(wire.ETIMEDOUT, self.visit, b"")
        self.asked("")

    def test_an_incarnation_of_zero(self):
        """Nobody has been let in by that number."""
        for _ in range(2):
            self.refused(wire.EACCESS, self.visit, b"out", incarnation=0)
            self.asked("out")

    def test_words_while_it_waits(self):
        """A second proof, and a frame: neither is a way in."""
        for kind, status, words in (
                (Refused, wire.EPROTO, lambda attempt: attempt.say_proof(blob=b"in")),
                (Ended, wire.EPEERLOST, lambda attempt: attempt.control.say(Frame(wire.PING, 1).pack()))):
            attempt = self.dial(key=None)
            attempt.greet()
            attempt.say_proof(blob=b"")
            self.asked("")
            words(attempt)
            self.refused(status, attempt.hear_ready, kind=kind)


class Result(unittest.TestResult):
    """One line for each case."""

    passed, failed, left_out = 0, 0, 0

    def startTest(self, test):
        super().startTest(test)
        self.why = self.lacks = None
        signal.alarm(LIMIT)

    def addFailure(self, test, error):
        self.why = self.why or f"{error[0].__name__}: {' '.join(str(error[1]).split())}"

    addError = addFailure

    def addSkip(self, test, reason):
        self.lacks = reason

    def addSubTest(self, test, subtest, error):
        if error and not self.why:
            self.why = f"{subtest._subDescription()}: {error[0].__name__}: {' '.join(str(error[1]).split())}"

    def stopTest(self, test):
        signal.alarm(0)
        group, _, name = test.id().removeprefix("__main__.").partition(".test_")
        self.failed, self.left_out = self.failed + bool(self.why), self.left_out + bool(self.lacks)
        self.passed += not self.why and not self.lacks
        said = self.why or (f"# SKIP {self.lacks}" if self.lacks else "")
        print(("not ok " if self.why else "ok ") + f"{group}: {name.replace('_', ' ')}"
              + (f": {said}" if said else ""), flush=True)


def too_long(*_):
    raise TimeoutError(f"took longer than {LIMIT} s")


def in_order(kind):
    """The cases of a class, as they stand in the file."""
    return [kind(name) for owner in reversed(kind.__mro__) for name in vars(owner) if name.startswith("test_")]


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, too_long)
    result = Result()
    unittest.TestSuite(case for kind in (Vectors, WithoutKey, WithKey, Asking) for case in in_order(kind)).run(result)
    print(f"{result.passed} passed, {result.failed} failed, {result.left_out} skipped")
    sys.exit(1 if result.failed or not result.passed else 0)
