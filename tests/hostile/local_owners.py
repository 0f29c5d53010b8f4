# SPDX-License-Identifier: Apache-2.0
"""Hostile local peers as owners: an engine of the library dials them through shared memory, looks up, gets and puts."""

import fcntl
import os
import socket
import struct
import time

import initiator as wire
import local
from acceptor import LENGTH, LIMIT, OK, Acceptor, visit
from lab import SOON, check, same, vector
from local import DESCRIPTOR, SLOTS, region_key

MAPPING = 11  # of memory that may be written
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
NO_LANE = tuple(range(-40, 0))  # why there is none is for the vector to say
WILD = (1, local.SLOT_COUNT, 1 << 32, 1 << 63, (1 << 64) - 1)


class OwnerLane(local.LocalLane):
    """The acceptor's end of a local lane."""

    def __init__(self, sock, segment):
        self.socket = sock
        self.read_bytes = self.written_bytes = 0
        self.mine, self.theirs = segment.part(1), segment.part(0)
        self.over = False

    def hear_descriptor(self, packet, fds):
        """The client exports nothing."""

    def bring(self, mapping, fd):
        socket.send_fds(self.socket, [DESCRIPTOR.pack(mapping)], [fd])


class LocalOwner(Acceptor):
    """Exports the vault as mapped memory. Each step is a method that a vector may replace."""

    lane = None

    def open(self):
        name = os.urandom(16).hex()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(b"\0xfer-" + name.encode())
        listener.listen(64)
        return listener, f"shm://{name}"

    def hear(self):
        packet = self.sock.recv(local.MAX_PACKET)
        if not packet:
            raise wire.Ended(wire.EPEERLOST)
        body, proof = packet[16:], packet[7]
        return packet[:len(packet) - proof], wire.read_map(body[:len(body) - proof]), body[len(body) - proof:]

    def visit(self):
        self.lane = None
        super().visit()

    def say(self, data):
        if self.lane:
            return self.lane.send(data)
        if data[4] != wire.READY:
            return self.sock.send(data)
        segment, fds = self.segment()
        socket.send_fds(self.sock, [data], fds)
        for fd in set(fds):
            os.close(fd)
        self.lane, self.asked = OwnerLane(self.sock, segment), False

    def segment(self):
        """(segment, the descriptors to be sent)."""
        segment, fd = local.Segment.make()
        return segment, [fd]

    def read(self):
        return self.lane.read()

    def serve(self, frame):
        if frame.type != wire.REQUEST_EXPORT:
            return super().serve(frame)
        self.asked, self.number = True, frame.seq
        return self.export(frame.region)

    def give(self, frame, data):
        """Behind the answer to the question: the put that follows is to be copied."""
        while not self.asked:
            self.serve(self.read())
        super().give(frame, data)

    def export(self, region):
        self.exported(region)

    def exported(self, region, fd=None, stamp=1, **changes):
        """Answers a question; the vault lies at the beginning of its mapping."""
        fields = {"slot": 0, "stamp": stamp, "base": 0, "length": LENGTH, "access": 3, "mapping": MAPPING, "offset": 0,
                  **changes}
        if fields["slot"] < local.SLOT_COUNT:
            self.lane.mine[SLOTS + 8 * fields["slot"]] = stamp
        fd = self.vault() if fd is None else fd
        self.lane.bring(MAPPING, fd)
        self.tells(wire.EXPORTED, region, body=region_key(**fields))
        os.close(fd)

    def tells(self, type, region, **fields):
        self.send(type, self.number, region=region, **fields)

    def vault(self, seals=SEALS, length=LENGTH, mode=None):
        """A descriptor of memory with the vault's bytes."""
        fd = os.memfd_create("vault", os.MFD_ALLOW_SEALING)
        os.write(fd, self.memory[:length])
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        if mode is None:
            return fd
        again = os.open(f"/proc/self/fd/{fd}", mode)
        os.close(fd)
        return again


def owner(lab, **steps):
    """An owner that takes these steps in another way."""
    made = LocalOwner(lab)
    for name, step in steps.items():
        setattr(made, name, step.__get__(made))
    return made


def owner_attack(function):
    """An attack after which the client has the descriptors that it had."""
    def run(lab):
        def held():
            return lab.client.ask(f"{lab.server.uri} 3000", "visit")["fds"]
        before = held()
        function(lab)
        until = time.monotonic() + SOON
        while held() != before:
            check(time.monotonic() < until, "the client holds more descriptors than before")
    run.__name__ = function.__name__
    return vector(run)


def works(lab, **steps):
    """What the owner exports may be nonsense: everything goes by the rings, and well."""
    visit(lab, owner(lab, **steps), 3000)


def has_no_lane(lab, make):
    visit(lab, owner(lab, segment=lambda self: make()), 150, NO_LANE)


@owner_attack
def an_owner_that_is_honest(lab):
    requests = []
    visit(lab, owner(lab, take=lambda self, frame: requests.append(frame) or Acceptor.take(self, frame)), 3000)
    same(requests, [], "puts that were not copied")


