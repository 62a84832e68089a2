"""Which file defines which function, and which files use it: what check_rooms.py and check_callers.py share.

A function is defined where clang-format leaves its name in the first line of a definition and { in the first column. Uses are
words in code: calls, and names in tables of functions.
"""
import re

from lint import code_only, files, read

_HEAD = re.compile(r"^(?!static\b|typedef\b|struct \w+ \{|enum\b.*\{|union\b.*\{|#|\}|\s)(?=[^;]*?\b(\w+)\()[^;{}]*?\)\s*\n\{", re.M)
_TAG = re.compile(r"\b(?:struct|union|enum)\s+\w+")
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")


def defined(text):
    """Returns {name: line} of the functions with external linkage that the code (comments blanked)
    defines."""
    found = {}
    for m in _HEAD.finditer(text):
        before = text[text.rfind("\n", 0, max(m.start() - 1, 0)) + 1:m.start()]
        # A macro, or a static function whose type has a line of its own.
        if not m.group(1).isupper() and not before.startswith("static"):
            found.setdefault(m.group(1), text.count("\n", 0, m.start()) + 1)
    return found


def production():
    """Returns [(path, code)] of all sources of the product."""
    return [(p, code_only(read(p))) for p in files(".c", ".h") if p.startswith(("lib/", "include/", "cmd/"))]


def words(text):
    """Returns the names that the code uses; tags of structs are no functions."""
    return set(_WORD.findall(_TAG.sub(" ", text)))


def uses(sources):
    """Returns ({function: (path, line)}, {path: {paths of the functions it uses}})."""
    where = {}
    for path, text in sources:
        if path.endswith(".c"):
            for name, line in defined(text).items():
                where[name] = (path, line)
    needs = {}
    for path, text in sources:
        if path.endswith(".c"):
            needs[path] = {where[w][0] for w in words(text) & where.keys()} - {path}
    return where, needs
