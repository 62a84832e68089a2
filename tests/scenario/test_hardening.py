#!/usr/bin/env python3
# scenario: build=release timeout=20
"""The release program has the protections of compiler and linker, and does not show where it was
built.
"""
import os
import re
import shutil
import subprocess

from harness import PHOTOPOOL, Skipped, check, scenario


def readelf(*options):
    return subprocess.run(["readelf", "-W", *options, PHOTOPOOL], stdout=subprocess.PIPE, check=True).stdout.decode()


def protections(_):
    if not shutil.which("readelf"):
        raise Skipped("no readelf here")
    header, dynamic, segments, symbols = readelf("-h"), readelf("-d"), readelf("-l"), readelf("--dyn-syms")
    check(re.search(r"Type:\s+DYN", header), f"position-independent: {header}")
    check(re.search(r"FLAGS_1.*NOW.*PIE", dynamic), f"symbols are bound at the start: {dynamic}")
    check(re.search(r"GNU_RELRO", segments), f"relocated data is read-only: {segments}")
    check(re.search(r"GNU_STACK.* RW ", segments), f"no code on the stack: {segments}")
    check("__stack_chk_fail" in symbols, "functions check their stack")
    check("__memcpy_chk" in symbols or "__snprintf_chk" in symbols, "libc checks sizes")
    if "X86-64" in header:  # The libc decides whether the processor checks the marks (endbr64).
        with open(PHOTOPOOL, "rb") as f:
            check(f.read().count(b"\xf3\x0f\x1e\xfa") > 1000, "functions are marked as targets of jumps")


def build_folder(_):
    source = os.environ.get("PP_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(PHOTOPOOL, "rb") as f:
        check((os.path.abspath(source) + "/").encode() not in f.read(), f"{source} is in the program")


if __name__ == "__main__":
    scenario(protections, build_folder)