@owner_attack
def segments_that_are_none(lab):
    def changed(at, value):
        def make():
            segment, fd = local.Segment.make()
            struct.pack_into("=I", segment.memory, at, value)
            return segment, [fd]
        return make

    def of_memory(size, seals):
        fd = os.memfd_create("segment", os.MFD_ALLOW_SEALING)
        os.write(fd, struct.pack("=QII", local.MAGIC, local.VERSION, local.SEGMENT))
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
        return local.Segment(fd) if size >= local.SEGMENT else local.Segment.make()[0], [fd]

    for at in (0, 4, 8, 12):  # magic, version and size
        has_no_lane(lab, changed(at, 99))
    for size, seals in ((local.SEGMENT, 0), (local.SEGMENT - 1, SEALS), (local.SEGMENT + 1, SEALS), (0, SEALS),
                        (1 << 40, SEALS)):
        has_no_lane(lab, lambda size=size, seals=seals: of_memory(size, seals))


@owner_attack
def descriptors_that_are_no_segment(lab):
    def opened(path, flags):
        return lambda: (local.Segment.make()[0], [os.open(path, flags)])

    def many(count):
        segment, fd = local.Segment.make()
        return segment, [fd] * count

    for make in (opened("/", os.O_DIRECTORY), opened("/", os.O_PATH), opened("/dev/null", os.O_RDWR),
                 opened("/dev/zero", os.O_RDWR), lambda: many(0), lambda: many(2), lambda: many(100)):
        has_no_lane(lab, make)


@owner_attack
def memory_that_is_not_to_be_mapped(lab):
    works(lab, export=lambda self, region: self.exported(region, self.vault(seals=0)))
    works(lab, export=lambda self, region: self.exported(region, self.vault(length=5000)))
    works(lab, export=lambda self, region: self.exported(region, self.vault(mode=os.O_RDONLY)))  # access says write
    for path, flags in (("/", os.O_DIRECTORY), ("/", os.O_PATH), ("/dev/null", os.O_RDWR), ("/dev/zero", os.O_RDWR)):
        works(lab, export=lambda self, region, path=path, flags=flags: self.exported(region, os.open(path, flags)))


@owner_attack
def memory_that_is_cut_short_once_it_was_exported(lab):
    def export(self, region):
        fd = self.vault(seals=0)
        again = os.dup(fd)
        self.exported(region, fd)
        os.ftruncate(again, 0)
        os.close(again)
    works(lab, export=export)


@owner_attack
def memory_that_is_mapped_for_reading(lab):
    works(lab, export=lambda self, region: self.exported(region, self.vault(mode=os.O_RDONLY), access=1))


@owner_attack
def fields_of_keys_that_are_wild(lab):
    for field in ("slot", "stamp", "base", "offset", "access", "mapping"):
        for value in WILD:
            if field == "slot" and value == 1 or field == "mapping":
                continue  # as good as any
            if field == "offset" and value <= 1 << 12 or field == "access" and value & 3:
                continue  # the memory there is the owner's to say
            works(lab, export=lambda self, region, field=field, value=value: self.exported(region, **{field: value}))
    for value in WILD:
        works(lab, export=lambda self, region, value=value: self.exported(region, mapping=value))
    works(lab, export=lambda self, region: self.exported(region, length=(1 << 64) - 1, offset=1))


@owner_attack
def a_slot_that_is_cleared_at_once(lab):
    def export(self, region):
        self.exported(region)
        self.lane.mine[SLOTS] = 0
    works(lab, export=export)


@owner_attack
def keys_of_any_length(lab):
    for length in (0, 1, 55, 57, wire.MAX_EXPORT_KEY):
        works(lab, export=lambda self, region, length=length: self.tells(wire.EXPORTED, region, body=bytes(length)))


@owner_attack
def answers_twice_and_of_what_nobody_asked(lab):
    def export(self, region):
        for number in (0, region + 1, 1 << 63, (1 << 64) - 1):
            self.tells(wire.EXPORTED, number, body=region_key(slot=number % 4096, stamp=number, mapping=number))
            self.tells(wire.WITHDRAW, number)
        self.exported(region)
        self.exported(region, stamp=2, slot=1, offset=1 << 40)
    works(lab, export=export)


@owner_attack
def regions_and_mappings_that_end_at_once(lab):
    def export(self, region):
        self.exported(region)
        self.tells(wire.WITHDRAW, MAPPING >> 1)
        self.tells(wire.WITHDRAW, region)
    works(lab, export=export)


@owner_attack
def regions_that_are_not_exported_now_and_never(lab):
    def refuses(status):
        def export(self, region):
            self.tells(wire.EXPORTED, region, status=status)
        return export
    for status in (wire.EAGAIN, wire.ESTALE, -99):
        works(lab, export=refuses(status))


@owner_attack
def questions_that_are_never_answered(lab):
    works(lab, export=lambda self, region: None)


@owner_attack
def rings_that_hold_nonsense(lab):
    def give(self, frame, data):
        self.lane.mine[local.WRITTEN] = self.lane.written_bytes + local.RING_BYTES + 1
        self.lane.wake()
        self.over.wait(SOON)  # longer than the put behind it waits for another connection
    visit(lab, owner(lab, give=give, export=lambda self, region: None), LIMIT, OK, NO_LANE, NO_LANE)
