#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the bindings cost: the same work in C and in each language, by the same door, against one server.

In each round C and the languages run one behind the other, and the ratios are made in the round; their medians are
shown. Over TCP they have aims; the path of one host is printed beside them. Nothing here judges what a run measures but
--check, which needs a library of the preset `release`.
"""

import argparse
import contextlib
import os
import pathlib
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LANGUAGES = ["python", "go", "rust"]
SKIPPED = 77
BUILD_SECONDS = 900  # the first run of a language fetches and builds

# The unit, what of it is shown as 1, and the aims of the ratio to C: of rates at least, of times at most.
CASES = {
    "bandwidth": ("GB/s", 1e9, {"python": 0.95, "go": 0.95, "rust": 0.95}),
    "rate": ("puts/s", 1, {"python": 0.03, "go": 0.4, "rust": 0.6}),
    "latency": ("us", 1, {"go": 2.0, "rust": 1.5}),
    "pages": ("GB/s", 1e9, {"python": 0.9, "go": 0.9, "rust": 0.9}),
}
# A path, and what the environment of all programs says for it.
PATHS = {"tcp": {"XFER_TRANSPORTS": "loopback,tcp"}, "local": {}}


def environment(build: pathlib.Path, path: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name != "XFER_TRANSPORTS"}
    return plain | {"LD_LIBRARY_PATH": str(build / "lib")} | PATHS[path]


def build_type(build: pathlib.Path) -> str:
    lines = (build / "CMakeCache.txt").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("CMAKE_BUILD_TYPE:"))


def build_c(build: pathlib.Path) -> pathlib.Path:
    """Builds bindings.c as a user of the library would, and as the languages are built: by pkg-config."""
    program = build / "bindings" / "bench" / "bindings"
    program.parent.mkdir(parents=True, exist_ok=True)
    words = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "xfer"],
        env=os.environ | {"PKG_CONFIG_PATH": str(build / "pkgconfig")},
        check=True, stdout=subprocess.PIPE, text=True,
    ).stdout
    source = ROOT / "tests" / "bench" / "bindings.c"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, *flags, "-o", str(program), str(source), *shlex.split(words)], check=True)
    return program


class Failed(Exception):
    """A program that did not do what it is for."""


class Skipped(Exception):
    """A language that this machine lacks."""


def script(language: str) -> pathlib.Path:
    return ROOT / "bindings" / language / "run-bench.sh"


class Bench:
    def __init__(self, build: pathlib.Path, program: pathlib.Path, path: str, uri: str) -> None:
        self.build, self.program, self.uri = build, program, uri
        self.environment = environment(build, path)

    def measure(self, language: str, case: str, seconds: float, limit: float) -> float:
        """Runs one case; returns the number that it prints."""
        begin = [str(self.program)] if language == "c" else ["bash", str(script(language)), str(self.build)]
        words = [*begin, case, self.uri, str(seconds)]
        try:
            run = subprocess.run(words, env=self.environment, timeout=limit, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, text=True)
        except subprocess.TimeoutExpired:
            raise Failed(f"{language} {case}: not done after {limit:.0f} s") from None
        if run.returncode == SKIPPED:
            raise Skipped(run.stdout.strip())
        if run.returncode != 0:
            raise Failed(f"{language} {case}: exit status {run.returncode}\n{run.stdout}")
        try:
            number = float(run.stdout)
        except ValueError:
            raise Failed(f"{language} {case}: one number is expected, not {run.stdout!r}") from None
        if not 0 < number < float("inf"):
            raise Failed(f"{language} {case}: {number} is no measurement")
        return number


@contextlib.contextmanager
def serving(build: pathlib.Path, program: pathlib.Path, path: str):
    words = [str(program), "serve"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=environment(build, path), stdin=pipe, stdout=pipe, text=True) as server:
        uri = server.stdout.readline().strip()
        if not uri:
            raise Failed("the server did not start")
        yield Bench(build, program, path, uri)
        server.stdin.close()
    if server.returncode != 0:
        raise Failed(f"the server ended with {server.returncode}")


def present(bench: Bench, languages: list[str]) -> list[str]:
    """Those of the languages that this machine has. Builds their programs, so that no round does."""
    there = []
    for language in languages:
        if not script(language).exists():
            raise Failed(f"{script(language)}: no such file")
        try:
            bench.measure(language, "latency", 0.01, BUILD_SECONDS)
            there.append(language)
        except Skipped as reason:
            print(f"skipped: {language}: {str(reason).removeprefix('skip: ')}")
    return there


def rounds(bench: Bench, case: str, languages: list[str], options: argparse.Namespace) -> dict[str, list[float]]:
    """What each language measured, round by round. Each round begins with another one."""
    measured: dict[str, list[float]] = {language: [] for language in languages}
    limit = 10 * options.seconds + 60
    for number in range(options.rounds):
        first = number % len(languages)
        for language in languages[first:] + languages[:first]:
            measured[language].append(bench.measure(language, case, options.seconds, limit))
    return measured


def table(path: str, case: str, measured: dict[str, list[float]]) -> list[bool]:
    """Prints one line for each language; returns whether the aims are met."""
    unit, one, aims = CASES[case]
    verdicts = []
    for language, values in measured.items():
        ratios = sorted(value / c for value, c in zip(values, measured["c"]))
        line = f"{path:<6} {case:<10} {language:<7} {statistics.median(values) / one:>12,.2f} {unit:<7}"
        if language != "c":
            line += f" {statistics.median(ratios):>7.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})"
        if path == "tcp" and language in aims:
            aim, ratio = aims[language], statistics.median(ratios)
            verdicts.append(ratio <= aim if case == "latency" else ratio >= aim)
            line += f"  aim {'<=' if case == 'latency' else '>='} {aim:<5} {'met' if verdicts[-1] else 'MISSED'}"
        print(line, flush=True)
    return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a CMake build folder that is built")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1, help="length of one run")
    parser.add_argument("--languages", nargs="+", choices=LANGUAGES, default=LANGUAGES)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--paths", nargs="+", choices=PATHS, default=list(PATHS))
    parser.add_argument("--check", action="store_true", help="exit with 1 if an aim is missed, over TCP")
    options = parser.parse_args()

    build = options.build.resolve()
    kind = build_type(build)
    if options.check and kind != "Release":
        raise Failed(f"{build}: a library of type {kind} is not what the aims are for; --preset release is")
    program = build_c(build)
    verdicts: list[bool] = []
    languages = None
    for path in options.paths:
        with serving(build, program, path) as bench:
            languages = languages or present(bench, options.languages)
            if not languages:
                return SKIPPED
            for case in options.cases:
                verdicts += table(path, case, rounds(bench, case, ["c", *languages], options))
    print(f"library of type {kind}; {sum(verdicts)} of {len(verdicts)} aims met")
    return 1 if options.check and not all(verdicts) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(str(failure))
