"""Finds which file defines which function, and which files use the function, for check_rooms.py and
check_callers.py.

A definition begins, as clang-format writes it, with the function's name in its first line and { in
the first column. A use is any word in the code: a call, or a name in a table of functions.
"""
import re

from lint import code_only, files, read

_HEAD = re.compile(r"^(?!static\b|typedef\b|struct \w+ \{|enum\b.*\{|union\b.*\{|#|\}|\s)(?=[^;]*?\b(\w+)\()[^;{}]*?\)\s*\n\{", re.M)
_TAG = re.compile(r"\b(?:struct|union|enum)\s+\w+")
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")


def defined(text):
    """Returns {name: line} of the functions with external linkage that a source file defines. The
    text has no comments.
    """
    found = {}
    for m in _HEAD.finditer(text):
        before = text[text.rfind("\n", 0, max(m.start() - 1, 0)) + 1:m.start()]
        # skips a macro, and a static function whose type has its own line
        if not m.group(1).isupper() and not before.startswith("static"):
            found.setdefault(m.group(1), text.count("\n", 0, m.start()) + 1)
    return found


SIMULATED = "lib/runtime/sim/"  # defines functions of base and runtime a second time, for the simulator


def production():
    """Returns [(path, text without comments)] of all sources of the product."""
    return [(p, code_only(read(p))) for p in files(".c", ".h") if p.startswith(("lib/", "include/", "cmd/")) and not p.startswith(SIMULATED)]


def words(text):
    """Returns the names that the code uses, without the tags of structs, which are not functions."""
    return set(_WORD.findall(_TAG.sub(" ", text)))


def uses(sources):
    """Returns two dicts: {function: (path, line)} of all definitions, and {path: {paths of the
    functions it uses}}.
    """
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
