#!/usr/bin/env python3
"""Checks that each header has an include guard that ends in _H, such as PP_..._H or
PHOTOPOOL_..._H, and that no two headers have the same guard.
"""
import re
import sys

from lint import main

seen = {}


def find(path, text):
    m = re.search(r"^#ifndef (\w+)\n#define (\w+)\b", text, re.M)
    if "#pragma once" in text:
        yield 1, "no #pragma once: use an include guard"
    elif not m or m.group(1) != m.group(2) or not m.group(1).endswith("_H"):
        yield 1, "no include guard: #ifndef PP_..._H, #define PP_..._H at the top, #endif at the end"
    elif not re.search(r"^#endif\b[^\n]*\s*\Z", text, re.M):
        yield len(text.split("\n")), "the include guard's #endif is the last line of a header"
    elif seen.setdefault(m.group(1), path) != path:
        yield 1, f"{m.group(1)} is the guard of {seen[m.group(1)]}, too: give each its own name"


EXAMPLES = [
    ("lib/core/a.h", "int f(void);\n"),
    ("lib/core/a.h", "#pragma once\n"),
    ("lib/core/a.h", "#ifndef PP_A_H\n#define PP_B_H\n#endif\n"),
    ("lib/core/a.h", "#ifndef PP_A_H\n#define PP_A_H\n#endif\nint f(void);\n"),
]

if __name__ == "__main__":
    sys.exit(main(find, EXAMPLES, endings=(".h",)))
