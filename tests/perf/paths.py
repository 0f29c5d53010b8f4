#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""xfer_perf tells by which path the bytes went, and compares libxfer with limits of that path. No speed is judged."""

import os
import sys

import calls

TCP = {"stream", "acked, blocking", "acked, spinning"}
MAPPED = "local (memory mapped)"
# Where the kernel forbids copies between processes, as in some containers, other memory goes by the rings.
COPIED = {"local (copied through the kernel)", "local (rings)"}
POLL = "--dispatch poll --io-threads none"
# The words for xfer_perf, the paths that may be told, and the limits that count.
RUNS = [
    (f"put -s 1M -w 2 --memory made {POLL}", {MAPPED}, {"memcpy, memfd", "non-temporal, memfd"}),
    ("get -s 64K -w 1 --memory made", {MAPPED}, {"memcpy, memfd", "non-temporal, memfd"}),
    ("put -s 1M -w 2", COPIED, {"process_vm"}),
    (f"get -s 64K -w 1 {POLL} --busy", COPIED, {"process_vm"}),
    ("pages --pages 1500 --memory made", {MAPPED}, {"memcpy, memfd"}),
    ("pages --pages 1500 --read", COPIED, {"process_vm"}),
    (f"latency -s 8 --memory made {POLL}", {MAPPED}, {"memcpy, memfd"}),
    # Between two wake-ups a limit copies thousands of times: the count is by what libxfer does.
    ("latency --dispatch thread --submit thread --memory made", {MAPPED}, {"memcpy, memfd"}),
    (f"message {POLL} --busy", {"local (rings)"}, {"shared flags"}),
    ("message -s 8,8K", {"local (rings)"}, {"eventfd + epoll"}),
    ("message --transports tcp", {"tcp"}, {"acked, blocking"}),
    ("put -s 64K -w 1 --memory made --transports loopback,tcp", {"tcp"}, TCP),
    # Four lanes are compared with four streams, too.
    ("put -s 1M -w 8 --lanes 4 --transports loopback,tcp", {"tcp"}, {*TCP, "streams, one a lane"}),
    ("get -s 64K -w 3 --lanes 2 --transports loopback,tcp", {"tcp"}, {*TCP, "streams, one a lane"}),
]
MISUSES = ["put --memory mine", "put --transports " + "x" * 36, "put --json /nowhere/at/all", "put --plot /nowhere/at/all"]
# What a figure can't be understood without.
CONDITIONS = ["version", "date", "host", "kernel", "cpu"]


def measure(program: str, words: str) -> dict:
    return calls.measure(program, words, "0.02")


def check_samples(program: str) -> None:
    """The median of two rounds lies between them; what was not measured is null."""
    result = measure(program, "put -s 64K -w 1 --transports loopback,tcp --rounds 2")
    if not all(result[name] for name in CONDITIONS) or result["mode"]["lanes"] != "default":
        sys.exit(f"under which conditions: {result}")
    for series in [result["rows"][0]["xfer"], *result["rows"][0]["limits"]]:
        if abs(series["median"] - sum(series["value"]) / 2) > 1e-3 * series["median"]:
            sys.exit(f"no median: {series}")
        if series["p99_us"] is not None:
            sys.exit(f"no operation was timed by itself: {series}")
    timed = measure(program, "latency --transports loopback,tcp")["rows"][0]["xfer"]
    if min(timed["p99_us"]) <= 0:
        sys.exit(f"operations were timed: {timed}")


def main() -> int:
    program = os.path.abspath(sys.argv[1])
    for words, paths, limits in RUNS:
        result = measure(program, words)
        if result["path"] not in paths:
            sys.exit(f"{words}: went by {result['path']}")
        for row in result["rows"]:
            fair = {limit["name"] for limit in row["limits"] if limit["fair"]}
            # Non-temporal stores are not everywhere.
            wanted = TCP if result["path"] == "local (rings)" and row["what"] != "message" else limits
            if not fair or not fair <= wanted or wanted - fair - {"non-temporal, memfd"}:
                sys.exit(f"{words}: compared with {fair}")
            if row["ratio"] <= 0:
                sys.exit(f"{words}: compared with nothing")
    check_samples(program)
    calls.refuse_misuses(program, MISUSES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
