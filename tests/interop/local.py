# SPDX-License-Identifier: Apache-2.0
"""The local lane, written from "The local lane" of lib/wire/README.md: a rendezvous socket, two rings in a shared
segment, and copies to and from regions that the owner exports.

It relies on x86-64 and on CPython: an item of a memoryview of 8 or 4 bytes is moved by one load or store, which the
processor does not reorder but for a store before a load of something else; fence() forbids that.
"""

import ctypes
import fcntl
import mmap
import os
import select
import socket
import struct
import threading
from contextlib import contextmanager

import initiator as wire
from initiator import EPEERLOST, EPROTO, PATIENCE, Ended, Lane

LOCAL_LANE = 255
SEGMENT, MAGIC, VERSION = 721728, 0x3167657372656678, 4
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
PARTS, PART = 64, 360832  # where the parts begin, and the length of one
WRITTEN, READ, SLEEPS, WAITS, CLAIM, NONCE_AT, NONCE, SLOTS, NOTED, RING = (
    0, 64, 128, 192, 256, 320, 328, 384, 33152, 98688)
RING_BYTES, SLOT_COUNT, SPAN = 262144, 4096, 4096
MAX_PACKET, WAKE_UP = 8192, b"\1"
DESCRIPTOR = struct.Struct("=Q")  # the packet that a descriptor comes with: of which mapping it is
KEY = struct.Struct("=7Q")  # of a region
READABLE, WRITABLE, CHANGEABLE = 1, 2, 6  # the last: by puts or atomics

_barrier = threading.Lock()


def fence():
    """No load behind it passes a store before it: the lock is taken by a locked instruction."""
    with _barrier:
        pass


FIELDS = ("slot", "stamp", "base", "length", "access", "mapping", "offset")


def region_key(**fields):
    return KEY.pack(*(fields.get(name, 0) for name in FIELDS))


