# SPDX-License-Identifier: Apache-2.0
"""Pages as manual pages in mdoc(7)."""

import re

from declarations import Bullets, Rows, Text
from marks import Mark
from pages import OVERVIEW, Code, Heading, Include, Synopsis

WIDTH = 60  # of a line, but for its last word
TERM = 26  # the longest term that its text stands beside
MACROS = {
    "parameter": "Fa",
    "field": "Va",
    "code": "Ql",
    "type": "Vt",
    "status": "Er",
    "constant": "Dv",
    "environment": "Ev",
    "call": "Fn",  # of what is not of libxfer
}
SENTENCE = re.compile(r"(?<!\.)[.?!][\")]*$")  # mdoc wants each sentence on a line of its own


def section_of(name):
    return 7 if name == OVERVIEW else 3


def escaped(text):
    text = text.replace("\\", "\\e").replace('"', "\\(dq").replace("^", "\\(ha").replace("~", "\\(ti")
    text = re.sub(r"(?<![A-Za-z])-|-(?![A-Za-z])", r"\\-", text)  # a hyphen only between letters
    return re.sub(r"^([.'])", r"\\&\1", text)


def argument(text):
    """As one argument of a macro, never taken for the name of one."""
    text = escaped(text)
    if re.fullmatch(r"[A-Za-z%]\w{0,2}|[.,:;()\[\]?!|]", text):
        text = "\\&" + text
    return f'"{text}"' if " " in text else text


class Manual:
    """Writes pages. `date` and `system` are those at the foot of each."""

    def __init__(self, reference, system, date):
        self.reference, self.system, self.date = reference, system, date

    def write(self, page):
        """The text of one page."""
        self.page, self.named = page, set(page.also)
        body = []
        for heading, blocks in page.parts:
            body += [f".Sh {heading}"] + self.blocks(blocks)
        lines = [
            '.\\" SPDX-License-Identifier: Apache-2.0',
            f'.\\" Written from {page.header}; changes belong there.',
            f".Dd {self.date}",
            f".Dt {page.name.upper()} {section_of(page.name)}",
            f".Os {self.system}",
            ".Sh NAME",
            f".Nm {page.name}",
            f".Nd {escaped(page.summary)}",
        ]
        if section_of(page.name) == 3:
            lines += [".Sh LIBRARY", "libxfer (libxfer, \\-lxfer)"]
        return "\n".join(lines + body + self.see_also()) + "\n"

    def see_also(self):
        """The pages of all that this one names."""
        others = {name for name in map(self.page_of, self.named) if name} - {self.page.name}
        if self.page.name == OVERVIEW or not others:
            return []
        ordered = sorted(others, key=lambda name: (section_of(name), name))
        return [".Sh SEE ALSO"] + [f".Xr {name} {section_of(name)}{' ,' * (name != ordered[-1])}" for name in ordered]

    def page_of(self, target):
        """The page on which a name of the headers is explained, empty if none is its own."""
        names, target = self.reference.names, target.split(".")[0]
        if target in names.enums:
            return self.reference.homes[names.enums[target].values[0].name].name
        pages = {page.name for page in self.reference.pages} | {OVERVIEW}
        return target if target in pages else OVERVIEW if target in names.declared else ""

    # ---- blocks ----

    def blocks(self, blocks):
        lines = []
        for at, one in enumerate(blocks):
            after_text = at > 0 and isinstance(blocks[at - 1], (Text, Rows, Bullets))
            if isinstance(one, Text):
                lines += [".Pp"] * after_text + self.filled(one.text)
            elif isinstance(one, Heading):
                lines += [f".Ss {escaped(one.text)}"]
            elif isinstance(one, Code):
                lines += [".Bd -literal", *map(escaped, one.text.splitlines()), ".Ed"]
            elif isinstance(one, Include):
                lines += [f".In {one.header}"]
            elif isinstance(one, Synopsis):
                lines += self.synopsis(one.function)
            elif isinstance(one, Bullets):
                lines += [".Bl -bullet", *(line for item in one.items for line in [".It", *self.filled(item)]), ".El"]
            elif isinstance(one, Rows):
                lines += self.rows(one.rows)
        return lines

    def synopsis(self, function):
        name = function.name if function in self.reference.functions else f"(*{function.name})"
        result = function.result if function in self.reference.functions else f"typedef {function.result}"
        parameters = [f'.Fa "{one}"' for one in function.parameters or ["void"]]
        return [f".Ft {argument(result)}", f".Fo {name}", *parameters, ".Fc"]

    def rows(self, rows):
        terms = [self.term(term) for term, _ in rows]
        shown = [re.sub(r" (\d)$", r"(\1)", term[3:]) if term.startswith("Xr ") else term[3:] for term in terms]
        longest = max(shown, key=len)
        lines = [f".Bl -tag -width {longest if len(longest) <= TERM else 'Ds'}"]
        for term, (_, text) in zip(terms, rows):
            lines += [f".It {term}"] + (self.filled(text) if text else [])
        return lines + [".El"]

    def term(self, term):
        marks = self.marks(term)
        kind = marks[0].kind if len(marks) == 1 else ""
        if kind in ("function", "type") and self.page_of(term) == term:
            return f"Xr {term} {section_of(term)}"
        return f"{MACROS.get(kind, 'Sy')} {argument(term)}"

    # ---- words ----

    def marks(self, text):
        found = self.reference.names.marks(text, self.page.parameters, self.page.near)
        self.named |= {mark.target for mark in found if mark.target}
        return found

    def filled(self, text):
        """The lines of a paragraph."""
        lines, line = [], []
        for word in self.words(text):
            if len(word) == 1 and not word[0].kind:
                line.append(escaped(word[0].text))
                full = len(" ".join(line)) > WIDTH
                if full or SENTENCE.search(word[0].text):
                    lines, line = lines + [" ".join(line)], []
                continue
            lines, line = lines + ([" ".join(line)] if line else []) + [self.macro(word)], []
        return lines + ([" ".join(line)] if line else [])

    def words(self, text):
        """What stands between two spaces, each as its Marks."""
        words = [[]]
        for mark in self.marks(text):
            pieces = [mark] if mark.kind else [Mark("", piece) for piece in re.split(r"(\s+)", mark.text) if piece]
            for piece in pieces:
                if piece.kind or piece.text.strip():
                    words[-1].append(piece)
                else:
                    words.append([])
        return [word for word in words if word]

    def macro(self, word):
        """A word with marks as a line of macros."""
        parts = []
        for at, mark in enumerate(word):
            if not mark.kind:
                stops = re.search(r"[.,:;)?!]*$", mark.text)[0] if at == len(word) - 1 else ""
                text = mark.text.removesuffix(stops)
                parts += ["Ns"] * (at > 0) + ["No", argument(text)] if text else []
                parts += list(stops)
                continue
            parts += ["Ns"] * (at > 0) + [self.called(mark)]
        return "." + " ".join(parts)

    def called(self, mark):
        if mark.kind == "function" and mark.text == self.page.name:
            return "Nm"
        if mark.kind == "function":
            return f"Xr {mark.text} {section_of(mark.text)}"
        return f"{MACROS[mark.kind]} {argument(mark.text.removesuffix('()'))}"
