# SPDX-License-Identifier: Apache-2.0
"""What a vector of attack works with: the programs, hostile connections to them, and the checks after each vector."""

import os
import queue
import reprlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "interop"))
import initiator as wire
from initiator import Closed, Ended, Frame, Initiator, Lane, Refused

KEY = b"a key of the hostile test, 32 bytes or more"
SOON = 5  # seconds for what should come at once
LIMIT = 45  # seconds for a vector
VAULT = 1 << 20  # bytes of the region that never changes
VECTORS = []
ports = set()  # of all who ever listened here


def vector(function):
    """Registers an attack; what its name says is what it does."""
    VECTORS.append(function)
    return function


class Skipped(Exception):
    """A vector that cannot run here, and why."""


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def same(found, wanted, what=""):
    check(found == wanted, f"{what}: {reprlib.repr(found)} in place of {reprlib.repr(wanted)}")


def listen():
    """Listens at a port of its own: where one has failed before, the client waits before it dials again."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    port = listener.getsockname()[1]
    if port in ports:
        with listener:  # until another is found, so that this one isn't given again
            return listen()
    ports.add(port)
    return listener


class Program:
    """A child process, and the lines that it prints."""

    def __init__(self, *command, **environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env={**os.environ, **environment})
        self.uri = self.process.stdout.readline().decode().strip()
        host, _, port = self.uri.removeprefix("tcp://").rpartition(":")
        self.address = host, int(port)
        self.lines = queue.Queue()
        self.said = []  # lines that were not waited for
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line.decode().split())
        self.lines.put(["ended"])

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def wait(self, word, limit=SOON):
        """The words behind `word` in the next line that begins with it."""
        for line in self.said:
            if line[0] == word:
                self.said.remove(line)
                return line[1:]
        while True:
            line = self.lines.get(timeout=limit)
            check(line[0] != "ended", "the program has ended")
            if line[0] == word:
                return line[1:]
            self.said.append(line)

    def ask(self, line, word, limit=SOON):
        """The numbers that answer a line, by their names."""
        self.say(line)
        words = self.wait(word, limit)
        return {name: int(value) for name, value in zip(words[::2], words[1::2])}

    def report(self):
        return self.ask("report", "report")

    def stop(self):
        self.process.stdin.close()
        return self.process.wait(SOON)


class Honest(Program):
    """An honest peer that never stops: it puts, gets and compares while a vector attacks who serves it."""

    def __init__(self, program, target, key, local):
        transports = {} if local else {"XFER_TRANSPORTS": "tcp"}
        super().__init__(program, target.uri, *([key] if key else []), **transports)
        self.rounds = 0

    def goes_on(self):
        """It has verified more since the last time, some of it begun now, all on its one connection."""
        told = self.ask("report", "honest", 4 * SOON)
        check(told["rounds"] > self.rounds, "the honest peer is not served")
        self.rounds = told.pop("rounds")
        check(not any(told.values()), f"what the honest peer met: {told}")


class Lab:
    """A server with honest peers, and what the vector under way has opened."""

    def __init__(self, server, client, honest, key, dials=False, local=False):
        """`dials`: what is attacked is the client, which has its connection to the server from the beginning. `local`:
        the honest peer shares memory with what is attacked."""
        self.key, self.opened = key, []
        self.server, self.client = (Program(program, *([key] if key else [])) for program in (server, client))
        if dials:
            self.client.ask(f"{self.server.uri} 5000", "visit")
        self.member = Honest(honest, self.client if dials else self.server, key, local)
        self.programs = self.member, self.client, self.server
        self.begin()

    def begin(self):
        """The honest peer, and how things are when nobody else is there."""
        self.honest = Initiator(self.server.address, self.key).open([(b"desk", False), (b"vault", False)])
        self.desk, self.vault = self.honest.answer_of(1)[0], self.honest.answer_of(2)[0]
        self.serve_honest()
        self.normal = self.server.report()

    # What a vector opens.

    def dial(self, key=Ellipsis, **who):
        """An attempt that has said nothing yet."""
        attempt = Initiator(self.server.address, self.key if key is Ellipsis else key, **who)
        self.opened.append(attempt.drop)
        return attempt

    def connect(self, ask=(), **who):
        return self.dial(**who).open(ask)

    def understands(self):
        """A connection of one who knows that lanes may end alone."""
        attempt = self.dial()
        attempt.features = wire.LANES_END_ALONE
        return attempt.open()

    def lane(self):
        """A TCP connection."""
        lane = Lane(self.server.address)
        self.opened.append(lane.socket.close)
        return lane

    def socket(self):
        return self.lane().socket

    def put(self, seq=1, pieces=((0, 4),), data=b"evil", ref=None, **fields):
        """A put into the vault, with fields of the frame that are to be other than they should."""
        return self.access(wire.PUT, seq, pieces, data, ref, {"flags": wire.ACK_WANTED, **fields})

    def get(self, seq=1, pieces=((0, 4),), ref=None, **fields):
        return self.access(wire.GET, seq, pieces, b"", ref, fields)

    def access(self, type, seq, pieces, data, ref, fields):
        ref = ref or self.vault
        body = wire.access_of(ref, pieces, fields.pop("notification", None), fields.pop("checksum", None)) + data
        frame = Frame(type, seq, 0, len(pieces), ref.region, ref.generation, body=body)
        return frame._replace(**fields)

    # What a vector expects.

    def fails(self, kind, status, action, *arguments, **more):
        try:
            action(*arguments, **more)
        except wire.Fault as fault:
            same((type(fault).__name__, fault.status), (kind.__name__, status), "how it failed")
        else:
            raise AssertionError(f"did not fail with {kind.__name__} {status}")

    def refused(self, status, action, *arguments, **more):
        self.fails(Refused, status, action, *arguments, **more)

    def hung_up(self, lane):
        """The other end closes without a word, at once."""
        lane.socket.settimeout(SOON)
        try:
            said = lane.socket.recv(1 << 16)
        except ConnectionError:
            said = b""
        same(said, b"", "said before it closed")

    def refuses(self, data, status):
        """What a server answers to these bytes in place of a hello; None: it closes without a word."""
        lane = self.lane()
        lane.send(data)
        if status is None:
            return self.hung_up(lane)
        self.refused(status, wire.read_message, lane.socket, wire.REPLY)
        self.hung_up(lane)

    def ends(self, connection, status=wire.EPROTO):
        """The server says bye with that status."""
        def listen():
            while True:
                connection.turn()
        self.fails(Closed, status, listen)

    def ended(self, connection):
        """The server ends the connection, whatever it says."""
        try:
            while True:
                connection.turn()
        except Ended:
            pass

    def breaks(self, *frames, status=wire.EPROTO):
        """A connection that says this is ended for that reason."""
        connection = self.connect()
        for frame in frames:
            connection.lanes[0].send(frame if isinstance(frame, bytes) else frame.pack())
        self.ends(connection, status)

    def survives(self, *frames):
        """A connection that says this goes on; returns it."""
        connection = self.connect()
        for frame in frames:
            connection.lanes[0].send(frame if isinstance(frame, bytes) else frame.pack())
        self.is_up(connection)
        return connection

    def is_up(self, connection):
        connection.lanes[0].send(Frame(wire.PING, 4711).pack())
        while 4711 not in connection.pongs:
            connection.turn()
        connection.pongs.clear()

    def answers(self, connection, *frames):
        """Sends requests; the types and statuses of their answers. One ack may be for several."""
        for frame in frames:
            connection.lanes[0].send(frame.pack())
        found, last = [], frames[0].seq - 1
        while len(found) < len(frames):
            frame = connection.lanes[0].read()
            check(frame, "a malformed frame of the server")
            if frame.type in (wire.ACK, wire.ERROR, wire.DATA):
                found += [(frame.type, frame.status)] * (frame.seq - last)
                last = frame.seq
        return found

    # After each vector.

    def serve_honest(self, bytes=4096):
        data, offset = os.urandom(bytes), int.from_bytes(os.urandom(2), "little")
        self.honest.put(self.desk, [(offset, bytes)], data)
        same(self.honest.get(self.desk, [(offset, bytes)]), data, "what the honest peer has put")

    def close_all(self):
        while self.opened:
            self.opened.pop()()

    def settle(self, limit=SOON):
        """Whatever happened: the server lives, has served all along, holds what it held, and nothing of it changed."""
        self.member.goes_on()
        self.close_all()
        self.member.goes_on()
        self.serve_honest()
        until = time.monotonic() + limit
        while True:
            now = self.server.report()
            same(now["sum"], self.normal["sum"], "the memory that nobody may change")
            if all(now[name] == self.normal[name] for name in ("fds", "connections")):
                return
            check(time.monotonic() < until, f"what is left: {now}, before: {self.normal}")
            time.sleep(0.005)

    def stop(self):
        self.close_all()
        self.honest.drop()
        for program in self.programs:
            same(program.stop(), 0, "how a program ended")


def reset(sock):
    """Ends a TCP connection by a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def hears_closed(connection, number):
    """Reads the control lane up to what is said of that lane."""
    while True:
        frame = connection.control.read()
        check(frame, "a malformed frame of the server")
        if frame.type == wire.LANE_CLOSED:
            return same((frame.seq, frame.flags, frame.status, frame.body), (number, 0, 0, b""), "what is said")


