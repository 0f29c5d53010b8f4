#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fenced blocks of pages, and the tests that run them as they stand.

The line `<!-- TEST -->` or `<!-- TEST: WORDS -->` stands right before a block, or alone: a step without one. TEST is
what a test of ctest is called, or begins with; or `picture`, for what only shows something.

Usage: blocks.py PAGE TEST              prints the blocks of that test
       blocks.py --check BUILD PAGE...  fails for a block without a test, and for a test that is named and not there
"""

import dataclasses
import fnmatch
import re
import subprocess
import sys

NAMED = re.compile(r"`((?:api|consumer|crash|faults|fuzz|hello|hostile|interop|perf|sim|unit)[-_][\w*-]+)`")
STEP = re.compile(r"<!-- (?!SPDX)([\w-]+)(?:: ([^>]*))? -->$")


@dataclasses.dataclass
class Block:
    line: int
    test: str  # empty if it has none
    words: str
    text: str  # empty for a step without a block


def blocks(page: str) -> list[Block]:
    found, step, inside = [], None, None
    with open(page, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if inside is not None:
                if line.startswith("```"):
                    found.append(Block(inside[0], *inside[1], "".join(inside[2])))
                    inside = None
                else:
                    inside[2].append(line)
            elif line.startswith("```"):
                inside = (number, step[1] if step else ("", ""), [])
                step = None
            else:
                if step:  # nothing came behind it
                    found.append(Block(step[0], *step[1], ""))
                match = STEP.match(line)
                step = (number, (match[1], match[2] or "")) if match else None
    return found


def faults(page: str, tests: list[str]) -> list[str]:
    with open(page, encoding="utf-8") as file:
        named = NAMED.findall(file.read())
    lacks = [
        f"{page}:{block.line}: {block.test or 'a block without a test'}"
        for block in blocks(page)
        if block.test != "picture" and not (block.test and any(test.startswith(block.test) for test in tests))
    ]
    return lacks + [f"{page}: there is no test {name}" for name in named if not fnmatch.filter(tests, name)]


def main() -> int:
    if sys.argv[1] != "--check":
        page, test = sys.argv[1:]
        text = "".join(block.text for block in blocks(page) if block.test == test)
        print(text, end="")
        return 0 if text else 1
    build, *pages = sys.argv[2:]
    listing = subprocess.run(["ctest", "--test-dir", build, "-N"], check=True, capture_output=True, text=True).stdout
    wrong = [fault for page in pages for fault in faults(page, re.findall(r"Test +#\d+: (\S+)", listing))]
    print("\n".join(wrong) or f"{sum(len(blocks(page)) for page in pages)} blocks")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
