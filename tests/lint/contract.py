# SPDX-License-Identifier: Apache-2.0
"""Every language has a test of each scenario of bindings/CONTRACT.md, under its name, and no scenario beside them.

Usage: contract.py ROOT [LANGUAGE ...]; without a language, those of CHECKED.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

import tree

CHECKED = ["c", "python", "go", "rust"]

SCENARIO = re.compile(r"^\| `(\w+)` \|", re.M)


class Language(NamedTuple):
    files: list
    test: re.Pattern
    alone: bool = True  # nothing but scenarios is in these files


LANGUAGES = {
    "c": Language(["tests/contract/*.c"], re.compile(r"\b(?:TEST|cmocka_unit_test\w*)\((\w+)")),
    # Tests of what is the language's own stand beside them, there and in Rust.
    "python": Language(["bindings/python/tests/*.py"], re.compile(r"^(?:async )?def test_(\w+)\(", re.M), alone=False),
    "go": Language(["bindings/go/contract*_test.go"], re.compile(r'^\t\{"(\w+)", ', re.M)),
    "rust": Language(
        ["bindings/rust/xfer/tests/contract*.rs", "bindings/rust/xfer/tests/contract/*.rs"],
        re.compile(r"#\[(?:\w+::)*test\b[^\n]*\]\s*(?:#\[[^\n]*\]\s*)*(?:async )?fn (\w+)"),
        alone=False,
    ),
}


def faults(language, scenarios, texts):
    """Why the tests in `texts` are not those of the scenarios."""
    found = {name for text in texts for name in LANGUAGES[language].test.findall(text)}
    for name in scenarios:
        if name not in found:
            yield f"{language}: no test of {name}"
    if LANGUAGES[language].alone:
        for name in sorted(found - set(scenarios)):
            yield f"{language}: {name} is no scenario of bindings/CONTRACT.md"


def main(root, languages):
    scenarios = SCENARIO.findall((root / "bindings/CONTRACT.md").read_text(encoding="utf-8"))
    told = [] if scenarios else ["bindings/CONTRACT.md: no scenario was found"]
    told += [f"{name} is twice in bindings/CONTRACT.md" for name in set(scenarios) if scenarios.count(name) > 1]
    for language in languages:
        patterns = LANGUAGES[language].files
        files = [path for path in tree.files(root) if any(path.match(pattern) for pattern in patterns)]
        told += faults(language, scenarios, [(root / path).read_text(encoding="utf-8") for path in files])
    for line in told:
        print(line)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:] or CHECKED))
