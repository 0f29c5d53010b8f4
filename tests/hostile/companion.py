# SPDX-License-Identifier: Apache-2.0
"""An honest local peer of the server, which puts, gets and verifies while a vector attacks."""

import os
import threading
import time

import local
from initiator import Initiator
from lab import SOON, check, same, vector

OFFSET, BYTES = 2 << 20, 4096  # of the desk, for the honest local peer


class Companion:
    """An honest local peer that never stops."""

    def __init__(self, lab):
        self.connection = Initiator(lab.server.address, lab.key).open([(b"desk", False)])
        self.ref, _ = self.connection.answer_of(1)
        self.lane = local.join(self.connection)
        self.lane.show(self.ref)
        self.rounds, self.failed, self.over = 0, None, threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        try:
            while not self.over.is_set():
                data = os.urandom(BYTES)
                if self.lane.copy(self.ref, OFFSET, data) is None:
                    self.connection.put(self.ref, [(OFFSET, BYTES)], data, lane=1)
                same(self.connection.get(self.ref, [(OFFSET, BYTES)], lane=1), data, "what the local peer has put")
                self.rounds += 1
        except Exception as failed:
            self.failed = failed

    def goes_on(self):
        """It is still served now."""
        rounds, until = self.rounds, time.monotonic() + SOON
        while self.rounds < rounds + 2 and not self.failed:
            check(time.monotonic() < until, "the honest local peer is not served")
            time.sleep(0.001)

    def stop(self):
        self.over.set()
        self.thread.join(SOON)
        self.connection.drop()
        check(not self.failed, f"the honest local peer: {self.failed!r}")


def attack(function):
    """A vector beside which an honest local peer works."""
    def run(lab):
        companion = Companion(lab)
        try:
            function(lab)
            companion.goes_on()
        finally:
            companion.stop()
    run.__name__ = function.__name__
    return vector(run)
