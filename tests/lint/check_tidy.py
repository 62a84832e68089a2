#!/usr/bin/env python3
"""Runs clang-tidy with the checks of .clang-tidy on every .c file. The warnings of clang are errors
there, too.

A full run takes minutes, so the check remembers which files are clean, by a hash of the file, its
headers, its flags and .clang-tidy, in $XDG_CACHE_HOME/photopool-tidy (default ~/.cache).
Arguments: check only these files.
"""
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from lint import ROOT, files, read

BUILD = os.path.join(ROOT, "build-lint")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "photopool-tidy")
FINDING = re.compile(r"^(/[^:\n]+):(\d+):(\d+): (?:warning|error): (.*)$", re.M)


def tool(name):
    return shutil.which(name + "-14") or shutil.which(name)


def commands():
    """Returns {path: compiler arguments without compiler, output and input}, taken from a clang
    build of all targets.
    """
    subprocess.run(["cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", "-DCMAKE_C_COMPILER=" + tool("clang"), "-DPP_FUZZ=ON",
                    "-DPP_TESTS=ON", "-DCMAKE_BUILD_TYPE=Debug"], check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as f:
        entries = json.load(f)
    found = {}
    for e in entries:
        words = shlex.split(e["command"])
        start = next(i for i, w in enumerate(words) if os.path.basename(w).startswith("clang")) + 1
        words = words[start:words.index("-o")]
        path = os.path.realpath(e["file"])
        if path.startswith(ROOT + "/") and not path.startswith(BUILD):
            found.setdefault(os.path.relpath(path, ROOT), words)
    return found


def key_of(path, flags, salt):
    """Returns a hash of everything that the findings for a file depend on, or None if the
    preprocessor fails.
    """
    run = subprocess.run([tool("clang"), *flags, "-MM", "-MT", "x", path], cwd=ROOT, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, check=False)
    if run.returncode:
        return None
    h = hashlib.sha256(salt)
    h.update(" ".join(flags).replace(ROOT, "").encode())
    for name in run.stdout.decode().replace("\\\n", " ").split()[1:]:
        with open(os.path.join(ROOT, name), "rb") as f:
            h.update(name.replace(ROOT, "").encode() + b"\0" + f.read() + b"\0")
    return h.hexdigest()


def check(path, flags, salt):
    """Runs clang-tidy on one file. Returns its findings as (path, line, text)."""
    key = key_of(path, flags, salt)
    mark = os.path.join(CACHE, key) if key else None
    if mark and os.path.exists(mark):
        os.utime(mark)
        return []
    run = subprocess.run([tool("clang-tidy"), "--quiet", path, "--", *flags], cwd=ROOT, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, check=False)
    out = run.stdout.decode(errors="replace")
    found = [(os.path.relpath(m.group(1), ROOT), int(m.group(2)), m.group(4)) for m in FINDING.finditer(out)]
    if run.returncode and not found:
        found = [(path, 1, "clang-tidy failed: " + (run.stderr.decode(errors="replace") or out)[-300:].strip())]
    if not found and mark:
        with open(mark, "w", encoding="utf-8"):
            pass
    return found


def main():
    if not tool("clang-tidy"):
        print("tests/lint: no clang-tidy-14: run scripts/setup test")
        return 2
    os.makedirs(CACHE, exist_ok=True)
    salt = "".join(read(p) for p in files(".clang-tidy")).encode()
    salt += subprocess.run([tool("clang-tidy"), "--version"], stdout=subprocess.PIPE, check=True).stdout
    known = commands()
    wanted = sys.argv[1:] or [p for p in files(".c") if p in known]
    jobs = int(os.environ.get("J") or os.cpu_count() or 2)
    with ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(lambda p: check(p, known[p], salt), wanted))
    found = sorted({f for r in results for f in r})
    for path, line, text in found:
        print(f"{path}:{line}: {text.replace(',-warnings-as-errors', '')}")
    unknown = [p for p in files(".c") if p not in known]
    for path in unknown if len(sys.argv) == 1 else []:
        print(f"{path}:1: no target builds this file: give it one, or remove it")
    return 1 if found or (unknown and len(sys.argv) == 1) else 0


if __name__ == "__main__":
    sys.exit(main())