def raw_message(kind, body, versions=(1, 1), proof=0, length=None, zero=0, magic=b"XFER"):
    """A message of the handshake of which nothing needs to be true."""
    return struct.pack("<4s4BII", magic, kind, *versions, proof, len(body) if length is None else length, zero) + body


def run(vectors, make):
    """Runs each vector and tells how it went; returns how many failed."""
    def too_long(*_):
        raise TimeoutError(f"took longer than {LIMIT} s")
    signal.signal(signal.SIGALRM, too_long)
    lab, failed, skipped = make(), 0, 0
    for function in vectors:
        name, began = function.__name__.replace("_", " "), time.monotonic()
        signal.alarm(LIMIT)
        try:
            function(lab)
            lab.settle()
        except Skipped as why:
            skipped += 1
            print(f"skip: {name}: {why}", flush=True)
        except (Exception, queue.Empty) as error:
            signal.alarm(0)
            failed += 1
            print(f"FAILED: {name}: {type(error).__name__}: {error}", flush=True)
            lab.close_all()
            for program in lab.programs:
                program.process.kill()
            lab = make()  # the next vector meets a server that nothing happened to
        else:
            print(f"[       OK ] {name} ({time.monotonic() - began:.2f} s)", flush=True)
        finally:
            signal.alarm(0)
    lab.stop()
    if failed:
        print(f"[  FAILED  ] {failed} test(s)")
    if skipped:
        print(f"[  SKIPPED ] {skipped} test(s)")
    print(f"{len(vectors) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return failed
