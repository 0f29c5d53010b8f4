# SPDX-License-Identifier: Apache-2.0
"""Hostile local peers as initiators: what they share with an engine of the library holds anything at any time."""

import errno
import fcntl
import os
import signal
import socket
import struct
import time

import initiator as wire
import local
from initiator import EPEERLOST, LANE_CLOSED, Frame, Initiator
from lab import LIMIT, SOON, Skipped, check, hears_closed, same, vector
from local import CLAIM, DESCRIPTOR, LOCAL_LANE, NOTED, READ, SLEEPS, SLOT_COUNT, SLOTS, SPAN, WAITS, WRITTEN

NOBODY = 65534
NOTIFIED = 4713  # the key of a notification
LIVES = 4714, 4715  # incarnations of one peer
TOLD = [f"up {LIVES[0]}", f"notify {NOTIFIED} {EPEERLOST}",
        f"down {EPEERLOST} 1 {errno.ETIMEDOUT} an old connection did not answer", f"up {LIVES[1]}"]
ASIDE = 2 << 20  # of the desk, behind what the honest peer of the lab writes


def near(lab):
    """(connection, its local lane)."""
    connection = lab.connect()
    return connection, local.join(connection)


def joining(lab):
    """(connection of one who knows that lanes may end alone, its local lane, where control frames do not go yet)."""
    connection = lab.understands()
    lane = local.enter(connection)
    lab.opened.append(lane.socket.close)
    connection.control.hear_export = lane.hear_export
    return connection, lane


def exports(lab):
    """(connection, lane, the import of a region of mapped memory that is new)."""
    lab.server.say("map")
    lab.server.wait("mapped")
    connection, lane = near(lab)
    return connection, lane, lane.import_region(connection.lookup(b"mapped"))


def is_up(connection):
    connection.control.send(Frame(wire.PING, 4711).pack())
    while 4711 not in connection.pongs:
        connection.turn()
    connection.pongs.clear()


def closes(lab):
    """The region that was mapped ends."""
    lab.server.wait("closed")


def stays_open(lab):
    """It does not, in the time of some answers of the server."""
    for _ in range(20):
        lab.server.report()
    check(["closed"] not in lab.server.said, "the region has ended while it is claimed")


