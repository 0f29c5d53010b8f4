# SPDX-License-Identifier: Apache-2.0
"""The asyncio client against another process, which is stopped, killed and comes back."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import unittest
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from xfer._xfer import lib
from xfer.aio import Batch, Endpoint, Engine, Error, Notice

PEER = Path(__file__).with_name("peer.py")
ECHO, RENEW, ANSWER = 1, 2, 3
SIZE = 16 << 20
PATIENCE = 20


@asynccontextmanager
async def started(transports: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PEER), transports, stdin=pipe, stdout=pipe
    )
    assert process.stdin and process.stdout
    try:
        yield process, (await process.stdout.readline()).decode().strip()
        process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Case(unittest.IsolatedAsyncioTestCase):
    transports = "tcp"

    async def asyncSetUp(self) -> None:
        asyncio.get_running_loop().slow_callback_duration = PATIENCE  # says nothing of the client
        self.notices: asyncio.Queue[Notice] = asyncio.Queue()
        self.engine = Engine(self.notices.put_nowait, transports=self.transports)
        peer = started(self.transports)
        self.process, self.uri = await self.enterAsyncContext(peer)
        self.ep = self.engine.endpoint(self.uri)
        self.ref, self.blob = await self.ep.lookup("pool")

    async def asyncTearDown(self) -> None:
        await self.engine.aclose()
        await self.engine.aclose()

    async def noticed(self, kind: str) -> Notice:
        async with asyncio.timeout(PATIENCE):
            while (notice := await self.notices.get()).kind != kind:
                pass
        return notice

    async def fails(self, status: int, awaitable: Any) -> Error:
        with self.assertRaises(Error) as caught:
            async with asyncio.timeout(PATIENCE):
                await awaitable
        self.assertEqual(caught.exception.name, Error(status).name)
        return caught.exception

    def assert_lent(self, buffer: bytearray) -> None:
        with self.assertRaises(BufferError):
            buffer.append(0)

    def assert_given_back(self, buffer: bytearray) -> None:
        buffer.append(0)
        buffer.pop()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)


class Operations(Case):
    transports = "tcp,shm"

    async def test_echo_put_get(self) -> None:
        sent, back = os.urandom(1 << 20), bytearray(1 << 20)
        await self.ep.put(sent, self.ref, offset=4096)
        await self.ep.get(back, self.ref, offset=4096)
        self.assertEqual(back, sent)
        self.assertEqual(self.blob, b"bytes")

    async def test_put_get_nothing(self) -> None:
        await self.ep.put(b"", self.ref)
        await self.ep.get(bytearray(), self.ref)

    async def test_lookup_missing(self) -> None:
        await self.fails(lib.XFER_ENOTFOUND, self.ep.lookup("nothing"))
        await self.fails(lib.XFER_ETIMEDOUT, self.ep.lookup("nothing", wait=True, timeout=0.05))

    async def test_messages(self) -> None:
        long, into = os.urandom(300_000), bytearray(400_000)
        answer = self.engine.recv(into, tag=ANSWER)
        await self.ep.send(long, ECHO)
        message = await answer
        self.assertEqual((message.length, into[: len(long)]), (len(long), long))
        self.assertIs(message.ep, self.ep)
        async with Engine(transports=self.transports) as other:
            await other.endpoint(self.engine.listen("tcp://127.0.0.1:0")).send(b"", ECHO)
            ep = (await self.engine.recv(tag=ECHO)).ep
        for kind in ("PEER", "PEER_UP", "PEER_DOWN"):
            self.assertIs((await self.noticed(kind)).ep, ep)
        await ep.close()

    async def test_notify(self) -> None:
        await self.ep.notify(b"abc", 40)
        notice = await self.noticed("NOTIFY")
        self.assertEqual((notice.data, notice.tag, notice.ep), (b"cba", 41, self.ep))

    async def test_atomics(self) -> None:
        before = [await self.ep.add(self.ref, 8, 5) for _ in range(3)]
        self.assertEqual(before, [0, 5, 10])
        self.assertEqual(await self.ep.compare_and_swap(self.ref, 8, 15, 1), 15)
        self.assertEqual(await self.ep.add(self.ref, 8, 0), 1)
        with self.assertRaises(Error):
            self.ep.add(self.ref, 4, 1)

    async def test_batch_resubmitted(self) -> None:
        batch, page, back = Batch(self.ep), bytearray(4096), bytearray(4096)
        for i in range(10):
            batch.put(page, self.ref, i * 4096)
        for value in (1, 2, 3):
            page[:] = bytes([value]) * 4096
            await batch.submit(notify=70, data=b"layer")
            await self.ep.get(back, self.ref, 9 * 4096)
            self.assertEqual((back, await self.told()), (page, (b"reyal", 71)))
        self.assertEqual(batch.entries(), [lib.XFER_OK] * 10)
        with self.assertRaisesRegex(Error, "XFER_ERANGE"):
            batch.put(page, self.ref, SIZE)
        batch.close()

    async def told(self) -> tuple[bytes, int]:
        notice = await self.noticed("NOTIFY")
        return notice.data, notice.tag

    async def test_flush(self) -> None:
        puts = [self.ep.put(bytes([i]) * 100, self.ref, i * 100) for i in range(100)]
        await self.ep.flush()
        self.assertTrue(all(put.done() for put in puts))

    async def test_thousand_at_once(self) -> None:
        lines = [i.to_bytes(8, "little") * 128 for i in range(500)]
        puts = (self.ep.put(line, self.ref, 1024 * i) for i, line in enumerate(lines))
        echoes = (self.ep.notify(i.to_bytes(2, "little"), 7) for i in range(500))
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*puts, *echoes)
            backs = [bytearray(1024) for _ in lines]
            gets = (self.ep.get(back, self.ref, 1024 * i) for i, back in enumerate(backs))
            await asyncio.gather(*gets, *(self.ep.add(self.ref, SIZE - 8, 1) for _ in lines))
        self.assertEqual(backs, lines)
        self.assertEqual(await self.ep.add(self.ref, SIZE - 8, 0), len(lines))
        self.assertEqual({(await self.noticed("NOTIFY")).tag for _ in lines}, {8})
        self.assertEqual(len(self.engine.live), 2)  # the ends of the engine and the endpoint

    async def test_region_gone(self) -> None:
        answer = self.engine.recv(tag=ANSWER)
        await self.ep.send(b"", ECHO)
        await answer
        answer = self.engine.recv(tag=ANSWER)
        await self.ep.send(b"", RENEW)
        await answer
        self.assertEqual((await self.noticed("REGION_GONE")).data, self.ref)
        await self.fails(lib.XFER_ESTALE, self.ep.put(b"late", self.ref))
        await self.ep.put(b"new", (await self.ep.lookup("pool")).ref)

    async def test_full_and_room(self) -> None:
        notices: asyncio.Queue[Notice] = asyncio.Queue()
        async with Engine(notices.put_nowait, max_operations=4) as narrow:
            ep = narrow.endpoint(self.uri)
            waits = [ep.lookup("later", wait=True) for _ in range(4)]
            with self.assertRaisesRegex(Error, "XFER_EAGAIN"):
                ep.put(b"one too many", self.ref)
            waits[0].cancel()
            async with asyncio.timeout(PATIENCE):
                while (await notices.get()).kind != "ROOM":
                    pass
            await ep.put(b"there is room", self.ref)
            for wait in waits:
                wait.cancel()

    async def test_range_refused(self) -> None:
        for offset in (SIZE - 3, 2**64 - 2):
            with self.assertRaisesRegex(Error, "XFER_ERANGE"):
                self.ep.put(b"abcd", self.ref, offset)

    async def test_buffer_kinds(self) -> None:
        with self.assertRaises((BufferError, ValueError, TypeError)):
            self.ep.get(b"read-only", self.ref)
        with self.assertRaises((BufferError, ValueError, TypeError)):
            self.ep.put(memoryview(bytes(8))[::2], self.ref)

    async def test_buffer_kept_alive(self) -> None:
        size = 100_000
        text = [b"%04d" % i * (size // 4) for i in range(50)]
        await asyncio.gather(
            *(self.ep.put(bytearray(t), self.ref, i * size) for i, t in enumerate(text))
        )
        back = bytearray(size)
        for i, expected in enumerate(text):
            await self.ep.get(back, self.ref, i * size)
            self.assertEqual(back, expected)

    async def test_submit_after_close(self) -> None:
        await self.ep.close()
        await self.ep.close()
        with self.assertRaisesRegex(Error, "XFER_ECLOSED"):
            self.ep.put(b"late", self.ref)

    async def test_error_detail(self) -> None:
        taken = self.engine.listen("tcp://127.0.0.1:0")
        with self.assertRaises(Error) as caught:
            self.engine.listen(taken)
        self.assertIn(taken.removeprefix("tcp://"), str(caught.exception))
        self.assertEqual(caught.exception.name, "XFER_EADDRINUSE")


class Endings(Case):
    async def test_cancel_keeps_buffer(self) -> None:
        self.stop()
        buffer = bytearray(SIZE)
        put = self.ep.put(buffer, self.ref)

        async def waits() -> None:
            await put

        task = asyncio.create_task(waits())
        await asyncio.sleep(0.05)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
            self.assertFalse(task.done())
            self.assert_lent(buffer)
        await asyncio.wait([task], timeout=PATIENCE)
        self.assertTrue(task.cancelled())
        self.assertTrue(put.cancelled())
        self.assert_given_back(buffer)
        self.process.send_signal(signal.SIGCONT)
        await self.ep.put(b"after", self.ref)

    async def test_cancel_of_what_waits(self) -> None:
        buffer = bytearray(8)
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.02):
                await self.engine.recv(buffer, tag=99)
        self.assert_given_back(buffer)
        with self.assertRaises(TimeoutError):
            await asyncio.wait_for(self.ep.lookup("later", wait=True), 0.02)
        gathered = asyncio.gather(*(self.engine.recv(tag=98) for _ in range(1000)))
        gathered.cancel()
        with self.assertRaises(asyncio.CancelledError):
            async with asyncio.timeout(PATIENCE):
                await gathered

    async def test_deadline_expires(self) -> None:
        self.stop()
        buffer = bytearray(SIZE)
        error = await self.fails(lib.XFER_ETIMEDOUT, self.ep.put(buffer, self.ref, timeout=0.1))
        self.assertFalse(error.fenced)
        self.assert_given_back(buffer)
        self.process.send_signal(signal.SIGCONT)

    async def test_peer_killed(self) -> None:
        self.stop()
        buffer = bytearray(SIZE)
        put = self.ep.put(buffer, self.ref)
        await asyncio.sleep(0.05)
        self.assertFalse(put.done())
        self.process.kill()
        error = await self.fails(lib.XFER_EPEERLOST, put)
        self.assertFalse(error.fenced)
        self.assert_given_back(buffer)
        await self.noticed("PEER_DOWN")
        async with started(self.transports) as (_, uri):
            self.ep.add_address(uri)
            await self.fails(lib.XFER_ESTALE, self.ep.put(b"old", self.ref))
            ref, _ = await self.ep.lookup("pool")
            await self.ep.put(b"new", ref)
            up = await self.noticed("PEER_UP")
            self.assertTrue(up.flags & lib.XFER_RESTARTED)

    async def test_no_listener(self) -> None:
        nobody = self.engine.endpoint("tcp://127.0.0.1:9")
        error = await self.fails(lib.XFER_EUNREACHABLE, nobody.connect(timeout=5))
        self.assertIn("127.0.0.1:9", str(error))

    async def test_close_with_inflight(self) -> None:
        self.stop()
        buffer = bytearray(SIZE)
        operations = [self.ep.put(buffer, self.ref), self.engine.recv(tag=97)]
        await self.engine.aclose()
        for operation in operations:
            await self.fails(lib.XFER_ECANCELED, operation)
        self.assert_given_back(buffer)
        self.process.send_signal(signal.SIGCONT)


class Forgotten(unittest.TestCase):
    def test_drop_without_close(self) -> None:
        """Nothing is closed: the memory outlives what the library does with it."""

        async def forget() -> Endpoint:
            owner, engine = Engine(), Engine()
            ep = engine.endpoint(owner.listen("tcp://127.0.0.1:0"))
            owner.region(bytearray(SIZE), "pool")
            ep.put(bytearray(SIZE), (await ep.lookup("pool")).ref)
            engine.recv(bytearray(8))
            return ep

        asyncio.run(forget())


unittest.main()
