# SPDX-License-Identifier: Apache-2.0
"""The counting of tests/suite.py."""

import sys
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
        self.assertEqual(suite.reasons("[  SKIPPED ] b\n"), "no reason given")


if __name__ == "__main__":
    unittest.main()
