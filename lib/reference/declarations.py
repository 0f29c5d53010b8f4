# SPDX-License-Identifier: Apache-2.0
"""What a public header declares, and what its comments say of it."""

import re
from dataclasses import dataclass, field

WIDTH = 120  # of a line of the headers
PARTS = ["Returns: ", "Thread: ", "In callback: ", "Ownership: "]  # of a function's comment, in this order
DEFAULTS = ["Thread: any.", "In callback: yes.", "Ownership: nothing changes hands."]  # of the header's head


def region(text):
    begin, end = "/* cdef:begin */", "/* cdef:end */"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise SystemExit("the cdef region must be marked once")
    return text[text.index(begin) + len(begin) : text.index(end)]


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


def comment_lines(comment):
    """The lines of a comment without its marks, each as it is indented behind them."""
    return [re.sub(r"^\s*/?\*+(?:/$| ?)|\s*\*/\s*$", "", line) for line in comment.splitlines()]


def one_line(text):
    return re.sub(r"\s+", " ", text).strip()


@dataclass
class Text:
    text: str


@dataclass
class Rows:
    """Terms, each with what is said of it."""

    rows: list


@dataclass
class Bullets:
    items: list


def blocks(lines):
    """Paragraphs, tables and lists of these lines of a comment.

    A line that ends with a sentence though the next word would have fit ends a paragraph, too.
    """
    found = []
    fresh = True  # the next line begins a paragraph
    for line in lines:
        row = re.match(r"  +(\S.*?)  +(\S.*)", line)
        bullet = re.match(r"  - (.*)", line)
        last = found[-1] if found else None
        if not line.strip():
            fresh = True
            continue
        if bullet:
            if not isinstance(last, Bullets):
                found.append(Bullets([]))
            found[-1].items.append(bullet[1])
        elif row:
            if not isinstance(last, Rows):
                found.append(Rows([]))
            found[-1].rows.append((row[1], row[2]))
        elif line.startswith("    ") and isinstance(last, Bullets):
            last.items[-1] += " " + line.strip()
        elif fresh or not isinstance(last, Text) or ended_early(before, line):
            found.append(Text(line.strip()))
        else:
            last.text += " " + line.strip()
        fresh, before = False, line
    return found


def ended_early(before, line):
    word = line.split()[0]
    return before.rstrip().endswith((".", ":")) and len(" * " + before.rstrip() + " " + word) <= WIDTH


@dataclass
class Comment:
    says: list = field(default_factory=list)  # blocks
    parts: dict = field(default_factory=dict)  # {"Returns": its text}

    @staticmethod
    def of(comment):
        lines, parts, part = [], {}, None
        for line in comment_lines(comment):
            begun = next((one for one in PARTS if line.startswith(one)), None)
            if begun:
                part = begun.rstrip(": ")
                parts[part] = line[len(begun) :]
            elif part:
                parts[part] += " " + line
            else:
                lines.append(line)
        return Comment(blocks(lines), {name: one_line(text) for name, text in parts.items()})


@dataclass
class Function:
    name: str
    result: str
    parameters: list  # as they are declared
    comment: Comment
    section: str = ""
    header: str = ""


@dataclass
class Callback(Function):
    pass


@dataclass
class Member:
    """A field of a struct, or an enumerator."""

    name: str
    code: str
    says: str


@dataclass
class Struct:
    name: str
    fields: list
    comment: Comment
    section: str = ""
    header: str = ""

    def code(self):
        body = "".join(f"    {one.code};\n" for one in self.fields)
        return f"typedef struct {self.name.removesuffix('_t')} {{\n{body}}} {self.name};"


@dataclass
class Enum:
    values: list
    comment: Comment
    section: str = ""
    header: str = ""

    def prefix(self):
        """What all names begin with, such as XFER_EVENT_; empty if that is nothing of their own."""
        names = [value.name for value in self.values]
        common = re.match(r"(\w*_)?", re.sub(r"\0.*", "", common_start(names)))[0]
        return common if len(names) > 1 and common.count("_") > 1 else ""


@dataclass
class Number:
    """A type that is an integer, such as xfer_status_t."""

    name: str
    code: str
    comment: Comment
    section: str = ""
    header: str = ""


@dataclass
class Handle:
    name: str
    section: str = ""
    header: str = ""


@dataclass
class Macro:
    name: str
    value: str
    comment: Comment
    header: str = ""


def common_start(names):
    first, last = min(names), max(names)
    end = next((i for i, char in enumerate(first) if i >= len(last) or char != last[i]), len(first))
    return first[:end]


def parameters_of(code):
    inside = one_line(code[code.index("(") + 1 : code.rindex(")")])
    return [] if inside == "void" else [one.strip() for one in inside.split(",")]


def declared(code, comment):
    """The declaration that `code` is, None for one that says nothing by itself."""
    bare = one_line(without_comments(code))
    function = re.match(r"XFER_API (.*?)(xfer_\w+)\(", bare)
    callback = re.match(r"typedef (\w+) \(\*(xfer_\w+)\)(\(.*\));", bare)
    struct = re.match(r"typedef struct xfer_\w+ \{.*\} (xfer_\w+);", bare)
    handle = re.match(r"typedef struct xfer_\w+ (xfer_\w+);", bare)
    number = re.match(r"typedef u?int\d+_t (xfer_\w+);", bare)
    if function:
        return Function(function[2], function[1].strip(), parameters_of(bare), Comment.of(comment))
    if callback:
        return Callback(callback[2], callback[1], parameters_of(callback[3]), Comment.of(comment))
    if struct:
        return Struct(struct[1], members(code, r"([^;{}/]+?(\w+)(?:\[[^\]]*\])*);"), Comment.of(comment))
    if bare.startswith("enum {"):
        return Enum(members(code, r"((XFER_\w+) = -?\d+),?"), Comment.of(comment))
    if handle:
        return Handle(handle[1])
    if number:
        return Number(number[1], bare, Comment.of(comment))
    return None


def members(code, pattern):
    inside = code[code.index("{") + 1 : code.rindex("}")]
    found = re.findall(pattern + r"[ \t]*(/\*.*?\*/)?", inside, re.S)
    return [Member(name, one_line(text), one_line(" ".join(comment_lines(says)))) for text, name, says in found]


# A comment, what it stands directly above, and the comment behind that.
ITEM = re.compile(
    r"/\* ---- (?P<section>[^\n]*) ---- \*/"
    r"|(?P<above>/\*(?:(?!\*/).)*\*/\n)?"
    r"^(?P<code>(?:XFER_API|typedef|enum|struct)\b(?:[^;{/]|\{(?:/\*.*?\*/|[^}])*\})*;)"
    r"(?P<behind>[ \t]*/\*.*?\*/)?",
    re.S | re.M,
)


class Header:
    """`name` as it is included, its head as blocks, its macros, and its declarations in their order."""

    def __init__(self, name, text):
        self.name = name
        head = text[: text.index("*/") + 2]
        self.head = [one for one in blocks(comment_lines(head)) if "SPDX-License" not in getattr(one, "text", "")]
        found = re.findall(r"(/\*(?:(?!\*/).)*\*/\n)#define (XFER_\w+) (\S[^\n]*)", text, re.S)
        self.macros = [Macro(what, value, Comment.of(says), name) for says, what, value in found]
        self.items = []
        section = ""
        for found in ITEM.finditer(region(text)) if "cdef:begin" in text else []:
            if found["section"]:
                section = found["section"]
                continue
            item = declared(found["code"], found["above"] or found["behind"] or "")
            if item:
                item.section, item.header = section, name
                self.items.append(item)
