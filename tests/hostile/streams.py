# SPDX-License-Identifier: Apache-2.0
"""TCP connections that end, stall, trickle or do not read, at any place."""

import errno
import os
import socket
import threading
import time

import initiator as wire
from initiator import ACK, EPEERLOST, Frame
from lab import check, raw_message, reset, same, vector

ORIGIN_OS = 1  # XFER_ORIGIN_OS
BIG = wire.MAX_PAYLOAD
ASIDE = 1 << 20  # on the desk, where the honest peer puts nothing


def sound_hello(lab):
    """A hello as an honest peer would send it."""
    attempt = lab.dial()
    attempt.greet()
    return attempt.hello


def big_gets(lab, count):
    """The first gets of a lane, of as much as one may ask for."""
    return b"".join(lab.get(seq, ref=lab.desk, pieces=((0, BIG),)).pack() for seq in range(1, count + 1))


# Ends at every byte.

@vector
def a_hello_cut_at_every_byte_and_closed(lab):
    hello = sound_hello(lab)
    for size in range(len(hello)):
        lane = lab.lane()
        lane.send(hello[:size])
        lane.socket.shutdown(socket.SHUT_WR)
        lab.hung_up(lane)


@vector
def a_hello_cut_at_every_byte_and_reset(lab):
    hello = sound_hello(lab)
    for size in range(len(hello) + 1):
        lane = lab.lane()
        lane.send(hello[:size])
        reset(lane.socket)


@vector
def a_hello_cut_at_every_byte_and_then_silence(lab):
    hello = sound_hello(lab)
    for size in range(len(hello)):
        lab.lane().send(hello[:size])
    for _ in range(20):
        lab.serve_honest()


@vector
def a_put_cut_at_every_byte_and_then_silence(lab):
    put = lab.put(pieces=((0, 2), (1 << 63, 2))).pack()
    for size in range(len(put)):
        lab.connect().lanes[0].send(put[:size])
    for _ in range(20):
        lab.serve_honest()


@vector
def a_put_cut_at_every_byte_and_closed(lab):
    put = lab.put(pieces=((0, 2), (1 << 63, 2)), ref=lab.desk).pack()
    for size in range(len(put)):
        connection = lab.connect()
        connection.lanes[0].send(put[:size])
        connection.lanes[0].socket.shutdown(socket.SHUT_WR)
        lab.ended(connection)


@vector
def frames_of_each_type_cut_and_reset(lab):
    frames = [lab.put(ref=lab.desk), lab.get(), Frame(wire.LOOKUP, 1, body=b"vault"),
              Frame(wire.FOUND, 1, body=bytes(96)), Frame(wire.GONE, body=bytes(96)), Frame(wire.PING),
              Frame(wire.BYE, status=-9)]
    for frame in frames:
        data = frame.pack()
        for size in sorted({1, 16, 31, 32, len(data) - 1}):
            connection = lab.connect()
            connection.lanes[0].send(data[:size])
            reset(connection.lanes[0].socket)


@vector
def an_end_at_each_stage_of_the_handshake(lab):
    for stage in ("greet", "open"):
        for end in (reset, lambda sock: sock.shutdown(socket.SHUT_WR), socket.socket.close):
            attempt = lab.dial()
            getattr(attempt, stage)()
            end(attempt.lanes[0].socket)


@vector
def a_half_close_while_data_are_on_their_way(lab):
    connection = lab.connect()
    lane = connection.lanes[0]
    lane.send(big_gets(lab, 30))
    lane.socket.shutdown(socket.SHUT_WR)
    lane.socket.settimeout(5)
    try:
        while lane.socket.recv(1 << 20):
            pass
    except ConnectionError:
        pass


@vector
def resets_while_data_are_on_their_way(lab):
    for _ in range(20):
        connection = lab.connect()
        lane = connection.lanes[0]
        lane.send(big_gets(lab, 30))
        lane.socket.recv(1000)
        reset(lane.socket)


@vector
def a_reset_in_the_middle_of_a_notified_put(lab):
    connection = lab.connect()
    put = lab.put(ref=lab.desk, pieces=((0, 60000),), data=bytes(60000), flags=wire.NOTIFIED, notification=(1, 77))
    connection.lanes[0].send(put.pack()[:30000])
    lab.is_up(lab.honest)
    time.sleep(0.02)
    reset(connection.lanes[0].socket)
    same(lab.server.wait("notify"), ["77", str(wire.EPEERLOST)], "what the application is told")


