#!/usr/bin/env python3
"""Checks that the pages which scripts/apidoc makes are what it makes now: docs/api.md from
openapi.json; docs/commands.md, docs/errors.md and docs/metrics.md from the sources.
"""
import os
import subprocess
import sys

from lint import ROOT, main

NAMES = ("api", "commands", "errors", "metrics")
PAGES = {f"docs/{name}.md": subprocess.run([sys.executable, "-B", os.path.join(ROOT, "scripts", "apidoc"), name], check=True,
                                           stdout=subprocess.PIPE).stdout.decode() for name in NAMES}


def find(path, text):
    if text != PAGES[path]:
        name = os.path.basename(path)[:-len(".md")]
        yield 1, f"is stale: scripts/apidoc {name} > {path}"
    missing = [p for p in PAGES if not os.path.exists(os.path.join(ROOT, p))]
    if missing:
        yield 1, f"{', '.join(missing)}: missing, scripts/apidoc makes it"


EXAMPLES = [(path, page + "\n") for path, page in PAGES.items()]
INNOCENT = list(PAGES.items())

if __name__ == "__main__":
    sys.exit(main(find, EXAMPLES, endings=tuple(PAGES), innocent=INNOCENT))
