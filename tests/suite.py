# SPDX-License-Identifier: Apache-2.0
"""Runs the ctest tests of one folder of a build tree and counts the cases inside them.

Usage: suite.py [--no-rerun] [--budget SECONDS] [--logs FOLDER] FOLDER [arguments of ctest]. A cmocka or doctest program
counts as its cases, and so does one whose last line is of the form below; anything else as one. Prints what failed, what
is flaky, why something was skipped, the figures that tests tell, and last `N passed, N failed, N skipped`.

A test that fails is run again alone, twice. If it passes both times it is flaky, which is no failure: `flaky: NAME` is
printed, and the log of its failure is kept. Who runs several suites bounds how many may be flaky (tests/run.sh).
The budget is that of the first run: ctest is ended when it is over, and the exit status is 124.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

LOGS = Path(__file__).resolve().parents[1] / "build/logs/flaky"
RERUNS = 2  # all of which must pass
MAX_RERUN = 2  # tests of one run of a suite; with more the run fails even if all of them are flaky, see tests/run.sh
# What these find is rare by nature, so that one failure is enough, or does not depend on chance.
NO_RERUN = re.compile(r"^(crash_|api_quiet|hostile[-_]|rdma-asan|lint-|abi-)")
OVER_BUDGET = 124  # exit status of timeout
HEAD, TAIL = 40, 40  # lines of a failed test that are shown: from a little before its first complaint, and its last
COMPLAINT = re.compile(r"ERROR|FAIL|Sanitizer|Assertion|Error: ")

CASES = {
    "passed": r"^\[       OK \] |^\[doctest\] test cases: .*\| *(\d+) passed"
              r"|^(\d+) passed, \d+ failed, \d+ skipped\s*\Z",
    "failed": r"^\[  FAILED  \] (\d+) test\(s\)|^\[doctest\] test cases: .*\| *(\d+) failed"
              r"|^\d+ passed, (\d+) failed, \d+ skipped\s*\Z",
    "skipped": r"^\[  SKIPPED \] (\d+) test\(s\)|^\d+ passed, \d+ failed, (\d+) skipped\s*\Z",
}
DOCTEST_SKIP = r"^\S+ MESSAGE: skipped"


def count_cases(output):
    """{kind: number} of the cases that a test program tells of; a line without a number is one case."""
    return {
        kind: sum(
            int(next((n for n in match.groups() if n), 1)) for match in re.finditer(pattern, output, re.M)
        )
        for kind, pattern in CASES.items()
    }


def outcome(test):
    """(cases, output) of one test of ctest."""
    output = test.findtext("system-out") or ""
    cases = count_cases(output)
    left = len(re.findall(DOCTEST_SKIP, output, re.M))  # doctest counts them as passed
    cases["passed"], cases["skipped"] = cases["passed"] - left, cases["skipped"] + left
    skipped = test.find("skipped")
    if skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        cases["skipped"] = cases["skipped"] or 1
    elif test.get("status") != "run":
        cases["failed"] = cases["failed"] or 1  # it crashed, ran out of time, or was not there
    elif not any(cases.values()):
        cases["passed"] = 1
    return cases, output


def reasons(output):
    """Why something was skipped: a test says so in a line that begins with "skip", or with "ok" and ends "# SKIP ..."."""
    found = re.findall(r"^(?:\s*|\S+ MESSAGE: |ok .*# )skip(?:ped|ping)?\b[:, ]*(.+)", output, re.I | re.M)
    return "; ".join(dict.fromkeys(found)) or "no reason given"


def excerpt(output):
    lines = output.splitlines()
    first = next((at for at, line in enumerate(lines) if COMPLAINT.search(line)), 0)
    begin, rest = max(0, first - HEAD // 2), len(lines) - TAIL
    if rest <= begin + HEAD:
        return lines[begin:]
    return [*lines[begin:begin + HEAD], f"... {rest - begin - HEAD} lines ...", *lines[rest:]]


def run_ctest(folder, arguments, budget=None):
    limit = ["timeout", budget] if budget else []  # ctest ends its tests when it is told to end
    with tempfile.TemporaryDirectory() as scratch:
        report = os.path.join(scratch, "report.xml")
        ended = subprocess.run(
            [*limit, "ctest", "--test-dir", folder, "--output-junit", report, *arguments,
             "--test-output-size-passed", "1000000", "--test-output-size-failed", "1000000"],
            check=False,
        )
        if limit and ended.returncode == OVER_BUDGET:
            sys.exit(OVER_BUDGET)
        return list(ElementTree.parse(report).getroot().iter("testcase"))


def passes_alone(folder, name):
    """True if the test passes each time that it is run again with nothing beside it."""
    for _ in range(RERUNS):
        again = [t for t in run_ctest(folder, ["-R", f"^{re.escape(name)}$"]) if t.get("name") == name]
        if not again or any(outcome(test)[0]["failed"] for test in again):
            return False
    return True


def keep_log(logs, name, output):
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{name}.log"
    log.write_text(output, encoding="utf-8", errors="replace")
    return log


def forgive_flaky(folder, results, logs):
    """The results of (test, cases, output) with those of flaky tests as passed; each flaky test is printed."""
    failed = [test.get("name") for test, cases, _ in results if cases["failed"]]
    if len(failed) > MAX_RERUN:
        return results
    flaky = {name for name in failed if not NO_RERUN.match(name) and passes_alone(folder, name)}
    forgiven = []
    for test, cases, output in results:
        name = test.get("name")
        if name in flaky:
            print(f"flaky: {name}: passed alone, twice; the failure: {keep_log(logs, name, output)}")
            cases = {**cases, "passed": cases["passed"] + cases["failed"], "failed": 0}
        forgiven.append((test, cases, output))
    return forgiven


def parse_arguments():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--no-rerun", action="store_true", help="a test that fails has failed: under a sanitizer")
    parser.add_argument("--budget", help="seconds of the first run of all tests; default: no limit")
    parser.add_argument("--logs", type=Path, default=LOGS, help="where the logs of flaky tests are kept")
    parser.add_argument("folder")
    parser.add_argument("ctest", nargs=argparse.REMAINDER)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    total = dict.fromkeys(CASES, 0)
    results = [(test, *outcome(test)) for test in run_ctest(arguments.folder, arguments.ctest, arguments.budget)]
    if not arguments.no_rerun:
        results = forgive_flaky(arguments.folder, results, arguments.logs)
    for test, cases, output in results:
        for kind, number in cases.items():
            total[kind] += number
        if cases["failed"]:
            print(f"\nFAILED: {test.get('name')}", *excerpt(output), sep="\n    ")
        for line in re.findall(r"^(?:figure|flaky): .+", output, re.M):
            flaky = line.startswith("flaky: ")  # of its programs, which it runs again by itself
            print(f"{line}; the failure: {keep_log(arguments.logs, test.get('name'), output)}" if flaky else line)
        if cases["skipped"]:
            print(f"skipped: {test.get('name')}: {reasons(output)}")
    print(", ".join(f"{number} {kind}" for kind, number in total.items()))
    return 1 if total["failed"] or not any(total.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
