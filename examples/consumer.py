#!/usr/bin/env python3
"""consumer.py: follows results over Server-Sent Events, with Python's standard library only.

    PHOTOPOOL_KEY=... python3 consumer.py http://127.0.0.1:8080 results.db results:42

It stores results in an SQLite file, each in one transaction with its number: if it is killed at
any moment and started again, it continues after that number. photopool delivers results at least
once, so the consumer drops a result whose id it has already. If the server no longer has the events
that it missed, it reads the results of the batches instead. Ctrl-C ends it.
"""
import http.client
import json
import os
import random
import sqlite3
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

SILENCE = 60  # seconds without data after which it reconnects; the server sends something every 25 s
PAUSE_MAX = 30.0


def open_url(url, accept="application/json"):
    request = urllib.request.Request(url, headers={"Accept": accept})
    if "PHOTOPOOL_KEY" in os.environ:
        request.add_header("Authorization", "Bearer " + os.environ["PHOTOPOOL_KEY"])
    return urllib.request.urlopen(request, timeout=SILENCE)


def rows(url, name):
    """Yields the rows of a list of the API, page by page."""
    after = ""
    while after is not None:
        with open_url(f"{url}limit=200" + (f"&after={urllib.parse.quote(after)}" if after else "")) as answer:
            page = json.load(answer)
        yield from page[name]
        after = page["next"]


def results_of_batches(server, keys):
    """Yields the results of all batches that the server has, the newest batches first. A consumer
    that knows for which batches it waits asks for these only.
    """
    for kind, _, client in (key.partition(":") for key in keys):
        batches = f"{server}/v1/batches?" + (f"client={client}&" if client else "")
        for batch in rows(batches, "batches") if kind == "results" else ():
            try:
                yield from rows(f"{server}/v1/batches/{batch['batch_id']}/results?", "results")
            except urllib.error.HTTPError as e:
                if e.code != 404:  # 404: the server has removed this batch meanwhile
                    raise


class Store:
    def __init__(self, path, server, keys):
        self.server, self.keys = server, keys
        self.db = sqlite3.connect(path)
        with self.db:
            self.db.execute("CREATE TABLE IF NOT EXISTS results (id TEXT PRIMARY KEY, subject TEXT, status TEXT)")
            self.db.execute("CREATE TABLE IF NOT EXISTS gaps (first INTEGER, last INTEGER)")
            self.db.execute("CREATE TABLE IF NOT EXISTS state (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER)")
            self.db.execute("INSERT OR IGNORE INTO state VALUES (1, 0)")

    @property
    def seq(self):
        return self.db.execute("SELECT seq FROM state").fetchone()[0]

    def take(self, seq, kind, data):
        """Stores an event. A real consumer would publish the item here, in the same transaction."""
        with self.db:
            if kind == "gap":  # the server no longer has these events
                print(f"gap: {data['from']} to {data['to']}", file=sys.stderr)
                self.db.execute("INSERT INTO gaps VALUES (?, ?)", (data["from"], data["to"]))
                self.add(results_of_batches(self.server, self.keys))
            elif kind == "photopool.item.finished":
                self.add([data["data"]])
            self.db.execute("UPDATE state SET seq = ?", (seq,))

    def add(self, results):
        new = ((r["id"], r["subject"], r["data"]["status"]) for r in results)
        self.db.executemany("INSERT OR IGNORE INTO results VALUES (?, ?, ?)", new)


def events(stream):
    """Yields (number, type, data) of the events of a text/event-stream."""
    seq = kind = data = None
    for line in stream:
        if not line.endswith(b"\n"):  # the connection has ended in the middle of a line
            return
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "id":
            seq = int(value)
        elif name == "event":
            kind = value
        elif name == "data":
            data = value
        elif not name and data is not None:
            yield seq, kind, json.loads(data)
            kind = data = None


def follow(store, server, keys):
    """Follows the stream until the connection ends. Returns True if at least one event has arrived."""
    # after=0 starts at the oldest event that the server keeps
    query = urllib.parse.urlencode([("key", k) for k in keys] + [("after", store.seq)])
    came = False
    try:
        with open_url(f"{server}/v1/events?{query}", "text/event-stream") as stream:
            for event in events(stream):
                store.take(*event)
                came = True
    except urllib.error.HTTPError as e:
        if e.code < 500 and e.code != 429:  # a wrong key, or a number that this server has never issued: a retry would not help
            sys.exit(f"{server}: HTTP {e.code}: {e.read(1000).decode(errors='replace')}")
        print(f"HTTP {e.code}", file=sys.stderr)
    except (OSError, http.client.HTTPException) as e:
        print(f"{server}: {e}", file=sys.stderr)
    return came


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: consumer.py SERVER FILE [KEY]...")
    server, path, keys = sys.argv[1].rstrip("/"), sys.argv[2], sys.argv[3:] or ["results"]
    store = Store(path, server, keys)
    pause = 0.25
    while True:
        pause = 0.25 if follow(store, server, keys) else min(2 * pause, PAUSE_MAX)
        time.sleep(pause * random.uniform(0.5, 1))  # so that not all consumers reconnect at the same moment


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
