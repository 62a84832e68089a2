#!/usr/bin/env python3
"""Checks that a name means one thing: each tag of a struct, union or enum and each enumerator is
defined only once in lib/, include/ and cmd/.

A struct that a port only declares may be defined once by each adapter. A struct that a header of
the runtime only declares may be defined once more by the runtime of the simulator.
"""
import re
import sys

from lint import code_only, files, read

TAG = re.compile(r"^\s*(?:static |const |typedef )*(?:struct|union|enum) (\w+)\s*\{", re.M)
OPAQUE = re.compile(r"^struct (\w+);", re.M)
ENUM = re.compile(r"\benum\s*(?:\w+\s*)?\{([^}]*)\}")
ENUMERATOR = re.compile(r"(?:^|,)\s*([A-Za-z_]\w*)\s*(?=[,=]|$)", re.M)


def names(text):
    """Returns (name, offset) of every tag and enumerator that the code defines, except those that
    X-macros make.
    """
    for m in TAG.finditer(text):
        yield m.group(1), m.start(1)
    for m in ENUM.finditer(text):
        if "#define" in m.group(1):
            continue
        for e in ENUMERATOR.finditer(m.group(1)):
            yield e.group(1), m.start(1) + e.start(1)


def find(sources):
    seen = {}
    # structs that a header declares but does not define: each implementation defines its own
    opaque = {m for path, text in sources if path.startswith(("include/photopool/port/", "lib/runtime/")) for m in OPAQUE.findall(code_only(text))}
    for path, text in sources:
        code = code_only(text)
        for name, offset in names(code):
            line = code.count("\n", 0, offset) + 1
            if name in opaque:
                continue
            if name in seen:
                yield path, line, f"{name} is defined in {seen[name]}, too: a name of its own for each"
            seen.setdefault(name, f"{path}:{line}")


def main():
    a, b = ("lib/core/a.h", "struct pp_a {\n    int x;\n};\nenum pp_e { PP_ONE, PP_TWO = 2 };\n"), "enum { PP_TWO };\n"
    if list(find([a])) or not list(find([a, ("lib/core/b.c", b)])) or not list(find([a, ("lib/core/b.c", "struct pp_a {\n};\n")])):
        print("tests/lint: check_unique.py is wrong about its own examples")
        return 2
    found = list(find([(p, read(p)) for p in files(".c", ".h") if p.startswith(("lib/", "include/", "cmd/"))]))
    for path, line, what in found:
        print(f"{path}:{line}: {what}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
