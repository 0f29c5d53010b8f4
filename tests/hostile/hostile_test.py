# SPDX-License-Identifier: Apache-2.0
"""Attacks on engines of the library by peers in Python. An honest peer verifies what it puts during each
one, and after it the server's memory, descriptors and connections are what they were.

Usage: hostile_test.py GROUP SERVER CLIENT HONEST [PART OF A NAME], where GROUP is a file of vectors here.
"""

import importlib
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
import lab

if __name__ == "__main__":
    group = importlib.import_module(sys.argv[1])
    wanted = sys.argv[5] if len(sys.argv) > 5 else ""
    vectors = [function for function in lab.VECTORS if wanted in function.__name__]
    key = lab.KEY if getattr(group, "KEYED", False) else None
    dials = group.__name__ in ("acceptors", "atomic_answers", "local_owners", "later")
    local = group.__name__.startswith("local_")
    failed = lab.run(vectors, lambda: lab.Lab(*sys.argv[2:5], key, dials, local))
    sys.exit(1 if failed or not vectors else 0)
