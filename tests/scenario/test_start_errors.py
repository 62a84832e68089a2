#!/usr/bin/env python3
# scenario: timeout=60 main
"""Messages and exit status of `photopool up` when it can't start: a port in use, a data directory
in use, a wrong configuration. The process that was there first must not be disturbed, and the
message must give the real reason.
"""
import contextlib
import json
import os
import socket
import sqlite3
import subprocess

from harness import PHOTOPOOL, SLOW, Pool, check, same, scenario


def refused(status, *args):
    """Runs `photopool up`, which must end by itself with this status. Returns its only message,
    without log lines.
    """
    run = subprocess.run([PHOTOPOOL, "up", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         check=False, timeout=30 * SLOW)
    text = run.stderr.decode()
    same(run.returncode, status, f"exit status of up {args}, which said {text!r}")
    same(run.stdout, b"", "standard output, which gets the address once it listens")
    said = [line for line in text.splitlines() if line.startswith("photopool: ")]
    same(len(said), 1, f"messages in {text!r}")
    return said[0]


def in_use(address):
    return (f"photopool: http.listen {address}: address already in use; stop the other process or choose another with "
            "--set http.listen=HOST:PORT")


def port_of_another_program(case):
    for family, host, shown in ((socket.AF_INET, "127.0.0.1", "127.0.0.1"), (socket.AF_INET6, "::1", "[::1]")):
        with socket.socket(family) as s:
            try:
                s.bind((host, 0))
            except OSError:
                print(f"no {host} here")
                continue
            s.listen()
            address = f"{shown}:{s.getsockname()[1]}"
            data = case.name("data")
            same(refused(1, "--data", data, "--set", f"http.listen={address}"), in_use(address), "what it said")
        # The failed start must leave nothing behind that stops the next start.
        pool = Pool(case, data=data)
        pool.start()
        pool.stop()


def port_of_a_running_photopool(case):
    pool = Pool(case)
    pool.start()
    address = f"127.0.0.1:{pool.port}"
    same(refused(1, "--data", case.name("data"), "--set", f"http.listen={address}"), in_use(address), "what it said")
    check(pool.ready(), "the first still runs")
    pool.stop()


def address_of_another_machine(case):
    """The address belongs to another machine and is not in use, so the message must not say "in use"."""
    key = json.dumps([{"name": "a", "sha256": "0" * 64, "scopes": ["read"]}])
    said = refused(1, "--data", case.name("data"), "--set", "http.listen=192.0.2.1:8080", "--set", f"auth.keys={key}")
    check(said.startswith("photopool: http.listen 192.0.2.1:8080: ") and "in use" not in said and "No such file" not in said, said)


def data_directory_in_use(case):
    pool = Pool(case)
    pool.start()
    for _ in range(2):  # a refused start must take nothing from the owner of the directory
        same(refused(1, "--data", pool.data, "--set", "http.listen=127.0.0.1:0"),
             f"photopool: data directory {pool.data} is in use by another photopool; stop it, or choose another with --data DIR",
             "what it said")
    check(pool.ready(), "the first still runs")
    pool.stop()
    pool.start()
    pool.stop()


def data_of_a_newer_version(case):
    data = case.name("data")
    os.makedirs(data)
    for name, what in (("photopool.db", "store"), ("ingest.db", "ingest queue")):
        path = os.path.join(data, name)
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA user_version = 9999")
        said = refused(1, "--data", data, "--set", "http.listen=127.0.0.1:0")
        same(said, f"photopool: {what} {path}: a newer photopool has written it; start that one, or restore a backup", "what it said")
        os.remove(path)


def bad_configuration(case):
    """The message must name file, line and key, and the data directory must not be created.
    test_drain.py has more cases.
    """
    name, data = case.name("bad.yaml"), case.name("data")
    with open(name, "w", encoding="utf-8") as f:
        f.write("# comment\nhttp:\n  listen: 127.0.0.1:0\nfetch:\n  tiers: fast\n")
    said = refused(2, "--data", data, "--config", name)
    check(said.startswith(f"photopool: {name}:5: fetch.tiers: ") and "allowed: " in said, said)
    with open(name, "w", encoding="utf-8") as f:
        f.write("http:\n  listn: 127.0.0.1:0\n")
    said = refused(2, "--data", data, "--config", name)
    check(said.startswith(f"photopool: {name}:2: http.listn: ") and "http.listen" in said, said)
    check(not os.path.exists(data), "no data directory is created")


def unknown_options(_):
    for args in (["up", "--bogus"], ["serve", "--roles", "api", "--bogus"], ["config", "--bogus"], ["config", "bogus"], ["status", "--bogus"], ["version", "--bogus"]):
        run = subprocess.run([PHOTOPOOL, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=30 * SLOW)
        said = run.stderr.decode()
        same((run.returncode, run.stdout), (2, b""), f"{args}, which said {said!r}")
        check(said.startswith("photopool: ") and "bogus" in said and said.endswith(f"see photopool {args[0]} --help\n"), said)


if __name__ == "__main__":
    scenario(port_of_another_program, port_of_a_running_photopool, address_of_another_machine, data_directory_in_use, data_of_a_newer_version,
             bad_configuration, unknown_options)
