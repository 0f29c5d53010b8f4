# SPDX-License-Identifier: Apache-2.0
"""A trainer gives its weights to three workers: many puts that tell nothing, one flush that tells
of all of them, and one notification, by which a worker knows that its memory is complete."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NamedTuple

import xfer

WORKERS, SIZE, CHUNK = 3, 8 << 20, 1 << 20
READY = 7  # the key of the notification
LIMIT = 10  # seconds that anything may take


class Worker(NamedTuple):
    memory: bytearray
    uri: str
    ready: xfer.Counter


def open_worker(stack: contextlib.ExitStack) -> Worker:
    memory = bytearray(SIZE)
    engine = stack.enter_context(xfer.Engine(timeout_ms=LIMIT * 1000))
    stack.enter_context(engine.region(memory, "weights", xfer.WRITE))
    # Before anybody can dial, so that no notification comes before its counter. With several
    # trainers, each with a part of the weights, it would expect one of each.
    ready = stack.enter_context(engine.counter(READY, expected=1, timeout=LIMIT))
    return Worker(memory, engine.listen("tcp://127.0.0.1:0"), ready)


def give(stack: contextlib.ExitStack, weights: bytes, uris: list[str]) -> None:
    """The trainer."""
    engine = stack.enter_context(xfer.Engine(timeout_ms=LIMIT * 1000))
    eps = [stack.enter_context(engine.endpoint(uri)) for uri in uris]
    looking = [ep.lookup("weights") for ep in eps]
    refs = [found.result().ref for found in looking]
    view = memoryview(weights)  # whose slices are no copies
    for start in range(0, SIZE, CHUNK):
        for ep, ref in zip(eps, refs):
            ep.put_quiet(view[start : start + CHUNK], ref, start)

    # Notifications do not wait for puts, so a worker is told only after its flush: that ends when
    # all its puts have, and fails as the first of them that failed. All workers' puts go on beside.
    flushed = [ep.flush() for ep in eps]
    told = []
    for ep, flush in zip(eps, flushed):
        flush.result()
        told.append(ep.notify(b"", READY))
    for notified in told:
        notified.result()


def main() -> None:
    weights = os.urandom(SIZE)
    with contextlib.ExitStack() as stack:  # closes all of it, the last first
        workers = [open_worker(stack) for _ in range(WORKERS)]
        give(stack, weights, [worker.uri for worker in workers])
        for number, worker in enumerate(workers):
            worker.ready.reached.result()
            if worker.memory != weights:
                sys.exit(f"worker {number} has other weights than the trainer")
    print(f"weights: {WORKERS} workers, {SIZE} bytes each, in chunks of {CHUNK}")
    print("ok")


if __name__ == "__main__":
    try:
        main()
    except xfer.XferError as error:
        sys.exit(str(error))
