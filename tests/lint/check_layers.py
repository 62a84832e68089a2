#!/usr/bin/env python3
"""Checks which folder includes from which, by the #include lines. lib/README.md has the rules in
words.

To add an adapter, add a line with its libraries to scripts/packages.
"""
import os
import re
import sys

from lint import main, read

SSL = {"openssl/"}
# For each folder: which of our headers and which library headers it may include, in addition to
# libc (POSIX) and its own folder.
LAYERS = {
    "include/photopool": ({"photopool", "base"}, set()),
    "lib/base": ({"photopool", "base"}, {"uthash.h", "xxhash.h"}),
    "lib/core": ({"photopool", "base", "core"}, {"idn2.h"}),
    "lib/runtime/sim": ({"photopool", "base", "runtime"}, {"xxhash.h"}),
    "lib/runtime": ({"photopool", "base", "runtime"}, {"uv.h", "pthread.h"}),
    "lib/config": ({"photopool", "base", "config"}, {"yaml.h"}),
    "lib/format": ({"photopool", "base", "core", "format"}, SSL | {"jansson.h"}),
    "lib/pipeline": ({"photopool", "base", "core", "format", "runtime", "events", "counters", "api", "pipeline"},
                     SSL | {"jansson.h", "zlib.h", "pthread.h"}),
    "lib/events": ({"photopool", "base", "core", "format", "runtime", "events", "pipeline"}, SSL),
    "lib/counters": ({"photopool", "base", "core", "runtime", "counters", "pipeline"}, set()),
    "lib/api": ({"photopool", "base", "core", "format", "runtime", "events", "counters", "api", "pipeline"},
                SSL | {"jansson.h", "zlib.h"}),
    "cmd/photopool": ({"photopool", "base", "core", "format", "runtime", "config", "events", "api", "pipeline"},
                      {"curl/curl.h", "jansson.h", "csv.h", "expat.h", "zlib.h"}),
    "loadtest/origin": ({"photopool", "base"}, SSL | {"uv.h", "zlib.h", "pthread.h"}),
    "loadtest/bench": (None, None),
    "loadtest/sim": (None, None),
    "examples": (set(), {"curl/curl.h", "jansson.h"}),
    "tests/support": (None, None),
    "tests/unit": (None, None),
    "tests/contract": (None, None),
    "tests/sim": (None, None),
    "tests/fuzz": ({"photopool", "base", "core", "format", "config", "pipeline", "adapter"}, {"jansson.h"}),
}
# For each folder under lib/adapter/: the library headers that its line in scripts/packages names.
ADAPTERS = {m.group(1): set(m.group(2).split()) for m in
            re.finditer(r"(?m)^adapter (\w+) *:[^:\n]*:(.*)$", read("scripts/packages"))}
# Only these files of cmd/ may include adapters: they connect ports with adapters.
WIRE = re.compile(r"cmd/photopool/wire[^/]*\.c$")
# Only this file may include uthash: it makes hash tables hash under a secret key.
KEYED = "lib/base/hash.h"
# Folders that only decide: no clock, no disk, no network.
PURE = ("lib/core/",)
IMPURE = {"sys/socket.h", "sys/stat.h", "fcntl.h", "unistd.h", "pthread.h", "signal.h", "poll.h", "netdb.h", "dirent.h",
          "sys/time.h", "semaphore.h", "sys/epoll.h", "sys/mman.h"}
