#!/usr/bin/env python3
"""Checks that the libraries in lib/api/ui/vendor have the hashes of SHA256SUMS."""
import hashlib
import os
import re
import sys

from lint import ROOT, files

FOLDER = "lib/api/ui/vendor/"
OURS = {"README.md", "SHA256SUMS"}


def compare(sums, hashes):
    """Compares the text of SHA256SUMS with {name: hash}."""
    due = {name: value for value, name in re.findall(r"^([0-9a-f]{64})  (\S+)$", sums, re.M)}
    for name in sorted(due.keys() | hashes.keys()):
        if due.get(name) != hashes.get(name):
            yield name, "differs from SHA256SUMS: run scripts/vendor update"


def main():
    example = hashlib.sha256(b"x").hexdigest()
    assert not list(compare(f"{example}  a\n", {"a": example}))
    assert list(compare(f"{example}  a\n", {"a": "0" * 64})) and list(compare(f"{example}  a\n", {})) and list(compare("", {"a": example}))
    hashes, sums = {}, ""
    for path in files(""):
        name = path.removeprefix(FOLDER)
        if path.startswith(FOLDER) and name not in OURS:
            with open(os.path.join(ROOT, path), "rb") as f:
                hashes[name] = hashlib.sha256(f.read()).hexdigest()
    if os.path.exists(os.path.join(ROOT, FOLDER, "SHA256SUMS")):
        with open(os.path.join(ROOT, FOLDER, "SHA256SUMS"), encoding="ascii") as f:
            sums = f.read()
    found = list(compare(sums, hashes))
    for name, what in found:
        print(f"{FOLDER}{name}:1: {what}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
