#!/usr/bin/env python3
# scenario: build=release timeout=60 main
"""`photopool doctor` beside a running server, with and without webhooks, and with a Redis that is
not there; `photopool bench` measures, and leaves nothing behind, also after Ctrl-C.
"""
import base64
import json
import os
import signal
import socket
import subprocess

from harness import PHOTOPOOL, SLOW, Pool, check, same, scenario, wait_until


def doctor(status, *args):
    """Runs `photopool doctor`, which must end with this status. Returns its findings as a dict:
    check -> list of findings.
    """
    run = subprocess.run([PHOTOPOOL, "doctor", "--config", "", "--set", "fetch.dns_timeout=100ms", *args], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=30 * SLOW)
    same((run.returncode, run.stderr), (status, b""), f"doctor {args}, which said {run.stdout.decode()}")
    found = {}
    for line in run.stdout.decode().splitlines():
        row = json.loads(line)
        found.setdefault(row["check"], []).append(row)
    return found


def closed_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def new_folder(case):
    data = case.name("data")
    found = doctor(0, "--data", data, "--set", "http.listen=127.0.0.1:0", "--set", "blobs.min_free=0")
    for name in ("configuration", "data directory", "store", "photos"):
        same([row["state"] for row in found[name]], ["ok"], name)
    check(not os.path.exists(data), "doctor made no folder")


def closed_redis(case):
    port = closed_port()
    found = doctor(1, "--data", case.name("data"), "--set", f"coordinator.url=redis://127.0.0.1:{port}")
    row = found["coordinator"][0]
    same(row["state"], "fail", "coordinator")
    check(f"127.0.0.1:{port}" in row["found"] and "coordinator.url" in row["remedy"], str(row))


def beside_a_server(case):
    """The server's data is in use, which is no failure; the server runs on. After its end doctor reads
    the endpoints of webhooks.
    """
    pool = Pool(case)
    pool.start()
    answer = pool.put("/v1/webhooks/lost", {"url": "https://nowhere.invalid/hook", "secret": "whsec_" + base64.b64encode(bytes(32)).decode()})
    check(answer.status in (200, 201), f"webhook: {answer}")
    args = ("--data", pool.data, "--set", f"http.listen=127.0.0.1:{pool.port}", "--set", "blobs.min_free=0")
    found = doctor(0, *args)
    same([found[name][0]["state"] for name in ("lock", "store", "http.listen", "webhooks")], ["ok", "ok", "ok", "skipped"], str(found))
    check("runs" in found["lock"][0]["found"] and "schema" in found["store"][0]["found"], str(found))
    check(pool.ready(), "the server runs on")
    pool.stop()
    found = doctor(0, *args)
    check("lock" not in found, "nothing has the data any more")
    row = found["webhook"][0]
    check(row["state"] == "warn" and row["found"].startswith("lost: nowhere.invalid ") and row["remedy"], str(row))
    pool.start()
    pool.stop()


def bench(case):
    folder = case.name("bench")
    os.mkdir(folder)
    run = subprocess.run([PHOTOPOOL, "bench", "--seconds", "1", "--dir", folder, "--json"], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=60 * SLOW,
                         env={**os.environ, "PHOTOPOOL_CLIENTS_RPM": "1", "PHOTOPOOL_KEY": "of another server"})
    same((run.returncode, run.stderr), (0, b""), f"bench, which said {run.stdout.decode()}")
    figures = json.loads(run.stdout)
    print(figures)
    for name in ("photos", "photos_per_second", "megabytes_per_second", "cpu_seconds_per_1000_photos", "fsyncs_per_second", "seconds"):
        check(figures[name] > 0, f"{name} of {figures}")
    check(0 <= figures["p50_ms"] <= figures["p99_ms"] and figures["failed"] == 0 and figures["limit"], str(figures))
    same(os.listdir(folder), [], "what bench leaves behind")


def interrupted_bench(case):
    folder = case.name("bench")
    os.mkdir(folder)
    with subprocess.Popen([PHOTOPOOL, "bench", "--seconds", "600", "--dir", folder], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        wait_until(lambda: [d for d in os.listdir(folder) if os.path.exists(os.path.join(folder, d, "data", "photos", "sha256"))],
                   20, "bench stores photos")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=30 * SLOW)
        same((run.returncode, out), (1, b""), f"bench, which said {err!r}")
        check(b"interrupted" in err, str(err))
    same(os.listdir(folder), [], "what bench leaves behind")


if __name__ == "__main__":
    scenario(new_folder, closed_redis, beside_a_server, bench, interrupted_bench)
