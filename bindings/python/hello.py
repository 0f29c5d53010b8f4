# SPDX-License-Identifier: Apache-2.0
"""Puts 1 MiB into the region of another engine, gets it back, compares. Usage: hello.py [URI]"""

from __future__ import annotations

import os
import select
import sys
from typing import Any, NoReturn

from xfer._xfer import ffi, lib

SIZE = 1 << 20
LIMIT_MS = 5_000  # of every operation; a wait here gives up after twice as much
NAME = ffi.new("char[]", b"hello")  # held here: cffi frees what nothing in Python refers to
ERROR, EVENT_SIZE = ffi.new("xfer_error_t *"), ffi.sizeof("xfer_event_t")


def name(status: int) -> str:
    return str(ffi.string(lib.xfer_status_name(status)).decode())


def fail(why: str) -> NoReturn:
    print(why, file=sys.stderr, flush=True)
    os._exit(1)  # not sys.exit, which would free the memory that is lent


def check(what: str, status: int, error: Any = None) -> None:
    if status != lib.XFER_OK:
        text = ffi.string(error.message if error else lib.xfer_status_text(status)).decode()
        fail(f"{what}: {name(status)}: {text}")


class Engine:
    """An engine whose events are taken here, whenever its descriptor is readable."""

    def __init__(self) -> None:
        options = ffi.new("xfer_engine_options_t *")
        options.size = ffi.sizeof("xfer_engine_options_t")
        options.dispatch = lib.XFER_DISPATCH_POLL
        options.timeout_ms = LIMIT_MS
        engine, self.fd = ffi.new("xfer_engine_t **"), ffi.new("int32_t *")
        check("engine open", lib.xfer_engine_open(options, engine, ERROR), ERROR)
        self.handle = engine[0]
        check("engine fd", lib.xfer_engine_fd(self.handle, self.fd))

    def end(self, what: str, started: int, kind: int, closed: Any = ffi.NULL) -> Any:
        """Waits for the event that ends what a call has started. Its data: until the next end."""
        check(what, started)
        event, count = ffi.new("xfer_event_t *"), ffi.new("uint32_t *")
        while True:
            check("poll", lib.xfer_engine_poll(self.handle, event, EVENT_SIZE, 1, 0, count))
            if count[0] and event.kind == kind and closed in (ffi.NULL, event.object):
                print(f"{what}: {name(event.status)}, {event.bytes} bytes", flush=True)
                check(what, event.status)
                return event
            if not count[0] and not select.select([self.fd[0]], [], [], 2 * LIMIT_MS / 1000)[0]:
                fail(f"{what}: no event came")

    def close(self) -> None:
        started = lib.xfer_engine_close(self.handle)
        self.end("engine", started, lib.XFER_EVENT_CLOSED, self.handle)
        check("engine join", lib.xfer_engine_join(self.handle, lib.XFER_NONE))


def main() -> None:
    server, client = Engine(), Engine()
    uri, bound = b"tcp://127.0.0.1:0", ffi.new("char[256]")
    check("listen", lib.xfer_engine_listen(server.handle, uri, ffi.NULL, bound, 256, ERROR), ERROR)

    options, memory = ffi.new("xfer_region_options_t *"), ffi.new("uint8_t[]", SIZE)
    options.size, options.name = ffi.sizeof("xfer_region_options_t"), NAME
    options.access = lib.XFER_READ | lib.XFER_WRITE
    region, engine = ffi.new("xfer_region_t **"), server.handle
    check("region", lib.xfer_region_open(engine, options, memory, SIZE, region, ERROR), ERROR)

    uri, ep = sys.argv[1].encode() if sys.argv[1:] else bound, ffi.new("xfer_ep_t **")
    check("ep open", lib.xfer_ep_open(client.handle, uri, ffi.NULL, ep, ERROR), ERROR)
    client.end("connect", lib.xfer_ep_connect(ep[0], 1, ffi.NULL), lib.XFER_EVENT_CONNECT)
    started = lib.xfer_ep_lookup(ep[0], NAME, 2, ffi.NULL, ffi.NULL)
    found = client.end("lookup", started, lib.XFER_EVENT_LOOKUP)
    ref = ffi.new("xfer_ref_t *", ffi.cast("xfer_ref_t *", found.data)[0])

    sent, back = os.urandom(SIZE), ffi.new("uint8_t[]", SIZE)
    started = lib.xfer_put(ep[0], ffi.from_buffer(sent), ref, 0, SIZE, 3, ffi.NULL)
    client.end("put", started, lib.XFER_EVENT_PUT)
    started = lib.xfer_get(ep[0], back, ref, 0, SIZE, 4, ffi.NULL)
    client.end("get", started, lib.XFER_EVENT_GET)
    if ffi.buffer(memory) != sent or ffi.buffer(back) != sent:
        fail("the bytes differ")

    client.end("ep", lib.xfer_ep_close(ep[0]), lib.XFER_EVENT_CLOSED, ep[0])
    server.end("region", lib.xfer_region_close(region[0]), lib.XFER_EVENT_CLOSED, region[0])
    client.close()
    server.close()
    print("ok")


main()
