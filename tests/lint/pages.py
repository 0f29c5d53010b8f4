# SPDX-License-Identifier: Apache-2.0
"""The tables of the pages are those of the headers: every status with its meaning, and each limit. And links lead
somewhere. Usage: pages.py ROOT
"""

import ast
import re
import sys
from pathlib import Path

import tree

STATUS = re.compile(r"^    (XFER_\w+) = -?\d+,? *(?:/\* (.*?) \*/)?", re.M)
ROW = re.compile(r"^\| `(XFER_\w+)` \| (.*?) \| (.*?) \|$", re.M)
CONSTANT = re.compile(r"\b(k[A-Z]\w*) =\s*([^,;]+)[,;]")
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "s": 1000}
LIMIT = re.compile(r"^\|.*<!-- (k[\w ]+) -->.*\|$", re.M)
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def statuses_of(header):
    enum = header[header.index("XFER_OK = 0") - 4 :]
    return STATUS.findall(enum[: enum.index("};")])


def status_faults(page, header):
    """The page has the statuses of the header, in its order and by its words, and says what to do."""
    rows, wanted = ROW.findall(page), statuses_of(header)
    if [row[0] for row in rows] != [name for name, _ in wanted]:
        yield f"lists {len(rows)} statuses, not the {len(wanted)} of the header in their order"
    comments = dict(wanted)
    for name, meaning, advice in rows:
        comment = comments.get(name)
        if comment and meaning != comment:
            yield f"{name} means \"{comment}\", not \"{meaning}\""
        if not advice.strip():
            yield f"{name}: nothing to do"


def value(text, constants):
    """Of a constant expression of the limits headers."""
    text = re.sub(r"(?<=\d)'(?=\d)", "", text)
    text = re.sub(r"\b(\d+)(?:u|ul|ull)\b", r"\1", text)
    text = re.sub(r"\bk[A-Z]\w*", lambda match: str(constants.get(match[0], "None")), text)
    tokens = ast.parse(text.strip(), mode="eval")
    allowed = (ast.Expression, ast.BinOp, ast.Constant, ast.Mult, ast.LShift, ast.Div, ast.Add)
    if not all(isinstance(node, allowed) for node in ast.walk(tokens)):
        return None
    return eval(compile(tokens, "limit", "eval"))  # numbers, *, <<, / and + alone


def constants_of(*headers):
    constants = {}
    for header in headers:
        for name, text in CONSTANT.findall(re.sub(r"//[^\n]*", "", header)):
            try:
                constants[name] = value(text, constants)
            except (SyntaxError, TypeError):
                continue  # not a number
    return constants


def limit_faults(page, constants):
    """Each number of a row of the limits is the constant that its comment names, one after the other."""
    rows = list(LIMIT.finditer(page))
    if not rows:
        yield "has no limits"
    for row in rows:
        names, cell = row[1].split(), row[0].split("|")[2].split("<!--")[0]
        numbers = re.findall(r"(\d[\d,]*)(?: (KiB|MiB|s)\b)?", cell.replace("64 bits", ""))
        told = [int(number.replace(",", "")) * UNITS.get(unit, 1) for number, unit in numbers]
        if told != [constants.get(name) for name in names]:
            yield f"{' '.join(names)}: {told}, which are {[constants.get(name) for name in names]}"


def link_faults(root, path, text):
    for target, _ in LINK.findall(re.sub(r"```.*?```", "", text, flags=re.S)):
        if not (Path(root) / path.parent / target).exists():
            yield f"leads to {target}, which is not there"


def check(root):
    read = lambda path: (Path(root) / path).read_text(encoding="utf-8")
    limits = ["lib/wire/limits.h", "lib/core/base/limits.h", "lib/transport/rdma_options.h"]
    constants = constants_of(*map(read, limits))
    yield from (f"README.md: {fault}" for fault in limit_faults(read("README.md"), constants))
    page = "lib/troubleshooting.md"
    yield from (f"{page}: {fault}" for fault in status_faults(read(page), read("include/xfer/xfer.h")))
    for path in tree.files(root):
        if path.suffix == ".md":
            yield from (f"{path}: {fault}" for fault in link_faults(root, path, read(path)))


if __name__ == "__main__":
    faults = list(check(sys.argv[1]))
    print("\n".join(faults))
    sys.exit(1 if faults else 0)
