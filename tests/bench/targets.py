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
# Two more groups. A row is held to its ratio, the median of libxfer (us or GB/s), millions of operations a second,
# CPU-seconds per GB, or the ratio of the medians to the limit of that name. Then follows how: at most or at least; and a
# figure for each row that the words make.
# What users get who set nothing, each process on one core of its own.
DEFAULT = ["--pin"]
DEFAULT_RUNS = [
    ("8 B put, from a waiting thread", ["latency", "-s", "8", "--submit", "thread", *TCP], "ratio", "<=", [1.4]),
    ("local 8 B put, asleep", ["latency", "-s", "8", "--submit", "thread", *MADE], "eventfd + epoll", "<=", [1.3]),
    ("local 8 B put, submitter spins", ["latency", "-s", "8", "--submit", "spin", *MADE], "median", "<=", [3]),
    ("local put, mapped", ["put", "-s", "64K", "-w", "16", "--submit", "thread", *MADE], "median", ">=", [20]),
    ("local put, any", ["put", "-s", "64K", "-w", "16", "--submit", "thread"], "median", ">=", [10]),
    ("local put, any", ["put", "-s", "4K", "-w", "16", "--submit", "thread"], "CPU-s/GB", "<=", [0.5]),
]
# Small operations between two that poll.
SMALL = ["--pin", *SPIN]
SMALL_RUNS = [
    ("local 64 B message, one way", ["message"], "median", "<=", [0.2]),
    ("local 8 B put, mapped", ["latency", "-s", "8", *MADE], "median", "<=", [0.15]),
    ("local quiet puts", ["rate", "--quiet", "-s", "8", "-w", "1,1000", *MADE], "median", "<=", [0.1, 0.06]),
    ("local put, mapped", ["put", "-s", "4K,64K", "-w", "1", *MADE], "memcpy, memfd", ">=", [0.25, 0.8]),
    ("local get, mapped", ["get", "-s", "1M,64M", "-w", "1", *MADE], "ratio", ">=", [0.95, 0.95]),
    ("local put, any", ["put", "-s", "4K,64K", "-w", "1"], "process_vm", ">=", [0.8, 0.95]),
    ("local get, any", ["get", "-s", "4K,64K", "-w", "1"], "process_vm", ">=", [0.8, 0.95]),
    ("local puts", ["rate", "-s", "64", "-w", "64", *MADE], "median", "<=", [0.1]),
    ("local messages", ["rate", "--op", "message", "-s", "64", "-w", "64"], "median", "<=", [0.2]),
    ("local notifications", ["rate", "--op", "notify", "-s", "8", "-w", "64"], "M/s", ">=", [5]),
    ("puts", ["rate", "-s", "64", "-w", "64", *TCP], "median", "<=", [1.0]),
    ("messages", ["rate", "--op", "message", "-s", "64", "-w", "64", *TCP], "median", "<=", [0.8]),
    ("notifications", ["rate", "--op", "notify", "-s", "8", "-w", "64", *TCP], "M/s", ">=", [1]),
    ("put", ["put", "-s", "4K,64K,256K", "-w", "1", *TCP], "acked, spinning", ">=", [0.9, 0.95, 0.95]),
    ("get", ["get", "-s", "4K,64K,256K", "-w", "1", *TCP], "acked, spinning", ">=", [0.9, 0.95, 0.95]),
    ("8 B put, one at a time", ["latency", "-s", "8", *TCP], "ratio", "<=", [1.12]),
    # 1.15 of what the put may take.
    ("8 B put + notification", ["latency", "--op", "put-notify", "-s", "8", *TCP], "ratio", "<=", [1.29]),
    ("first contact", ["connect", *TCP], "ratio", "<=", [2.0]),
]
# The same with a thread that drives the sockets: two threads are more than one core on each side.
IO_THREAD = ["--dispatch", "thread", "--io-threads", "1"]
IO_THREAD_RUNS = [
    ("puts, one I/O thread", ["rate", "-s", "64", "-w", "64", *TCP], "median", "<=", [1.3]),
]
FIRST_CONTACT_US = 1000
CPU_TARGET = 1.3  # CPU-seconds per GB of the pages, both sides, by those of the plain sockets
IDLE_CPU = 0.001  # of one CPU
IDLE_BYTES = 64 * 1024  # resident, each connection
IDLE_SECONDS = "10"
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
            f"{self.what:<38} {self.measured:>14} {self.limit:>30} {self.ratio:>8.3f}  {self.target:<9}"
            f" {'met' if self.met else 'NOT MET'}"
        )


