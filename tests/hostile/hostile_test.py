# SPDX-License-Identifier: Apache-2.0
"""Attacks on engines of the library by peers in Python. After each one an honest peer is served, and the server's
memory, descriptors and connections are what they were.

Usage: hostile_test.py GROUP SERVER CLIENT [PART OF A NAME], where GROUP is a file of vectors here.
"""

import importlib
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is
import lab

if __name__ == "__main__":
    group = importlib.import_module(sys.argv[1])
    wanted = sys.argv[4] if len(sys.argv) > 4 else ""
    vectors = [function for function in lab.VECTORS if wanted in function.__name__]
    key = lab.KEY if getattr(group, "KEYED", False) else None
    stays = group.__name__ in ("acceptors", "local_owners")
    failed = lab.run(vectors, lambda: lab.Lab(sys.argv[2], sys.argv[3], key, stays))
    sys.exit(1 if failed or not vectors else 0)
