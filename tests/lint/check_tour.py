#!/usr/bin/env python3
"""Checks that lib/README.md, the source tour, names every file and folder of lib/, include/ and
cmd/, and none that does not exist.

A section belongs to a folder if its heading ends with the folder's path in backticks. It names
files in backticks: `url.c`, `url.h`, `url.[ch]`, or several at once: `sniff_{png,gif}.c`,
`url{,_host}.[ch]`. A path such as `core/url.h` may stand anywhere and must exist.
"""
import itertools
import os
import re
import sys

from lint import files, read

README = "lib/README.md"
FILE = re.compile(r"^[\w{},-]+\.(?:c|h|\[ch\])$")
PATH = re.compile(r"`([\w./-]+/[\w.-]+\.(?:c|h|py|md))`")


def expand(name):
    """Returns the file names that a pattern stands for: `a{b,c}.[ch]` gives ab.c, ac.c, ab.h, ac.h."""
    parts = re.split(r"\{([^}]*)\}", name.replace(".[ch]", ".{c,h}"))
    choices = [p.split(",") if i % 2 else [p] for i, p in enumerate(parts)]
    return ["".join(c) for c in itertools.product(*choices)]


def named(text):
    """Returns {folder: {file: line}}: the files that the tour names, and the lines where it does."""
    folders, folder = {}, None
    for number, line in enumerate(text.split("\n"), 1):
        heading = re.match(r"^#+ .*`([\w./-]+)/`\s*$", line)
        if heading:
            folder = heading.group(1)
            folders.setdefault(folder, {"": number})
        elif line.startswith("#"):
            folder = None
        elif folder:
            for word in re.findall(r"`([^`\s]+)`", line):
                if FILE.match(word):
                    for name in expand(word):
                        folders[folder].setdefault(name, number)
    return folders


def compare(text, paths, known=()):
    tour = named(text)
    there = {}
    for path in paths:
        there.setdefault(os.path.dirname(path), set()).add(os.path.basename(path))
    for folder, names in sorted(there.items()):
        if folder not in tour:
            yield 1, f"no section for {folder}/: add a heading that ends with `{folder}/` and name its files"
            continue
        for name in sorted(names - set(tour[folder])):
            yield tour[folder][""], f"{folder}/{name} is not named in its section: add a line that says what it is for"
    for folder, names in sorted(tour.items()):
        for name, number in names.items():
            if name and name not in there.get(folder, ()):
                yield number, f"{folder}/{name} does not exist: drop or correct it"
    for number, line in enumerate(text.split("\n"), 1):
        for path in PATH.findall(line):
            if not any(prefix + path in known for prefix in ("", "lib/", "include/")):
                yield number, f"{path} does not exist: drop or correct it"


def main():
    example = "## Core: `lib/core/`\n- `a.[ch]`, `b{,_x}.c`\n"
    full = ["lib/core/a.c", "lib/core/a.h", "lib/core/b.c", "lib/core/b_x.c"]
    assert not list(compare(example, full))
    assert list(compare(example, full + ["lib/core/d.c"])) and list(compare(example, full[1:]))
    assert list(compare(example, full + ["lib/x/a.c"])) and list(compare(example + "`core/gone.h`\n", full, full))
    paths = [p for p in files(".c", ".h") if p.startswith(("lib/", "include/", "cmd/"))]
    found = list(compare(read(README), paths, set(files("")))) if os.path.exists(os.path.join(os.path.dirname(__file__), "../..", README)) \
        else [(1, "is missing")]
    for number, what in found:
        print(f"{README}:{number}: {what}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
