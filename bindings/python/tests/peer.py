# SPDX-License-Identifier: Apache-2.0
"""The other process of the tests: lends a region until its standard input ends, as it does with the
process that started it."""

from __future__ import annotations

import sys

from xfer import ATOMIC, READ, WRITE, Engine

SIZE = 16 << 20

with Engine(transports=sys.argv[1]) as engine:
    memory = bytearray(SIZE)
    with engine.region(memory, "pool", READ | WRITE | ATOMIC):
        print(engine.listen("tcp://127.0.0.1:0"), flush=True)
        sys.stdin.read()
