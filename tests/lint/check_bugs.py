#!/usr/bin/env python3
"""Checks that each patch of a planted bug (loadtest/chaos/bugs) applies to the tree. If a patch
does not apply, nobody would notice that its bug is no longer tested.
"""
import subprocess
import sys

from lint import ROOT, main


def find(path, text):
    run = subprocess.run(["git", "apply", "--check", "-"], cwd=ROOT, input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if run.returncode:
        yield 1, f"the patch does not apply; make a new one: {run.stdout.strip().splitlines()[0]}"


EXAMPLES = [
    ("a.patch", "--- a/README.md\n+++ b/README.md\n@@ -1,1 +1,1 @@\n-what no README says\n+photopool\n"),
    ("b.patch", "not a patch\n"),
]

if __name__ == "__main__":
    sys.exit(main(find, EXAMPLES, endings=(".patch",)))
