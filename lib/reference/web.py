# SPDX-License-Identifier: Apache-2.0
"""The reference as one page of HTML that needs nothing beside it."""

import re
from html import escape

from declarations import Bullets, Rows, Text
from pages import OVERVIEW, Code, Heading, Include, Synopsis

STYLE = """
:root { color-scheme: light dark; --line: #8884; --quiet: #777; --link: #0a58ca; --code: #8881; }
@media (prefers-color-scheme: dark) { :root { --link: #7db1ff; --quiet: #999; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0; display: grid; grid-template-columns: 17rem minmax(0, 1fr); font: 1rem/1.5 system-ui, sans-serif; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1rem; border-right: 1px solid var(--line);
      font-size: 0.85rem; }
nav ul { list-style: none; margin: 0 0 0.8rem; padding: 0; }
main { padding: 1rem 2rem 4rem; max-width: 58rem; }
h2 { margin: 3rem 0 1rem; border-bottom: 1px solid var(--line); }
h3 { margin: 2.5rem 0 0.5rem; font-family: ui-monospace, monospace; }
h4 { margin: 1rem 0 0.3rem; font-size: 0.85rem; letter-spacing: 0.05em; color: var(--quiet); }
h5 { margin: 0.8rem 0 0.3rem; font-size: 0.9rem; }
p, ul, dl, pre { margin: 0.4rem 0; }
pre { padding: 0.6rem 0.8rem; overflow-x: auto; background: var(--code); border-radius: 4px; line-height: 1.4; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.2rem 1.2rem; }
dd { margin: 0; }
code, pre, dt { font-family: ui-monospace, monospace; font-size: 0.9em; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
dt:target, dt:target + dd { background: var(--code); }
.summary { color: var(--quiet); margin: 0; }
@media (max-width: 50rem) {
    body { display: block; }
    nav { position: static; height: auto; border: 0; }
    dl { display: block; }
    dd { margin-left: 1.5rem; }
}
"""


class Web:
    def __init__(self, reference):
        self.reference = reference
        self.anchors = {page.name for page in reference.pages} | {OVERVIEW}
        self.anchors |= set(reference.names.enums) | set(reference.names.declared)
        self.anchors |= {f"{one.name}.{member.name}" for one in reference.pages for member in self.members(one)}

    def members(self, page):
        return [one for one in getattr(self.reference.names.declared[page.name], "fields", []) if one.says]

    def page(self, page, level):
        """A page as an article; its headings are of `level` and below."""
        self.now = page
        lines = [f'<article id="{page.name}">', f"<h{level}>{page.name}</h{level}>"]
        if not self.said(page).startswith(page.summary.lower()):
            lines.append(f'<p class="summary">{self.inline(page.summary)}</p>')
        for heading, blocks in page.parts:
            if heading not in ("SYNOPSIS", "DESCRIPTION"):
                lines.append(f"<h{level + 1}>{escape(heading)}</h{level + 1}>")
            for one in blocks:
                lines += self.block(one, heading, level + 2)
        return [*lines, "</article>"]

    def said(self, page):
        """How its description begins."""
        blocks = dict(page.parts).get("DESCRIPTION", [])
        return re.sub(r"^libxfer |`", "", blocks[0].text.lower()) if blocks and isinstance(blocks[0], Text) else ""

    def block(self, one, heading, level):
        if isinstance(one, Text):
            return [f"<p>{self.inline(one.text)}</p>"]
        if isinstance(one, Heading):
            return [f"<h{level}>{escape(one.text)}</h{level}>"]
        if isinstance(one, Bullets):
            return ["<ul>", *(f"<li>{self.inline(item)}</li>" for item in one.items), "</ul>"]
        if isinstance(one, Include):
            return [f"<pre>#include &lt;{one.header}&gt;</pre>"]
        if isinstance(one, Code):
            return [f"<pre>{self.code(one.text)}</pre>"]
        if isinstance(one, Synopsis):
            return [f"<pre>{self.declaration(one.function)}</pre>"]
        rows = []
        for term, text in one.rows:
            rows += [f"<dt{self.anchor(term, heading)}>{self.inline(term)}</dt>", f"<dd>{self.inline(text)}</dd>"]
        return ["<dl>", *rows, "</dl>"]

    def anchor(self, term, heading):
        """Of what is explained here, the place where links to it lead."""
        if heading == "MEMBERS":
            return f' id="{self.now.name}.{term}"'
        return f' id="{term}"' if heading in ("CONSTANTS", "HANDLES") else ""

    def link(self, target, text):
        return f'<a href="#{target}">{text}</a>' if target in self.anchors else text

    def inline(self, text):
        parts = []
        for mark in self.reference.names.marks(text, self.now.parameters, self.now.near):
            here = mark.target == self.now.name or self.is_of_this_page(mark.target)
            shown = escape(mark.text, quote=False) + "()" * (mark.kind == "function" and mark.text != OVERVIEW)
            if mark.kind:
                shown = f"<code>{shown}</code>"
            parts.append(shown if here else self.link(mark.target, shown))
        return "".join(parts)

    def is_of_this_page(self, target):
        enum = self.reference.names.enums.get(target)
        return enum is not None and self.reference.homes[enum.values[0].name].name == self.now.name

    def code(self, text):
        """Code in which the types lead to their pages."""
        words = []
        for word in escape(text, quote=False).split(" "):
            words.append(self.link(word, word) if word != self.now.name and word in self.anchors else word)
        return " ".join(words)

    def declaration(self, function):
        own = function in self.reference.functions
        start = f"{function.result} {function.name}(" if own else f"typedef {function.result} (*{function.name})("
        joint = ",\n" + " " * len(start)
        return self.code(start) + joint.join(map(self.code, function.parameters or ["void"])) + ");"

    def navigation(self):
        lines = ["<nav>", f'<ul><li><a href="#{OVERVIEW}">Overview</a></li></ul>']
        for section, pages in self.sections():
            lines += [f"<strong>{escape(section)}</strong>", "<ul>"]
            lines += [f'<li><a href="#{page.name}">{page.name}</a></li>' for page in pages]
            lines.append("</ul>")
        return [*lines, "</nav>"]

    def sections(self):
        """(section of the headers, its pages), in their order."""
        found = {}
        for page in self.reference.pages:
            found.setdefault(page.section, []).append(page)
        return found.items()


def html(reference, version):
    web = Web(reference)
    lines = [
        "<!DOCTYPE html>",
        "<!-- SPDX-License-Identifier: Apache-2.0 -->",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>libxfer {version}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        *web.navigation(),
        "<main>",
        f"<h1>libxfer {version}</h1>",
        *web.page(reference.overview, 2),
    ]
    for section, pages in web.sections():
        lines.append(f"<h2>{escape(section)}</h2>")
        for page in pages:
            lines += web.page(page, 3)
    return "\n".join([*lines, "</main>", "</body>", "</html>"]) + "\n"
