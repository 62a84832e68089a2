"""Writes entries that are set aside into the ingest queue of a running `photopool up`, as its planner
does with a batch that it can't plan.
"""
import os
import sqlite3
import struct
import time


def text(s):
    return struct.pack("<I", len(s.encode())) + s.encode()


def encode(items):
    """Returns the bytes of an entry (lib/core/entry.h)."""
    out = b"\x01"
    for n, item in enumerate(items):
        out += struct.pack("<I", n) + text(item["id"]) + b"\0" + struct.pack("<I", len(item["photos"])) + b"".join(text(url) for url in item["photos"])
    return out


def set_aside(pool, batch, client, items, reason, cut=0):
    """Sets a batch aside. cut: this many bytes at the end of its entry are lost."""
    payload = encode(items)
    db = sqlite3.connect(os.path.join(pool.data, "ingest.db"), timeout=20)
    with db:
        now = int(time.time() * 1000)
        photos = sum(len(i["photos"]) for i in items)
        num = db.execute("INSERT INTO entries(batch, client, refresh, replay, created, items, photos, cancelled, rejected, weight, bytes, state, deliveries, reason, aside) "
                         "VALUES(?, ?, 0, 0, ?, ?, ?, 0, 0, ?, ?, 2, 21, ?, ?)",
                         (batch, client, now, len(items), photos, max(photos, len(items)), len(payload), reason, now)).lastrowid
        db.execute("INSERT INTO payloads(num, payload) VALUES(?, ?)", (num, payload[:len(payload) - cut]))
    db.close()
