#!/usr/bin/env python3
"""Checks for banned functions, typedef'd structs, and notes to oneself. Names a replacement for
each banned function.
"""
import re
import sys

from lint import code_only, main

ALL = re.compile(r"")
SHIPPED = re.compile(r"(lib|include|cmd|loadtest)/")
LIB = re.compile(r"(lib|include|cmd)/")
PURE = re.compile(r"lib/core/")
TESTS = re.compile(r"tests/")
# (files in which the functions are banned, functions, replacement or reason)
BANNED = [
    (SHIPPED, "strcpy strcat stpcpy strncpy strncat", "use snprintf, memcpy with a known length, or base/buf.h"),
    (SHIPPED, "sprintf vsprintf", "use snprintf, or base/buf.h"),
    (ALL, "gets", "use fgets"),
    (SHIPPED, "atoi atol atoll atof", "they can't report that the text is no number: use base/text.h, or strtol and check the end"),
    (LIB, "scanf fscanf", "use fgets and parse the line"),
    (LIB, "sscanf vsscanf", "overflows silently: use base/text.h, or strtol and check the end"),
    (ALL, "rand srand drand48 rand_r", "use struct pp_rng of base/text.h with a seed, or getrandom"),
    (ALL, "strtok", "use strtok_r or strchr: strtok has one state for all threads"),
    (ALL, "tmpnam tempnam mktemp", "use mkstemp or mkdtemp"),
    (SHIPPED, "system popen", "no shell: fork and exec, or posix_spawn"),
    (ALL, "alloca", "the stack has no ceiling to check: use a buffer with one"),
    (ALL, "asctime ctime gmtime localtime", "one buffer for all threads: use gmtime_r, or base/text.h"),
    (ALL, "inet_addr inet_aton inet_ntoa gethostbyname gethostbyaddr", "use core/address.h, inet_pton, inet_ntop"),
    (LIB, "getaddrinfo getnameinfo", "blocks the thread: go through the resolver port"),
    (LIB, "setenv putenv unsetenv", "races with getenv in other threads"),
    (LIB, "bzero bcopy index rindex", "use memset, memmove, strchr, strrchr"),
    (LIB, "siglongjmp longjmp setjmp", "return an error"),
    (re.compile(r"lib/(core|format|pipeline|events|api|config)/"), "clock_gettime gettimeofday time uv_hrtime",
     "time is passed in: one owner, runtime/loop.h, reads the clock"),
    (re.compile(r"lib/(core|base|format|pipeline|events|api)/"), "getenv secure_getenv", "only config reads the environment"),
    (re.compile(r"lib/"), "printf puts putchar vprintf perror", "libraries report through base/log.h or a returned error"),
    (re.compile(r"lib/"), "exit _exit quick_exit", "only cmd/ ends the process: return an error"),
    (PURE, "fopen fread fwrite open read write", "core decides and does no I/O: pass it what it needs"),
    (LIB, "sleep usleep nanosleep clock_nanosleep", "never wait by sleeping: use a timer"),
    (TESTS, "sleep usleep nanosleep clock_nanosleep thrd_sleep", "wait for the condition (tests/support/test_loop.h), or pass `now`"),
]
CALLS = [(where, re.compile(r"(?<![\w.>])(" + "|".join(names.split()) + r")\s*\("), what) for where, names, what in BANNED]
TYPEDEF = re.compile(r"^\s*typedef\s+(?:struct|union|enum)\b[^;(]*(?:\{|;|$)")
NOTE = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def find(path, text):
    code = code_only(text)
    for number, (line, raw) in enumerate(zip(code.split("\n"), text.split("\n")), 1):
        for where, pattern, what in CALLS:
            if not where.match(path):
                continue
            for m in pattern.finditer(line):
                yield number, f"{m.group(1)}(): {what}"
        if TYPEDEF.match(line):
            yield number, "no typedef'd structs: write `struct pp_x`, so that readers see what it is"
        m = NOTE.search(raw)
        if m:
            yield number, f"{m.group(1)}: do it, or open an issue; the code keeps no notes"


EXAMPLES = [
    ("lib/core/a.c", "    strcpy(a, b);"),
    ("tests/unit/test_a.c", "    usleep(5);"),
    ("loadtest/origin/a.c", "    int n = atoi(s);"),
    ("lib/core/a.c", "    t = time(NULL);"),
    ("lib/pipeline/a.c", '    printf("x");'),
    ("lib/adapter/curl/a.c", "    exit(1);"),
    ("lib/core/a.h", "typedef struct foo foo_t;"),
    ("lib/core/a.h", "typedef struct {"),
    ("lib/core/a.c", "/* TO" + "DO: later */"),
]
INNOCENT = [
    ("lib/core/a.c", '    snprintf(a, n, "strcpy(%s)", b); /* not sprintf() */'),
    ("lib/core/a.h", "typedef struct pp_x *(*pp_make_fn)(void *data);"),
    ("lib/core/a.c", "    pp_url_index(x); p->time(p); fputs(s, f);"),
    ("lib/core/a.c", '    char path[] = "/tmp/XXXXXX";'),
]

if __name__ == "__main__":
    sys.exit(main(find, EXAMPLES, innocent=INNOCENT))
