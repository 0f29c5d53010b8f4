#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small storms of `xfer_perf connect`: all meet, once each, and no user sees a failure. How long it took is no matter."""

import json
import os
import subprocess
import sys
import tempfile

ROUNDS = 2
# The words for xfer_perf, how many connections there must be at the end, and how many attempts are made for each: no
# more than one from each end that opens, and in a mesh some from both, else they did not all open at once.
STORMS = [
    ("--engines 20", 20, {1}),
    ("--engines 20 --processes 3", 20, {1}),
    ("--engines 300 --processes 2", 300, {1}),
    ("--engines 6 --mesh", 15, {attempts / 15 for attempts in range(16, 31)}),
    ("--engines 2 --mesh", 1, {2}),
]
MISUSES = ["--mesh", "--processes 2", "--engines 1 --mesh", "--engines 6 --mesh --processes 2", "--engines 2 --processes 3"]


def storm(program: str, words: str) -> dict:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [program, "connect", *words.split(), "--rounds", str(ROUNDS), "--json", file.name]
        subprocess.run(command, check=True, timeout=60)
        return json.load(file)["storm"]


def check(words: str, result: dict, connections: int, attempts: set[float]) -> None:
    def expect(what: bool, name: str) -> None:
        if not what:
            sys.exit(f"{words}: {name}: {result}")

    expect(result["connections"] == [connections] * ROUNDS, "connections")
    expect(result["failures"] == 0, "failures")
    for ends in ("attempts", "accepts"):
        expect(all(any(abs(each - one) < 1e-4 for one in attempts) for each in result[ends]), ends)
    # Each connection has two ends, in one process or another.
    expect(result["descriptors"] > 2 * connections, "descriptors")
    expect(0 < result["bytes_per_engine"] * result["engines"] < result["peak_bytes"], "memory")
    expect(len(result["ready_s"]) == ROUNDS and min(result["ready_s"]) > 0, "times")


def too_few_descriptors(program: str) -> None:
    """A limit that can be raised is, one that can't is told."""
    limited = subprocess.run(
        ["bash", "-c", f'ulimit -Sn 100; exec "{program}" connect --rounds 1 --engines 100'], timeout=60, check=False
    )
    if limited.returncode != 0:
        sys.exit("a soft limit of descriptors was not raised")
    hopeless = subprocess.run(
        ["bash", "-c", f'ulimit -n 100; exec "{program}" connect --rounds 1 --engines 100'],
        timeout=60,
        check=False,
        stderr=subprocess.PIPE,
        text=True,
    )
    if hopeless.returncode == 0 or "the hard limit is 100" not in hopeless.stderr:
        sys.exit(f"a hard limit of descriptors was not told: {hopeless.stderr}")


def main() -> int:
    program = os.path.abspath(sys.argv[1])
    for words, connections, attempts in STORMS:
        check(words, storm(program, words), connections, attempts)
    for words in MISUSES:
        misused = subprocess.run([program, "connect", *words.split()], stderr=subprocess.DEVNULL, timeout=60, check=False)
        if misused.returncode != 2:
            sys.exit(f"{words}: taken")
    too_few_descriptors(program)
    return 0


if __name__ == "__main__":
    sys.exit(main())