class Segment:
    """The shared memory: made by the acceptor, taken by the initiator."""

    def __init__(self, fd):
        self.memory = mmap.mmap(fd, SEGMENT)
        self.words, self.halves = memoryview(self.memory).cast("Q"), memoryview(self.memory).cast("I")

    @staticmethod
    def make():
        """(segment, its descriptor), as an acceptor makes it."""
        fd = os.memfd_create("segment", os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, SEGMENT)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
        segment = Segment(fd)
        struct.pack_into("=QII", segment.memory, 0, MAGIC, VERSION, SEGMENT)
        return segment, fd

    @staticmethod
    def take(fds):
        """What came with the acceptor's last message; raises Ended if it is no segment of this version."""
        try:
            if len(fds) != 1 or not fcntl.fcntl(fds[0], fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
                raise Ended(EPROTO)
            if os.fstat(fds[0]).st_size != SEGMENT:
                raise Ended(EPROTO)
            segment = Segment(fds[0])
        except OSError:
            raise Ended(EPROTO) from None
        finally:
            for fd in fds:
                os.close(fd)
        if struct.unpack_from("=QII", segment.memory) != (MAGIC, VERSION, SEGMENT):
            raise Ended(wire.EVERSION)
        return segment

    def part(self, number):
        return Part(self, PARTS + number * PART)


class Part:
    """What one end has of a segment; offsets are those of the page."""

    def __init__(self, segment, start):
        self.segment, self.start = segment, start

    def __getitem__(self, at):
        return self.segment.words[(self.start + at) // 8]

    def __setitem__(self, at, value):
        self.segment.words[(self.start + at) // 8] = value

    def take_flag(self, at):
        """Whether a flag was up, which it is no longer. Both ends write it: one that is put up again between the two
        accesses is lost, but its end is woken all the same."""
        half = (self.start + at) // 4
        if not self.segment.halves[half]:
            return False
        self.segment.halves[half] = 0
        return True

    def set_flag(self, at, value):
        self.segment.halves[(self.start + at) // 4] = value

    def bytes(self, at, length):
        return self.segment.memory[self.start + at:self.start + at + length]

    def put(self, at, data):
        self.segment.memory[self.start + at:self.start + at + len(data)] = data


class Import:
    """A region that its owner exports: where it lies here, if its mapping came, and in the owner's process."""

    def __init__(self, ref, key, here):
        self.generation, self.key = ref.generation, ref.key
        self.slot, self.stamp, self.base, self.length, self.access, _, self.offset = key
        self.here = here


class LocalLane(Lane):
    """A lane through shared memory, and its number; `connection` is whose it is, once it is up."""

    number, connection = LOCAL_LANE, None

    def __init__(self, uri):
        super().__init__(uri.removeprefix("shm://"))
        self.pid, user, _ = struct.unpack("iII", self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if user != os.geteuid():
            self.socket.close()
            raise Ended(EPEERLOST)
        self.read_bytes = self.written_bytes = 0  # our own indices, which we never read back
        self.mine = self.theirs = None
        self.asked, self.imports, self.mappings = {}, {}, {}
        self.over = False  # the socket has ended

    def dial(self, name):
        dialed = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            dialed.connect(b"\0xfer-" + name.encode())
        except OSError:
            dialed.close()
            raise Ended(EPEERLOST) from None
        dialed.settimeout(PATIENCE)
        return dialed

    # The handshake.

    def say(self, message):
        try:
            self.socket.send(message)
        except ConnectionError:
            pass  # the refuse is still to be read

    def hear(self, due):
        try:
            packet, fds, _, _ = socket.recv_fds(self.socket, MAX_PACKET, 2)
        except ConnectionError:
            packet, fds = b"", []
        if not packet:
            raise Ended(EPEERLOST)
        stream = memoryview(packet)

        def take(count):
            nonlocal stream
            if count > len(stream):
                raise Ended(EPROTO)
            taken, stream = bytes(stream[:count]), stream[count:]
            return taken
        try:
            said = wire.take_message(take, due)
            if stream:
                raise Ended(EPROTO)
        except wire.Fault:
            for fd in fds:
                os.close(fd)
            raise
        if due in (wire.READY, wire.LANE_READY):
            self.carry(Segment.take(fds))
        return said

    def carry(self, segment):
        """Frames go by this segment from now on; we are the initiator, and say where our random bytes stand."""
        self.mine, self.theirs = segment.part(0), segment.part(1)
        self.nonce = ctypes.create_string_buffer(os.urandom(16), 16)
        self.mine.put(NONCE, self.nonce.raw)
        self.mine[NONCE_AT] = ctypes.addressof(self.nonce)

    # The rings.

    def wake(self):
        try:
            self.socket.send(WAKE_UP, socket.MSG_DONTWAIT)
        except OSError:
            pass  # what is in the queue wakes

    def room(self):
        used = self.written_bytes - self.mine[READ]
        if not 0 <= used <= RING_BYTES:
            raise Ended(EPEERLOST)
        return RING_BYTES - used

    def there(self):
        there = self.theirs[WRITTEN] - self.read_bytes
        if not 0 <= there <= RING_BYTES:
            raise Ended(EPEERLOST)
        return there

    def send(self, data):
        data = memoryview(data)
        while data and not self.over:
            room = self.wait(self.mine, WAITS, self.room)
            at = self.written_bytes % RING_BYTES
            some = min(room, len(data), RING_BYTES - at)
            self.mine.put(RING + at, data[:some])
            data, self.written_bytes = data[some:], self.written_bytes + some
            self.mine[WRITTEN] = self.written_bytes
            fence()
            if self.mine.take_flag(SLEEPS):
                self.wake()

    def take(self, count):
        parts = []
        while count:
            there = self.wait(self.theirs, SLEEPS, self.there)
            if not there:
                raise Ended(EPEERLOST)
            at = self.read_bytes % RING_BYTES
            some = min(there, count, RING_BYTES - at)
            parts.append(self.theirs.bytes(RING + at, some))
            count, self.read_bytes = count - some, self.read_bytes + some
            self.theirs[READ] = self.read_bytes
            fence()
            if self.theirs.take_flag(WAITS):
                self.wake()
        return b"".join(parts)

    def wait(self, part, flag, look):
        """Sleeps until look() finds something, which it returns; 0 if the peer has gone."""
        while not (found := look()):
            part.set_flag(flag, 1)
            fence()
            if not look():
                if self.over:
                    return 0
                self.hear_packet()
            part.set_flag(flag, 0)
        return found

    def waiting(self):
        """Whether there is something to read; else the peer is asked to wake us."""
        while not self.over and select.select([self.socket], [], [], 0)[0]:
            self.hear_packet()
        self.theirs.set_flag(SLEEPS, 1)
        fence()
        return self.over or self.there() > 0

    due = waiting

    # Regions that are exported.

    def hear_packet(self):
        """The next packet of the socket."""
        try:
            packet, fds, _, _ = socket.recv_fds(self.socket, MAX_PACKET, 2)
        except TimeoutError:
            raise
        except OSError:
            packet, fds = b"", []
        try:
            if not packet:
                self.over = True
            elif packet != WAKE_UP:
                self.hear_descriptor(packet, fds)
        finally:
            for fd in fds:
                os.close(fd)

    def hear_descriptor(self, packet, fds):
        if len(packet) != DESCRIPTOR.size:
            raise Ended(EPROTO)
        mapping, = DESCRIPTOR.unpack(packet)
        if mapping and len(fds) == 1:
            self.mappings[mapping] = map_memory(fds[0])

    def hear_export(self, frame):
        if frame.seq != self.number:
            return
        if frame.type == wire.EXPORTED and frame.region in self.asked:
            self.imports[frame.region] = self.see(self.asked.pop(frame.region), frame)
        elif frame.type == wire.WITHDRAW:
            self.imports.pop(frame.region, None)
            for writable in (0, 1):  # of an allocation that was made with it; regions that lie there keep it
                self.mappings.pop(2 * frame.region + writable, None)

    def see(self, ref, frame):
        """What an exported tells of a region; None: it is not to be reached."""
        if frame.status or len(frame.body) != KEY.size:
            return None
        while not self.over and select.select([self.socket], [], [], 0)[0]:
            self.hear_packet()  # a descriptor was sent before the key that names it
        key = KEY.unpack(frame.body)
        slot, stamp, _, length, access, mapping, offset = key
        if slot >= SLOT_COUNT or not stamp:
            return None
        here, writable = self.mappings.get(mapping) or (None, False)
        if here is not None and (offset + length > len(here) or access & CHANGEABLE and not writable):
            here = None
        return Import(ref, key, here)

    def import_region(self, ref):
        """Asks for a region, and waits for the answer: an Import, or None."""
        self.asked[ref.region] = ref
        self.connection.control.send(request_export(self.number, ref))
        while ref.region in self.asked:
            self.connection.turn()
        return self.imports[ref.region]

    @contextmanager
    def claimed(self, region):
        """Claims a region for a copy; gives whether it is still there."""
        self.mine[CLAIM] = region.stamp
        fence()
        try:
            yield self.theirs[SLOTS + 8 * region.slot] == region.stamp
        finally:
            self.mine[CLAIM] = 0

    def copy(self, ref, offset, data=None, length=0, notification=None):
        """Puts `data`, or gets `length` bytes, without the owner: the bytes. None: it has to go by a request."""
        region = self.imports.get(ref.region)
        length = length if data is None else len(data)
        access = READABLE if data is None else WRITABLE
        if not region or (region.generation, region.key) != (ref.generation, ref.key) or not region.access & access \
                or offset + length > region.length:
            return None
        if notification and data is not None:
            self.note(*notification)
        with self.claimed(region) as there:
            if there and region.here is not None:
                return copy_mapped(region.here, region.offset + offset, data, length)
            return copy_by_kernel(self.pid, region.base + offset, data, length) if there else None

    def note(self, number, key):
        """Tells the owner of a notification before its first copy; the key first."""
        at = NOTED + 16 * (number % SPAN)
        if self.mine[at] != number:
            self.mine[at + 8], self.mine[at] = key, number

    def reaches(self):
        """Whether the kernel lets us at the owner's memory: tried where only it knows what stands."""
        return copy_by_kernel(self.pid, self.theirs[NONCE_AT], None, 16) == self.theirs.bytes(NONCE, 16)


def request_export(lane, ref):
    return wire.Frame(wire.REQUEST_EXPORT, lane, region=ref.region, generation=ref.generation,
                      body=struct.pack("<Q", ref.key)).pack()


def map_memory(fd):
    """(memory, whether it may be written) of a descriptor that came; None: it is no memory that stays."""
    try:
        if not fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK:
            return None
        writable = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR
        return mmap.mmap(fd, 0, prot=mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)), writable
    except (OSError, ValueError):
        return None


def copy_mapped(memory, at, data, length):
    if data is not None:
        memory[at:at + length] = data
    return memory[at:at + length] if data is None else data


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


LIBC = ctypes.CDLL(None, use_errno=True)


def copy_by_kernel(pid, at, data, length):
    """The bytes; None if the kernel did not move them all."""
    local = ctypes.create_string_buffer(data if data is not None else length, length)
    call = LIBC.process_vm_readv if data is None else LIBC.process_vm_writev
    call.restype = ctypes.c_ssize_t
    moved = call(pid, ctypes.byref(Vector(ctypes.addressof(local), length)), ctypes.c_ulong(1),
                 ctypes.byref(Vector(at, length)), ctypes.c_ulong(1), ctypes.c_ulong(0))
    return local.raw if moved == length else None


def enter(connection):
    """Opens the local lane of a connection, whose control channel stays where it is; returns the lane."""
    lane = LocalLane(next(uri for uri in connection.listens if uri.startswith("shm://")))
    try:
        lane.say(connection.lane_message(LOCAL_LANE))
        _, fields, _ = lane.hear(wire.LANE_READY)
        if fields["lane"] != LOCAL_LANE:
            raise Ended(EPROTO)
    except wire.Fault:
        lane.socket.close()
        raise
    lane.connection = connection
    return lane


def join(connection):
    """Opens the local lane of a connection, and switches its control channel to it; returns the lane."""
    lane = enter(connection)
    connection.control.send(wire.Frame(wire.CONTROL_SWITCH).pack())
    connection.control = lane
    while connection.heard is not lane:
        connection.turn()
    connection.lanes.append(lane)
    return lane


class LocalInitiator(wire.Initiator):
    """One whose lane 0 is the local one: it dials a shm:// address."""

    def lane(self):
        lane = LocalLane(self.address)
        lane.number, lane.connection = 0, self
        return lane
