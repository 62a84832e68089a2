#!/usr/bin/env python3
"""Checks the order of the rooms: a file includes headers of its own room and of lower rooms only.
When a lower room must call a higher room, it calls a callback.

A room is a folder under lib, or cmd/photopool. Files that need each other (each uses, directly or
through other files, a function that the other defines) must be in one room; the check counts them.
To add a room, give it a place in ROOMS and in CMakeLists.txt, whose targets see only lower rooms.
"""
import re
import sys

from lint import files, read
from symbols import production, uses

ROOMS = ["lib/base", "lib/core", "lib/format", "lib/runtime", "lib/pipeline/common", "lib/pipeline/hosts", "lib/pipeline/fetch",
         "lib/pipeline/routes", "lib/events", "lib/counters", "lib/pipeline/claim", "lib/pipeline/plan", "lib/pipeline/settle",
         "lib/pipeline/deliver", "lib/pipeline/accept", "lib/api", "lib/pipeline", "cmd/photopool"]
WIRING = "pipeline/pipeline.h"
WIRING_MAX = 10
CIRCLES_MAX = 25
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def room_of(path):
    """Returns the index of a file's room in ROOMS, or -1 for a file outside the order: contracts,
    adapters, configuration.
    """
    folder = path.rsplit("/", 1)[0]
    return ROOMS.index(folder) if folder in ROOMS else -1


def arrows(sources):
    """Yields each #include of a header of a higher room."""
    for path, text in sources:
        own = room_of(path)
        for m in INCLUDE.finditer(text) if own >= 0 else ():
            up = room_of("lib/" + m.group(1))
            if up > own:
                yield path, text.count("\n", 0, m.start()) + 1, f"{ROOMS[own]} includes from {ROOMS[up]}, which is higher: make it a callback in the options"


def circles(needs):
    """Returns the groups of files that need each other (Tarjan's strongly connected components)."""
    index, low, stack, on, found = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        on.add(v)
        for w in sorted(needs.get(v, ())):
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            group = []
            while not group or group[-1] != v:
                group.append(stack.pop())
                on.discard(group[-1])
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10000)
    for v in sorted(needs):
        if v not in index:
            visit(v)
    return found


def find(sources, everything):
    found = list(arrows(sources))
    groups = circles(uses(sources)[1])
    for group in groups:
        rooms = {p.rsplit("/", 1)[0] for p in group}
        if len(rooms) > 1:
            found.append((group[0], 1, "files of several rooms need each other: " + ", ".join(group)))
    inside = sum(len(g) for g in groups)
    if inside > CIRCLES_MAX:
        found += [(g[0], 1, f"{inside} files need each other, at most {CIRCLES_MAX} may; these do: " + ", ".join(g)) for g in groups]
    wiring = [path for path, text in everything if f'#include "{WIRING}"' in text]
    if len(wiring) > WIRING_MAX:
        found.append((f"lib/{WIRING}", 1, f"{len(wiring)} files include it, at most {WIRING_MAX} may: " + ", ".join(wiring)))
    figures = f"{len(list(arrows(sources)))} arrows against the order, {len(wiring)} files include {WIRING}, {inside} files in circles"
    return found, figures


def examples():
    up = [("lib/core/a.c", '#include "pipeline/claim/claim.h"\n')]
    down = [("lib/pipeline/claim/a.c", '#include "core/url.h"\n')]
    a = ("lib/core/a.c", "int pp_a(void)\n{\n    return pp_b();\n}\n")
    b = ("lib/base/b.c", "int pp_b(void)\n{\n    return pp_a();\n}\n")
    return find(up, up)[0] and not find(down, down)[0] and find([a, b], [])[0] and find([], [("x", f'#include "{WIRING}"')] * (WIRING_MAX + 1))[0]


def main():
    if not examples():
        print("tests/lint: check_rooms.py is wrong about its own examples")
        return 2
    # The texts have no comments and no strings, except for the strings of #include lines.
    found, figures = find(production(), [(p, read(p)) for p in files(".c", ".h")])
    for path, line, what in found:
        print(f"{path}:{line}: {what}")
    print(figures)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
