#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`xfer_perf rate`: each kind of operation, each way to submit, quiet or not; atomics one at a time; what is measured when
nothing is said. xfer_perf compares the bytes by itself. No speed is judged."""

import os
import sys

import calls

POLL = "--dispatch poll --io-threads none --busy"
TCP = "--transports loopback,tcp"
RING = {"memcpy + flag ring"}
SLEEPING = {"windowed, blocking"}
SPINNING = {"windowed, spinning"}
# The words for xfer_perf, what each row is called, the sizes, the windows, and the limits that count.
RUNS = [
    (f"rate {TCP} {POLL}", "rate put", [8, 64], [1, 16, 64], SPINNING),
    (f"rate --memory made {POLL}", "rate put", [8, 64], [1, 16, 64], RING),
    ("rate -s 24 -w 16", "rate put", [24], [16], RING),
    (f"rate --op get -s 1000 -w 3 {TCP}", "rate get", [1000], [3], SLEEPING),
    (f"rate --op get -s 64 -w 64 --memory made {POLL}", "rate get", [64], [64], RING),
    (f"rate --op atomic {TCP} {POLL}", "rate atomic", [8], [1, 16, 64], SPINNING),
    ("rate --op atomic -w 8 --memory made", "rate atomic", [8], [8], RING),
    (f"rate --op message -s 8,600,5000 -w 5 {TCP}", "rate message", [8, 600, 5000], [5], SLEEPING),
    (f"rate --op message {POLL}", "rate message", [8, 64], [1, 16, 64], RING),
    (f"rate --op notify -s 8,1000 -w 1,300 {TCP} {POLL}", "rate notify", [8, 1000], [1, 300], SPINNING),
    ("rate --op notify -w 64", "rate notify", [8, 64], [64], RING),
    *[(f"rate -s 64 -w 1,7 --submit {who}", "rate put", [64], [1, 7], RING) for who in ("callback", "thread", "spin")],
    *[(f"rate --op notify -s 9 --submit {who}", "rate notify", [9], [1, 16, 64], RING) for who in ("thread", "spin")],
    ("rate -s 64 -w 7 --submit thread --dispatch loop --io-threads none", "rate put", [64], [7], RING),
    (f"rate --quiet {TCP} {POLL}", "quiet put", [8, 64], [1000], SPINNING),
    (f"rate --quiet -s 8 -w 1,1000 --memory made {POLL}", "quiet put", [8], [1, 1000], RING),
    (f"rate --quiet --op get -s 64 -w 10 {TCP}", "quiet get", [64], [10], SLEEPING),
    (f"rate --quiet --op atomic --memory made {POLL}", "quiet atomic", [8], [1000], RING),
    *[(f"rate --quiet -s 8 -w 1,33 --submit {who}", "quiet put", [8], [1, 33], RING) for who in ("callback", "thread", "spin")],
    (f"latency --op atomic {TCP} {POLL}", "latency atomic", [8], [1], {"acked, spinning"}),
    (f"latency --op atomic --memory made {POLL}", "latency atomic", [8], [1], RING),
    (f"latency --op put-notify -s 8 {TCP} {POLL}", "latency put-notify", [8], [1], {"acked, spinning"}),
    ("latency --op put-notify --submit thread", "latency put-notify", [64], [1], RING),
    (f"rate --op put-notify -s 64,5000 -w 1,300 {TCP} {POLL}", "rate put-notify", [64, 5000], [1, 300], SPINNING),
    (f"latency --submit spin {TCP}", "latency put", [64], [1], {"acked, blocking"}),
]
MISUSES = [
    "put --op get",
    "put --quiet",
    "rate --op echo",
    "rate --op atomic -s 8,16",
    "rate --op notify -s 2K",
    "rate --op message --quiet",
    "rate --op put-notify --quiet",
    "rate --quiet -s 8K",
    "rate -w 1025",
    "rate --submit spin --dispatch poll",
    "latency --op message",
    "put --lanes few",
]


def measure(program: str, words: str) -> dict:
    return calls.measure(program, words, "0.01")


def check(words: str, result: dict, what: str, points: list[tuple[int, int]], limits: set[str]) -> None:
    def expect(met: bool, name: str) -> None:
        if not met:
            sys.exit(f"{words}: {name}: {result}")

    rows = result["rows"]
    expect([(row["size"], row["window"]) for row in rows] == points, "points")
    for row in rows:
        expect(row["what"] == what and row["unit"] == "us", "what it is")
        expect({limit["name"] for limit in row["limits"] if limit["fair"]} == limits, "limits")
        expect(row["operations"] >= 2 * row["window"], "operations")
        expect(row["xfer"]["median"] > 0 and row["ratio"] > 0, "figures")
        if what.startswith("latency"):
            continue
        expect(row["quiet"] == what.startswith("quiet"), "quiet")
        expect(abs(row["operations_per_s"] * row["xfer"]["median"] / 1e6 - 1) < 1e-3, "operations a second")
        expect(row["xfer"]["p99_us"] is None, "no operation was timed by itself")


def check_defaults(program: str) -> None:
    """Who says nothing gets all sizes, and engines that choose by themselves."""
    result = measure(program, f"put --memory made {TCP}")
    points = [(row["size"], row["window"]) for row in result["rows"]]
    sizes = [8, 64, 4 << 10, 64 << 10, 1 << 20, 16 << 20]
    # Not eight of the largest: they would need half a GiB on each side.
    if points != [(size, window) for size in sizes for window in (1, 8)] + [(64 << 20, 1)]:
        sys.exit(f"points by default: {points}")
    chosen = {name: result["mode"][name] for name in ("io_threads", "spin_us", "lanes")}
    if set(chosen.values()) != {"default"}:
        sys.exit(f"what nobody said: {chosen}")
    said = measure(program, f"rate -s 8 -w 1 {TCP} --io-threads none --spin-us 5 --lanes 2")["mode"]
    if (said["io_threads"], said["spin_us"], said["lanes"], said["submit"]) != (0, 5, 2, "callback"):
        sys.exit(f"what was said: {said}")


def check_hand_overs(program: str) -> None:
    """What threads need to tell each other stands beside an operation that one of them waits for."""
    row = measure(program, "latency --submit thread --memory made")["rows"][0]
    turns = [limit for limit in row["limits"] if limit["name"] == "eventfd + epoll"]
    if len(turns) != 1 or turns[0]["fair"] or turns[0]["median"] <= 0:
        sys.exit(f"hand-overs: {row['limits']}")


def main() -> int:
    program = os.path.abspath(sys.argv[1])
    for words, what, sizes, windows, limits in RUNS:
        points = [(size, window) for size in sizes for window in windows]
        check(words, measure(program, words), what, points, limits)
    check_defaults(program)
    check_hand_overs(program)
    calls.refuse_misuses(program, MISUSES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
