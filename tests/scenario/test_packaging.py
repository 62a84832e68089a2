#!/usr/bin/env python3
# scenario: build=release timeout=60
"""What `make install` and `make deb` add to the program: the manual pages must have every command
and every parameter; the configuration that is installed must be valid; the command lines of the
units must start a server.
"""
import json
import os
import re
import shlex
import subprocess

from harness import PHOTOPOOL, SLOW, Pool, check, same, scenario

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def run(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=60 * SLOW)
    same(done.returncode, 0, f"exit status of {words}, which said {done.stderr!r}")
    return done.stdout.decode()


def read(*names):
    with open(os.path.join(*names), encoding="utf-8") as f:
        return f.read()


def manual_pages(case):
    folder = case.path("pages")
    run(os.path.join(ROOT, "scripts/manpages"), PHOTOPOOL, folder)
    page = read(folder, "photopool.1")
    names = re.findall(r"^  ([a-z]+) ", run(PHOTOPOOL, "--help"), re.M)
    check(len(names) > 30, f"the commands: {names}")
    same([n for n in names if f"\n.SS photopool {n}\n" not in page and n != "photopool"], [], "commands that photopool(1) lacks")
    page = read(folder, "photopool.yaml.5").replace("\\-", "-")
    names = [json.loads(line)["name"] for line in run(PHOTOPOOL, "config", "--json").splitlines()]
    check(len(names) > 60, f"the parameters: {names}")
    same([n for n in names if f"\n\\fB{n}\\fR: " not in page], [], "parameters that photopool.yaml(5) lacks")


def configuration(case):
    run(PHOTOPOOL, "config", "--check", "--config", os.path.join(ROOT, "packaging/photopool.yaml"), "--data", case.path("unused"))


def units(case):
    """Starts the command line of photopool.service, but for its paths. That of the roles must fail
    only because the configuration names no servers of a fleet.
    """
    found = {name: re.search(r"^ExecStart=@PP_BIN@/photopool (.+)$", read(ROOT, "packaging/systemd", name + ".in"), re.M)[1]
             for name in ("photopool.service", "photopool@.service")}
    pool = Pool(case)
    pool.write_config()

    def words(name):
        line = found[name].replace("%I", "api,ingest").replace("/var/lib/photopool", pool.data)
        return shlex.split(line.replace("@PP_ETC@/photopool.yaml", pool.config_file))

    pool.spawn(words("photopool.service"), stdout=subprocess.PIPE)
    pool.wait_port()
    pool.stop()
    done = subprocess.run([PHOTOPOOL, *words("photopool@.service")], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, timeout=60 * SLOW)
    check(done.returncode == 2 and b"a fleet needs mongodb://" in done.stderr, f"the roles: {done}")


if __name__ == "__main__":
    scenario(manual_pages, configuration, units)
