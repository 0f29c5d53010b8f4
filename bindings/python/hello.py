# SPDX-License-Identifier: Apache-2.0
"""Puts 1 MiB into the region of another engine, gets it back, compares. Usage: hello.py [URI]"""

from __future__ import annotations

import os
import sys

import xfer

SIZE = 1 << 20
LIMIT_MS = 5_000  # of every operation


def main() -> None:
    memory, sent, back = bytearray(SIZE), os.urandom(SIZE), bytearray(SIZE)
    with xfer.Engine(timeout_ms=LIMIT_MS) as server, xfer.Engine(timeout_ms=LIMIT_MS) as client:
        uri = server.listen("tcp://127.0.0.1:0")
        ep = client.endpoint(sys.argv[1] if sys.argv[1:] else uri)
        with ep, server.region(memory, "hello", xfer.READ | xfer.WRITE):
            ep.connect().result()
            found = ep.lookup("hello").result()
            print(f"put: {ep.put(sent, found.ref).result()} bytes")
            print(f"get: {ep.get(back, found.ref).result()} bytes")
    if memory != sent or back != sent:
        sys.exit("the bytes differ")
    print("ok")


try:
    main()
except xfer.XferError as error:
    sys.exit(str(error))
