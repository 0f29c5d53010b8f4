# SPDX-License-Identifier: Apache-2.0
"""The pages of the reference, each as headings and blocks that can be written in any form.

One page for each function, callback, struct and type, and one, `xfer`, that leads to them. An enum stands on the page
of what takes its values.
"""

import re
from dataclasses import dataclass, field

from declarations import DEFAULTS, PARTS, Bullets, Callback, Enum, Function, Handle, Number, Rows, Struct, Text
from marks import Names
from outcomes import Understood, split_outside

OVERVIEW = "xfer"


@dataclass
class Include:
    header: str


@dataclass
class Code:
    text: str


@dataclass
class Synopsis:
    function: Function


@dataclass
class Heading:
    text: str


@dataclass
class Page:
    name: str
    summary: str
    section: str = ""  # of the header
    header: str = ""
    parts: list = field(default_factory=list)  # (heading, blocks)
    parameters: set = field(default_factory=set)
    near: tuple = ()  # structs whose fields it speaks of
    also: set = field(default_factory=set)  # names of declarations, beside those in its text

    def add(self, heading, blocks):
        if blocks:
            self.parts.append((heading, blocks))


def texts(blocks):
    for one in blocks:
        if isinstance(one, Text):
            yield one.text
        elif isinstance(one, Bullets):
            yield from one.items
        elif isinstance(one, Rows):
            for term, text in one.rows:
                yield from (term, text)


def comment_texts(item):
    """All that the header says of a declaration."""
    if not isinstance(item, Handle):
        yield from texts(item.comment.says)
        yield from item.comment.parts.values()
    for member in getattr(item, "fields", getattr(item, "values", [])):
        yield member.says


def type_of(parameter):
    """The name of the type of a parameter or a field, without const and stars."""
    return re.sub(r"^(?:const )?(?:struct (xfer_\w+))?", lambda of: of[1] + "_t" if of[1] else "", parameter).split(" ")[0]


def has(struct, other):
    return any(type_of(member.code) == other.name for member in struct.fields)


def first_sentence(text):
    """For a list of names: up to the first stop, colon or semicolon, as part of a sentence."""
    text = split_outside(text, r"[.:;](?:\s|$)")[0].replace("`", "")
    return text if re.match(r"[A-Z]{2}", text) else text[:1].lower() + text[1:]


def sentence(text):
    return text[:1].upper() + text[1:].rstrip(".") + "."


def both(names):
    return " and ".join([", ".join(names[:-1])] * (len(names) > 1) + names[-1:])


def numbered(value):
    """What is said of an enumerator, behind its number."""
    number = value.code.split(" = ")[1]
    return f"{number}: {value.says}" if value.says else number


def title(enum):
    prefix = enum.prefix()
    if prefix:
        return prefix + "*"
    said = next(texts(enum.comment.says), "")
    return re.split(r"[.:]", said)[0] if len(enum.values) > 1 and said else enum.values[0].name


