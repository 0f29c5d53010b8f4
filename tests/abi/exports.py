# SPDX-License-Identifier: Apache-2.0
"""The header, the symbol map and the library's exports name the same functions. Usage: exports.py HEADER MAP LIBRARY"""

import re
import subprocess
import sys


def declared(header):
    text = open(header, encoding="utf-8").read()
    return re.findall(r"^XFER_API [^;(]*?\b(xfer_\w+)\(", text, re.M)


def mapped(path):
    text = re.sub(r"#.*", "", open(path, encoding="utf-8").read())
    return [name for name in re.findall(r"^\s*(\S+);", text, re.M) if name not in ("*", "}")]


def exported(library):
    out = subprocess.run(
        ["nm", "--dynamic", "--defined-only", library], check=True, capture_output=True, text=True
    ).stdout
    symbols = [line.split()[1:] for line in out.splitlines()]
    return [name.split("@")[0] for kind, name in symbols if kind != "A"]  # A: the name of a version


def soname(library):
    out = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    return re.search(r"SONAME.*\[(.*)\]", out).group(1)


def main():
    header, map_path, library = sys.argv[1:]
    lists = {"header": declared(header), "map": mapped(map_path), "library": exported(library)}
    faults = [f"the {where} names no function" for where, names in lists.items() if not names]
    for name in sorted(set().union(*lists.values())):
        missing = [where for where, names in lists.items() if name not in names]
        if missing:
            faults.append(f"{name} is not in the {' and the '.join(missing)}")
    version = open(header.replace("xfer.h", "version.h"), encoding="utf-8").read()
    major, minor = (re.search(rf"VERSION_{part} (\d+)", version).group(1) for part in ("MAJOR", "MINOR"))
    if soname(library) != f"libxfer.so.{major}.{minor}":
        faults.append(f"the soname is {soname(library)}, the version {major}.{minor}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


sys.exit(main())
