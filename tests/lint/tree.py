# SPDX-License-Identifier: Apache-2.0
"""What the lints share: the files of the tree, and how a lint ends."""

import subprocess
import sys
from pathlib import Path


def files(root):
    """Every file of the tree that git tracks or would track, relative to `root`."""
    out = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True, text=True,
    ).stdout
    return [path for path in map(Path, sorted(set(out.splitlines()))) if (Path(root) / path).is_file()]


def sources(root):
    """The C++ of the library."""
    return [p for p in files(root) if p.parts[0] == "lib" and p.suffix in (".cc", ".h")]


def run(check, root, paths):
    """Ends the program: 1 if `check(path, text)` finds a fault in one of `paths`, or there is none to look at."""
    faults = [f"no file to check in {root}"] if not paths else []
    for path in paths:
        text = (Path(root) / path).read_text(encoding="utf-8", errors="replace")
        faults += [f"{path}{fault}" for fault in check(path, text)]
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)
