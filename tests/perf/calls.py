# SPDX-License-Identifier: Apache-2.0
"""Calls of xfer_perf that its tests share."""

import json
import subprocess
import sys
import tempfile


def measure(program: str, words: str, seconds: str) -> dict:
    """One round, unless `words` say otherwise."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [program, "--rounds", "1", "--seconds", seconds, *words.split(), "--json", file.name]
        subprocess.run(command, check=True, timeout=60)
        return json.load(file)


def refuse_misuses(program: str, misuses: list[str]) -> None:
    for words in misuses:
        misused = subprocess.run([program, *words.split()], stderr=subprocess.DEVNULL, timeout=60, check=False)
        if misused.returncode != 2:
            sys.exit(f"{words}: taken")
