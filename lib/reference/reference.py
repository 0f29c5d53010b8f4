# SPDX-License-Identifier: Apache-2.0
"""Writes the reference of the C ABI from its headers, in the order of their includes.

reference.py man DIR HEADER ...     DIR/man3 and DIR/man7: manual pages; others that lie there are removed
reference.py html FILE HEADER ...   one page of HTML
"""

import os
import re
import sys
import time

from mdoc import Manual, section_of
from outcomes import read
from pages import Reference
from web import html


def version(headers):
    with open(headers[0], encoding="utf-8") as file:
        text = file.read()
    return ".".join(re.findall(r"#define XFER_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))


def date(headers):
    """The last change of the headers, or what a packager sets for builds that can be repeated."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or max(map(os.path.getmtime, headers)))
    return time.strftime("%B %d, %Y", time.gmtime(seconds)).replace(" 0", " ")


def write_man(folder, *headers):
    reference = Reference(read(headers))
    manual = Manual(reference, f"libxfer {version(headers)}", date(headers))
    written = set()
    for page in [*reference.pages, reference.overview]:
        section = section_of(page.name)
        path = os.path.join(folder, f"man{section}", f"{page.name}.{section}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(manual.write(page))
        written.add(path)
    for section in ("man3", "man7"):
        for name in os.listdir(os.path.join(folder, section)):
            if os.path.join(folder, section, name) not in written:
                os.remove(os.path.join(folder, section, name))
    tell(reference)


def write_html(path, *headers):
    reference = Reference(read(headers))
    with open(path, "w", encoding="utf-8") as file:
        file.write(html(reference, version(headers)))
    tell(reference)


def tell(reference):
    """Says what is wrong in the headers, which stops no build: tests/abi/reference.py fails by it."""
    for name in sorted(reference.names.unknown):
        print(f"nothing is named {name}", file=sys.stderr)


if __name__ == "__main__":
    {"man": write_man, "html": write_html}[sys.argv[1]](*sys.argv[2:])
