#!/usr/bin/env python3
"""consumer.py: follows results over Server-Sent Events, with Python's standard library only.

    PHOTOPOOL_KEY=... python3 consumer.py http://127.0.0.1:8080 results.db results:42

It stores results in an SQLite file, each in one transaction with its number: if it is killed at
any moment and started again, it continues after that number. photopool delivers results at least
once, so the consumer drops a result whose id it has already. Ctrl-C ends it.
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


class Store:
    def __init__(self, path):
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
            if kind == "gap":
                # The server no longer keeps these events. A real consumer would now read GET
                # /v1/batches/{id}/results of the batches that it waits for.
                self.db.execute("INSERT INTO gaps VALUES (?, ?)", (data["from"], data["to"]))
                print(f"gap: {data['from']} to {data['to']}", file=sys.stderr)
            elif kind == "photopool.item.finished":
                result = data["data"]
                self.db.execute("INSERT OR IGNORE INTO results VALUES (?, ?, ?)", (result["id"], result["subject"], result["data"]["status"]))
            self.db.execute("UPDATE state SET seq = ?", (seq,))


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
    request = urllib.request.Request(f"{server}/v1/events?{query}", headers={"Accept": "text/event-stream"})
    if "PHOTOPOOL_KEY" in os.environ:
        request.add_header("Authorization", "Bearer " + os.environ["PHOTOPOOL_KEY"])
    came = False
    try:
        with urllib.request.urlopen(request, timeout=SILENCE) as stream:
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
    store = Store(path)
    pause = 0.25
    while True:
        pause = 0.25 if follow(store, server, keys) else min(2 * pause, PAUSE_MAX)
        time.sleep(pause * random.uniform(0.5, 1))  # so that not all consumers reconnect at the same moment


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
