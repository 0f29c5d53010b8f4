#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The speed that libxfer promises, row by row, beside what this machine does in the same run.

Every figure comes from xfer_perf, which measures the limits and libxfer in turn, round by round. This script only
chooses the engine mode of each row and compares the ratios with the targets.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

SPIN = ["--dispatch", "poll", "--io-threads", "none", "--busy"]
SLEEP = ["--dispatch", "thread", "--io-threads", "none"]
ALONE = ["--dispatch", "poll", "--io-threads", "none"]
TCP = ["--transports", "loopback,tcp"]
MADE = ["--memory", "made"]

# What is run: a title, the words for xfer_perf, and the target of the ratio. Throughput must reach it, times must not
# pass it.
RUNS = [
    ("put", ["put", "-s", "1M,16M", "-w", "1,8", *SPIN, *TCP], 0.9),
    ("get", ["get", "-s", "1M,16M", "-w", "1,8", *SPIN, *TCP], 0.9),
    ("pages, put", ["pages", *SPIN, *TCP], 0.8),
    ("pages, get", ["pages", "--read", *SPIN, *TCP], 0.8),
    ("64 B put, spinning", ["latency", *SPIN, *TCP], 1.6),
    ("64 B put, from the completion", ["latency", "--pin", *SLEEP, *TCP], 1.3),
    ("64 B put, from a waiting thread", ["latency", "--pin", "--submit", "thread", *SLEEP, *TCP], 2.0),
    ("first contact", ["connect", "--pin", "--dispatch", "poll", "--io-threads", "none", *TCP], 3.0),
]
# The same between neighbours, and a last word: microseconds that count instead of a ratio.
NEAR_RUNS = [
    ("local put, mapped", ["put", "-s", "1M,64M", "-w", "1", *MADE, *ALONE], 0.9, None),
    ("local get, mapped", ["get", "-s", "1M,64M", "-w", "1", *MADE, *ALONE], 0.9, None),
    ("local put, any", ["put", "-s", "1M", "-w", "1", *ALONE], 0.9, None),
    ("local get, any", ["get", "-s", "1M", "-w", "1", *ALONE], 0.9, None),
    ("local pages, put", ["pages", *MADE, *ALONE], 0.8, None),
    ("local pages, get", ["pages", "--read", *MADE, *ALONE], 0.8, None),
    ("local 8 B put, mapped", ["latency", "-s", "8", "--pin", *MADE, *ALONE], 0, 0.5),
    ("local 64 B message, spinning", ["message", "--pin", *SPIN], 0, 1.0),
    ("local 64 B message, sleeping", ["message", "--pin", *SLEEP], 1.3, None),
]
# Engines that connect all at once: a title, the words for xfer_perf, and the seconds until all are ready.
STORMS = [
    ("240 engines to one", ["--engines", "240"], 1.0),
    ("240 to one, 8 processes", ["--engines", "240", "--processes", "8"], 1.0),
    ("1,000 engines to one", ["--engines", "1000"], 4.0),
    ("1,000 to one, 8 processes", ["--engines", "1000", "--processes", "8"], 4.0),
    ("32 engines, each to each", ["--engines", "32", "--mesh"], 2.0),
]
FIRST_CONTACT_US = 1000
CPU_TARGET = 1.3  # CPU-seconds per GB of the pages, both sides, by those of the plain sockets
IDLE_CPU = 0.001  # of one CPU
IDLE_BYTES = 64 * 1024  # resident, each connection
HEARTBEAT_S = 5
# A connection may wake its engine to send a heartbeat, and to receive the peer's.
IDLE_WAKEUPS = 2
NEAR_IDLE_WAKEUPS = 0


@dataclasses.dataclass
class Line:
    what: str
    measured: str
    limit: str
    ratio: float
    target: str
    met: bool

    def text(self) -> str:
        return (
            f"{self.what:<34} {self.measured:>12} {self.limit:>30} {self.ratio:>8.3f}  {self.target:<9}"
            f" {'met' if self.met else 'NOT MET'}"
        )


def run(program: str, words: list[str], extra: list[str]) -> dict:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([program, *words, *extra, "--json", file.name], check=True)
        return json.load(file)


def size_text(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size} B"


