# SPDX-License-Identifier: Apache-2.0
"""Each example as a program: it ends well, and not if the bytes are wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
TOLD = {
    "pages": "4 layers of 24 blocks, 1572864 bytes",
    "messages": "2 clients, 100 requests each",
    "weights": "3 workers, 8388608 bytes each",
}

# Each leaves out, or changes, what the example is to check.
BROKEN = {
    "pages": ("xfer.Batch.put_pages = lambda *args, **named: None", "is not block"),
    "messages": (
        "send = xfer.Endpoint.send\n"
        "xfer.Endpoint.send = lambda ep, data, tag: send(ep, bytes(len(data)), tag)",
        "is not that to its request",
    ),
    "weights": ("xfer.Endpoint.put_quiet = lambda *args: None", "other weights"),
}


def run(*args: str, path: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "dev", "-W", "error", *args]
    paths = [path, os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)


def check_ends_well(name: str, told: subprocess.CompletedProcess[str]) -> None:
    assert (told.returncode, told.stderr) == (0, "")
    first, last = told.stdout.splitlines()
    assert TOLD[name] in first and last == "ok"


@pytest.mark.parametrize("name", TOLD)
def test_example(name: str) -> None:
    check_ends_well(name, run(str(EXAMPLES / f"{name}.py")))


def test_example_without_numpy(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError\n")
    check_ends_well("pages", run(str(EXAMPLES / "pages.py"), path=str(tmp_path)))


@pytest.mark.parametrize("name", BROKEN)
def test_example_that_fails(name: str) -> None:
    broken, why = BROKEN[name]
    program = f"import runpy, sys, xfer\n{broken}\nrunpy.run_path(sys.argv[1], None, '__main__')"
    told = run("-c", program, str(EXAMPLES / f"{name}.py"))
    assert told.returncode == 1
    assert why in told.stderr and len(told.stderr.splitlines()) == 1
    assert not told.stdout
