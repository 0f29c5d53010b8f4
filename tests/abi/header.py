# SPDX-License-Identifier: Apache-2.0
"""Checks a header as text; prints each fault, exits 1 if there is one. Usage: header.py CHECK HEADER ... [LAYOUT]

The checks `layout` and `cffi` take all headers, in the order of their includes.
"""

import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "lib/reference"))
from declarations import DEFAULTS, PARTS, comment_lines, region, without_comments

MAX_LINES = 1000


def functions(text):
    """(name, the comment that stands directly above it) of every declared function."""
    found = re.findall(r"(/\*(?:(?!\*/).)*\*/\n)?^XFER_API [^;(]*?\b(xfer_\w+)\(", text, re.M | re.S)
    return [(name, comment) for comment, name in found]


def structs(text):
    """{typedef name: [field names]} of every struct with a body."""
    bodies = re.findall(
        r"typedef struct (xfer_\w+) \{(.*?)\}\s*(xfer_\w+_t);", without_comments(text), re.S
    )
    return {
        alias: re.findall(r"(\w+)(?:\[[^\]]*\])*[,;]", body) for _, body, alias in bodies
    }


def check_text(text):
    if text.count("\n") >= MAX_LINES:
        yield f"{text.count(chr(10))} lines; the limit is {MAX_LINES}"
    for line in region(text).splitlines():
        if line.lstrip().startswith("#") and not re.fullmatch(r"#define XFER_\w+ (0x[0-9A-F]+|\d+)u?", line):
            yield f"a preprocessor line in the cdef region: {line}"
    includes = re.findall(r'#include ([<"].*[>"])', text)
    for name in set(includes) - {"<stddef.h>", "<stdint.h>", '"version.h"', '"xfer.h"'}:
        yield f"includes {name}"


def check_comments(text):
    declared = functions(region(text))
    if len(declared) != region(text).count("XFER_API"):
        yield "a declaration was not understood"
    for name, comment in declared:
        lines = comment_lines(comment)
        starts = [next((i for i, l in enumerate(lines) if l.startswith(p)), -1) for p in PARTS]
        given = [start for start in starts if start >= 0]
        if starts[0] < 1 or given != sorted(given) or not lines[0].strip():
            yield f"{name}: wants what it does, then Returns:, then what of {', '.join(PARTS[1:])}differs from the head"
        for default in set(DEFAULTS) & set(lines):
            yield f"{name}: says what the head says: {default}"


def check_types(text):
    code = without_comments(region(text))
    for word in ("bool", "long", "short", "unsigned", "union", "va_list", "inline", "float", "time_t"):
        if re.search(rf"\b{word}\b", code):
            yield f"uses {word}"
    if "..." in code:
        yield "has variable arguments"
    for alias, fields in structs(code).items():
        if not fields:
            yield f"{alias}: no field was understood"
    for field in re.findall(r"^\s*\w[\w\s*]*:\s*\d+;", code, re.M):
        yield f"a bit-field: {field.strip()}"
    for field in re.findall(r"^    (?:int|char|enum \w+) \w+;", code, re.M):
        yield f"a field without a fixed width: {field.strip()}"
    for declaration in re.findall(r"^XFER_API [^;]*;", code, re.M):
        for argument in re.search(r"\((.*)\)", declaration, re.S).group(1).split(","):
            if re.match(r"\s*(const )?xfer_\w+_t \w+$", argument) and "status_t" not in argument:
                if not re.match(r"\s*xfer_(event|log)_cb", argument):
                    yield f"a struct by value: {argument.strip()}"


def check_layout(*texts):
    *headers, layout = texts
    asserted = set(re.findall(r"\b(?:SIZE|AT)\(([^)]*)\);", re.sub(r"\s+", " ", layout)))
    asserted = {re.sub(r", \d+$", "", entry) for entry in asserted}
    wanted = set()
    for alias, fields in structs("".join(map(region, headers))).items():
        wanted |= {alias} | {f"{alias}, {field}" for field in fields}
    for entry in sorted(wanted ^ asserted):
        yield f"only in the {'header' if entry in wanted else 'assertions'}: {entry}"


def check_cffi(*texts):
    import cffi

    ffi = cffi.FFI()
    for text in texts:
        ffi.cdef(region(text).replace("XFER_API ", ""))
    for alias in structs("".join(map(region, texts))):
        if ffi.sizeof(alias) == 0:
            yield f"{alias} is empty"


def main():
    check, header, *rest = sys.argv[1:]
    texts = [open(path, encoding="utf-8").read() for path in [header, *rest]]
    faults = list(globals()["check_" + check](*texts))
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