@vector
def a_data_lane_that_is_reset_ends_the_connection(lab):
    connection = lab.connect()
    connection.lanes[connection.join_lane()].send(lab.put(ref=lab.desk).pack()[:40])
    reset(connection.lanes[1].socket)
    connection.lanes.pop()
    lab.ends(connection, wire.EPEERLOST)


# Trickles.

@vector
def a_conversation_of_one_byte_per_segment(lab):
    attempt, lane = lab.dial(), lab.lane()
    attempt.lanes, attempt.control, attempt.heard = [lane], lane, lane
    lane.send = lambda data: [lane.socket.sendall(data[at:at + 1]) for at in range(len(data))]
    hello = wire.message(wire.HELLO, {"id": attempt.id, "inc": 1, "non": bytes(16), "seq": 1, "feat": 0, "key": False,
                                      **attempt.statement})
    lane.send(hello)
    wire.read_message(lane.socket, wire.REPLY)
    attempt.hello = attempt.reply = b""
    attempt.prove()
    data = os.urandom(300)
    put = lab.put(ref=lab.desk, pieces=((0, 100), (200, 0), (300, 200)), data=data)
    same(lab.answers(attempt, put, lab.get(2, ref=lab.desk)), [(ACK, 0), (wire.DATA, 0)], "the answers")
    same(lab.honest.get(lab.desk, [(0, 100), (300, 200)]), data, "what was put")


@vector
def silence_in_the_middle_of_a_header_and_of_a_payload(lab):
    put = lab.put(ref=lab.desk, pieces=((ASIDE, 4096),), data=bytes(4096)).pack()
    for size in (1, 31, 33, 60, 4000):
        lab.connect().lanes[0].send(put[:size])
    for _ in range(20):
        lab.serve_honest(65536)
    same(lab.server.report()["connections"], lab.normal["connections"] + 5, "who is silent is not lost at once")


@vector
def a_put_that_trickles_costs_others_little(lab):
    def puts():
        began = time.monotonic()
        for _ in range(100):
            lab.serve_honest(65536)
        return time.monotonic() - began
    alone = min(puts() for _ in range(3))
    put, over = lab.put(ref=lab.desk, pieces=((ASIDE, 65536),), data=bytes(65536)).pack(), threading.Event()
    slow = [lab.connect().lanes[0] for _ in range(20)]

    def trickle():  # 1 KB/s each
        for at in range(0, len(put), 10):
            for lane in slow:
                lane.send(put[at:at + 10])
            if over.wait(0.01):
                return
    thread = threading.Thread(target=trickle)
    thread.start()
    beside = min(puts() for _ in range(3))
    over.set()
    thread.join()
    print(f"100 puts and gets of 64 KiB: {alone * 1000:.0f} ms alone, {beside * 1000:.0f} ms beside 20 slow peers")


# Peers that do not read.

def stuff(lane, data, limit=8):
    """Sends without reading until the socket takes nothing for a while; how much it took."""
    lane.socket.setblocking(False)
    sent, until = 0, time.monotonic() + limit
    last = time.monotonic()
    while time.monotonic() < until and time.monotonic() - last < 0.2 and sent < len(data):
        try:
            sent += lane.socket.send(data[sent:sent + 65536])
            last = time.monotonic()
        except BlockingIOError:
            time.sleep(0.005)
        except ConnectionError:
            break
    return sent


@vector
def peers_that_ask_for_much_and_never_read(lab):
    before = lab.server.report()["rss"]
    for _ in range(30):
        connection = lab.connect()
        connection.lanes[0].send(big_gets(lab, 64))
    for _ in range(20):
        lab.serve_honest(65536)
    after = lab.server.report()["rss"]
    check(after - before < 64 * 1024, f"{after - before} KiB more for 480 MiB asked for")


def tells(lab, words):
    """Of a connection that the server has ended: the peer did not do in time what these words say."""
    while True:
        status, origin, code, *why = lab.server.wait("down")
        if " ".join(why).endswith(words):
            break  # else another one's
    same((int(status), int(origin), int(code)), (EPEERLOST, ORIGIN_OS, errno.ETIMEDOUT), words)


