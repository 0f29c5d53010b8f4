# SPDX-License-Identifier: Apache-2.0
"""The headers, the symbol map and the library's exports name the same functions.

Usage: exports.py HEADER ... MAP LIBRARY
"""

import re
import subprocess
import sys


def declared(header):
    text = open(header, encoding="utf-8").read()
    return re.findall(r"^XFER_API [^;(]*?\b(xfer_\w+)\(", text, re.M)


def mapped(path):
    text = re.sub(r"#.*", "", open(path, encoding="utf-8").read())
    return [name for name in re.findall(r"^\s*(\S+);", text, re.M) if name not in ("*", "}")]


def exported_versions(library):
    """{function: its symbol version}"""
    out = subprocess.run(
        ["nm", "--dynamic", "--defined-only", library], check=True, capture_output=True, text=True
    ).stdout
    symbols = [line.split()[1:] for line in out.splitlines()]
    pairs = [re.split("@+", name) + [""] for kind, name in symbols if kind != "A"]  # A: the name of a version
    return {name: version for name, version, *_ in pairs}


def soname(library):
    out = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    return re.search(r"SONAME.*\[(.*)\]", out).group(1)


def main():
    *headers, map_path, library = sys.argv[1:]
    names = [name for header in headers for name in declared(header)]
    lists = {"headers": names, "map": mapped(map_path), "library": list(exported_versions(library))}
    faults = [f"the {where} names no function" for where, names in lists.items() if not names]
    for name in sorted(set().union(*lists.values())):
        missing = [where for where, names in lists.items() if name not in names]
        if missing:
            faults.append(f"{name} is not in the {' and the '.join(missing)}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
