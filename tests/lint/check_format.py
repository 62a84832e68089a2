#!/usr/bin/env python3
"""Checks that every .c and .h has the format of clang-format 14. `make format` applies this format."""
import os
import shutil
import subprocess
import sys

from lint import ROOT, files


def main():
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if not tool:
        print("tests/lint: no clang-format-14: run scripts/setup test")
        return 2
    sources = files(".c", ".h")
    run = subprocess.run(
        ["xargs", "-0", "-n", "24", "-P", str(os.cpu_count() or 2), tool, "--dry-run", "--Werror", "-ferror-limit=1"],
        input="\0".join(sources).encode(), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    for line in run.stderr.decode(errors="replace").split("\n"):
        if "[-Wclang-format-violations]" in line:
            print(line.split(": error")[0] + ": not formatted: run `make format`")
    return 1 if run.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
