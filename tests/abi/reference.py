# SPDX-License-Identifier: Apache-2.0
"""The reference has a page for all that is exported, and says all that the headers say. Prints each fault, exits 1 if
there is one. Usage: reference.py man|html WRITER MAP HEADER ...

What the headers declare and say is found here by other means than the writer's.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

from exports import mapped
from header import PARTS, comment_lines, functions, region, structs, without_comments

HOMES = {"XFER_OK": "xfer_status_t", "XFER_EVENT_PUT": "xfer_event_t", "XFER_FENCED": "xfer_event_t"}
LINT = ("Os libxfer", "referenced manual not found")  # what mandoc says of pages that are not installed


def plain(text):
    """Words to be compared: without quotes, capitals and what stands behind the names of functions."""
    text = re.sub(r"\(\)|\([37]\)|[`'\"‘’]", "", text)
    return re.sub(r"\s+", " ", text).strip().lower()


def comments(text):
    """(what, the text of a comment behind or above it) of all that is declared, and of the head."""
    head = "\n".join(comment_lines(text[: text.index("*/")])[1:])
    head = re.sub(r"Sections: .*?\n\n|Words:\n", "", head, flags=re.S)  # the pages have lists of their own
    for sentence in re.split(r"\n\n|(?<=[.:])\s|  - ", head):
        yield "the head", sentence
    for comment in re.findall(r"(/\*(?:(?!\*/).)*\*/)\n(?:typedef|enum)", region(text), re.S):
        yield "a type", " ".join(comment_lines(comment))
    for name, comment in functions(region(text)):
        yield name, " ".join(comment_lines(comment))
    for body, alias in re.findall(r"typedef struct \w+ \{((?:/\*.*?\*/|[^}])*)\} (xfer_\w+);", region(text), re.S):
        for field, comment in re.findall(r"(\w+)(?:\[[^\]]*\])*;[ \t]*(/\*.*?\*/)", body, re.S):
            yield f"{alias}.{field}", " ".join(comment_lines(comment))
    for name, comment in re.findall(r"\b(XFER_\w+) = -?\d+,?[ \t]*(/\*.*?\*/)", region(text), re.S):
        yield name, " ".join(comment_lines(comment))


def enumerators(text):
    return re.findall(r"\b(XFER_\w+) = (-?\d+)", without_comments(region(text)))


def unsaid(what, comment, shown):
    """What `shown`, the words of a page, does not say of a comment."""
    pieces = re.split(rf"\b({'|'.join(part.rstrip() for part in PARTS)}) ", comment)
    for part, text in zip(["", *pieces[1::2]], pieces[0::2]):
        if part == "Returns:":  # told status by status, each with what is said of it
            words = set(re.findall(r"\w+", plain(re.sub(r"as xfer_\w+|XFER_EVENT_", "", text))))
            missing = words - {"then", "event", "or", "as"} - set(re.findall(r"\w+", shown.replace("xfer_event_", "")))
            if missing:
                yield f"{what}: {part} {' '.join(sorted(missing))}"
        elif plain(text.replace("Here and below: ", "")).rstrip(".") not in shown:
            yield f"{what}: {part} {text}"


def check_man(folder, names, texts):
    pages = {path.stem: path for path in Path(folder).glob("man?/*")}
    sources = {name: path.read_text(encoding="utf-8") for name, path in pages.items()}
    shown = rendered(pages.values())
    wanted = {*names, *(alias for text in texts for alias in structs(region(text)))}
    yield from (f"{name} has no page" for name in sorted(wanted - set(pages)))
    yield from (f"{name} is a page of nothing" for name in pages if not re.search(rf"\b{name}\b", "".join(texts)))
    for name, source in sources.items():
        for empty in re.findall(r"^(\.S[hs] .*)\n(?=\.Sh|\Z)", source, re.M):
            yield f"{name}: {empty} is empty"
        for target, section in re.findall(r"\bXr (\w+) (\d)", source):
            if target not in pages or pages[target].suffix != f".{section}":
                yield f"{name}: there is no {target}({section})"
    for text in texts:
        for name, number in enumerators(text):
            item = re.compile(rf"^\.It \w+ {name}$", re.M)
            homes = [one for one, source in sources.items() if item.search(constants(source))]
            if len(homes) != 1 or homes[0] != HOMES.get(name, homes[0]):
                yield f"{name} is explained on {len(homes)} pages: {' '.join(homes)}"
            elif f"{name} {number}".lower() not in shown[homes[0]]:
                yield f"{name} is not told as {number}"
        for what, comment in comments(text):
            page = what.split(".")[0]
            yield from unsaid(what, comment, shown[page] if page in shown else " ".join(shown.values()))
    lint = subprocess.run(["mandoc", "-T", "lint", *pages.values()], capture_output=True, text=True)
    yield from (line for line in lint.stdout.splitlines() if not any(one in line for one in LINT))


def constants(source):
    """The part of a page that explains constants."""
    return (re.findall(r"^\.Sh CONSTANTS\n(.*?)(?=^\.Sh|\Z)", source, re.M | re.S) + [""])[0]


def rendered(paths):
    """{name: the words of its page} as groff shows it."""
    command = ["groff", "-mdoc", "-ww", "-T", "utf8", "-rLL=3000n", "-P-cbou", *paths]  # no word is broken
    run = subprocess.run(command, capture_output=True, encoding="utf-8")
    if run.stderr or run.returncode:
        sys.exit(run.stderr.strip() or "groff failed")
    shown = re.split(r"^NAME$", run.stdout, flags=re.M)[1:]
    return {text.split()[0]: plain(text) for text in shown}


class Page(HTMLParser):
    """Finds what is not closed in its order, and collects ids, links and the text between tags."""

    def __init__(self):
        super().__init__()
        self.open, self.faults, self.ids, self.links, self.texts = [], [], Counter(), [], []

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta",):
            self.open.append(tag)
        if tag in ("script", "link", "img", "iframe", "base"):
            self.faults.append(f"line {self.getpos()[0]}: wants something beside it: {tag}")
        for name, value in attributes:
            self.ids.update([value] if name == "id" else [])
            self.links += [value] if name in ("href", "src") else []

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"line {self.getpos()[0]}: closes {tag}, which is not open")

    def handle_data(self, data):
        self.texts.append(data)


def check_html(path, names, texts):
    source = Path(path).read_text(encoding="utf-8")
    page = Page()
    page.feed(source)
    yield from page.faults
    yield from (f"{tag} is not closed" for tag in page.open)
    yield from (f"the id {name} is there {count} times" for name, count in page.ids.items() if count > 1)
    yield from (f"there is no {link}" for link in page.links if not link.startswith("#") or link[1:] not in page.ids)
    markup = re.sub(r"<style>.*?</style>", "", source, flags=re.S)
    yield from (f"is not escaped: {found}" for found in re.findall(r".{0,20}(?:<(?![a-z/!])|&(?!\w+;)).{0,20}", markup))
    yield from (f"wants something beside it: {found}" for found in re.findall(r"@import\S*|url\(\S*", source))
    wanted, shown = {*names}, plain("".join(page.texts))
    for text in texts:
        wanted |= {*structs(region(text)), *(name for name, _ in enumerators(text))}
        for what, comment in comments(text):
            yield from unsaid(what, comment, shown)
    yield from (f"{name} is not there" for name in sorted(wanted - set(page.ids)))


def main():
    form, writer, symbols, *headers = sys.argv[1:]
    texts = [text for text in (Path(path).read_text(encoding="utf-8") for path in headers) if "cdef:begin" in text]
    with tempfile.TemporaryDirectory() as folder:
        output = folder if form == "man" else os.path.join(folder, "xfer.html")
        os.mkdir(os.path.join(folder, "man3"))
        Path(folder, "man3/xfer_gone.3").touch()  # of an earlier header
        said = subprocess.run([sys.executable, "-B", writer, form, output, *headers], capture_output=True, text=True)
        faults = said.stderr.splitlines() or list(globals()["check_" + form](output, mapped(symbols), texts))
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
