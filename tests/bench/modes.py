#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each way to dispatch and drive costs: the table of the README, with both sides in the same mode.

Each cell is xfer_perf's ratio to the raw limit of the same round, from the least to the most of several runs.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TCP = ["--transports", "loopback,tcp"]

MODES = [
    ("THREAD", "none (default)", ["--dispatch", "thread", "--io-threads", "none"]),
    ("THREAD", "1", ["--dispatch", "thread", "--io-threads", "1"]),
    ("LOOP", "1 (default)", ["--dispatch", "loop", "--io-threads", "1"]),
    ("LOOP", "none", ["--dispatch", "loop", "--io-threads", "none"]),
    ("POLL, waits", "1 (default)", ["--dispatch", "poll", "--io-threads", "1"]),
    ("POLL, waits", "none", ["--dispatch", "poll", "--io-threads", "none"]),
    ("POLL, spins", "none", ["--dispatch", "poll", "--io-threads", "none", "--busy"]),
    ("THREAD, `spin_us` 50", "none", ["--dispatch", "thread", "--io-threads", "none", "--spin-us", "50"]),
]
# A column: its words for xfer_perf, and what of its one row is shown.
COLUMNS = [
    ("64 B put over TCP", ["latency", "-s", "64", "--pin", *TCP], "ratio"),
    ("64 B local message", ["message", "-s", "64", "--pin"], "ratio"),
    ("1 MiB puts over TCP", ["put", "-s", "1M", "-w", "8", *TCP], "ratio"),
    ("CPU of these", None, "cpu_ratio"),  # of the run before
]


def run(program: str, words: list[str], extra: list[str]) -> dict:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([program, *words, *extra, "--json", file.name], check=True, stdout=subprocess.DEVNULL)
        return json.load(file)["rows"][0]


def cell(rows: list[dict], key: str) -> str:
    values = sorted(row[key] for row in rows)
    low, high = f"{values[0]:.2f}", f"{values[-1]:.2f}"
    text = low if low == high else f"{low}–{high}"
    times = sorted(row["xfer"]["median"] for row in rows)
    return f"{text} ({times[0]:.1f}–{times[-1]:.1f} µs)" if rows[0]["unit"] == "us" else text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/examples/perf/xfer_perf"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", default="5", help="of each run")
    parser.add_argument("--seconds", default="0.2", help="length of one measurement")
    options = parser.parse_args()
    extra = ["--rounds", options.rounds, "--seconds", options.seconds]
    results: dict[tuple[int, int], list[dict]] = {}
    for _ in range(options.runs):
        for mode, (_, _, mode_words) in enumerate(MODES):
            for column, (_, words, _) in enumerate(COLUMNS):
                if words is not None:
                    row = run(options.program, [*words, *mode_words], extra)
                results.setdefault((mode, column), []).append(row)
    print("| `dispatch` | `io_threads` | " + " | ".join(title for title, _, _ in COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for mode, (dispatch, threads, _) in enumerate(MODES):
        cells = [cell(results[mode, column], key) for column, (_, _, key) in enumerate(COLUMNS)]
        print(f"| {dispatch} | {threads} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
