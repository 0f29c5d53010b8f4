# SPDX-License-Identifier: Apache-2.0
"""Includes in lib/ never run up: neither the floors nor the rooms of core, and only transport/builtin.cc knows the
concrete transports.

transport/stream/ is none of them, but what those over sockets stand on.
"""

import re
import sys
from pathlib import Path

import tree

FLOORS = ["api", "core", "transport", "device", "loop", "wire", "util"]
ROOMS = ["engine", "peer", "message", "transfer", "region", "connection", "base"]  # of core


def concrete(path):
    """The transport that a path relative to lib/ belongs to, None for the interface and the other floors."""
    return path.parts[1] if path.parts[0] == "transport" and len(path.parts) > 2 else None


def fault(here, there):
    """Why `here` may not include `there`, both relative to lib/; None if it may."""
    if here.parts[0] not in FLOORS:
        return f"{here.parts[0]} is no floor"
    if there.parts[0] not in FLOORS:
        return "is not written from lib/, as floor/name.h"
    if FLOORS.index(there.parts[0]) < FLOORS.index(here.parts[0]):
        return f"{here.parts[0]} stands below {there.parts[0]}"
    if here.parts[0] == there.parts[0] == "core":
        rooms = [ROOMS.index(path.parts[1]) if path.parts[1] in ROOMS else None for path in (here, there)]
        if None in rooms:
            return "core has no such room"
        if rooms[1] < rooms[0]:
            return f"{here.parts[1]} stands below {there.parts[1]}"
    known = concrete(there)
    if known == "stream" and concrete(here):
        return None
    if known and known != concrete(here) and here != Path("transport/builtin.cc"):
        return f"only transport/builtin.cc knows {known}"
    return None


def check(path, text):
    here = path.relative_to("lib")
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<((?:%s)/[^>]+)>)' % "|".join(FLOORS), line)
        name = found and (found.group(1) or found.group(2))
        if name and not name.startswith("xfer/"):
            why = fault(here, Path(name))
            if why:
                yield f":{number}: includes {name}: {why}"


if __name__ == "__main__":
    tree.run(check, sys.argv[1], tree.sources(sys.argv[1]))
