# SPDX-License-Identifier: Apache-2.0
"""What tests/suite.py counts, and what it runs again."""

import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import suite

CMOCKA = """[==========] Running 3 test(s).
[ RUN      ] a
[       OK ] a
skipped: no device
[  SKIPPED ] b
[  FAILED  ] c
[==========] 3 test(s) run.
[  PASSED  ] 1 test(s).
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] b
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] c
"""
DOCTEST = "[doctest] test cases: 5 | 4 passed | 1 failed | 0 skipped\n"


class Counting(unittest.TestCase):
    def count(self, status, output="", inner=""):
        test = ElementTree.fromstring(f'<testcase name="t" status="{status}">{inner}</testcase>')
        ElementTree.SubElement(test, "system-out").text = output
        return tuple(suite.outcome(test)[0].values())

    def test_cases_inside_a_program(self):
        self.assertEqual(self.count("fail", CMOCKA), (1, 1, 1))
        self.assertEqual(self.count("fail", DOCTEST), (4, 1, 0))

    def test_a_last_line_that_counts(self):
        self.assertEqual(self.count("run", "ok a\nok b: # SKIP no key\n7 passed, 0 failed, 1 skipped\n"), (7, 0, 1))
        self.assertEqual(self.count("fail", "not ok a\n7 passed, 2 failed, 0 skipped\n"), (7, 2, 0))
        self.assertEqual(self.count("run", "7 passed, 0 failed, 1 skipped\nnot the last line\n"), (1, 0, 0))

    def test_anything_else_is_one(self):
        self.assertEqual(self.count("run"), (1, 0, 0))
        self.assertEqual(self.count("fail"), (0, 1, 0))

    def test_a_crash_after_some_cases_is_a_failure(self):
        self.assertEqual(self.count("fail", "[       OK ] a\n[       OK ] b\n"), (2, 1, 0))

    def test_a_case_of_doctest_that_left_early_is_skipped(self):
        left = "a_test.cc:121: MESSAGE: skipped: not allowed here\n"
        summary = "[doctest] test cases: 5 | 5 passed | 0 failed | 0 skipped\n"
        self.assertEqual(self.count("run", left + summary, ""), (4, 0, 1))
        self.assertEqual(suite.reasons(left), "not allowed here")

    def test_skipped_is_not_the_same_as_missing(self):
        self.assertEqual(self.count("notrun", "", '<skipped message="SKIP_RETURN_CODE=77"/>'), (0, 0, 1))
        self.assertEqual(self.count("notrun", "", '<skipped message="Unable to find"/>'), (0, 1, 0))

    def test_reasons(self):
        self.assertEqual(suite.reasons(CMOCKA), "no device")
        self.assertEqual(suite.reasons("skip: go is not installed\n"), "go is not installed")
        self.assertEqual(suite.reasons("ok b: # SKIP no key\n"), "no key")
        self.assertEqual(suite.reasons("[  SKIPPED ] b\n"), "no reason given")


