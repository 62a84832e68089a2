#!/usr/bin/env python3
"""Checks that every function with external linkage has a caller in production code, and that
production code writes every metric.

A function that only its own file uses must be static, unless a test calls it, too. A function that
only tests use must be removed, except in the adapters in memory, which are there for the simulator.
"""
import re
import sys

from lint import files, read
from symbols import defined, production, words

TABLE = "lib/pipeline/common/metrics.h"
PASTE = re.compile(r"\b(\w+_)##")
FOR_TESTS = "lib/adapter/memory/"
ROW = re.compile(r"^\s*X\((\w+),", re.M)


def unused(sources, tests=""):
    """Yields functions that no production code uses, and functions that only their own file uses
    and no test.
    """
    used = {path: words(text) for path, text in sources}
    everything = "\n".join(text for _, text in sources)
    # prefixes of names that a macro pastes together, such as pp_sw_##op in tables of operations
    pasted = set(PASTE.findall(everything))
    for path, text in sources:
        for name, line in defined(text).items() if path.endswith(".c") else ():
            elsewhere = any(name in w for p, w in used.items() if p != path and p.endswith(".c"))
            elsewhere |= any(p.endswith(".h") and re.search(rf"^[ \t#].*\b{name}\b", t, re.M) for p, t in sources if name in used[p])
            elsewhere |= any(name.startswith(prefix) and re.search(rf"\b{name[len(prefix):]}\b", everything) for prefix in pasted)
            elsewhere |= path.startswith(FOR_TESTS) and bool(re.search(rf"\b{name}\b", tests))
            if name == "main" or elsewhere:
                continue
            if len(re.findall(rf"\b{name}\b", text)) < 2:
                yield path, line, f"{name}() has no production caller: remove it"
            elif not re.search(rf"\b{name}\b", tests):
                yield path, line, f"{name}() is used in this file only: make it static"


def unwritten(sources):
    table = dict(sources).get(TABLE, "")
    rows = ROW.findall(table[table.find("PP_METRIC_TABLE"):])
    code = "\n".join(text for path, text in sources if path != TABLE)
    for row in rows:
        if not re.search(r"(?:->|\.)%s\s*(?:\[[^]]*\]\s*)?(?:\+\+|\+=|=(?!=))" % row, code):
            yield TABLE, table.count("\n", 0, table.find(f"X({row},")) + 1, f"the metric {row} is written nowhere: set it, or remove the row"


def examples():
    call = ("lib/b.c", "int g(void)\n{\n    return pp_f(1);\n}\n")
    define = ("lib/a.c", "int pp_f(int x)\n{\n    return x;\n}\n")
    rows = (TABLE, "#define PP_METRIC_TABLE(X) \\\n    X(claims, \"claims_total\") \\\n")
    return (list(unused([define])) and not [f for f in unused([define, call]) if "pp_f" in f[2]]
            and list(unused([("lib/a.c", define[1] + "static int h(void)\n{\n    return pp_f(2);\n}\n")]))
            and list(unwritten([rows])) and not list(unwritten([rows, ("lib/a.c", "    m->claims += 2;\n")])))


def main():
    if not examples():
        print("tests/lint: check_callers.py is wrong about its own examples")
        return 2
    sources = production()
    tests = "\n".join(read(p) for p in files(".c", ".h") if p.startswith(("tests/", "loadtest/")))
    found = [*unused(sources, tests), *unwritten(sources)]
    for path, line, what in found:
        print(f"{path}:{line}: {what}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