class Reference:
    def __init__(self, headers):
        self.headers = headers
        self.names = Names(headers)
        self.understood = Understood(headers)
        self.functions = [item for item in self.names.of(Function) if not isinstance(item, Callback)]
        self.homes = self.find_homes()
        self.meanings = {value.name: value.says for one in self.names.of(Enum) for value in one.values}
        self.events = next(item for item in self.names.of(Struct) if item.name == "xfer_event_t")
        written = (Callback, Function, Number, Struct)
        self.pages = [self.page(item) for item in self.names.items if isinstance(item, written)]
        self.overview = self.overview_page()

    # ---- where an enum stands ----

    def find_homes(self):
        """{name of the first enumerator: the declaration on whose page the enum stands}"""
        found = {}
        for at, enum in enumerate(self.names.items):
            if isinstance(enum, Enum):
                found[enum.values[0].name] = self.home(enum, self.names.items[at - 1], self.names.items[at + 1 :])
        return found

    def home(self, enum, before, after):
        """A number's own enum; or what says that it takes its values; or what comes next."""
        if isinstance(before, Number):
            return before
        takers = [item for item in self.names.items if isinstance(item, (Struct, Function))]
        for item in takers:
            for said in comment_texts(item):
                stars = re.findall(r"\b(XFER_\w+_)\*", said)
                if any(all(value.name.startswith(star) for value in enum.values) for star in stars):
                    return item
        for item in takers:
            if isinstance(item, Struct) and any(f"{enum.values[0].name} |" in member.says for member in item.fields):
                return item
        return next((item for item in after if item in takers), takers[-1])

    def enums_of(self, item):
        return [one for one in self.names.of(Enum) if self.homes[one.values[0].name] is item]

    def add_enums(self, page, item):
        enums = self.enums_of(item)
        blocks = []
        for one in enums:
            if len(enums) > 1 or isinstance(item, Function):
                blocks.append(Heading(title(one)))
            blocks += one.comment.says
            blocks.append(Rows([(value.name, numbered(value)) for value in one.values]))
        page.add("CONSTANTS", blocks)

    # ---- pages ----

    def page(self, item):
        page = Page(item.name, "", item.section, item.header)
        if isinstance(item, Function):
            page.summary = first_sentence(next(texts(item.comment.says)))
            self.fill_function(page, item)
        elif isinstance(item, Struct):
            page.summary = self.struct_summary(item)
            self.fill_struct(page, item)
        else:
            page.summary = "how a call or an operation ended"
            page.add("SYNOPSIS", [Include(item.header), Code(item.code)])
        self.add_enums(page, item)
        page.also |= {OVERVIEW}
        return page

    def fill_function(self, page, function):
        page.parameters = {re.search(r"(\w+)$", one)[1] for one in function.parameters}
        types = [type_of(one) for one in [function.result, *function.parameters]]
        page.near = tuple(one for one in types if isinstance(self.names.declared.get(one), Struct))
        page.also |= {one for one in types if isinstance(self.names.declared.get(one), (Callback, Number, Struct))}
        page.add("SYNOPSIS", [Include(function.header), Synopsis(function)])
        page.add("DESCRIPTION", list(function.comment.says))
        if isinstance(function, Callback):
            return
        if function.name in self.understood.outcomes:
            self.add_outcomes(page, function)
        else:
            page.add("RETURN VALUES", [Text(sentence(function.comment.parts["Returns"]))])
        page.add("THREADS AND OWNERSHIP", [Rows(self.context(function))])

    def context(self, function):
        """What the comment says of threads and ownership, or else the head of the header."""
        said = dict(one.rstrip(".").split(": ") for one in DEFAULTS) | function.comment.parts
        if "Thread" not in function.comment.parts:
            said["Thread"] = self.inherited(function) or said["Thread"]
        said["Thread"] = re.sub(r"Here and below: (\w)", lambda found: found[1].upper(), said["Thread"])
        return [(part, sentence(said[part])) for part in (one.rstrip(": ") for one in PARTS[1:])]

    def inherited(self, function):
        """What a function above it, of the same section, says of the threads of those below."""
        for one in self.functions[: self.functions.index(function)]:
            if one.section == function.section and "Here and below: " in one.comment.parts.get("Thread", ""):
                return one.comment.parts["Thread"]
        return ""

    def outcome(self, status, condition):
        """What a status means, and when it is returned here."""
        if status == "XFER_OK":
            return status, sentence(condition or "done")
        meaning = sentence(self.meanings[status])
        aside = re.fullmatch(r"\((.*)\)", condition)
        if aside and not aside[1].startswith("see "):
            return status, f"{meaning.rstrip('.')} {condition}."
        return status, meaning + (f" {sentence(aside[1])}" if aside else f" Here: {condition}." if condition else "")

    def add_outcomes(self, page, function):
        own = self.understood.outcomes[function.name]
        calls = list(own.calls)
        for other in own.same:
            known = {status for status, _ in calls}
            calls += [one for one in self.understood.outcomes[other].calls if one[0] not in known]
        rows = [self.outcome(*one) for one in calls]
        if own.event:
            rows[0] = ("XFER_OK", f"Begun. One XFER_EVENT_{own.event} follows{' ' + own.when if own.when else ''}.")
        blocks = [Rows(rows)] + [Text(sentence(one)) for one in own.notes]
        head = sorted(self.understood.head[function.name])
        if head:
            blocks.append(Text(f"As any such call (see {OVERVIEW}(7)), it may also return {', '.join(head)}."))
        page.add("RETURN VALUES", blocks)
        if own.event:
            page.also |= {"xfer_event_t"}
            page.add("EVENTS", self.event_blocks(f"XFER_EVENT_{own.event}", own))

    def event_blocks(self, event, outcomes):
        found = [Text(f"{event}: {self.meanings[event]}.")]
        fields = self.fields_of(event)
        if fields:
            found.append(Text(f"Beside kind, status and sequence it has: {fields}."))
        if outcomes.ends:
            found.append(Text("Its status, among others:"))
            found.append(Rows([self.outcome(*one) for one in outcomes.ends]))
        return found

    def fields_of(self, event):
        """What the table of events says of that kind."""
        short = event.removeprefix("XFER_EVENT_")
        rows = [row for one in self.events.comment.says if isinstance(one, Rows) for row in one.rows]
        own = [text for term, text in rows if short in re.findall(r"\w+", term)]
        same = [text.split(";")[0] for _, text in rows if re.search(rf"\b{short} has the same", text)]
        return re.sub(r"; \w+ has the same$", "", (own + same + [""])[0])

    def struct_summary(self, struct):
        said = next(texts(struct.comment.says), "")
        takers = [one for one in self.names.of(Function) if any(type_of(p) == struct.name for p in one.parameters)]
        some = [one.name for one in takers[:3]] + ["others"] * (len(takers) > 3)
        if struct.name.endswith("_options_t"):
            holders = [one.name for one in self.names.of(Struct) if has(one, struct)]
            return f"options of {both(some)}" if some else f"part of {both(holders)}"
        if said and len(takers) != 1:
            return first_sentence(said)
        if not takers:
            return f"part of {both([one.name for one in self.names.of(Struct) if has(one, struct)])}"
        read_only = any(one.startswith(f"const {struct.name}") for one in takers[0].parameters)
        return f"what {both(some)} {'takes' if read_only else 'writes'}"

    def fill_struct(self, page, struct):
        page.near = (struct.name,)
        users = [one for one in self.functions if any(type_of(p) == struct.name for p in one.parameters)]
        page.also |= {one.name for one in users if len(users) <= 12}  # of more than that the list helps nobody
        page.also |= {type_of(one.code) for one in struct.fields} & {one.name for one in self.names.of(Struct)}
        page.add("SYNOPSIS", [Include(struct.header), Code(struct.code())])
        said = list(struct.comment.says)
        if struct.fields[0].name == "size":
            said.append(Text(f"`size` is sizeof({struct.name}); a field that is zero means its default."))
        page.add("DESCRIPTION", said)
        said = [(one.name, one.says) for one in struct.fields if one.says]
        page.add("MEMBERS", [Rows(said)] if said else [])

    # ---- the page that leads to all others ----

    def overview_page(self):
        main = next(header for header in self.headers if header.items)
        page = Page(OVERVIEW, next(texts(main.head)).removeprefix("libxfer ").rstrip("."), header=main.name)
        page.add("SYNOPSIS", [Include(header.name) for header in self.headers if header.items])
        for heading, blocks in self.head_parts():
            page.add(heading, blocks)
        page.add("FUNCTIONS", self.listed(self.functions))
        others = [one for one in self.names.items if isinstance(one, (Callback, Number, Struct))]
        page.add("TYPES", [Rows([(one.name, self.summary(one.name)) for one in others])])
        page.add("HANDLES", [Rows([(one.name, self.maker(one)) for one in self.names.of(Handle)])])
        macros = [macro for header in self.headers for macro in header.macros]
        page.add("CONSTANTS", [Rows([(one.name, " ".join(texts(one.comment.says))) for one in macros])])
        return page

    def head_parts(self):
        """[(heading, blocks)]: the heads of the headers; a paragraph such as "Words:" begins what is called so."""
        parts = []
        for header in self.headers:
            if header.items:
                parts.append((header.name if parts else "DESCRIPTION", []))
            for one in header.head if header.items else []:
                text = one.text if isinstance(one, Text) else ""
                titled = re.fullmatch(r"(\w+)(, [^.:]*)?:", text)
                if titled:
                    parts.append((titled[1].upper(), []))
                # A list of the sections follows; and a title alone says nothing more.
                if not text.startswith("Sections: ") and not (titled and not titled[2]):
                    parts[-1][1].append(one)
        return parts

    def maker(self, handle):
        makers = [one.name for one in self.functions if f"{handle.name} **" in " ".join(one.parameters)]
        return f"opaque; from {both(makers)}"

    def listed(self, functions):
        blocks, section = [], None
        for one in functions:
            if one.section != section:
                section = one.section
                blocks += [Heading(section), Rows([])]
            blocks[-1].rows.append((one.name, self.summary(one.name)))
        return blocks

    def summary(self, name):
        return next(page.summary for page in self.pages if page.name == name)
