# SPDX-License-Identifier: Apache-2.0
"""Prints a C file from which the headers' ABI can be read: every function with an empty body, every enum with a name.

Their enums have no names and no function takes one, so that the debug information of the library does not
hold them; and what it holds of the inside would be compared as well. That the library exports the functions of the
headers, exports.py sees. Usage: stub.py HEADER ...
"""

import re
import sys

from header import region, without_comments


def name_enums(code):
    """An enum is named after its first enumerator, and returned by a function, since only what is used is compared."""
    named = re.sub(r"\benum \{\s*(\w+)", r"enum of_\1 { \1", code)
    uses = [f"enum {tag} {tag}(void) {{ return 0; }}" for tag in re.findall(r"\benum (of_\w+) \{", named)]
    return "\n".join([named, *uses])


def give_bodies(code):
    return re.sub(r"^XFER_API ([^;]*);", r"\1 { __builtin_trap(); }", code, flags=re.M)


if __name__ == "__main__":
    code = "".join(without_comments(region(open(path, encoding="utf-8").read())) for path in sys.argv[1:])
    print("#include <stddef.h>\n#include <stdint.h>")
    print(name_enums(give_bodies(code)))
