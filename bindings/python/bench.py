# SPDX-License-Identifier: Apache-2.0
"""Measures puts into the region "bench", of 64 MiB, of the engine at URI, and prints one number.

Usage: bench.py CASE URI SECONDS

bandwidth  puts of 1 MiB, 16 in flight: bytes per second
rate       puts of 64 bytes by 256 asyncio tasks, each awaits one after the other: puts per second
latency    puts of 64 bytes, one after the other: median in microseconds
pages      puts of 1,000 pages of 4 KiB by a page table, one call after the other: bytes per second
"""

from __future__ import annotations

import asyncio
import collections
import itertools
import random
import statistics
import sys
import time
from array import array
from collections.abc import Iterator
from typing import Callable

import xfer

REGION = 64 << 20
WARM_UP = 0.1  # of the time that is measured
LIMIT_MS = 10_000  # of every operation

LARGE, IN_FLIGHT = 1 << 20, 16
SMALL, TASKS = 64, 256
PAGE, PAGES = 4096, 1000


def offsets(size: int) -> Iterator[int]:
    """Round the region, again and again."""
    return itertools.cycle(range(0, REGION, size))


def per_second(step: Callable[[], int], seconds: float) -> float:
    """How much step() does in a second."""
    run_for(step, WARM_UP * seconds)
    begin = time.perf_counter()
    done = run_for(step, seconds)
    return done / (time.perf_counter() - begin)


def run_for(step: Callable[[], int], seconds: float) -> int:
    done, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        done += step()
    return done


def bandwidth(ep: xfer.Endpoint, ref: xfer.Ref, seconds: float) -> float:
    places = offsets(LARGE)
    sources = itertools.cycle([bytes([i]) * LARGE for i in range(IN_FLIGHT)])
    in_flight = collections.deque(
        ep.put(next(sources), ref, next(places)) for _ in range(IN_FLIGHT)
    )

    def step() -> int:
        moved = in_flight.popleft().result()
        in_flight.append(ep.put(next(sources), ref, next(places)))
        return moved

    result = per_second(step, seconds)
    for put in in_flight:
        put.result()
    return result


def rate(ep: xfer.Endpoint, ref: xfer.Ref, seconds: float) -> float:
    return asyncio.run(rate_of_tasks(ep, ref, seconds))


async def rate_of_tasks(ep: xfer.Endpoint, ref: xfer.Ref, seconds: float) -> float:
    done, running = 0, True

    async def puts(offset: int) -> None:
        nonlocal done
        data = bytes(SMALL)
        while running:
            await ep.put(data, ref, offset)
            done += 1

    tasks = [asyncio.create_task(puts(i * SMALL)) for i in range(TASKS)]
    await asyncio.sleep(WARM_UP * seconds)
    begin, before = time.perf_counter(), done
    await asyncio.sleep(seconds)
    result = (done - before) / (time.perf_counter() - begin)
    running = False
    await asyncio.gather(*tasks)
    return result


def latency(ep: xfer.Endpoint, ref: xfer.Ref, seconds: float) -> float:
    data, times = bytes(SMALL), list[float]()

    def step() -> int:
        begin = time.perf_counter()
        ep.put(data, ref).result()
        times.append(time.perf_counter() - begin)
        return 1

    run_for(step, WARM_UP * seconds)
    times.clear()
    run_for(step, seconds)
    return statistics.median(times) * 1e6


def pages(ep: xfer.Endpoint, ref: xfer.Ref, seconds: float) -> float:
    """The table is another one in each call, as those of requests are."""
    memory = random.randbytes(PAGE * PAGES)
    here = array("i", random.sample(range(PAGES), PAGES))
    tables = [array("i", random.sample(range(REGION // PAGE), PAGES)) for _ in range(16)]
    there = itertools.cycle(tables)
    with ep.batch() as batch:

        def step() -> int:
            batch.reset()
            batch.put_pages([(memory, ref, 0)], here, next(there), PAGE)
            return batch.submit().result()

        return per_second(step, seconds)


CASES = {"bandwidth": bandwidth, "rate": rate, "latency": latency, "pages": pages}


def main() -> None:
    case, uri, seconds = CASES[sys.argv[1]], sys.argv[2], float(sys.argv[3])
    with xfer.Engine(timeout_ms=LIMIT_MS, io_threads=1) as engine, engine.endpoint(uri) as ep:
        found = ep.lookup("bench").result()
        print(case(ep, found.ref, seconds))


main()
