#!/usr/bin/env python3
# scenario: timeout=60
"""What `photopool up` says and exits with when it can't start: a port in use, a data directory in use, a bad configuration. Whoever was
there first is not disturbed, and the reason is no other than the real one."""
import json
import os
import socket
import subprocess

from harness import PHOTOPOOL, SLOW, Pool, check, same, scenario


def refused(status, *args):
    """Runs `photopool up`, which has to end by itself; what it said, without log lines."""
    run = subprocess.run([PHOTOPOOL, "up", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         check=False, timeout=30 * SLOW)
    text = run.stderr.decode()
    same(run.returncode, status, f"exit status of up {args}, which said {text!r}")
    same(run.stdout, b"", "standard output, where the address is said once it listens")
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
        # The failed start leaves nothing behind that is in the way of the next.
        pool = Pool(case, data=data)
        pool.start()
        pool.stop()


def port_of_a_running_photopool(case):
    pool = Pool(case)
    pool.start()
    address = f"127.0.0.1:{pool.port}"
    same(refused(1, "--data", case.name("data"), "--set", f"http.listen={address}"), in_use(address), "what it said")
    check(pool.ready(), "the first goes on")
    pool.stop()


def address_of_another_machine(case):
    """Not in use: the advice for that would lead astray."""
    key = json.dumps([{"name": "a", "sha256": "0" * 64, "scopes": ["read"]}])
    said = refused(1, "--data", case.name("data"), "--set", "http.listen=192.0.2.1:8080", "--set", f"auth.keys={key}")
    check(said.startswith("photopool: http.listen 192.0.2.1:8080: ") and "in use" not in said and "No such file" not in said, said)


def data_directory_in_use(case):
    pool = Pool(case)
    pool.start()
    for _ in range(2):  # refusing takes nothing from the one that has it
        same(refused(1, "--data", pool.data, "--set", "http.listen=127.0.0.1:0"),
             f"photopool: data directory {pool.data} is in use by another photopool; stop it, or choose another with --data DIR",
             "what it said")
    check(pool.ready(), "the first goes on")
    pool.stop()
    pool.start()
    pool.stop()


def bad_configuration(case):
    """File, line and key, and nothing is made of the data directory. More of them: test_drain.py."""
    name, data = case.name("bad.yaml"), case.name("data")
    with open(name, "w", encoding="utf-8") as f:
        f.write("# comment\nhttp:\n  listen: 127.0.0.1:0\nfetch:\n  tiers: fast\n")
    said = refused(2, "--data", data, "--config", name)
    check(said.startswith(f"photopool: {name}:5: fetch.tiers: ") and "allowed: " in said, said)
    with open(name, "w", encoding="utf-8") as f:
        f.write("http:\n  listn: 127.0.0.1:0\n")
    said = refused(2, "--data", data, "--config", name)
    check(said.startswith(f"photopool: {name}:2: http.listn: ") and "http.listen" in said, said)
    check(not os.path.exists(data), "no data directory is made")


def unknown_options(_):
    for args in (["up", "--bogus"], ["serve", "--roles", "api", "--bogus"], ["config", "--bogus"], ["config", "bogus"], ["status", "--bogus"], ["version", "--bogus"]):
        run = subprocess.run([PHOTOPOOL, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=30 * SLOW)
        said = run.stderr.decode()
        same((run.returncode, run.stdout), (2, b""), f"{args}, which said {said!r}")
        check(said.startswith("photopool: ") and "bogus" in said and said.endswith(f"see photopool {args[0]} --help\n"), said)


if __name__ == "__main__":
    scenario(port_of_another_program, port_of_a_running_photopool, address_of_another_machine, data_directory_in_use, bad_configuration,
             unknown_options)