def lines_of(title: str, result: dict, target: float) -> list[Line]:
    lines = []
    for row in result["rows"]:
        unit = row["unit"]
        name = title
        if unit == "GB/s" and row["page_size"] == 0:
            name += f" {size_text(row['size'])}, window {row['window']}"
        limit = next(one for one in row["limits"] if one["name"] == row["limit"])
        less = unit == "us"
        lines.append(
            Line(
                name,
                f"{row['xfer']['median']:.2f} {unit}",
                f"{limit['median']:.2f} {limit['name']}",
                row["ratio"],
                f"{'<=' if less else '>='} {target}",
                row["ratio"] <= target if less else row["ratio"] >= target,
            )
        )
        if row["page_size"] != 0:
            cpu = sorted(row["xfer"]["cpu_s_per_gb"])
            least = min(sorted(one["cpu_s_per_gb"])[len(cpu) // 2] for one in row["limits"])
            ratio = row["cpu_ratio"]
            lines.append(
                Line(
                    title + ", CPU-s/GB",
                    f"{cpu[len(cpu) // 2]:.2f}",
                    f"{least:.2f} raw",
                    ratio,
                    f"<= {CPU_TARGET}",
                    ratio <= CPU_TARGET,
                )
            )
    return lines


def near_lines(title: str, result: dict, target: float, most_us: float | None) -> list[Line]:
    """Another path than the one that was meant meets nothing."""
    lines = lines_of(title, result, target)
    if most_us is not None:
        median = result["rows"][0]["xfer"]["median"]
        ratio = median / most_us
        lines = [Line(title, f"{median:.2f} us", f"{most_us} us", ratio, "<= 1", ratio <= 1)]
    if not result["path"].startswith("local"):
        lines = [dataclasses.replace(line, what=f"{line.what}: {result['path']}", met=False) for line in lines]
    return lines


def first_contact_line(result: dict) -> Line:
    median = result["rows"][0]["xfer"]["median"]
    ratio = median / FIRST_CONTACT_US
    return Line("first contact, by the clock", f"{median:.0f} us", f"{FIRST_CONTACT_US} us", ratio, "<= 1", ratio <= 1)


def storm_line(title: str, storm: dict, seconds: float) -> Line:
    """xfer_perf has ended with an error if a user saw a failure, or a connection was missing or too many."""
    ratio = storm["median_s"] / seconds
    return Line(f"storm, {title}", f"{storm['median_s']:.3f} s", f"{seconds:g} s", ratio, "<= 1", ratio <= 1)


def idle_lines(title: str, idle: dict, wakeups: int) -> list[Line]:
    allowed = idle["connections"] * wakeups / HEARTBEAT_S
    figures = [
        ("CPU", "%.4f %%" % (idle["cpu_share"] * 100), "%.1f %%" % (IDLE_CPU * 100), idle["cpu_share"] / IDLE_CPU),
        (
            "wake-ups",
            "%.1f /s" % idle["wakeups_per_s"],
            "%.0f /s heartbeats" % allowed,
            # None is none: it has no share.
            idle["wakeups_per_s"] / allowed if allowed else idle["wakeups_per_s"],
        ),
        (
            "memory",
            "%.1f KiB" % (idle["bytes_per_connection"] / 1024),
            "%.0f KiB" % (IDLE_BYTES / 1024),
            idle["bytes_per_connection"] / IDLE_BYTES,
        ),
    ]
    title = f"{title}, {idle['connections']} connections"
    most_of = {"wake-ups": 1 if allowed else 0}
    return [
        Line(f"{title}: {what}", got, most, ratio, f"<= {most_of.get(what, 1)}", ratio <= most_of.get(what, 1))
        for what, got, most, ratio in figures
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/gcc/examples/perf/xfer_perf"), help="the xfer_perf to run")
    parser.add_argument("--rounds", default="5")
    parser.add_argument("--seconds", default="0.4", help="length of one run")
    parser.add_argument("--json", help="write every sample of every run here")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is not met")
    options = parser.parse_args()

    extra = ["--rounds", options.rounds, "--seconds", options.seconds]
    results = []
    lines = []
    for title, words, target in RUNS:
        results.append(run(options.program, words, extra))
        lines += lines_of(title, results[-1], target)
        if title == "first contact":
            lines.append(first_contact_line(results[-1]))
        print(flush=True)
    for title, words, target, most_us in NEAR_RUNS:
        results.append(run(options.program, words, extra))
        lines += near_lines(title, results[-1], target, most_us)
        print(flush=True)
    for title, words, seconds in STORMS:
        results.append(run(options.program, ["connect", *words], extra))
        lines.append(storm_line(title, results[-1]["storm"], seconds))
        print(flush=True)
    results.append(run(options.program, ["idle", *TCP], []))
    lines += idle_lines("idle", results[-1]["idle"], IDLE_WAKEUPS)
    results.append(run(options.program, ["idle"], []))
    lines += idle_lines("local idle", results[-1]["idle"], NEAR_IDLE_WAKEUPS)

    print(f"\n{'what':<34} {'measured':>12} {'limit':>30} {'ratio':>8}  {'target':<9}")
    for line in lines:
        print(line.text())
    met = sum(line.met for line in lines)
    print(f"{met} of {len(lines)} targets met")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))
    return 1 if options.strict and met < len(lines) else 0


if __name__ == "__main__":
    sys.exit(main())