def flood(lab, frame):
    """Says one thing over and over and reads nothing, until the server ends that."""
    connection, before = lab.connect(), lab.server.report()["rss"]
    lab.server.said = [line for line in lab.server.said if line[0] != "down"]
    connection.lanes[0].socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    until, words, sent = time.monotonic() + 15, frame.pack(), 0
    while lab.server.report()["connections"] > lab.normal["connections"]:
        check(time.monotonic() < until, "who does not read is not ended")
        sent += stuff(connection.lanes[0], words[sent % len(words):] + words * 100000, limit=1)
    after = lab.server.report()["rss"]
    check(after - before < 32 * 1024, f"{after - before} KiB more")
    tells(lab, "the peer does not read its control channel")


@vector
def a_flood_of_pings_that_are_never_read(lab):
    flood(lab, Frame(wire.PING, 1))


@vector
def a_flood_of_lookups_that_are_never_read(lab):
    flood(lab, Frame(wire.LOOKUP, 1, body=b"vault"))


@vector
def a_flood_of_lookups_that_are_read(lab):
    connection = lab.connect()
    connection.lanes[0].send(b"".join(Frame(wire.LOOKUP, seq, body=b"vault").pack() for seq in range(1, 2001)))
    while len(connection.found) < 2000:
        connection.turn()
    check(all(frame.status == 0 for frame in connection.found.values()), "each is answered")


@vector
def a_flood_of_pings_that_are_read(lab):
    connection = lab.connect()
    pings = b"".join(Frame(wire.PING, seq).pack() for seq in range(5000))
    threading.Thread(target=connection.lanes[0].send, args=(pings,)).start()
    while len(connection.pongs) < 5000:
        connection.turn()
    same(connection.pongs, list(range(5000)), "the pongs")


@vector
def pings_behind_gets_that_are_read_late(lab):
    connection, count = lab.connect(), 20000
    words = big_gets(lab, 64) + b"".join(Frame(wire.PING, seq).pack() for seq in range(count))
    sending = threading.Thread(target=connection.lanes[0].send, args=(words,))
    sending.start()  # far more than the sockets hold, and 16 MiB of data before the first pong
    sending.join(0.5)
    data = pongs = 0
    while pongs < count or data < 64:
        frame = connection.lanes[0].read()
        check(frame, "a malformed frame of the server")
        data, pongs = data + (frame.type == wire.DATA), pongs + (frame.type == wire.PONG)
    sending.join()


@vector
def a_peer_that_does_not_read_and_a_region_that_closes(lab):
    lab.server.say("open")
    connection = lab.connect()
    ref = connection.lookup(b"later", wait=True)
    gets = big_gets(lab, 63)
    connection.lanes[0].send(gets + lab.get(64, ref=ref).pack())
    time.sleep(0.05)
    lab.server.say("close")
    lab.serve_honest()


@vector
def a_reader_of_a_region_that_closes_that_takes_no_more_of_it(lab):
    lab.server.say("map")
    lab.server.wait("mapped")
    connection = lab.connect()
    sock = connection.lanes[0].socket
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    ref = connection.lookup(b"mapped")
    sock.sendall(b"".join(lab.get(seq, ref=ref, pieces=((0, BIG),)).pack() for seq in range(1, 65)))
    sock.recv(1, socket.MSG_PEEK)  # what the kernel takes of them has left soon, and one of them only in part
    time.sleep(0.05)
    lab.server.say("unmap")
    tells(lab, "a reader of a closed region stalls")
    lab.server.wait("closed")


# Many at once.

@vector
def connections_opened_and_dropped_by_the_thousand(lab):
    hello = sound_hello(lab)
    for at in range(3000):
        sock = socket.create_connection(lab.server.address)
        if at % 3 == 1:
            sock.send(hello[:at % 100])
        if at % 3 == 2:
            reset(sock)
        else:
            sock.close()
        if at % 500 == 0:
            lab.serve_honest()


@vector
def handshakes_begun_and_dropped_by_the_hundred(lab):
    for _ in range(500):
        attempt = lab.dial()
        attempt.greet()
        attempt.drop()
    lab.opened.clear()


@vector
def connections_made_and_dropped_by_the_hundred(lab):
    before = lab.server.report()["rss"]
    for _ in range(300):
        connection = lab.connect([(b"vault", False), (b"never", True)])
        connection.drop()
    lab.opened.clear()
    lab.settle()
    after = lab.server.report()["rss"]
    check(after - before < 16 * 1024, f"{after - before} KiB more")


@vector
def an_unfinished_message_of_each_kind(lab):
    for kind in range(1, 8):
        lane = lab.lane()
        lane.send(raw_message(kind, b"\xa1", proof=wire.PROOF_LENGTH[kind], length=8000))
    lab.serve_honest()
