#!/usr/bin/env python3
# scenario: build=release timeout=120
"""The consumers of examples/ follow one import. The test kills the server (kill -9) and starts it
again, and kills or reloads each consumer once: each consumer must end with exactly the ids that
the API shows. Then the server drops events that the consumers have missed, and they must report
the gap. At last another server takes the server's place.
"""
import hashlib
import json
import os
import sqlite3
import subprocess
import sys

from browser import Browser
from harness import Origin, Pool, Process, check, free_port, same, scenario, wait_until

EXAMPLES = os.path.join(os.environ.get("PP_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples")
KEY = "consumers-secret"
HOSTS = "*.example delay=50-250 bytes=600-2000"
ITEMS = 300  # items of a batch


class KeyedPool(Pool):
    """A server that needs an API key, and has the same port after each start."""

    def __init__(self, case, origin):
        keys = [{"name": "all", "sha256": hashlib.sha256(KEY.encode()).hexdigest(), "scopes": ["submit", "read", "admin"]}]
        super().__init__(case, origin=origin, config={
            "http.listen": f"127.0.0.1:{free_port()}", "auth.keys": keys, "clients.rpm": None, "clients.concurrency": 16,
            "events.max_bytes": "1MiB"})

    @property
    def url(self):
        return "http://" + self.config["http.listen"]

    def request(self, method, path, body=None, headers=None, timeout=30, source=None):
        return super().request(method, path, body, {"Authorization": "Bearer " + KEY, **(headers or {})}, timeout, source)


class Consumer(Process):
    """A program of examples/. ids() and gaps() read what it has stored."""

    def __init__(self, case, stem, command):
        super().__init__(case, stem, command[0])
        self.args, self.out = command[1:], case.name(stem + ".out")

    def start(self):
        with open(self.out, "wb") as out:
            self.spawn(self.args, stdout=out, env={**os.environ, "PHOTOPOOL_KEY": KEY})
        return self

    def said(self):
        with open(self.out, encoding="utf-8") as f:
            return f.read()

    def again(self):
        self.kill()
        self.start()


class C(Consumer):
    def __init__(self, case, url, keys):
        binary, self.file = case.path("consumer"), case.name("results.txt")
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libcurl", "jansson"], check=True, stdout=subprocess.PIPE).stdout.decode().split()
        subprocess.run(["cc", "-O2", "-o", binary, os.path.join(EXAMPLES, "consumer.c"), *flags], check=True)
        super().__init__(case, "consumer-c", [binary, url, self.file, *keys])

    def lines(self):
        if not os.path.exists(self.file):
            return []
        with open(self.file, encoding="utf-8") as f:
            return [line.split() for line in f if line.endswith("\n")]

    def ids(self):
        return [line[1] for line in self.lines() if line[1] != "gap"]

    def gaps(self):
        return [(int(line[2]), int(line[0])) for line in self.lines() if line[1] == "gap"]


class Python(Consumer):
    def __init__(self, case, url, keys):
        self.file = case.name("results.db")
        super().__init__(case, "consumer-py", [sys.executable, "-B", os.path.join(EXAMPLES, "consumer.py"), url, self.file, *keys])

    def rows(self, query):
        if not os.path.exists(self.file):
            return []
        db = sqlite3.connect(self.file, timeout=60)
        try:
            return db.execute(query).fetchall()
        except sqlite3.OperationalError:  # the program has not created its tables yet
            return []
        finally:
            db.close()

    def ids(self):
        return [row[0] for row in self.rows("SELECT id FROM results")]

    def gaps(self):
        return self.rows("SELECT * FROM gaps")


class Page:
    """examples/browser.html in a browser, and the backend that gives the page tickets."""

    def __init__(self, case, url, keys):
        port = free_port()
        self.backend = Consumer(case, "backend", [sys.executable, "-B", os.path.join(EXAMPLES, "backend.py"), url, str(port), *keys])
        self.url = f"http://127.0.0.1:{port}/"
        self.browser = Browser(case)

    def start(self):
        self.backend.start()
        wait_until(lambda: "http" in self.backend.said(), 10, "the backend listens")
        self.browser.start().open(self.url)
        return self

    def again(self):
        self.browser.reload()

    def kept(self):
        return json.loads(self.browser.value("JSON.stringify(Object.entries(localStorage))") or "[]")

    def ids(self):
        return [k.removeprefix("photopool:") for k, _ in self.kept() if k.startswith("photopool:r_")]

    def shown(self):
        return self.browser.value("document.getElementById('rows').rows.length")

    def gaps(self):
        return [(g["from"], g["to"]) for g in (json.loads(v) for k, v in self.kept() if k == "photopool:gap")]

    def stop(self):
        self.browser.kill()


def submit(pool, origin, name):
    return pool.submit("42", [{"id": f"{name}-{i}", "photos": [origin.url(f"h{i % 7}.example", f"/{name}{i}.jpg")]} for i in range(ITEMS)])


def gap_after_restart(pool):
    """Restarts the server, which drops the events that it has in memory. Returns the number of the
    last event that the log no longer has, or 0.
    """
    pool.stop()
    pool.start()
    gap = pool.get_json("/v1/events?key=results&after=0&limit=1")["gap"]
    return gap["to"] if gap else 0


def test_consumers(case):
    origin = Origin(case, hosts=HOSTS)
    pool = KeyedPool(case, origin).start()
    consumers = [kind(case, pool.url, ["results:42"]).start() for kind in (C, Python, Page)]

    first = submit(pool, origin, "first")
    pool.submit("43", [{"id": "other", "photos": []}])  # the consumers do not follow this client
    for c in consumers:
        wait_until(lambda c=c: len(c.ids()) > ITEMS // 20, 30, f"{type(c).__name__} gets results")
        c.again()
    second = submit(pool, origin, "second")
    wait_until(lambda: len(pool.results(second)) > ITEMS // 10, 30, "the second import is being fetched")
    pool.kill()
    pool.start()
    print(f"killed: {pool.batch(second)['items']}")
    due = sorted(r["id"] for batch in (first, second) for r in pool.wait_finished(batch))
    same(len(due), 2 * ITEMS, "results")
    for c in consumers:
        wait_until(lambda c=c: len(c.ids()) >= len(due), 60, lambda c=c: f"{type(c).__name__} has {len(c.ids())} of {len(due)} results")
        same(sorted(c.ids()), due, f"ids of {type(c).__name__}")
        same(c.gaps(), [], f"gaps of {type(c).__name__}")
    page = consumers[2]
    same(page.shown(), len(due), "rows that the page shows")

    # The cleaner removes events of items that finish while no consumer runs.
    for c in consumers[:2]:
        c.kill()
    page.browser.call("Page.navigate", url="about:blank")
    before = pool.get_json("/v1/events?key=results&wait=0")["last"]
    pool.wait_finished(pool.submit("42", [{"id": f"more-{i}", "photos": [], "meta": {"text": "x" * 900}} for i in range(2000)]))
    wait_until(lambda: gap_after_restart(pool) > before, 20, "the cleaner removes events")
    last = pool.get_json("/v1/events?key=results&wait=0")["last"]
    for c in consumers[:2]:
        c.start()
    page.browser.call("Page.navigate", url=page.url)
    for c in consumers:
        gaps = wait_until(c.gaps, 30, f"{type(c).__name__} reports the gap")
        check(gaps[0][0] <= before + 1 <= gaps[0][1] < last, f"gap of {type(c).__name__}: {gaps}, after {before}, until {last}")
        ids = c.ids()
        same(len(set(ids)), len(ids), f"ids of {type(c).__name__}, each once")
        check(set(due) <= set(ids), f"{type(c).__name__} keeps what it has")
        wait_until(lambda c=c: len(c.ids()) > len(due), 30, f"{type(c).__name__} continues after the gap")
    another_server(case, origin, pool, consumers)
    page.stop()


def another_server(case, origin, pool, consumers):
    """Another server takes the place of the first, so the events have other numbers. The two
    programs must end with an error, because an operator has to look; the page must start again
    from the beginning.
    """
    pool.stop()
    other = KeyedPool(case, origin)
    other.config["http.listen"] = pool.config["http.listen"]
    other.start()
    due = {r["id"] for r in other.wait_finished(other.submit("42", [{"id": "anew", "photos": []}]))}
    for c in consumers[:2]:
        same(c.wait_exit(), 1, f"exit status of {type(c).__name__}")
    check("bad_cursor" in consumers[1].text(), consumers[1].text())
    wait_until(lambda: due <= set(consumers[2].ids()), 60, "the page has the new server's results")
    other.stop()


if __name__ == "__main__":
    scenario(test_consumers)
