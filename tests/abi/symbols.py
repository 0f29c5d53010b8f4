# SPDX-License-Identifier: Apache-2.0
"""The library exports what symbols.txt promises, nothing that it does not tell of, and names its version everywhere.

Usage: symbols.py SYMBOLS VERSION_HEADER LIBRARY
"""

import os
import re
import sys

from exports import exported_versions, soname


def promised(path):
    """{function: the version in which it appeared}"""
    lines = [line.split() for line in open(path, encoding="utf-8") if not line.startswith("#")]
    table = dict(lines)
    if len(table) != len(lines):
        sys.exit(f"{path} names a function twice")
    return table


def numbers(version):
    return tuple(map(int, version.split(".")))


def check_symbols(table, nodes, version):
    """`nodes` is {function: its symbol version, as XFER_0.1} of the library."""
    for name in sorted(table.keys() | nodes.keys()):
        if name not in nodes:
            yield f"{name} was released with {table[name]}, and is not exported any more"
        elif name not in table:
            yield f"{name} is exported, and symbols.txt does not tell since when: {version}?"
        elif nodes[name] != "XFER_" + table[name].rpartition(".")[0]:
            yield f"{name} appeared in {table[name]}, and has the symbol version {nodes[name]}"
        elif numbers(table[name]) > numbers(version):
            yield f"{name} appeared in {table[name]}, but this is {version}"


def check_names(library, version):
    # Before 1.0 a minor version may change the ABI, so the soname holds both numbers.
    wanted = "libxfer.so." + version.rpartition(".")[0]
    if soname(library) != wanted:
        yield f"the soname is {soname(library)}, of version {version} it is {wanted}"
    if os.path.basename(os.path.realpath(library)) != f"libxfer.so.{version}":
        yield f"{os.path.realpath(library)} is not named after version {version}"


def main():
    symbols, header, library = sys.argv[1:]
    text = open(header, encoding="utf-8").read()
    version = ".".join(re.search(rf"VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH"))
    table = promised(symbols)
    faults = [*check_symbols(table, exported_versions(library), version), *check_names(library, version)]
    for fault in faults:
        print(fault)
    return 1 if faults or not table else 0


if __name__ == "__main__":
    sys.exit(main())
