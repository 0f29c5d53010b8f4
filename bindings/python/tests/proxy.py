# SPDX-License-Identifier: Apache-2.0
"""Stands between two engines, and changes one bit of what goes to the server, or comes from it."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    def __init__(self, uri: str, *, flips_answers: bool = False) -> None:
        self._server = ("127.0.0.1", int(uri.rpartition(":")[2]))
        self._flips_answers = flips_answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        self.flip_at = 0  # in the stream of one connection; 0: nothing is flipped, or it was

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the end
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._sockets += [client, server]
                back = self._flips_answers
                for ways in ((client, server, not back), (server, client, back)):
                    self._threads.append(threading.Thread(target=self._forward, args=ways))
                    self._threads[-1].start()

    def _forward(self, source: socket.socket, target: socket.socket, flips: bool) -> None:
        buffer, at = bytearray(1 << 16), 0
        with contextlib.suppress(OSError):
            while count := source.recv_into(buffer):
                at += count
                if flips and 0 < self.flip_at < at:
                    self.flip_at = 0
                    buffer[count // 2] ^= 4
                target.sendall(memoryview(buffer)[:count])
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()
