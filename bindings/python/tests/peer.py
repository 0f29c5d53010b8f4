# SPDX-License-Identifier: Apache-2.0
"""The other process of test_aio.py: lends a region, answers messages and notifications."""

from __future__ import annotations

import asyncio
import sys

from xfer.aio import ATOMIC, READ, WRITE, Engine, Message, Notice

SIZE = 16 << 20
ECHO, RENEW = 1, 2  # tags of what it is asked; it answers with ANSWER
ANSWER = 3


class Peer:
    """Serves until its standard input ends, as it does with the process that started it."""

    def __init__(self, transports: str) -> None:
        self.engine = Engine(self.on_notice, transports=transports)
        self.memory = bytearray(SIZE)
        self.open_region()

    def open_region(self) -> None:
        access = READ | WRITE | ATOMIC
        self.region = self.engine.region(self.memory, "pool", access, blob=b"bytes")

    def on_notice(self, notice: Notice) -> None:
        if notice.kind == "NOTIFY" and notice.ep:
            notice.ep.notify(notice.data[::-1], notice.tag + 1)

    async def answer(self, message: Message) -> None:
        if message.tag == RENEW:
            await self.region.close()
            self.open_region()
        if message.ep:
            await message.ep.send(message.data, ANSWER)

    async def serve(self) -> None:
        while True:
            for tag in (ECHO, RENEW):
                await self.answer(await self.engine.recv(tag=tag))


async def main() -> None:
    peer, loop, ended = Peer(sys.argv[1]), asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin, ended.set)
    print(peer.engine.listen("tcp://127.0.0.1:0"), flush=True)
    serving = [asyncio.ensure_future(peer.serve())]
    await ended.wait()
    serving[0].cancel()
    await peer.engine.aclose()


asyncio.run(main())
