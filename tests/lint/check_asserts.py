#!/usr/bin/env python3
"""Checks that invariants are asserted: core, the pipeline, the API and the adapters have at least
10 pp_assert() per 1,000 lines. assert() is forbidden, because it has no text that says what is
wrong.
"""
import re
import sys

from lint import code_only, files, read

LEAST = 10
AREAS = {"core": ("lib/core/",), "pipeline": ("lib/pipeline/", "lib/events/"), "api": ("lib/api/",), "adapters": ("lib/adapter/",)}
ASSERT = re.compile(r"\bpp_assert\(")
PLAIN = re.compile(r"(?<![\w.>])assert\(")


def find(sources):
    found, figures = [], []
    for area, prefixes in AREAS.items():
        texts = [(p, t) for p, t in sources if p.startswith(prefixes)]
        lines = sum(t.count("\n") for _, t in texts)
        count = sum(len(ASSERT.findall(code_only(t))) for _, t in texts)
        if count * 1000 < LEAST * lines:
            found.append((prefixes[0], 1, f"{count} assertions in {lines} lines of {area}, at least {LEAST} a 1,000 lines are due: state the invariants"))
        figures.append(f"{area} {count * 1000 / max(lines, 1):.1f}")
    for path, text in sources:
        code = code_only(text)
        for m in PLAIN.finditer(code):
            found.append((path, code.count("\n", 0, m.start()) + 1, "assert() names nothing: use pp_assert() of base/check.h"))
    return found, "assertions a 1,000 lines: " + ", ".join(figures)


def main():
    if not find([("lib/core/a.c", "x;\n" * 200)])[0] or not find([("lib/core/a.c", "    assert(x);\n")])[0] \
            or find([("lib/core/a.c", '    pp_assert(x, "no x");\n')])[0]:
        print("tests/lint: check_asserts.py is wrong about its own examples")
        return 2
    found, figures = find([(p, read(p)) for p in files(".c", ".h") if p.startswith(("lib/", "include/", "cmd/"))])
    for path, line, what in found:
        print(f"{path}:{line}: {what}")
    print(figures)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
