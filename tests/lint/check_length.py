#!/usr/bin/env python3
"""Checks that functions have at most 100 lines and files at most 700. In tests the limits are 200
and 1000, because tables of cases make functions long.

A function begins with { and ends with } in the first column, as clang-format writes it.
"""
import re
import sys

from lint import main

FUNCTION, FILE = 100, 700
TEST_FUNCTION, TEST_FILE = 200, 1000


def find(path, text):
    function, file = (TEST_FUNCTION, TEST_FILE) if path.startswith("tests/") else (FUNCTION, FILE)
    lines = text.rstrip("\n").split("\n")
    if len(lines) > file:
        yield file + 1, f"{len(lines)} lines, at most {file} are allowed: split the file by meaning"
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start:
            if number - start - 1 > function:
                head = " ".join(lines[max(0, start - 3):start - 1])
                m = re.findall(r"(\w+)\(", head)
                yield start, (f"{m[-1] if m else 'function'}() has {number - start - 1} lines, at most {function} are allowed: "
                              "name its parts and make them functions")
            start = None


EXAMPLES = [
    ("lib/core/a.c", "int f(void)\n{\n" + "    g();\n" * (FUNCTION + 1) + "}\n"),
    ("lib/core/a.c", "int x;\n" * (FILE + 1)),
]
INNOCENT = [("lib/core/a.c", "int f(void)\n{\n" + "    g();\n" * FUNCTION + "}\n")]

if __name__ == "__main__":
    sys.exit(main(find, EXAMPLES, innocent=INNOCENT))
