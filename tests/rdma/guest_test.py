# SPDX-License-Identifier: Apache-2.0
"""The guests themselves: what a command sees and says there, how it ends, and that nothing is left of them."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import kernel

GUEST = Path(__file__).with_name("guest.py")


def guest(*words, limit=100, **keywords):
    """What guest.py makes of its words."""
    return subprocess.run(
        [sys.executable, GUEST, *words], capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=limit,
        **keywords,
    )


def machines_of(process):
    """The ids of its children."""
    try:
        return Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    except OSError:
        return []


class Guests(unittest.TestCase):
    def test_a_command_has_the_hosts_files_and_its_own_status(self):
        with tempfile.TemporaryDirectory() as folder:
            data = os.urandom(3_000_000)
            (Path(folder) / "data").write_bytes(data)
            script = "cat data; echo $PWD $XFER_KEPT ${SECRET:-none} >&2; rm data; echo lost >data; sleep 100 & exit 7"
            ran = guest("bash", "-c", script, cwd=folder, env={**os.environ, "XFER_KEPT": "kept", "SECRET": "told"})
            self.assertEqual(ran.returncode, 7, ran.stderr)
            self.assertEqual(ran.stdout, data)  # to its last byte, and no other
            self.assertEqual(ran.stderr.decode().split(), [folder, "kept", "none"])
            self.assertEqual((Path(folder) / "data").read_bytes(), data)

    def test_nothing_is_lost_to_who_reads_late(self):
        words = [sys.executable, GUEST, "bash", "-c", "head -c 3000000 /dev/zero; echo end"]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as run:
            time.sleep(10)  # the machine has said its status, or waits to
            said, _ = run.communicate(timeout=60)
        self.assertEqual((run.returncode, len(said), said[-4:]), (0, 3_000_004, b"end\n"))

    def test_a_guest_that_hangs_or_dies(self):
        ran = guest("--limit", "15", "bash", "-c", "trap '' TERM; while :; do :; done")
        self.assertEqual(ran.returncode, 124, ran.stderr)
        ran = guest("bash", "-c", "echo before; sleep 1; echo c >/proc/sysrq-trigger; sleep 100")
        self.assertEqual((ran.returncode, ran.stdout), (125, b"before\n"))
        self.assertIn(b"Kernel panic", ran.stderr)

    def test_who_ends_it_ends_its_machines(self):
        for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)):
            before = set(os.listdir(tempfile.gettempdir()))
            with subprocess.Popen([sys.executable, GUEST, "--two", "sleep", "100"]) as run:
                machines = []
                while len(machines) < 2:
                    machines = machines_of(run.pid)
                    time.sleep(0.05)
                run.send_signal(number)
                self.assertEqual(run.wait(20), status)
            end = time.monotonic() + 20
            while any(os.path.exists(f"/proc/{machine}/exe") for machine in machines):
                self.assertLess(time.monotonic(), end)
                time.sleep(0.05)
            self.assertFalse([name for name in set(os.listdir(tempfile.gettempdir())) - before if "guest" in name])

    def test_two_guests_end_with_the_first(self):
        ran = guest("--two", "bash", "-c", "echo here $XFER_GUEST; [ $XFER_GUEST = 1 ] && exec sleep 100; sleep 2; exit 3")
        self.assertEqual(ran.returncode, 3, ran.stderr)
        self.assertEqual(sorted(ran.stdout.splitlines()), [b"[1] here 1", b"here 0"])

    def test_a_machine_without_what_is_needed(self):
        with mock.patch.object(kernel, "PATH", "/nowhere"), self.assertRaisesRegex(kernel.Missing, "no qemu-system"):
            kernel.prepare()


if __name__ == "__main__":
    try:
        kernel.prepare()
    except kernel.Missing as missing:
        print(f"skipped: {missing}")
        sys.exit(77)
    unittest.main()
