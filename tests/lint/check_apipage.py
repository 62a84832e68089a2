#!/usr/bin/env python3
"""Checks that docs/api.md is what scripts/apidoc makes from openapi.json."""
import os
import subprocess
import sys

from lint import ROOT, main

PAGE = subprocess.run([sys.executable, "-B", os.path.join(ROOT, "scripts", "apidoc")], check=True, stdout=subprocess.PIPE).stdout.decode()


def find(path, text):
    if path == "docs/api.md" and text != PAGE:
        yield 1, "is stale: scripts/apidoc > docs/api.md"


EXAMPLES = [("docs/api.md", PAGE + "\n")]
INNOCENT = [("docs/api.md", PAGE)]

if __name__ == "__main__":
    sys.exit(main(find, EXAMPLES, endings=("docs/api.md",), innocent=INNOCENT))
