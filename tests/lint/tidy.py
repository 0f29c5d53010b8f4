#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over the library, as .clang-tidy says. It is the second compiler as well: with the build's -Werror each of
clang's own warnings is an error of it.

Usage: tidy.py ROOT BUILD_DIR. What takes the time is the headers, so a dozen files are looked at as one.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

JOINED = 12  # files
COUNTS = re.compile(r"^\d+ warnings?(?: and \d+ errors?)? (?:generated|treated)|^Suppressed|^Use -header-filter")


def commands(entries, library):
    """{file: its compiler's arguments, without those that name it} of the files below a folder."""
    found = {}
    for entry in entries:
        if not Path(entry["file"]).is_relative_to(library):
            continue
        words = shlex.split(entry["command"])[1:]
        named = {at for at, word in enumerate(words) if word in ("-o", "-c")}
        found[Path(entry["file"])] = [
            word for at, word in enumerate(words) if at not in named and at - 1 not in named
        ]
    return found


def batches(found):
    """[(arguments, files)]: files with the same arguments, JOINED at most."""
    for arguments, files in groupby(sorted(found, key=lambda file: (found[file], file)), key=lambda file: found[file]):
        files = list(files)
        for at in range(0, len(files), JOINED):
            yield arguments, files[at:at + JOINED]


def join(texts):
    """(text, places): the files as one, and of each of its lines (file, line)."""
    lines, places = [], []
    for file, text in texts:
        for number, line in enumerate(text.splitlines(), 1):
            lines.append(line)
            places.append((file, number))
    return "\n".join(lines) + "\n", places


def in_place(output, joined, places):
    """What was said of the joined file, said of those that it was made of."""
    def place(match):
        file, number = places[int(match[1]) - 1]
        return f"{file}:{number}:"

    return re.sub(rf"(?:\S*/)?{re.escape(joined.name)}:(\d+):", place, output)


def complaints(batch, root, scratch):
    number, (arguments, files) = batch
    joined = Path(scratch) / f"joined_{number}.cc"
    text, places = join((file.relative_to(root), file.read_text(encoding="utf-8")) for file in files)
    joined.write_text(text, encoding="utf-8")
    ran = subprocess.run(
        ["clang-tidy", "--quiet", f"--config-file={root}/.clang-tidy", joined, "--", *arguments,
         "-Wno-unknown-warning-option"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )
    said = [line for line in in_place(ran.stdout, joined, places).splitlines() if not COUNTS.match(line)]
    return ran.returncode, "\n".join(said)


def main():
    root, build = (Path(argument).resolve() for argument in sys.argv[1:3])
    found = commands(json.loads((build / "compile_commands.json").read_text(encoding="utf-8")), root / "lib")
    if not found:
        sys.exit(f"{build}/compile_commands.json has no file of {root}/lib")
    failed = False
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(os.cpu_count()) as threads:
        for status, said in threads.map(lambda batch: complaints(batch, root, scratch), enumerate(batches(found))):
            if said:
                print(said)
            failed = failed or status != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
