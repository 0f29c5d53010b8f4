# SPDX-License-Identifier: Apache-2.0
"""What the headers say that each function returns, beside what the tests show. Usage:

returns.py list HEADER ... OUTPUT     writes macros: each function with each status, each event with each status
returns.py check TESTS TABLE ...      the tests that a table names by ..._ELSEWHERE are there, and name the status

Of a function that returns a status, `Returns:` lists statuses of the call. What stands from "then one KIND event" to the
next semicolon are statuses of that event. "as NAME" are all statuses of the call of that name. The head of xfer.h adds
what any call may return; whether one can, its parameters tell, but for XFER_ECLOSED and XFER_ENOMEM.
"""

import os
import re
import sys

from header import PARTS, functions, region, structs, without_comments

HANDLES = [f"xfer_{noun}_t" for noun in ("engine", "region", "ep", "batch", "counter")]


def statuses(text):
    return set(re.findall(r"^    (XFER_E\w+) = -\d+", text, re.M))


def returns_of(comment):
    lines = [re.sub(r"^\s*/?\*+\s?|\s*\*/$", "", line) for line in comment.splitlines()]
    text = "\n".join(lines)
    text = text[text.index("Returns: ") + len("Returns: ") :]
    ends = [text.find("\n" + part) for part in PARTS if text.find("\n" + part) >= 0]
    return re.sub(r"\s+", " ", text[: min(ends, default=len(text))])


def parameters(code):
    """{function that returns a status: its parameters}"""
    found = re.findall(r"^XFER_API xfer_status_t (xfer_\w+)\(([^;]*)\);", code, re.M | re.S)
    return {name: [re.sub(r"\s+", " ", one).strip() for one in rest.split(",")] for name, rest in found}


def head_statuses(given, sized):
    """What the head of the header says of a function with these parameters."""
    may = {"XFER_ENOMEM"}
    for one in given:
        type_name = re.sub(r"^const ", "", one).split(" ")[0]
        if "*" not in one or type_name == "xfer_error_t":
            continue
        if type_name in HANDLES and "**" not in one:
            may |= {"XFER_EBADHANDLE", "XFER_ECLOSED", "XFER_EFORKED"}
            continue
        may |= {"XFER_EINVAL"}
        if type_name in sized:
            may |= {"XFER_E2BIG"}
    return may


def understood(texts):
    """Of the headers: {function: statuses it lists}, {function: those of the head}, {event kind: statuses}."""
    code = "".join(without_comments(region(text)) for text in texts)
    known = set().union(*map(statuses, texts)) | {"XFER_OK"}
    sized = {name for name, fields in structs(code).items() if fields[0] == "size"}
    calls, events, same = {}, {}, {}
    comments = {name: comment for text in texts for name, comment in functions(region(text))}
    declared = parameters(code)
    for name in declared:
        text = returns_of(comments[name])
        for word in re.findall(r"XFER_E[A-Z0-9]+\b(?!_)", text):
            if word not in known:
                sys.exit(f"{name}: {word} is no status")
        if text.count("(") != text.count(")") or not re.match(r"XFER_OK\b|as xfer_", text):
            sys.exit(f"{name}: not understood: {text}")
        for kind, rest in re.findall(r"then one (\w+) event([^;]*)", text):
            events.setdefault(f"XFER_EVENT_{kind}", set()).update(set(re.findall(r"XFER_\w+", rest)) & known)
        text = re.sub(r"then one \w+ event[^;]*", "", text)
        calls[name] = set(re.findall(r"XFER_\w+", text)) & known
        same[name] = re.findall(r"\bas (xfer_\w+)", text)
    for name, others in same.items():
        for other in others:
            calls[name] |= calls[other]
    head = {name: head_statuses(given, sized) - calls[name] for name, given in declared.items()}
    return {name: found - {"XFER_OK"} for name, found in calls.items()}, head, events


def define(name, table):
    pairs = [f"X({key}, {status})" for key, found in sorted(table.items()) for status in sorted(found)]
    if not pairs:
        sys.exit(f"nothing for {name} was understood")
    return f"#define {name}(X) " + " ".join(pairs) + "\n"


def write_list(*paths):
    *headers, output = paths
    calls, head, events = understood([open(path, encoding="utf-8").read() for path in headers])
    with open(output, "w", encoding="utf-8") as file:
        file.write(define("LISTED_RETURNS", calls))
        file.write(define("HEAD_RETURNS", head))
        file.write(define("LISTED_ENDS", events))


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
