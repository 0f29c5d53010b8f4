# SPDX-License-Identifier: Apache-2.0
"""Files of lib/ have at most 450 lines, their functions at most 70."""

import re
import sys

import tree

FILE_LINES = 450
FUNCTION_LINES = 70
# A body follows the parameters; what follows them as well is told apart by the word before them.
BODY = re.compile(r"\)\s*(const|noexcept|override|final|mutable|&|->[^;]*|\s)*$")
OTHER = re.compile(r"\b(if|for|while|switch|catch)\b[^)]*\)")
INITIALISER = re.compile(r"\)\s*:[^;]*[\w>]$")  # as in `A::A() : member_{1} {`


def blank(text):
    """The text with comments and literals blanked, line by line in its place."""
    literal = r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/|^#[^\n]*'
    # A digit separator is no quote.
    text = re.sub(r"(?<=\d)'(?=\d)", "", text)
    return re.sub(literal, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S | re.M)


def functions(text):
    """(first line, number of lines) of every function and lambda body."""
    open_braces = []
    head, line, parentheses = "", 1, 0  # head: what stands before the next brace
    for char in blank(text):
        line += char == "\n"
        parentheses += (char == "(") - (char == ")")
        if char == "{":
            body = BODY.search(head) and not OTHER.match(head.strip())
            open_braces.append((line, body, head + "()" if INITIALISER.search(head) else "", parentheses))
            head, parentheses = "", 0
        elif char == "}":
            first, body, head, parentheses = open_braces.pop()
            if body:
                yield first, line - first + 1
        elif char == ";" and parentheses == 0:
            head = ""
        else:
            head += char


def check(path, text):
    lines = text.count("\n")
    if lines > FILE_LINES:
        yield f": {lines} lines; the limit is {FILE_LINES}"
    for first, count in functions(text):
        if count > FUNCTION_LINES:
            yield f":{first}: a function of {count} lines; the limit is {FUNCTION_LINES}"


if __name__ == "__main__":
    tree.run(check, sys.argv[1], tree.sources(sys.argv[1]))
