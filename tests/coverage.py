# SPDX-License-Identifier: Apache-2.0
"""Prints what share of each floor's lines was run. Usage: coverage.py [--missing] REPORT [PART]

REPORT is gcovr's JSON. With --missing: the lines that were not run, of files whose path holds PART.
"""

import json
import sys

FLOORS = ["api", "core", "wire", "transport", "device", "loop", "util"]
LEAST = {"api": 90, "core": 90, "wire": 90}  # percent


def read(report):
    """{path: {line: was it run}}"""
    files = json.load(open(report, encoding="utf-8"))["files"]
    return {
        file["file"]: {line["line_number"]: line["count"] > 0 for line in file["lines"] if not line["gcovr/noncode"]}
        for file in files
    }


def runs(numbers):
    """1, 2, 3, 7 as 1-3, 7."""
    first = last = None
    for number in [*sorted(numbers), None]:
        if last is not None and number == last + 1:
            last = number
            continue
        if last is not None:
            yield f"{first}-{last}" if last > first else f"{first}"
        first = last = number


def print_missing(files, part):
    for path, lines in sorted(files.items()):
        missing = [number for number, run in lines.items() if not run]
        if missing and part in path:
            print(f"{path}: {', '.join(runs(missing))}")


def print_floors(files):
    low = []
    print(f"{'floor':<12} {'lines':>7} {'not run':>8} {'percent':>8}")
    for floor in FLOORS:
        lines = [run for path, lines in files.items() if path.startswith(f"lib/{floor}/") for run in lines.values()]
        percent = 100 * sum(lines) / len(lines) if lines else 0
        print(f"{floor:<12} {len(lines):>7} {lines.count(False):>8} {percent:>8.1f}")
        if percent < LEAST.get(floor, 0):
            low.append(f"lib/{floor} is below {LEAST[floor]} %")
    print(*low, sep="\n")
    return 1 if low else 0


def main():
    arguments = sys.argv[1:]
    if arguments[0] == "--missing":
        return print_missing(read(arguments[1]), arguments[2])
    return print_floors(read(arguments[0]))


if __name__ == "__main__":
    sys.exit(main())
