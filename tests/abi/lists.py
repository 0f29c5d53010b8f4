# SPDX-License-Identifier: Apache-2.0
"""Writes lists of what a header declares, as macros, for tests that must not leave anything of it out.

Usage: lists.py HEADER OUTPUT
"""

import re
import sys

from header import region, structs, without_comments

ENUMS = {
    "EVENTS": "XFER_EVENT_",
    "MEMORY_KINDS": "XFER_MEM_",
    "TRANSPORTS": "XFER_TRANSPORT_",
    "ENGINE_FLAGS": "XFER_ENGINE_",
    "DISPATCHES": "XFER_DISPATCH_",
    "LOG_LEVELS": "XFER_LOG_",
}


def define(name, entries):
    if not entries:
        sys.exit(f"nothing for {name} was understood")
    return f"#define LISTED_{name}(X) " + " ".join(f"X({entry})" for entry in entries)


if __name__ == "__main__":
    header, output = sys.argv[1:]
    text = region(open(header, encoding="utf-8").read())
    lists = {name: re.findall(rf"\b({prefix}\w+) = \d", without_comments(text)) for name, prefix in ENUMS.items()}
    lists["STATUSES"] = re.findall(r"\b(XFER_OK|XFER_E\w+) = (?:0|-\d)", without_comments(text))
    lists["ENGINE_OPTIONS"] = structs(text)["xfer_engine_options_t"]
    with open(output, "w", encoding="utf-8") as file:
        file.writelines(define(name, entries) + "\n" for name, entries in lists.items())
