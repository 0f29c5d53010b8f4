# SPDX-License-Identifier: Apache-2.0
"""A server answers messages of two clients, in asyncio. A client has several requests under way,
and gets the answers in the order in which it asked."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import random
import sys

import xfer

CLIENTS, REQUESTS, LONGEST = 2, 100, 3_000
AT_ONCE = 8  # requests of a client that are under way
LIMIT = 20  # seconds that anything may take

# The upper half of a tag says what a message is for, the lower half which client it is of. The
# server looks at the upper half only, and so takes the requests of all of them.
REQUEST = 0x7E57 << 32
PURPOSE = 0xFFFF_FFFF << 32


def answer_to(request: bytes) -> bytes:
    return request[::-1]


async def serve(server: xfer.Engine) -> None:
    for _ in range(CLIENTS * REQUESTS):
        # A number instead of a buffer: the message comes as `data`, however long it is up to that.
        message = await server.recv(LONGEST, REQUEST, PURPOSE)
        if message.ep is None:
            raise ConnectionError("a client has left before it was answered")
        await message.ep.send(answer_to(message.data), message.tag)


async def ask(client: xfer.Engine, ep: xfer.Endpoint, number: int) -> int:
    """One client. Returns how many bytes it has sent."""
    tag, sizes, sent_bytes = REQUEST | number, random.Random(number), 0
    under_way: collections.deque[
        tuple[bytes, xfer.Operation[None], xfer.Operation[xfer.Message]]
    ] = collections.deque()

    async def check_oldest() -> None:
        request, sent, answer = under_way.popleft()
        await sent
        if (await answer).data != answer_to(request):
            raise ValueError(f"client {number} got an answer that is not that to its request")

    for _ in range(REQUESTS):
        if len(under_way) == AT_ONCE:
            await check_oldest()
        request = os.urandom(sizes.randint(1, LONGEST))
        # Messages of one sender with one tag come in order, and receives get them in the order in
        # which they were begun: the first answer is that to the first request.
        answer = client.recv(LONGEST, tag, ep=ep)
        under_way.append((request, ep.send(request, tag), answer))
        sent_bytes += len(request)
    while under_way:
        await check_oldest()
    return sent_bytes


async def main() -> None:
    async with contextlib.AsyncExitStack() as stack:  # closes all of it, the last first

        async def open_engine() -> xfer.Engine:
            return await stack.enter_async_context(xfer.Engine(timeout_ms=LIMIT * 1000))

        server = await open_engine()
        uri = server.listen("tcp://127.0.0.1:0")
        clients = [await open_engine() for _ in range(CLIENTS)]
        eps = [await stack.enter_async_context(client.endpoint(uri)) for client in clients]
        # A client that has all its answers stays until the server has heard that they came: its
        # engine, once closed, does not say so any more.
        _, sent = await asyncio.gather(
            serve(server), asyncio.gather(*map(ask, clients, eps, range(CLIENTS)))
        )
    print(f"messages: {CLIENTS} clients, {REQUESTS} requests each, {sum(sent)} bytes and back")
    print("ok")


if __name__ == "__main__":
    try:
        asyncio.run(asyncio.wait_for(main(), LIMIT))
    except asyncio.TimeoutError as error:
        sys.exit(str(error) or f"not done within {LIMIT} s")
    except (OSError, ValueError) as error:  # XferError is an OSError
        sys.exit(str(error))
