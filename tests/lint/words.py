# SPDX-License-Identifier: Apache-2.0
"""What may not stand in a file, and what must: licence lines, names, notes to self, paths of one machine."""

import re
import sys
from pathlib import Path

import tree

CODE = {".c", ".h", ".cc", ".py", ".pyi", ".sh", ".go", ".rs", ".cmake", ".in", ".map", ".toml"}
NAMED = {"CMakeLists.txt", ".clang-format", ".clang-tidy", ".editorconfig", ".gitignore"}
LICENCE = "SPDX-License-Identifier: Apache-2.0"
# Each pattern is written so that it does not match itself.
NOTES = re.compile(r"\b(TO[D]O|FIX[M]E)\b")
MACHINE = re.compile(r"(?<![\w.}$])/(home|root|work)/\w")
NAMES = re.compile(r"\b(?:class|struct)\s+(?:\w+::)*(\w*(?:Manager|Helper|Utils?|Base)(?![a-z])\w*)")


def is_code(path, text):
    return path.suffix in CODE or path.name in NAMED or text.startswith("#!")


def check(path, text):
    if "\0" in text:
        return  # not text
    if is_code(path, text) and LICENCE not in "\n".join(text.splitlines()[:5]):
        yield f": without the line {LICENCE}"
    if text and not text.endswith("\n"):
        yield ": does not end with a newline"
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, what in ((NOTES, "a note to self"), (MACHINE, "a path of one machine")):
            found = pattern.search(line)
            if found:
                yield f":{number}: {what}: {found.group()}"
        found = NAMES.search(line) if path.suffix in (".h", ".cc") else None
        if found:
            yield f":{number}: says nothing: {found.group(1)}"
        if is_code(path, text) and line != line.rstrip():
            yield f":{number}: space at the end of the line"


def prose_and_code(root):
    skipped = {"LICENSE"}
    return [p for p in tree.files(root) if p.name not in skipped and "corpus" not in p.parts and "corpora" not in p.parts]


if __name__ == "__main__":
    tree.run(check, sys.argv[1], prose_and_code(sys.argv[1]))