def run(program: str, general: list[str], words: list[str]) -> dict:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([program, *general, *words, "--json", file.name], check=True)
        return json.load(file)


def size_text(size: int) -> str:
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift:
            return f"{size >> shift} {unit}"
    return f"{size} B"


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


def held_to(row: dict, measure: str) -> tuple[float, str, str]:
    """The figure of a row, what was measured, and what it is compared with, as text."""
    median, unit = row["xfer"]["median"], row["unit"]
    if measure == "median":
        return median, f"{median:.3g} {unit}", ""
    if measure == "M/s":
        figure = row["operations_per_s"] / 1e6
        return figure, f"{figure:.3g} M/s", ""
    if measure == "CPU-s/GB":
        cpu = sorted(row["xfer"]["cpu_s_per_gb"])
        return cpu[len(cpu) // 2], f"{cpu[len(cpu) // 2]:.3g} CPU-s/GB", ""
    name = row["limit"] if measure == "ratio" else measure
    limit = next(one for one in row["limits"] if one["name"] == name)
    figure = row["ratio"] if measure == "ratio" else median / limit["median"]
    return figure, f"{median:.3g} {unit}", f"{limit['median']:.3g} {name}"


def held_lines(title: str, result: dict, measure: str, how: str, figures: list[float]) -> list[Line]:
    lines = []
    local = title.startswith("local")
    for row, target in zip(result["rows"], figures, strict=True):
        figure, measured, limit = held_to(row, measure)
        name = title
        if row["unit"] == "GB/s" or row["what"].startswith(("rate", "quiet")):
            name += f", {size_text(row['size'])}, window {row['window']}"
        met = figure <= target if how == "<=" else figure >= target
        if local and not result["path"].startswith("local"):
            name, met = f"{name}: {result['path']}", False
        # Of figures by themselves the ratio is that to the target.
        ratio = figure if limit else figure / target
        lines.append(Line(name, measured, limit, ratio, f"{how} {target:g}", met))
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


def tcp_group(measure) -> list[Line]:
    lines = []
    for title, words, target in RUNS:
        result = measure(words)
        lines += lines_of(title, result, target)
        if title == "first contact":
            lines.append(first_contact_line(result))
    return lines


def local_group(measure) -> list[Line]:
    return [
        line
        for title, words, target, most_us in NEAR_RUNS
        for line in near_lines(title, measure(words), target, most_us)
    ]


def held_group(measure, mode: list[str], runs: list[tuple]) -> list[Line]:
    return [
        line for title, words, *held in runs for line in held_lines(title, measure([words[0], *mode, *words[1:]]), *held)
    ]


def default_group(measure) -> list[Line]:
    return held_group(measure, DEFAULT, DEFAULT_RUNS)


def small_group(measure) -> list[Line]:
    return held_group(measure, SMALL, SMALL_RUNS) + held_group(measure, IO_THREAD, IO_THREAD_RUNS)


def storm_group(measure) -> list[Line]:
    return [storm_line(title, measure(["connect", *words])["storm"], seconds) for title, words, seconds in STORMS]


def idle_group(measure) -> list[Line]:
    lines = idle_lines("idle", measure(["idle", "--seconds", IDLE_SECONDS, *TCP])["idle"], IDLE_WAKEUPS)
    return lines + idle_lines("local idle", measure(["idle", "--seconds", IDLE_SECONDS])["idle"], NEAR_IDLE_WAKEUPS)


GROUPS = {
    "tcp": tcp_group,
    "local": local_group,
    "default": default_group,
    "small": small_group,
    "storms": storm_group,
    "idle": idle_group,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/gcc/examples/perf/xfer_perf"), help="the xfer_perf to run")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS), help="these groups of rows")
    parser.add_argument("--rounds", default="5")
    parser.add_argument("--seconds", default="0.4", help="length of one run")
    parser.add_argument("--json", help="write every sample of every run here")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a target is not met")
    options = parser.parse_args()

    results = []

    def measure(words: list[str]) -> dict:
        results.append(run(options.program, ["--rounds", options.rounds, "--seconds", options.seconds], words))
        print(flush=True)
        return results[-1]

    lines = [line for group in options.only for line in GROUPS[group](measure)]
    print(f"\n{'what':<38} {'measured':>14} {'limit':>30} {'ratio':>8}  {'target':<9}")
    for line in lines:
        print(line.text())
    met = sum(line.met for line in lines)
    print(f"{met} of {len(lines)} targets met")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))
    return 1 if options.strict and met < len(lines) else 0


if __name__ == "__main__":
    sys.exit(main())