class Rerunning(unittest.TestCase):
    """Each test of the fake suite is a shell script, which notes that it ran in a file beside it."""

    FAILS_FIRST = '[ $(wc -l <ran) -gt 1 ] || { echo "ERROR: the first time"; exit 1; }'
    FAILS_TWICE = "[ $(wc -l <ran) -gt 2 ]"
    FAILS_AT_LAST = "[ $(wc -l <ran) = 2 ]"

    def run_suite(self, *arguments, **scripts):
        """(status, output, {name: how often it ran}, {names of kept logs}) of a suite of these tests."""
        with tempfile.TemporaryDirectory() as scratch:
            folder, logs = Path(scratch, "suite"), Path(scratch, "logs")
            lines = []
            for name, script in scripts.items():
                home = folder / name
                home.mkdir(parents=True)
                (home / "script").write_text(f"echo >>ran\n{script}\n")
                lines.append(f'add_test({name} "bash" "script")')
                lines.append(f'set_tests_properties({name} PROPERTIES WORKING_DIRECTORY "{home}" TIMEOUT 2)')
            (folder / "CTestTestfile.cmake").write_text("\n".join(lines))
            ran = subprocess.run(
                [sys.executable, suite.__file__, "--logs", logs, *arguments, folder, "-j", "2"],
                capture_output=True, text=True, check=False, timeout=100,
            )
            counts = {name: len((folder / name / "ran").read_text().splitlines()) for name in scripts}
            kept = {log.name: log.read_text() for log in logs.glob("*")}
            return ran.returncode, ran.stdout.splitlines(), counts, kept

    def test_a_failure_that_does_not_come_again_is_flaky(self):
        status, output, ran, kept = self.run_suite(good="exit 0", once=self.FAILS_FIRST)
        self.assertEqual((status, output[-1]), (0, "2 passed, 0 failed, 0 skipped"))
        self.assertEqual(ran, {"good": 1, "once": 3})
        self.assertEqual(sum(line.startswith("flaky: once: ") for line in output), 1)
        self.assertIn("ERROR: the first time", kept["once.log"])

    def test_a_test_that_runs_its_programs_again_tells_of_them(self):
        status, output, _, kept = self.run_suite(guest='echo "flaky: a: passed alone, twice"; echo "why"')
        self.assertEqual((status, output[-1]), (0, "1 passed, 0 failed, 0 skipped"))
        self.assertEqual(sum(line.startswith("flaky: a: ") for line in output), 1)
        self.assertIn("why", kept["guest.log"])

    def test_it_must_pass_both_times(self):
        for script, runs in ((self.FAILS_TWICE, 2), (self.FAILS_AT_LAST, 3), ("exit 1", 2)):
            status, output, ran, kept = self.run_suite(bad=script)
            self.assertEqual((status, output[-1]), (1, "0 passed, 1 failed, 0 skipped"), script)
            self.assertEqual((ran, kept), ({"bad": runs}, {}), script)
            self.assertIn("FAILED: bad", output)

    def test_a_crash_and_a_hang_fail_like_any_other(self):
        for script in ("kill -SEGV $$", "exec sleep 60"):
            status, output, ran, _ = self.run_suite(bad=script)
            self.assertEqual((status, ran, output[-1]), (1, {"bad": 2}, "0 passed, 1 failed, 0 skipped"), script)

    def test_what_finds_rare_faults_is_not_run_again(self):
        for name in ("crash_near", "api_quiet", "api_quiet_near", "hostile-messages", "rdma-asan"):
            status, output, ran, _ = self.run_suite(**{name: self.FAILS_FIRST})
            self.assertEqual((status, ran, output[-1]), (1, {name: 1}, "0 passed, 1 failed, 0 skipped"))

    def test_nothing_is_run_again_under_a_sanitizer(self):
        status, output, ran, _ = self.run_suite("--no-rerun", once=self.FAILS_FIRST)
        self.assertEqual((status, ran, output[-1]), (1, {"once": 1}, "0 passed, 1 failed, 0 skipped"))

    def test_more_than_may_be_flaky_are_not_run_again(self):
        status, output, ran, _ = self.run_suite(a=self.FAILS_FIRST, b=self.FAILS_FIRST, c=self.FAILS_FIRST)
        self.assertEqual((status, ran, output[-1]), (1, {"a": 1, "b": 1, "c": 1}, "0 passed, 3 failed, 0 skipped"))

    def test_a_suite_over_its_budget_is_ended(self):
        for script in ("sleep 1.5", "sleep 1.5; exit 1"):
            status, _, ran, _ = self.run_suite("--budget", "1", slow=script)
            self.assertEqual((status, ran), (124, {"slow": 1}), script)

    def test_what_is_run_again_does_not_count_in_the_budget(self):
        status, output, ran, _ = self.run_suite("--budget", "2", once=f"sleep 1; {self.FAILS_FIRST}")
        self.assertEqual((status, ran, output[-1]), (0, {"once": 3}, "1 passed, 0 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