def killed(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def claims(connection, notifies):
    """The mapped region is claimed, as by who is about to put to it, with a notification or not; the local lane."""
    lane = local.join(connection)
    region = lane.import_region(connection.lookup(b"mapped"))
    if notifies:
        lane.note(1, NOTIFIED)
    lane.mine[CLAIM] = region.stamp
    return lane


def child_that_claims(lab, notifies=False, **who):
    """(a process that claims the mapped region and does nothing more, the socket of its lane 0)."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(0)
            connection = Initiator(lab.server.address, lab.key, **who).open()
            claims(connection, notifies)
            socket.send_fds(theirs, [b"1"], [connection.lanes[0].socket.fileno()])
            while True:
                signal.pause()
        finally:
            os._exit(1)
    theirs.close()
    with ours:
        said, fds, _, _ = socket.recv_fds(ours, 1, 1)
    same(said, b"1", "what the process that claims says")
    lane = socket.socket(fileno=fds[0])
    lab.opened.append(lane.close)
    return child, lane


def lives(lab, count):
    """What the server tells of the two lives of a peer, and of the notification of the first, once that is so much."""
    while True:
        told = [line for line in map(" ".join, lab.server.said) if line in TOLD]
        if len(told) >= count:
            return told
        lab.server.report()


def comes_again(lab, id, lane, let_go):
    """The peer is restarted while its earlier life, which says nothing any more, may still write to memory."""
    again = lab.dial(id=id, incarnation=LIVES[1])
    again.greet()
    again.say_proof()
    lane.settimeout(SOON)
    while lane.recv(4096):
        pass  # the server closes it; of that connection nothing is left but the claim
    for _ in range(20):
        lab.server.report()
    same(lives(lab, 0), TOLD[:1], "what is told while the memory is claimed")
    check(not again.control.waiting(), "the restarted peer is let in while its earlier life may still write")
    let_go()
    again.hear_ready()
    same(lives(lab, len(TOLD)), TOLD, "what is told of both lives")
    lab.server.say("unmap")
    closes(lab)
    is_up(again)
    for _ in range(20):
        lab.server.report()
    same(lives(lab, 0), TOLD, "what is told of both lives, after a while")
    lab.server.said = [line for line in lab.server.said if " ".join(line) not in TOLD]


# Rings.

@vector
def indices_of_the_rings_that_are_nonsense(lab):
    for index in (1, local.RING_BYTES, 1 << 40, 1 << 63):  # past what there can be
        connection, lane = near(lab)
        lane.mine[WRITTEN] = lane.written_bytes + local.RING_BYTES + index
        lane.wake()
        lab.ended(connection)
        # How far we have read is looked at where the room that was there does not suffice for the answers. A little
        # ahead, it may be the truth by then: whoever says it misses some of them.
        connection, lane = near(lab)
        lane.theirs[READ] = lane.theirs[WRITTEN] + index
        pings = Frame(wire.PING, 1).pack() * (2 * local.RING_BYTES // wire.FRAME.size)
        try:
            lane.send(pings if index > local.RING_BYTES else pings[: local.RING_BYTES // 2])
        except wire.Ended:
            pass
        while index > local.RING_BYTES and not lane.over:  # nothing is read meanwhile, which would say the truth
            lane.hear_packet()
        connection.drop()


@vector
def indices_of_the_rings_that_go_back(lab):
    connection, lane = near(lab)
    is_up(connection)
    lane.mine[WRITTEN] = 0
    lane.wake()
    lab.ended(connection)


@vector
def frames_that_come_byte_by_byte_and_never_whole(lab):
    connection, lane = near(lab)
    for byte in Frame(wire.PING, 4711).pack():
        lane.send(bytes([byte]))
    while 4711 not in connection.pongs:
        connection.turn()
    put = lab.put(ref=lab.desk, pieces=((ASIDE, 4096),), data=bytes(4096)).pack()
    for size in (1, 31, 33, 60, 4000):
        near(lab)[1].send(put[:size])


@vector
def bytes_that_change_while_they_are_read(lab):
    frame = lab.put(ref=lab.desk, pieces=((ASIDE, 64),), data=bytes(64)).pack()
    for _ in range(5):
        connection, lane = near(lab)
        at = lane.written_bytes
        lane.send(frame * 100)
        for i in range(20000):
            place = local.RING + (at + i * 7) % (100 * len(frame))
            lane.mine.put(place, bytes([i & 255]))
        connection.drop()


@vector
def flags_of_sleepers_that_change_at_will(lab):
    connection, lane = near(lab)
    for i in range(2000):
        lane.theirs.set_flag(SLEEPS, i & 1)
        lane.theirs.set_flag(WAITS, 0xFFFFFFFF if i & 2 else 0)
        lane.mine.set_flag(WAITS, i & 1)
        lane.send(Frame(wire.PING, 1).pack())
        lane.mine.set_flag(SLEEPS, 0)  # it may sleep on
        if i % 100 == 0:
            lane.wake()
            while len(connection.pongs) < i:
                lane.wake()
                connection.turn()
    lane.wake()
    is_up(connection)


# A lane that is closed before the control channel has moved to it.

@vector
def a_lane_that_is_closed_while_it_joins(lab):
    """What it carries is not looked at any more, though the control channel would move there afterwards."""
    for shifts in (False, True):
        connection, lane = joining(lab)
        lane.send(lab.put().pack())
        connection.control.send(Frame(LANE_CLOSED, local.LOCAL_LANE).pack())
        hears_closed(connection, local.LOCAL_LANE)
        if shifts:
            connection.control.send(Frame(wire.CONTROL_SWITCH).pack())
            lab.ends(connection)
        else:
            lab.is_up(connection)
            lab.hung_up(lane)


# Claims, slots and stamps.

@vector
def leases_on_memory_that_is_exported(lab):
    lab.server.say("map read")
    lab.server.wait("mapped")
    connection, lane = near(lab)
    hear, taken = lane.hear_descriptor, []

    def take_leases(packet, fds):
        for fd in fds:
            held = os.dup(fd)
            lab.opened.append(lambda: os.close(held))
            for kind in (fcntl.F_RDLCK, fcntl.F_WRLCK):  # kernels differ in what they grant
                try:
                    fcntl.fcntl(held, fcntl.F_SETLEASE, kind)
                    taken.append(kind)
                except OSError as why:
                    same(why.errno, errno.EAGAIN, "why a lease is refused")
        hear(packet, fds)
    lane.hear_descriptor = take_leases
    handler = signal.signal(signal.SIGIO, signal.SIG_IGN)  # told when somebody opens the file; it is kept
    try:
        lane.import_region(connection.lookup(b"mapped"))
        print(f"{len(taken)} leases are granted", flush=True)
        other, others_lane = near(lab)
        ref = other.lookup(b"mapped")
        check(others_lane.import_region(ref), "the region is not exported to another peer")
        same(other.get(ref, [(0, 4096)]), bytes(4096), "what another peer gets")
        lab.member.goes_on()
        lab.server.say("unmap")
        closes(lab)
        lab.close_all()
    finally:
        signal.signal(signal.SIGIO, handler)


@vector
def a_claim_that_is_never_lowered(lab):
    connection, lane, region = exports(lab)
    lane.mine[CLAIM] = region.stamp
    lab.server.say("unmap")
    for _ in range(20):
        is_up(connection)
    stays_open(lab)
    connection.drop()  # whoever leaves copies no more
    closes(lab)


@vector
def a_claim_by_a_lane_that_is_still_joining(lab):
    """Regions are exported there already, before the control channel has moved."""
    lab.server.say("map")
    lab.server.wait("mapped")
    connection, lane = joining(lab)
    lane.mine[CLAIM] = lane.import_region(connection.lookup(b"mapped")).stamp
    lab.server.say("unmap")
    for _ in range(20):
        lab.is_up(connection)
    stays_open(lab)
    lane.mine[CLAIM] = 0
    closes(lab)
    lab.is_up(connection)


@vector
def a_claim_of_a_process_that_is_killed(lab):
    lab.server.say("map")
    lab.server.wait("mapped")
    child, _ = child_that_claims(lab)
    lab.server.say("unmap")
    stays_open(lab)
    killed(child)
    closes(lab)


@vector
def a_claim_of_a_process_that_is_stopped(lab):
    lab.server.say("map")
    lab.server.wait("mapped")
    child, _ = child_that_claims(lab)
    os.kill(child, signal.SIGSTOP)
    lab.server.say("unmap")
    stays_open(lab)
    lab.serve_honest(1 << 16)
    killed(child)
    closes(lab)


@vector
def a_peer_that_is_restarted_while_its_earlier_life_is_stopped_in_a_copy(lab):
    lab.server.say("map")
    lab.server.wait("mapped")
    id = os.urandom(16)
    child, lane = child_that_claims(lab, True, id=id, incarnation=LIVES[0])
    os.kill(child, signal.SIGSTOP)
    comes_again(lab, id, lane, lambda: killed(child))


@vector
def a_peer_that_is_restarted_while_its_earlier_life_ends_a_copy_late(lab):
    lab.server.say("map")
    lab.server.wait("mapped")
    id = os.urandom(16)
    connection = lab.connect(id=id, incarnation=LIVES[0])
    lane = claims(connection, True)

    def let_go():
        lane.mine[CLAIM] = 0
    comes_again(lab, id, connection.lanes[0].socket, let_go)


@vector
def claims_of_what_is_over_or_was_never_there(lab):
    connection, lane, region = exports(lab)
    lab.server.say("unmap")
    closes(lab)
    for claim in (region.stamp, region.stamp + 7, 1 << 63, (1 << 64) - 1):
        lab.server.say("map")
        lab.server.wait("mapped")
        again = lane.import_region(connection.lookup(b"mapped"))
        check(again.stamp > region.stamp, "a stamp has come back")
        lane.mine[CLAIM] = claim
        lab.server.say("unmap")
        closes(lab)
    is_up(connection)


@vector
def slots_of_the_owner_that_are_written_over(lab):
    for value in (0, 1, (1 << 64) - 1):
        connection, lane, region = exports(lab)
        for slot in range(SLOT_COUNT):
            lane.theirs[SLOTS + 8 * slot] = value
        lab.server.say("unmap")
        closes(lab)
        is_up(connection)


@vector
def a_table_of_notifications_that_is_full_of_nonsense(lab):
    for numbers in (range(1, SPAN + 1), range((1 << 64) - SPAN, 1 << 64), range(1 << 63, (1 << 63) + SPAN)):
        before = lab.server.report()["connections"]
        connection, lane = near(lab)
        for place, number in enumerate(numbers):
            lane.mine[NOTED + 16 * place + 8], lane.mine[NOTED + 16 * place] = 600, number
        connection.drop()
        told = wire.MAX_BEGUN if numbers[0] == 1 else 0
        for _ in range(told):
            same(lab.server.wait("notify"), ["600", str(EPEERLOST)], "a notification")
        while lab.server.report()["connections"] > before:
            time.sleep(0.001)
        check(all(line[0] != "notify" for line in lab.server.said), "more notifications than may begin")


# The rendezvous socket.

def descriptors():
    """(what it is, descriptor) of what is no memory that stays."""
    reading, writing = os.pipe()
    yield "a pipe", reading
    yield "the other end of a pipe", writing
    yield "a directory", os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    yield "a path", os.open("/", os.O_PATH)
    yield "nothing", os.open("/dev/null", os.O_RDWR)
    yield "a socket", socket.socket(socket.AF_INET, socket.SOCK_STREAM).detach()
    yield "memory that can shrink", memory(local.SEGMENT, 0)
    yield "memory", memory(local.SEGMENT, fcntl.F_SEAL_SHRINK)
    yield "memory that is short", memory(1, fcntl.F_SEAL_SHRINK)


def memory(size, seals):
    fd = os.memfd_create("hostile", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def send_when_accepted(sock, message, fd):
    """Where the kernel can refuse descriptors, they are taken of our user alone, when he has been accepted."""
    until = time.monotonic() + SOON
    while True:
        try:
            return socket.send_fds(sock, [message], [fd])
        except PermissionError:
            check(time.monotonic() < until, "descriptors are refused for ever")
            time.sleep(0.001)


@vector
def descriptors_that_nobody_asked_for(lab):
    connection, lane = near(lab)
    for number, (_, fd) in enumerate(descriptors()):
        for packet in (DESCRIPTOR.pack(number), local.WAKE_UP):
            socket.send_fds(lane.socket, [packet], [fd])
        other = lab.connect()
        joining = local.LocalLane(next(uri for uri in other.listens if uri.startswith("shm://")))
        lab.opened.append(joining.socket.close)
        send_when_accepted(joining.socket, other.lane_message(local.LOCAL_LANE), fd)
        joining.hear(wire.LANE_READY)  # what came along is closed
        is_up(connection)
        os.close(fd)


@vector
def more_descriptors_than_are_taken(lab):
    connection, lane = near(lab)
    with open("/dev/null", "rb") as null:
        socket.send_fds(lane.socket, [local.WAKE_UP], [null.fileno()] * 250)
    lab.ended(connection)


@vector
def packets_that_nobody_says(lab):
    for packet in (b"\2", b"12", bytes(7), bytes(9), bytes(96), bytes(8192), bytes(8193), wire.message(wire.HELLO, {})):
        connection, lane = near(lab)
        lane.socket.send(packet)
        lab.ended(connection)


@vector
def packets_before_the_lane_is_ready(lab):
    uri = next(uri for uri in lab.connect().listens if uri.startswith("shm://"))
    for packet in (local.WAKE_UP, DESCRIPTOR.pack(1), bytes(16), bytes(8193), b"XFER"):
        lane = local.LocalLane(uri)
        lab.opened.append(lane.socket.close)
        lane.socket.send(packet)
        lab.hung_up(lane)


@vector
def frames_about_regions_that_are_not_due(lab):
    connection, lane = near(lab)
    for lane_number in (LOCAL_LANE, 0, 1, 77, (1 << 64) - 1):
        for region in (0, 1, 1 << 63, (1 << 64) - 1):
            for body in (b"", bytes(56), b"\xff" * 56, b"\xff" * wire.MAX_EXPORT_KEY):
                lane.send(Frame(wire.EXPORTED, lane_number, region=region, body=body).pack())
            lane.send(Frame(wire.EXPORTED, lane_number, region=region, status=EPEERLOST).pack())
            lane.send(Frame(wire.WITHDRAW, lane_number, region=region).pack())
    is_up(connection)
    for malformed in (Frame(wire.REQUEST_EXPORT, LOCAL_LANE, body=bytes(7)),
                      Frame(wire.REQUEST_EXPORT, LOCAL_LANE, body=bytes(8), status=EPEERLOST),
                      Frame(wire.EXPORTED, LOCAL_LANE, body=bytes(wire.MAX_EXPORT_KEY + 1)),
                      Frame(wire.EXPORTED, LOCAL_LANE, body=bytes(1), status=EPEERLOST),
                      Frame(wire.WITHDRAW, LOCAL_LANE, body=bytes(1))):
        connection, lane = near(lab)
        lane.send(malformed.pack())
        lab.ended(connection)


@vector
def questions_about_lanes_that_export_nothing(lab):
    """Each is answered, and with nothing that could be used."""
    connection, lane = near(lab)
    ref, answers = connection.lookup(b"desk"), []
    lane.hear_export = answers.append
    numbers = (0, 1, 16, 77, (1 << 64) - 1)
    for number in numbers:
        lane.send(local.request_export(number, ref))
    while len(answers) < len(numbers):
        connection.turn()
    same([(answer.seq, answer.body) for answer in answers], [(number, b"") for number in numbers], "the answers")
    check(all(answer.status < 0 for answer in answers), "a lane of sockets has exported a region")
    by_sockets = lab.connect()
    by_sockets.control.send(local.request_export(0, ref))
    is_up(by_sockets)


@vector
def questions_with_other_keys_than_the_region_has(lab):
    connection, lane = near(lab)
    ref = connection.lookup(b"desk")
    for wrong in (ref._replace(key=ref.key ^ 1), ref._replace(generation=ref.generation + 1),
                  ref._replace(region=ref.region + 1000), ref._replace(region=ref.region | 1 << 63)):
        check(lane.import_region(wrong) is None, "a region is exported to who does not have its key")
    check(lane.import_region(ref), "the region is not exported to who has its key")


@vector
def a_flood_of_questions_whose_answers_nobody_reads(lab):
    connection, lane = near(lab)
    ref, number = connection.lookup(b"desk"), 0
    while not lane.over:  # no more is read of who does not read, and when that lasts it is left
        lane.send(local.request_export(LOCAL_LANE, ref._replace(region=number)))
        number += 1
        check(number < 16 * SLOT_COUNT, "the server takes any number of questions")


@vector
def another_user(lab):
    if os.geteuid() != 0:
        raise Skipped("only root can be another user")
    uri = next(uri for uri in lab.connect().listens if uri.startswith("shm://"))
    child = os.fork()
    if child == 0:
        try:
            os.setuid(NOBODY)
            stranger = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            stranger.settimeout(SOON)
            stranger.connect(b"\0xfer-" + uri.removeprefix("shm://").encode())
            os._exit(0 if stranger.recv(8192) == b"" else 2)
        except ConnectionError:
            os._exit(0)
        finally:
            os._exit(3)
    same(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0, "what another user meets")


def lingering():
    """A TCP connection, and its other end, which does not read: to close it takes a minute."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
    sock.setblocking(False)
    try:
        while True:
            sock.send(bytes(1 << 20))
    except BlockingIOError:
        return sock, other


@vector
def another_user_that_sends_sockets_which_linger(lab):
    if os.geteuid() != 0:
        raise Skipped("only root can be another user")
    uri = next(uri for uri in lab.connect().listens if uri.startswith("shm://"))
    reads, says = os.pipe()
    os.kill(lab.server.process.pid, signal.SIGSTOP)  # it accepts when all has been sent
    child = os.fork()
    if child == 0:
        try:
            os.setuid(NOBODY)
            sock, other = lingering()
            strangers = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(3)]
            for stranger in strangers:
                stranger.connect(b"\0xfer-" + uri.removeprefix("shm://").encode())
                try:
                    socket.send_fds(stranger, [b"X"], [sock.fileno()])
                except PermissionError:  # by a kernel that can refuse them
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()
            os.write(says, b"!")
            time.sleep(3 * LIMIT)
        finally:
            os._exit(3)
    os.close(says)
    try:
        with open(reads, "rb", buffering=0) as sent:
            same(sent.read(1), b"!", "the child")
        os.kill(lab.server.process.pid, signal.SIGCONT)
        for _ in range(3):
            lab.serve_honest()  # by TCP, which the server's own loop has to answer
    finally:
        os.kill(lab.server.process.pid, signal.SIGCONT)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
