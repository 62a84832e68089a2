#!/usr/bin/env python3
"""Checks that lines of prose have at most 100 columns: comments in C, Lua, Python and shell, and
paragraphs of Markdown, but not tables or code.

A line without a blank at which to break it (a URL, a path) may be longer.
"""
import re
import sys

from lint import main

COLUMNS = 100
COMMENT = {".c": re.compile(r"^\s*(?:/\*|\*(?= |$))"), ".h": re.compile(r"^\s*(?:/\*|\*(?= |$))"), ".lua": re.compile(r"^\s*--"),
           ".md": re.compile(r"^(?!\s*\||#|!?\[[^]]*\]\([^)]*\)$)"), "": re.compile(r"^\s*#")}


def find(path, text):
    name = path.rsplit("/", 1)[-1]
    comment = COMMENT["." + name.rsplit(".", 1)[-1] if "." in name and not name.endswith(".py") else ""]
    fenced = False
    for number, line in enumerate(text.split("\n"), 1):
        line = re.sub(r"\s*\\$", "", line)  # without the backslash at the end of a line of a macro
        if path.endswith(".md") and line.lstrip().startswith("```"):
            fenced = not fenced
        if len(line) > COLUMNS and not fenced and comment.match(line) and " " in line.strip()[:COLUMNS].lstrip("/*#- "):
            yield number, f"{len(line)} columns of prose, at most {COLUMNS} are allowed: break the line"


LONG = "word " * 21
EXAMPLES = [("a.md", LONG), ("lib/core/a.c", "/* " + LONG + "*/"), ("lib/core/a.h", " * " + LONG), ("a.lua", "-- " + LONG), ("a.py", "# " + LONG)]
INNOCENT = [("a.md", "| " + LONG), ("a.md", "```\n" + LONG + "\n```"), ("lib/core/a.c", "    call(" + "argument, " * 10 + "argument);")]

if __name__ == "__main__":
    sys.exit(main(find, EXAMPLES, endings=(".c", ".h", ".lua", ".md", ".py"), innocent=INNOCENT))