LIBRARIES = re.compile(r"(uv|uv/.*|uthash|utlist|utarray|jansson|openssl/.*|zlib|xxhash|sqlite3|expat|curl/.*|ares|ares_.*|yaml|"
                       r"csv|idn2|libwebsockets|hiredis/.*|mongoc/.*|bson/.*|amqp|amqp_.*|librdkafka/.*|cmocka|pthread)\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def layer_of(path):
    """Returns (our headers, library headers, own prefix) that a file may include, or None if it has
    no rule.
    """
    folder = os.path.dirname(path)
    m = re.match(r"lib/adapter/([^/]+)", folder)
    if m:
        if m.group(1) not in ADAPTERS:
            return "unknown"
        return {"photopool", "base", "runtime"}, ADAPTERS[m.group(1)], "adapter/" + m.group(1)
    for prefix, (ours, libraries) in LAYERS.items():
        if folder == prefix or folder.startswith(prefix + "/"):
            return None if ours is None else (ours, libraries, prefix.split("/", 1)[-1])
    return "unknown"


def library_allowed(header, allowed):
    return any(header == a or (a.endswith("/") and header.startswith(a)) for a in allowed)


def find_ours(path, name, rule):
    ours, _, own = rule
    if name.startswith("../") or "/../" in name:
        return "no ../ in an include: name it from lib/, include/ or the own folder"
    if "/" not in name or name.startswith(own + "/"):
        return None  # a header of the same folder
    top = name.split("/")[0]
    if top == "adapter" and "adapter" not in ours:
        if WIRE.match(path):
            return None
        return "only cmd/photopool/wire*.c may include an adapter: go through a port in include/photopool/port/"
    if top not in ours:
        return f"{own} may include only {', '.join(sorted(ours))}: see 'Who may include whom' in lib/README.md"
    return None


def find(path, text):
    rule = layer_of(path)
    if path != KEYED and "#include <uthash.h>" in text:
        yield text[:text.index("#include <uthash.h>")].count("\n") + 1, f"include {KEYED} instead: callers choose keys"
    if rule == "unknown":
        yield 1, "this folder has no rule about its includes: add it to tests/lint/check_layers.py"
        return
    if rule is None:
        return
    for number, line in enumerate(text.split("\n"), 1):
        m = INCLUDE.match(line)
        if not m:
            continue
        name = m.group(2)
        if m.group(1) == '"':
            what = find_ours(path, name, rule)
            if what:
                yield number, what
        elif LIBRARIES.match(name) and not library_allowed(name, rule[1]):
            yield number, f"<{name}> does not belong into {rule[2]}: that library has its own layer"
        elif path.startswith(PURE) and name in IMPURE:
            yield number, f"<{name}> in a pure layer: no I/O, no clock, no threads here; take the value as an argument"


EXAMPLES = [
    ("lib/core/a.c", '#include "runtime/loop.h"'),
    ("lib/core/a.c", "#include <jansson.h>"),
    ("lib/core/a.c", "#include <unistd.h>"),
    ("lib/core/a.c", '#include "../base/buf.h"'),
    ("lib/base/a.c", "#include <uthash.h>"),
    ("tests/unit/a.c", "#include <uthash.h>"),
    ("lib/core/a.c", "#include <xxhash.h>"),
    ("lib/base/a.c", '#include "core/url.h"'),
    ("lib/runtime/a.c", '#include "core/url.h"'),
    ("lib/runtime/a.c", "#include <sqlite3.h>"),
    ("lib/pipeline/a.c", '#include "adapter/curl/fetcher.h"'),
    ("lib/pipeline/a.c", "#include <uv.h>"),
    ("lib/pipeline/a.c", '#include "config/load.h"'),
    ("lib/adapter/curl/a.c", '#include "core/url.h"'),
    ("lib/adapter/curl/a.c", '#include "pipeline/pipeline.h"'),
    ("lib/adapter/curl/a.c", '#include "adapter/cares/resolver.h"'),
    ("lib/adapter/curl/a.c", "#include <sqlite3.h>"),
    ("lib/adapter/new/a.c", ""),
    ("lib/config/a.c", "#include <jansson.h>"),
    ("cmd/photopool/cmd_up.c", '#include "adapter/curl/fetcher.h"'),
    ("include/photopool/a.h", '#include "core/url.h"'),
]
INNOCENT = [
    ("lib/core/a.c", '#include "base/hash.h"\n#include "core/url.h"\n#include "base/buf.h"\n#include "photopool/err.h"'),
    ("lib/adapter/sqlite/a.c", '#include <sqlite3.h>\n#include "db.h"\n#include "adapter/sqlite/db.h"\n#include "runtime/lane.h"'),
    ("cmd/photopool/wire.c", '#include "adapter/curl/fetcher.h"'),
    ("cmd/photopool/wire_params.c", '#include "adapter/curl/fetcher.h"'),
]

if __name__ == "__main__":
    sys.exit(main(find, EXAMPLES, innocent=INNOCENT))
