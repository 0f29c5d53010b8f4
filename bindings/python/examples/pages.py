# SPDX-License-Identifier: Apache-2.0
"""A KV cache moves from prefill to decode: the blocks of one request, layer by layer, by the page
tables of both ends. Decode is told of each layer, and may begin with it while the next ones move.
"""

from __future__ import annotations

import array
import collections
import contextlib
import os
import random
import sys
from typing import Any

import xfer

try:
    import numpy as np
except ImportError:  # not needed: any buffer of integers is a page table
    np = None  # type: ignore[assignment]

LAYERS, BLOCKS, BLOCK = 4, 64, 16 << 10
LAYER = BLOCKS * BLOCK
REQUEST = 24  # blocks of the cache that the request has
LIMIT = 10  # seconds that anything may take


def page_table(seed: int) -> Any:
    """Which blocks of a cache are those of the request, in its order: int32, none twice."""
    blocks = random.Random(seed).sample(range(BLOCKS), REQUEST)
    return array.array("i", blocks) if np is None else np.array(blocks, np.int32)


def block(cache: memoryview, layer: int, page: int) -> memoryview:
    start = layer * LAYER + int(page) * BLOCK
    return cache[start : start + BLOCK]


def main() -> None:
    # What each end has. Both allot their blocks as they like, so their page tables differ.
    filled, empty = memoryview(os.urandom(LAYERS * LAYER)), memoryview(bytearray(LAYERS * LAYER))
    from_pages, to_pages = page_table(1), page_table(2)

    came: collections.deque[xfer.Event] = collections.deque()

    def on_event(event: xfer.Event) -> None:  # called when decode waits, in the same thread
        if event.kind == xfer.Kind.NOTIFY:
            came.append(event)

    with contextlib.ExitStack() as stack:  # closes all of it, the last first
        decode = stack.enter_context(xfer.Engine(on_event, timeout_ms=LIMIT * 1000))
        prefill = stack.enter_context(xfer.Engine(timeout_ms=LIMIT * 1000))
        ep = stack.enter_context(prefill.endpoint(decode.listen("tcp://127.0.0.1:0")))

        # Either may start first: the lookup waits until there is a region of that name.
        looking = ep.lookup("kv", wait=True)
        stack.enter_context(decode.region(empty, "kv", xfer.WRITE))
        ref = looking.result().ref

        # A batch for each layer, so that each is told of alone. All four are under way at once, and
        # a batch that is closed is canceled: they stay open to the end.
        submitted = []
        for layer in range(LAYERS):
            batch = stack.enter_context(ep.batch())
            start = layer * LAYER
            base = (filled[start : start + LAYER], ref, start)
            batch.put_pages([base], from_pages, to_pages, BLOCK, stride=BLOCK, remote_stride=BLOCK)
            submitted.append(batch.submit(notify=layer))

        # Decode uses a layer as soon as it is told of it: all bytes of that batch are in place.
        for _ in range(LAYERS):
            if not decode.wait_for(lambda: came, LIMIT):
                sys.exit(f"no layer came within {LIMIT} s")
            event = came.popleft()
            layer = event.tag
            if event.status != xfer.Status.OK:
                sys.exit(f"layer {layer} did not come: {xfer.status_text(event.status)}")
            for here, there in zip(from_pages, to_pages):
                if block(empty, layer, there) != block(filled, layer, here):
                    sys.exit(f"layer {layer}: block {there} is not block {here} of prefill")

        moved = sum(operation.result() for operation in submitted)
    print(f"pages: {LAYERS} layers of {REQUEST} blocks, {moved} bytes")
    print("ok")


if __name__ == "__main__":
    try:
        main()
    except xfer.XferError as error:
        sys.exit(str(error))
