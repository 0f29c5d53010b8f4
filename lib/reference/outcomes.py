# SPDX-License-Identifier: Apache-2.0
"""What a function returns and how what it begins ends, as its `Returns:` lists it.

Clauses are parted by semicolons. What stands from "then one KIND event" to the next one is of that event; all else is
of the call. A status is followed by its condition; "as NAME" are the statuses of the call of that name.
"""

import re
from dataclasses import dataclass, field

from declarations import Enum, Function, Header, Struct

HANDLES = [f"xfer_{noun}_t" for noun in ("engine", "region", "ep", "batch", "counter")]
STATUS = re.compile(r"\bXFER_(?:OK|E[A-Z0-9]+)\b(?!_)")


@dataclass
class Outcomes:
    calls: list = field(default_factory=list)  # (status, its condition)
    same: list = field(default_factory=list)  # names of functions whose statuses these are, too
    event: str = ""  # its kind
    when: str = ""  # it comes
    ends: list = field(default_factory=list)  # (status, its condition)
    notes: list = field(default_factory=list)


def split_outside(text, pattern):
    """`text` in pieces, parted where `pattern` matches outside of parentheses; the matches are the odd pieces."""
    pieces, begin = [], 0
    for found in re.finditer(pattern, text):
        if text.count("(", 0, found.start()) == text.count(")", 0, found.start()):
            pieces += [text[begin : found.start()], found.group()]
            begin = found.end()
    return pieces + [text[begin:]]


def listed(clause):
    """[(status, condition)] of a clause. What stands before its first status, and "as NAME" behind, is of all."""
    before, *pieces = split_outside(clause, STATUS)
    of_all = re.sub(r"\bor$", "", before.strip(" ,"))
    common = re.search(r", (as xfer_\w+)$", pieces[-1]) if pieces else None
    if common:
        of_all, pieces[-1] = common[1], ""
    conditions = [re.sub(r",? (?:or|and)?\s*$|^[,:]\s*", "", one.rstrip(",") + " ").strip(" ,") for one in pieces[1::2]]
    return [(status, condition or of_all.strip()) for status, condition in zip(pieces[0::2], conditions)]


def outcomes_of(text):
    """The Outcomes of a `Returns:` of a function that returns a status."""
    found = Outcomes()
    for clause in split_outside(text.rstrip("."), ";")[::2]:
        clause = clause.strip()
        event = re.match(r"(.*?),? then one (\w+) event([^:]*):?(.*)", clause)
        same = re.match(r"as (xfer_\w+)$", clause)
        if event:
            found.calls += listed(event[1])
            found.event, found.when = event[2], event[3].strip()
            if STATUS.search(found.when):
                found.ends += listed(found.when.strip("()"))
                found.when = ""
            found.ends += listed(event[4])
        elif same:
            found.same.append(same[1])
        elif STATUS.search(clause):
            found.calls += listed(clause)
            found.same += re.findall(r"as (xfer_\w+)$", clause)
        else:
            found.notes.append(clause)
    return found


def head_statuses(parameters, sized):
    """What the head of the header says of a function with these parameters. `sized`: structs that begin with `size`."""
    may = {"XFER_ENOMEM"}
    for one in parameters:
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


class Understood:
    """All of it, of all headers: {function that returns a status: ...}."""

    def __init__(self, headers):
        items = [item for header in headers for item in header.items]
        functions = [item for item in items if isinstance(item, Function) and item.result == "xfer_status_t"]
        sized = {item.name for item in items if isinstance(item, Struct) and item.fields[0].name == "size"}
        values = [value.name for item in items if isinstance(item, Enum) for value in item.values]
        self.statuses = {name for name in values if STATUS.fullmatch(name)}
        self.outcomes = {item.name: self.checked(item) for item in functions}
        self.calls = {name: self.all_calls(name) for name in self.outcomes}
        self.head = {item.name: head_statuses(item.parameters, sized) - self.calls[item.name] for item in functions}

    def checked(self, function):
        text = function.comment.parts.get("Returns", "")
        for word in STATUS.findall(text):
            if word not in self.statuses:
                raise SystemExit(f"{function.name}: {word} is no status")
        if text.count("(") != text.count(")") or not re.match(r"XFER_OK\b|as xfer_", text):
            raise SystemExit(f"{function.name}: not understood: {text}")
        return outcomes_of(text)

    def all_calls(self, name):
        """The statuses of the call, with those that "as NAME" adds, but for XFER_OK."""
        one = self.outcomes[name]
        own = {status for status, _ in one.calls}
        return own.union(*(self.all_calls(other) for other in one.same)) - {"XFER_OK"}


def read(paths):
    """The Headers at these paths, in the order of their includes."""
    found = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            found.append(Header("xfer/" + re.split(r"[/\\]", path)[-1], file.read()))
    return found
