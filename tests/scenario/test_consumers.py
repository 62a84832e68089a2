#!/usr/bin/env python3
# scenario: build=release timeout=120
"""The programs of examples/, started by the lines of its README. The importer sends a feed, and the
consumers follow the results. The test kills the server (kill -9) and starts it again, and kills or
reloads each program once: the importer and each consumer must end with exactly the ids that the
API shows. Then the server drops events that the consumers have missed: they must report the gap and
get its results. At last another server takes the server's place.
"""
import json
import os
import re
import sqlite3
import subprocess

from browser import Browser
from harness import Origin, Pool, Process, check, free_port, same, scenario, wait_until

EXAMPLES = os.path.join(os.environ.get("PP_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples")
HOSTS = "*.example delay=50-250 bytes=600-2000"
ITEMS = 300  # items of an import


def block(word):
    """Returns the code block of examples/README.md that contains this word."""
    with open(os.path.join(EXAMPLES, "README.md"), encoding="utf-8") as f:
        return next(text for text in re.findall(r"^```\n(.*?)^```\n", f.read(), re.S | re.M) if word in text)


def shell(case, text):
    return subprocess.run(["sh", "-ec", text], cwd=case.dir, check=True, stdout=subprocess.PIPE).stdout.decode()


class KeyedPool(Pool):
    """A server with the API key of the README, which has the same port after each start."""

    def __init__(self, case, origin, arguments):
        super().__init__(case, origin=origin, config={
            "http.listen": f"127.0.0.1:{free_port()}", "clients.rpm": None, "clients.concurrency": 16, "events.max_bytes": "1MiB"})
        self.key, self.arguments = arguments[0], arguments[2:]  # without "up"

    def spawn(self, args, **more):
        super().spawn([*args, *self.arguments], **more)

    @property
    def url(self):
        return "http://" + self.config["http.listen"]

    def request(self, method, path, body=None, headers=None, timeout=30, source=None):
        return super().request(method, path, body, {"Authorization": "Bearer " + self.key, **(headers or {})}, timeout, source)


class Program(Process):
    """A program of examples/, run by the lines of a block of the README, at the server's port."""

    def __init__(self, case, stem, pool, ports=()):
        super().__init__(case, stem, "sh")
        self.lines_to_run, self.out = block(stem).replace("http://127.0.0.1:8080", pool.url), case.name(stem + ".out")
        for port, other in ports:
            self.lines_to_run = self.lines_to_run.replace(f" {port} ", f" {other} ")
        *self.before, self.line = self.lines_to_run.strip().split("\n")
        self.env = {**os.environ, "PHOTOPOOL_KEY": pool.key, "PHOTOPOOL_SERVER": pool.url, "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self):
        for line in self.before:
            shell(self.case, line)
        self.before = []
        with open(self.out, "wb") as out:
            self.spawn(["-c", "exec " + self.line], stdout=out, env=self.env, cwd=self.case.dir)
        return self

    def said(self):
        with open(self.out, encoding="utf-8") as f:
            return f.read()

    def again(self):
        self.kill()
        self.start()


class C(Program):
    def __init__(self, case, pool):
        super().__init__(case, "consumer.c", pool)
        self.file = case.path("results.txt")

    def lines(self):
        if not os.path.exists(self.file):
            return []
        with open(self.file, encoding="utf-8") as f:
            return [line.split() for line in f if line.endswith("\n")]

    def ids(self):
        return [line[1] for line in self.lines() if line[1] != "gap"]

    def gaps(self):
        return [(int(line[2]), int(line[0])) for line in self.lines() if line[1] == "gap"]


class Python(Program):
    def __init__(self, case, pool):
        super().__init__(case, "consumer.py", pool)
        self.file = case.path("results.db")

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

    def __init__(self, case, pool):
        port = free_port()
        self.backend = Program(case, "backend.py", pool, [(8000, port)])
        self.url = f"http://127.0.0.1:{port}/"
        self.browser = Browser(case)

    def start(self):
        key = self.backend.env.pop("PHOTOPOOL_KEY")
        self.backend.start()
        same(self.backend.wait_exit(), 1, "exit status without a key")
        check("auth.keys" in self.backend.text(), self.backend.text())
        self.backend.env["PHOTOPOOL_KEY"] = key
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


class Importer(Program):
    """The importer, with a feed of ITEMS items in the file that the README names."""

    def __init__(self, case, pool, origin):
        super().__init__(case, "importer.py", pool)
        self.line += " --batch-size 100"
        with open(case.path("items.csv"), "w", encoding="utf-8") as f:
            f.write("item,url,price\n")
            f.writelines(f"second-{i},{origin.url(f'h{i % 7}.example', f'/second{i}.jpg')},{i}\n" for i in range(ITEMS))

    def results(self):
        with open(self.case.path("results.ndjson"), encoding="utf-8") as f:
            return [json.loads(line) for line in f]


def submit(pool, origin, name):
    return pool.submit("42", [{"id": f"{name}-{i}", "photos": [origin.url(f"h{i % 7}.example", f"/{name}{i}.jpg")]} for i in range(ITEMS)])


def batch_ids(pool):
    return [b["batch_id"] for b in pool.page_all("/v1/batches?client=42", "batches", 1000)]


def api_ids(pool):
    """Returns the ids of the results of all batches of client 42."""
    return sorted(r["id"] for batch in batch_ids(pool) for r in pool.results(batch))


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
    os.symlink(EXAMPLES, case.path("examples"))
    arguments = shell(case, "photopool() { printf '%s\\n' \"$PHOTOPOOL_KEY\" \"$@\"; }\n" + block("photopool up")).splitlines()
    pool = KeyedPool(case, origin, arguments).start()
    consumers = [kind(case, pool).start() for kind in (C, Python, Page)]

    first = submit(pool, origin, "first")
    pool.submit("43", [{"id": "other", "photos": []}])  # the consumers do not follow this client
    for c in consumers:
        wait_until(lambda c=c: len(c.ids()) > ITEMS // 20, 30, f"{type(c).__name__} gets results")
        c.again()
    importer = Importer(case, pool, origin).start()
    second = wait_until(lambda: [b for b in batch_ids(pool) if b != first], 30, "the importer has sent a batch")[0]
    importer.again()
    wait_until(lambda: len(pool.results(second)) > 10, 30, "the importer's photos are being fetched")
    pool.kill()
    pool.start()
    same(importer.wait_exit(), 0, f"exit status of the importer: {importer.said()}")
    imported = importer.results()
    same(sorted(r["data"]["item"] for r in imported), sorted(f"second-{i}" for i in range(ITEMS)), "items that the importer has results of")
    check(all(r["data"]["meta"] == {"price": r["data"]["item"].removeprefix("second-")} for r in imported), imported[0])
    pool.wait_finished(first)
    due = api_ids(pool)
    same(len(due), 2 * ITEMS, "results")
    check({r["id"] for r in imported} < set(due), "the importer's results are those of the API")
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
    due = api_ids(pool)
    for c in consumers[:2]:
        c.start()
    page.browser.call("Page.navigate", url=page.url)
    for c in consumers:
        gaps = wait_until(c.gaps, 30, f"{type(c).__name__} reports the gap")
        check(gaps[0][0] <= before + 1 <= gaps[0][1] < last, f"gap of {type(c).__name__}: {gaps}, after {before}, until {last}")
        wait_until(lambda c=c: len(c.ids()) >= len(due), 30, lambda c=c: f"{type(c).__name__} has {len(c.ids())} of {len(due)} results after the gap")
        same(sorted(c.ids()), due, f"ids of {type(c).__name__} after the gap")
    another_server(case, origin, pool, consumers)
    page.stop()


def another_server(case, origin, pool, consumers):
    """Another server takes the place of the first, so the events have other numbers. The two
    programs must end with an error, because an operator has to look; the page must start again
    from the beginning.
    """
    pool.stop()
    other = KeyedPool(case, origin, [pool.key, "up", *pool.arguments])
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
