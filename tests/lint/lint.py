"""What the checks of this folder share: the list of files, and how to report findings.

A check is check_X.py with a function find(path, text) that yields (line, what is wrong and what to
do), and EXAMPLES: pairs of (path, text) in which find() must find something. main() runs find() on
the examples first, so that a broken check fails, then on the repository. To add a check, add such
a file; tests/lint/run finds it. No check has a list of exceptions by file name: correct the rule
instead.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def files(*endings):
    """Returns the files of the repository, as paths from its root: files that git tracks, and new
    files that git does not ignore.
    """
    try:
        listed = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):  # the sources are an unpacked archive, no git clone
        listed = []
        for folder, subfolders, names in os.walk(ROOT):
            subfolders[:] = [s for s in subfolders if not s.startswith((".", "build"))]
            listed += [os.path.relpath(os.path.join(folder, n), ROOT) for n in names]
    return sorted(p for p in set(listed) if p.endswith(endings) and os.path.isfile(os.path.join(ROOT, p)))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as f:
        return f.read()


_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def code_only(text):
    """Returns the text with blanks instead of comments and of the contents of strings. Line numbers
    stay the same.
    """
    def blank(match):
        s = match.group(0)
        if s[0] == "/":
            return re.sub(r"[^\n]", " ", s)
        return s[0] + " " * (len(s) - 2) + s[-1]
    # The pattern would take the header names of #include lines for strings, so these lines stay
    # unchanged.
    lines = text.split("\n")
    out = _TOKEN.sub(blank, text).split("\n")
    return "\n".join(a if a.lstrip().startswith("#include") else b for a, b in zip(lines, out))


def main(find, examples, endings=(".c", ".h"), innocent=()):
    """Runs one check on its examples and on the repository. Returns the exit status: 0 if the check
    found nothing.
    """
    for path, text in examples:
        if not list(find(path, text)):
            print(f"tests/lint: {os.path.basename(sys.argv[0])} sees nothing wrong with its own example:\n{text}")
            return 2
    for path, text in innocent:
        for line, what in find(path, text):
            print(f"tests/lint: {os.path.basename(sys.argv[0])} objects to a correct example: {path}:{line}: {what}")
            return 2
    count = 0
    for path in files(*endings):
        for line, what in find(path, read(path)):
            print(f"{path}:{line}: {what}")
            count += 1
    return 1 if count else 0
