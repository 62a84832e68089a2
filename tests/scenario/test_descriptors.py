#!/usr/bin/env python3
# scenario: build=release timeout=300
"""Few descriptors: with 64 photopool refuses to start and says how many it needs. With 256, 1,024
and 20,000 (soft limit = hard limit) it fetches photos of 1,600 hosts, also with two fetch loops,
while callers hold as many idle connections and event streams as they get. Every photo is stored,
after one request, and the API answers throughout.

PP_PHOTOS sets the number of photos of each import (1,600; by hand 20,000).
"""
import http.client
import os
import resource
import socket
import subprocess
import threading
import time

from harness import PHOTOPOOL, SLOW, Origin, Pool, check, same, scenario, wait_until

PHOTOS = int(os.environ.get("PP_PHOTOS") or 1600)
HOSTS = 1600
CROWD = 700  # connections, and streams, of the idle callers


def with_limit(n):
    return ("/bin/sh", "-c", f'ulimit -n {n} && exec "$@"', "sh")


def too_few(case):
    for n in (12, 64):
        run = subprocess.run([*with_limit(n), PHOTOPOOL, "up", "--data", case.name("data"), "--set", "http.listen=127.0.0.1:0"],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=30 * SLOW)
        same(run.returncode, 1, f"exit status with {n} descriptors: {run.stderr!r}")
        same(run.stdout, "", "standard output")
        check(run.stderr.startswith(f"photopool: {n} descriptors; photopool needs at least ") and
              run.stderr.endswith(": raise the limit with ulimit -n or LimitNOFILE=\n"), run.stderr)


class Crowd:
    """Idle callers from several addresses, with as many connections and streams as they get."""

    def __init__(self, port):
        self.port, self.sockets = port, []
        for i in range(2 * CROWD):
            self.add(i)

    def add(self, i):
        stream = b"GET /v1/events?key=results HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        s = socket.socket()
        try:
            s.bind((f"127.0.3.{2 + i % 4}", 0))
            s.settimeout(2)
            s.connect(("127.0.0.1", self.port))
            s.sendall(stream if i % 2 else b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.sockets.append(s)
        except OSError:
            s.close()

    def stop(self):
        for s in self.sockets:
            s.close()


class Asker(threading.Thread):
    """An honest caller, from an address of its own, who asks one question after another."""

    def __init__(self, pool):
        super().__init__(daemon=True)
        self.port, self.answers, self.failures, self.going = pool.port, 0, [], True
        self.start()

    def run(self):
        while self.going:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10 * SLOW, source_address=("127.0.9.9", 0))
            try:
                c.request("GET", "/healthz")
                same(c.getresponse().status, 200, "/healthz")
                self.answers += 1
            except Exception as e:  # pylint: disable=broad-except
                self.failures.append(repr(e))
            c.close()
            time.sleep(0.1)

    def stop(self):
        self.going = False
        self.join()


def fresh(pool):
    """Makes the pool's next request open a connection: the server may have closed the kept one for
    the crowd.
    """
    pool.local.kept = {}
    return pool


def answers(pool):
    try:
        return fresh(pool).get("/v1/batches").status == 200
    except OSError:
        return False


def fetch_all(case, origin, limit, threads):
    pool = Pool(case, config={"fetch.allow_networks": ["127.0.0.0/8"], "fetch.allow_ports": [origin.port], "clients.rpm": None,
                              "clients.concurrency": 1000, "worker.threads": threads, "fetch.tiers": [
                                  {"timeout": "20s"}, {"timeout": "40s"}, {"timeout": "60s"}]},
                prefix=with_limit(limit))
    pool.start()
    files = pool.metric('photopool_resource_limit{resource="files"}')
    open_files = pool.metric("process_open_fds")
    check(open_files < files, f"{open_files} descriptors are open at rest, {files} are reserved for files")
    same(pool.metric("process_max_fds"), limit, "limit")
    before = origin.stats()["requests"]
    crowd = Crowd(pool.port)
    wait_until(lambda: answers(pool), 10, "the API answers after the crowd has come")
    asker = Asker(pool)
    began, most = time.monotonic(), 0
    items = [{"id": f"i{i}", "photos": [f"http://127.1.{i % HOSTS // 200}.{1 + i % HOSTS % 200}:{origin.port}/{limit}-{threads}-{i}.jpg"
                                        "?bytes=20000&delay=100"]} for i in range(PHOTOS)]
    batches = [fresh(pool).submit("42", items[i:i + 5000]) for i in range(0, PHOTOS, 5000)]
    for batch in batches:
        def finished(batch=batch):
            nonlocal most
            most = max(most, len(os.listdir(f"/proc/{pool.pid}/fd")))
            time.sleep(0.2)
            return fresh(pool).get(f"/v1/batches/{batch}").json["state"] == "finished"
        wait_until(finished, 60 + PHOTOS / 20, f"the batch of {PHOTOS} photos is finished with {limit} descriptors")
    took = time.monotonic() - began
    crowd.stop()
    asker.stop()
    states = [fresh(pool).get(f"/v1/batches/{batch}").json for batch in batches]
    requests = origin.stats()["requests"] - before
    print(f"{limit} descriptors, {threads} fetch loops: {PHOTOS} photos in {took:.1f} s, {requests} requests, at most {most} descriptors open, "
          f"{asker.answers} answers, {len(asker.failures)} failures", flush=True)
    same(sum(s["photos"]["stored"] for s in states), PHOTOS, f"photos stored; errors: {[s['errors'] for s in states]}")
    check(requests <= PHOTOS * 1.02, f"{requests} requests for {PHOTOS} photos")
    check(most < limit, f"{most} of {limit} descriptors were open")
    same(asker.failures, [], "requests of an honest caller that failed")
    check(asker.answers > 0, "the API answered nobody")
    pool.stop()


def many_hosts(case):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    origin = Origin(case, listen=("0.0.0.0:0",))
    for limit, threads in ((256, 1), (1024, 1), (1024, 2), (20000, 1)):
        if limit <= hard:
            fetch_all(case, origin, limit, threads)
    origin.stop()


if __name__ == "__main__":
    scenario(too_few, many_hosts)
