# SPDX-License-Identifier: Apache-2.0
"""The words of the comments that name something: parameters, functions, types, constants, fields."""

import re
from dataclasses import dataclass

from declarations import Callback, Enum, Function, Struct

ENVIRONMENT = {"XFER_LOG", "XFER_TRANSPORTS", "XFER_RDMA_DEVICES"}
SHORT = {"XFER_EVENT_PUT", "XFER_FENCED", "XFER_DISPATCH_THREAD"}  # the first of each enum
WORD = re.compile(
    r"`(?P<code>[^`]+)`"
    r'|(?P<quoted>"[^"]*")'
    r"|(?P<field>\bxfer_\w+_t\.\w+)"
    r"|(?P<name>\bxfer_\w+)(?:\(\))?"
    r"|(?P<constant>\bXFER_\w+\*?)"
    r"|(?P<written>(?<![\w*])\*[a-z]\w*)"
    r"|(?P<overview>\bxfer\(7\))"
    r"|(?P<call>\b[a-z]\w+\(\))"
    r"|(?P<plain>\b[A-Za-z]\w+)"
)


@dataclass
class Mark:
    kind: str  # a key of mdoc.MACROS, function, or "": plain text
    text: str
    target: str = ""  # what it names, empty if that is nothing of the headers'


class Names:
    """What the headers declare, by name."""

    def __init__(self, headers):
        self.items = [item for header in headers for item in header.items]
        self.declared = {item.name: item for item in self.items if not isinstance(item, Enum)}
        self.declared |= {macro.name: macro for header in headers for macro in header.macros}
        self.enums = {value.name: one for one in self.of(Enum) for value in one.values}
        # Events, their flags and ways to dispatch are also called by the ends of their names; events come first.
        self.short = {
            value.name.removeprefix(one.prefix() or "XFER_"): value.name
            for one in reversed(self.of(Enum))
            if one.values[0].name in SHORT
            for value in one.values
        }
        self.unknown = set()  # names that nothing has
        self.fields = {}  # {name: structs that have it}
        for one in self.of(Struct):
            for member in one.fields:
                self.fields.setdefault(member.name, []).append(one.name)

    def of(self, kind):
        return [item for item in self.items if isinstance(item, kind)]

    def constant(self, text):
        if text in ENVIRONMENT:
            return Mark("environment", text)
        first = text
        if text.endswith("*"):
            first = next((name for name in self.enums if name.startswith(text[:-1])), text)
        if first not in self.enums and first not in self.declared:
            return self.nothing(text)
        return Mark("status" if self.is_status(first) else "constant", text, first)

    def nothing(self, text):
        self.unknown.add(text)
        return Mark("", text)

    def is_status(self, name):
        return name in self.enums and self.enums[name].values[0].name == "XFER_OK"

    def name(self, text):
        """A function or a type; where a function and a struct have one name, it is the function's."""
        item = self.declared.get(text)
        if item is None:
            return self.nothing(text)
        return Mark("function" if isinstance(item, Function) and not isinstance(item, Callback) else "type", text, text)

    def field(self, text, near):
        """A field: of the first struct `near` that has one of that name, else of the only one that has it."""
        owners = self.fields.get(text, [])
        owner = next((one for one in near if one in owners), owners[0] if len(owners) == 1 else "")
        return Mark("field", text, f"{owner}.{text}" if owner else "")

    def mark(self, found, parameters, near):
        kind, text = found.lastgroup, found.group(found.lastgroup)
        if kind == "code" and re.fullmatch(r"\w+", text):
            if text in parameters:
                return Mark("parameter", text)
            return self.constant(text) if text.startswith("XFER_") else self.field(text, near)
        if kind == "code":
            return Mark("code", text)
        if kind == "field":
            owner, _, name = text.partition(".")
            return Mark("type", text, text) if owner in self.fields.get(name, []) else self.nothing(text)
        if kind == "name":
            return self.name(text)
        if kind == "constant":
            return self.constant(text)
        if kind == "overview":
            return Mark("function", "xfer", "xfer")
        if kind == "call":
            return Mark("call", text)
        if kind == "written" and text[1:] in parameters:
            return Mark("parameter", text)
        if kind == "plain" and text in self.short:
            return Mark("constant", text, self.short[text])
        if kind == "plain" and "_" in text and text in parameters:
            return Mark("parameter", text)
        if kind == "plain" and "_" in text and text in self.fields:
            return self.field(text, near)
        return Mark("", found.group())

    def marks(self, text, parameters=(), near=()):
        """`text` as Marks. `parameters`: those of the function that it is about; `near`: structs."""
        found, begin = [], 0
        for match in WORD.finditer(text):
            add(found, Mark("", text[begin : match.start()]))
            add(found, self.mark(match, parameters, near))
            begin = match.end()
        add(found, Mark("", text[begin:]))
        return found


def add(found, mark):
    """Adds a mark; plain text joins what stands before it."""
    if not mark.kind and found and not found[-1].kind:
        found[-1].text += mark.text
    elif mark.text:
        found.append(mark)
