# SPDX-License-Identifier: Apache-2.0
"""A put and an open enter few source files of lib/, so that who follows one need not read the whole library.

  path_length.py ROOT PROGRAM               fails if a path enters more than LIMITS
  path_length.py --functions ROOT PROGRAM   tells as well which functions of each file it enters

PROGRAM is path_length.c with the library's objects. It executes, instruction by instruction,

  put    xfer_put of 8 B into a mapped region of a neighbour, on a connection that has carried puts before, and the
         xfer_engine_poll that gives its event, in a busy loop
  open   xfer_ep_open and xfer_ep_connect, until xfer_engine_poll has given PEER_UP

What counts is each .cc file of lib/ that has a function of which an instruction was executed by the initiator. The owner
of the memory is another process, and does not count. Nor do headers: an inline function belongs to whoever calls it,
and one that stands alone to its header. The program's clocks stand still meanwhile, so that no timer adds files; of several
runs the one with the fewest counts: each sixteenth poll makes a turn of the loop.
"""

import bisect
import re
import shutil
import subprocess
import sys
from collections import defaultdict

import tree

# What is entered today; the aim is 15 and 12. Who shortens a path lowers its limit.
LIMITS = {"put": 12, "open": 56}
SKIPPED = 77


def runs(output):
    """(name, addresses) of each run that PROGRAM tells of."""
    lines = iter(output.splitlines())
    for line in lines:
        name, count = line.split()
        yield name, [int(next(lines), 16) for _ in range(int(count))]


def symbols(listing):
    """Sorted (first address, end, name) of the functions but for inline ones, which are weak, from what `nm -SC` lists."""
    found = re.findall(r"^([0-9a-f]+) ([0-9a-f]+) [Tt] (.+)$", listing, re.M)
    return sorted((int(at, 16), int(at, 16) + int(size, 16), name) for at, size, name in found)


def entered(addresses, functions):
    """The functions that the addresses lie in."""
    starts = [start for start, _, _ in functions]
    held = set()
    for address in addresses:
        at = bisect.bisect_right(starts, address) - 1
        if at >= 0 and address < functions[at][1]:
            held.add(functions[at])
    return held


def outermost(listing):
    """{address: file} from what `addr2line -ai` says: of what is inlined into each other, the last is the function."""
    files = {}
    for line in listing.splitlines():
        if re.fullmatch(r"0x[0-9a-f]+", line):
            at = int(line, 16)
        else:
            files[at] = re.sub(r":(\d+|\?)( \(discriminator \d+\))?$", "", line)
    return files


def source(path, known):
    """Which of the known files of the tree that is, if any; a compiler cache may have it from another checkout."""
    at = path.rfind("/lib/") + 1
    return path[at:] if at and path[at:] in known else None


def sources(held, files, known):
    """{.cc file of lib/: names of its functions}."""
    found = defaultdict(set)
    for start, _, name in held:
        path = source(files[start], known)
        if path:
            found[path].add(name)
    return found


def measure(root, program):
    """{path: {file: names of functions}}. Ends the program where it can't be told."""
    for tool in ["nm", "addr2line"]:
        if not shutil.which(tool):
            print(f"skipped: {tool} is not installed (Debian: binutils)")
            sys.exit(SKIPPED)
    ran = subprocess.run([program], capture_output=True, text=True, check=False)
    if ran.returncode == SKIPPED:
        print(ran.stdout.strip())
        sys.exit(SKIPPED)
    if ran.returncode:
        sys.exit(f"{program} ended with {ran.returncode}: {ran.stderr.strip()}")
    listing = subprocess.run(["nm", "-SC", program], capture_output=True, text=True, check=True).stdout
    functions, least = symbols(listing), {}
    traced = [(name, entered(addresses, functions)) for name, addresses in runs(ran.stdout)]
    starts = sorted({start for _, held in traced for start, _, _ in held})
    told = subprocess.run(["addr2line", "-ai", "-e", program], input="\n".join(map(hex, starts)),
                          capture_output=True, text=True, check=True).stdout
    files, known = outermost(told), {str(path) for path in tree.sources(root) if path.suffix == ".cc"}
    for name, held in traced:
        found = sources(held, files, known)
        if name not in least or len(found) < len(least[name]):
            least[name] = found
    return least


def main(arguments):
    with_functions = arguments[:1] == ["--functions"]
    root, program = arguments[with_functions:]
    paths, failed = measure(root, program), False
    if not all(paths.values()):
        sys.exit(f"{program} enters no file of lib/: is it built without debug information?")
    for name, found in paths.items():
        limit = LIMITS[name]
        print(f"{name}: {len(found)} files; the limit is {limit}")
        for path in sorted(found):
            print(f"  {path}")
            for function in sorted(found[path]) if with_functions else []:
                print(f"    {function}")
        failed |= len(found) > limit
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
