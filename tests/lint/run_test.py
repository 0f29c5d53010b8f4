# SPDX-License-Identifier: Apache-2.0
"""What tests/run.sh makes of its suites: rows, sums, and how many tests of one run may be flaky."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

TESTS = Path(__file__).parents[1]
GOOD = "exit 0"
FLAKY = "[ $(wc -l <ran) -gt 1 ]"  # fails the first time
COUNTS = 'echo "5 passed, 0 failed, 2 skipped"'


class Running(unittest.TestCase):
    """Each suite has one test, a shell script, which notes that it ran in a file beside it. Nothing is built."""

    def run_all(self, labels="", flaky=0, **scripts):
        """(status, rows of the table, last line) of a run; `flaky`: what an earlier part had."""
        with tempfile.TemporaryDirectory() as scratch:
            root = Path(scratch)
            (root / "tests").mkdir()
            for name in ("run.sh", "suite.py"):
                shutil.copy(TESTS / name, root / "tests")
            (root / "tests/install.sh").write_text("exit 0\n")
            (root / "bin").mkdir()
            (root / "bin/cmake").write_text("#!/bin/sh\n")
            (root / "bin/cmake").chmod(0o755)
            for suite, script in scripts.items():
                folder = root / "build/gcc/tests" / suite
                folder.mkdir(parents=True)
                (folder / "script").write_text(f"echo >>ran\n{script}\n")
                (folder / "CTestTestfile.cmake").write_text(
                    f'add_test({suite}_test "bash" "script")\n'
                    f'set_tests_properties({suite}_test PROPERTIES TIMEOUT 20 LABELS "{labels}")\n')
            ran = subprocess.run(
                ["bash", root / "tests/run.sh"], capture_output=True, text=True, check=False, timeout=200,
                env={**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}", "XFER_TEST_FLAKY": str(flaky)},
            )
        lines = ran.stdout.splitlines()
        head = next(at for at, line in enumerate(lines) if line.startswith("suite "))
        table = [line.split() for line in lines[head + 1:lines.index("", head)]]
        rows = {row[0]: tuple(map(int, row[1:4])) for row in table}
        return ran.returncode, rows, lines[-1]

    def test_two_tests_may_be_flaky(self):
        status, rows, last = self.run_all(unit=FLAKY, sim=FLAKY, api=GOOD)
        self.assertEqual((status, last), (0, "5 passed, 0 failed, 0 skipped"))
        self.assertEqual([rows[suite] for suite in ("unit", "sim", "api")], [(1, 0, 0)] * 3)

    def test_more_fail_the_run(self):
        for flaky, scripts in ((0, {"unit": FLAKY, "sim": FLAKY, "api": FLAKY}), (1, {"unit": FLAKY, "sim": FLAKY})):
            status, rows, last = self.run_all(flaky=flaky, **scripts)
            self.assertEqual((status, rows["at-most-2-flaky"]), (1, (0, 1, 0)), last)
            self.assertIn("1 failed", last)

    def test_a_failure_fails_the_run(self):
        status, rows, last = self.run_all(unit="exit 1", sim=GOOD)
        self.assertEqual((status, rows["unit"], rows["sim"]), (1, (0, 1, 0), (1, 0, 0)), last)

    def test_cases_that_a_test_counts_itself(self):
        status, rows, _ = self.run_all(interop=COUNTS)
        self.assertEqual((status, rows["interop"]), (0, (5, 0, 2)))

    def test_a_suite_that_is_left_out_has_a_row(self):
        status, rows, _ = self.run_all(labels="long", quickstart="exit 1")
        self.assertEqual((status, rows["quickstart"]), (0, (0, 0, 1)))
        self.assertNotIn("unit", rows)  # it has no tests at all


if __name__ == "__main__":
    unittest.main()
