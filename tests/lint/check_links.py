#!/usr/bin/env python3
"""Checks that links in Markdown files lead to files, folders and headings that exist, and that
README.md stays short: 600 to 800 words outside its code blocks.
"""
import os
import re
import sys

from lint import ROOT, main, read

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$", re.S | re.M)
WORDS = range(600, 801)


def without_code(text):
    """Returns the text with empty lines instead of code blocks, and without code in backticks."""
    text = FENCE.sub(lambda m: "\n" * m.group(0).count("\n"), text)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(text):
    """Returns the anchors of a page, as GitHub makes them from its headings."""
    found = set()
    for heading in re.findall(r"^#+ +(.+?) *$", FENCE.sub("", text), re.M):
        name = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", name).replace(" ", "-")
        n = 0
        while (name if n == 0 else f"{name}-{n}") in found:
            n += 1
        found.add(name if n == 0 else f"{name}-{n}")
    return found


def find(path, text):
    for number, line in enumerate(without_code(text).split("\n"), 1):
        for link in LINK.findall(line):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if name and not os.path.exists(os.path.join(ROOT, target)):
                yield number, f"{link} does not exist: correct the link"
            elif anchor and target.endswith(".md") and anchor not in anchors(read(target) if name else text):
                yield number, f"{link}: the page has no such heading"
    if path == "README.md":
        words = len(FENCE.sub("", text).split())
        if words not in WORDS:
            yield 1, f"{words} words outside code blocks, {WORDS[0]} to {WORDS[-1]} are allowed: move details to docs/"


PAGE = "# A page\n\n## `up` and [down](x.md): both\n\n"
EXAMPLES = [
    ("docs/a.md", "see [it](gone.md)"),
    ("docs/a.md", PAGE + "see [it](#up-and-up)"),
    ("docs/a.md", "see [it](../README.md#no-such-heading)"),
    ("README.md", "too short"),
]
INNOCENT = [
    ("docs/a.md", "see [it](https://example.com/), [lint](../tests/lint/) and `[x](gone.md)`\n```\n[x](gone.md)\n```"),
    ("docs/a.md", "# A page\n\n## `up` and down: both\n\nsee [it](#up-and-down-both)"),
]

if __name__ == "__main__":
    sys.exit(main(find, EXAMPLES, endings=(".md",), innocent=INNOCENT))
