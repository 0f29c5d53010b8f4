# SPDX-License-Identifier: Apache-2.0
"""What the headers say that each function returns, beside what the tests show. Usage:

returns.py list HEADER ... OUTPUT     writes macros: each function with each status, each event with each status
returns.py check TESTS TABLE ...      the tests that a table names by ..._ELSEWHERE are there, and name the status

How it is read, lib/reference/outcomes.py tells. The head of xfer.h adds what any call may return; whether one can, its
parameters tell, but for XFER_ECLOSED and XFER_ENOMEM.
"""

import os
import re
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "lib/reference"))
from outcomes import Understood, read


def define(name, table):
    pairs = [f"X({key}, {status})" for key, found in sorted(table.items()) for status in sorted(found)]
    if not pairs:
        sys.exit(f"nothing for {name} was understood")
    return f"#define {name}(X) " + " ".join(pairs) + "\n"


def write_list(*paths):
    *headers, output = paths
    understood = Understood(read(headers))
    ends = {}
    for one in understood.outcomes.values():
        if one.event:
            ends.setdefault(f"XFER_EVENT_{one.event}", set()).update(status for status, _ in one.ends)
    with open(output, "w", encoding="utf-8") as file:
        file.write(define("LISTED_RETURNS", understood.calls))
        file.write(define("HEAD_RETURNS", understood.head))
        file.write(define("LISTED_ENDS", ends))


def check(tests, *tables):
    faults = []
    for path in tables:
        text = open(path, encoding="utf-8").read()
        for what, status, where in re.findall(r"_ELSEWHERE\((\w+),\s*(\w+),\s*\"([^\"]*)\"\)", text):
            file = os.path.join(tests, where)
            if not os.path.exists(file):
                faults.append(f"{what}, {status}: there is no {where}")
            elif not re.search(rf"\b{status}\b", open(file, encoding="utf-8").read()):
                faults.append(f"{what}, {status}: {where} does not name it")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit({"list": write_list, "check": check}[sys.argv[1]](*sys.argv[2:]))
