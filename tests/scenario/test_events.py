#!/usr/bin/env python3
# scenario: timeout=120 main
"""Who may follow which keys of the event stream, and from which number, in all three ways
(long-poll, Server-Sent Events, WebSocket): API keys with and without a client, tickets, after and
Last-Event-ID, limits, HEAD. Subscribers must learn which events are gone, and numbers must
continue after restarts, kill -9 and an empty log.
"""
import base64
import calendar
import hashlib
import hmac
import os
import sqlite3
import time

from harness import Pool, check, same, scenario, wait_until
from streams import NodeWs, Raw, finish, handshake, poll, poll_all, refusal

KEYS = {"all": (["submit", "read", "admin"], None), "reader": (["read"], None), "submitter": (["submit"], None),
        "shop": (["submit", "read", "admin"], "42")}


SECRET = "a secret of at least 32 characters"


def bearer(name):
    return {"Authorization": f"Bearer {name}"} if name else {}


def digest(name):
    return hashlib.sha256(name.encode()).digest()


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(payload):
    """Returns a ticket as api/tickets.c makes it. The test needs this to make an expired ticket."""
    name, purpose = (payload.split(b"\n")[1:2] or [b""])[0].decode(), "photopool ticket\0"
    if name in KEYS:
        scopes, client = KEYS[name]
        purpose += f"{digest(name).hex()} {sum({'submit': 1, 'read': 2, 'admin': 4}[s] for s in scopes)} {client or ''}"
    secret = hmac.digest(SECRET.encode(), purpose.encode(), "sha256")
    return base64url(payload) + "." + base64url(hmac.digest(secret, payload, "sha256"))


def milliseconds(text):
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) * 1000 + int(text[20:23])


UNAUTHORIZED, FORBIDDEN, NOT_FOUND = (401, "unauthorized"), (403, "forbidden"), (404, "not_found")
BAD_PARAMETER, BAD_CURSOR = (400, "bad_parameter"), (400, "bad_cursor")

here = None
LOG = "events.db"


class Here:
    """A server with API keys, and five results of client 42 and three of client 43."""

    def __init__(self, case):
        self.node = NodeWs()
        # ended: batches whose end all_said() has seen; at: number of the last event that it has
        # read
        self.ended, self.at = set(), 0
        self.pool = Pool(case, config={"auth.ticket_secret": SECRET, "auth.keys": [
            {"name": name, "sha256": digest(name).hex(), "scopes": scopes, **({"client": client} if client else {})} for name,
                (scopes, client) in KEYS.items()]})
        self.pool.start()
        self.batches = {"42": finish(self.pool, "42", 5, headers=bearer("all")), "43": finish(self.pool, "43", 3, headers=bearer("all"))}
        self.due = poll_all(self.pool, "key=results", 8, headers=bearer("all"))

    def of(self, client):
        return [e for e in self.due if e["key"] == ["results", client]]

    def ways(self, query, key=None):
        """Returns the answer to each of the three ways of following, as (status, code)."""
        sse = Raw(self.pool, query, bearer(key), sse=True)
        return (refusal(self.pool.get(f"/v1/events?{query}", headers=bearer(key))), sse.problem(),
                self.node.refused(self.pool, query, headers=bearer(key)))


def starts(case):
    global here
    here = Here(case)


def who(case):
    """Keys with too few rights are refused; a key bound to a client sees only that client's results."""
    pool, node = here.pool, here.node
    for key, query, due in (
            (None, "key=results", UNAUTHORIZED), ("nobody", "key=results", UNAUTHORIZED), ("submitter", "key=results", FORBIDDEN),
            ("reader", "key=ops", FORBIDDEN), ("shop", "key=ops", FORBIDDEN), ("shop", "key=results&key=ops", FORBIDDEN),
            ("shop", "key=results:43", NOT_FOUND), ("shop", "key=results:42&key=results:43", NOT_FOUND), ("shop", "key=results:4", NOT_FOUND),
            ("shop", "key=results:42:1", NOT_FOUND), ("shop", f"key=batch:{here.batches['43']}", NOT_FOUND), ("shop", "key=batch", NOT_FOUND),
            ("shop", "key=batch:b_nonsense", NOT_FOUND), ("all", "", BAD_PARAMETER), ("all", "key=", BAD_PARAMETER),
            ("all", "key=nobody", BAD_PARAMETER), ("all", "key=results::42", BAD_PARAMETER), ("all", "key=result", BAD_PARAMETER),
            ("all", "&".join(f"key=results:{n}" for n in range(65)), BAD_PARAMETER)):
        same(here.ways(query, key), (due,) * 3, f"{query[:60]} with the key {key}")
    # A bound key can follow its own results.
    for query in ("key=results", "key=results:42", "key=results&key=results:42"):
        own = here.of("42")
        same(poll(pool, query, bearer("shop"), after=0)[0], own, f"{query} by long-poll")
        sse, ws = Raw(pool, query + "&after=0", bearer("shop"), sse=True), node.open(pool, query + "&after=0", headers=bearer("shop"))
        same(sse.events(len(own)), own, f"{query} by SSE")
        same(ws.events(len(own)), own, f"{query} by WebSocket")
        # The other client's result finishes first, so a leak would show.
        finish(pool, "43", 1, headers=bearer("all"))
        finish(pool, "42", 1, headers=bearer("shop"))
        here.due += poll_all(pool, "key=results", 2, after=here.due[-1]["seq"], headers=bearer("all"))
        same((sse.events(1), ws.events(1)), (here.of("42")[-1:],) * 2, "live, it sees only its own")
        sse.close()
        ws.tell("close")
    sse = Raw(pool, f"key=batch:{here.batches['42']}&after=0", bearer("shop"), sse=True)
    while True:
        event = sse.events(1)[0]
        same(event["data"]["batch_id"], here.batches["42"], "its batch")
        if event["type"] == "photopool.batch.finished":
            break
    sse.close()


def tickets(case):
    pool, node = here.pool, here.node

    def ticket(key, *keys):
        return pool.post("/v1/tickets", {"keys": keys}, bearer(key))

    before = time.time()
    answer = ticket("shop", "results")
    same((answer.status, answer.headers["Cache-Control"]), (201, "no-store"), f"a ticket: {answer}")
    text = answer.json["ticket"]
    expires = milliseconds(answer.json["expires_at"]) / 1000
    check(before + 50 < expires <= time.time() + 60, f"it is for 60 s from {before}: {answer.json}")
    own = here.of("42")
    same(poll(pool, f"ticket={text}", after=0)[0], own, "long-poll by ticket, restricted like its key")
    same(node.open(pool, f"ticket={text}&after=0", origin="https://shop.example").events(len(own)), own, "WebSocket of a page by ticket")
    sse = Raw(pool, f"after=0&ticket={text}", {"Origin": "https://shop.example"}, sse=True)
    same(sse.headers["access-control-allow-origin"], "*", "a page may read it")
    same(sse.events(len(own)), own, "SSE by ticket")
    sse.close()
    same(here.ways(f"ticket={text}&key=results:42"), (BAD_PARAMETER,) * 3, "a ticket and a key")
    # A ticket that is valid except for its age.
    now = int(time.time() * 1000)
    same(len(poll(pool, "ticket=" + signed(f"{now + 50000}\nall\nresults:43".encode()), after=0)[0]), len(here.of("43")), "a ticket of ours")
    payload, mac = text.split(".")
    for what, bad in (("too old", signed(f"{now - 1000}\nall\nresults:43".encode())), ("for nothing", signed(f"{now + 50000}\nall".encode())),
                      ("for a year", signed(f"{now + 365 * 86400000}\nall\nresults:43".encode())),
                      ("of a key that is gone", signed(f"{now + 50000}\nformer\nresults:43".encode())),
                      ("of no key", signed(f"{now + 50000}\n\nresults:43".encode())),
                      ("empty", ""), ("a dot", "."), ("without a signature", payload),
                      ("with half a signature", payload + "." + mac[:20]),
                      ("with another's signature", payload + "." + signed(b"1\nresults").split(".")[1]),
                      ("with other keys", base64url(f"{now + 50000}\nall\nresults".encode()) + "." + mac),
                      ("altered", ("A" if payload[0] != "A" else "B") + payload[1:] + "." + mac),
                      ("altered at the end", payload + "." + ("A" if mac[0] != "A" else "B") + mac[1:]),
                      ("much too long", "A" * 4000 + "." + mac)):
        same(here.ways(f"ticket={bad}"), (UNAUTHORIZED,) * 3, f"a ticket {what}")
    # A ticket opens nothing but the event stream, and a key gets tickets only for keys that it may
    # follow itself.
    same(refusal(pool.get(f"/v1/batches?ticket={text}")), UNAUTHORIZED, "another path")
    for key, keys, due in (
            (None, ["results"], UNAUTHORIZED), ("submitter", ["results"], FORBIDDEN), ("reader", ["ops"], FORBIDDEN), ("shop", ["ops"], FORBIDDEN),
            ("shop", ["results:43"], NOT_FOUND), ("shop", ["results", f"batch:{here.batches['43']}"], NOT_FOUND), ("all", ["nobody"], BAD_PARAMETER)):
        same(refusal(ticket(key, *keys)), due, f"a ticket for {keys} with the key {key}")


def state(pool):
    """Returns (last, cleaned, bytes) of the event log in SQLite. A process still serves events from
    memory after the log has dropped them.
    """
    db = sqlite3.connect(f"file:{os.path.join(pool.data, LOG)}?mode=ro", uri=True, timeout=60)
    row = db.execute("SELECT last, cleaned, bytes FROM state").fetchone()
    db.close()
    return row


def all_said():
    """Returns True when each batch has an event for its end. Remembers the batches that it saw,
    because the cleaner may remove their events while the test waits for the rest.
    """
    batches = here.pool.get("/v1/batches", headers=bearer("all")).json["batches"]
    while True:
        events, here.at, _ = poll(here.pool, "key=batch", bearer("all"), after=max(here.at, state(here.pool)[1]))
        here.ended |= {e["data"]["batch_id"] for e in events if e["type"] == "photopool.batch.finished"}
        if not events:
            return here.ended >= {b["batch_id"] for b in batches}


def numbers(case):
    """Tests after, Last-Event-ID, limit, wait and HEAD."""
    pool = here.pool
    wait_until(all_said, 20, "the end of each batch is an event")
    events, last, gap = poll(pool, "key=results", bearer("all"), after=0)
    same((events, gap), (here.due, None), "from the oldest")
    same([e["seq"] for e in events], sorted({e["seq"] for e in events}), "numbers grow")
    for after in ("x", "", "-1", "+1", "1.0", "1e1", "0x1", "1%20", str(last + 1000), str(2 ** 53 - 1), str(2 ** 53), "9" * 30):
        same(here.ways(f"key=results&after={after}", "all"), (BAD_CURSOR,) * 3, f"after={after}")
    third = events[2]["seq"]
    again = {**bearer("all"), "Last-Event-ID": str(third)}
    same(poll(pool, "key=results", again, after=0)[0], events[3:], "Last-Event-ID wins in a long-poll")
    sse = Raw(pool, "key=results&after=0", again, sse=True)
    same(sse.events(1), events[3:4], "and in SSE")
    sse.close()
    sse = Raw(pool, "key=results&after=0", {**bearer("all"), "Accept": "application/json;q=0.5, Text/Event-Stream"})
    same((sse.headers["content-type"], sse.events(1)), ("text/event-stream", events[:1]), "media types are the same in any case")
    sse.close()
    same(Raw(pool, "key=results&after=0", {**bearer("all"), "Last-Event-ID": "x"}, sse=True).problem(),
        BAD_CURSOR, "an invalid Last-Event-ID")
    same(Raw(pool, "key=results", {**bearer("all"), "Last-Event-ID": str(last + 1000)}, sse=True).problem(), BAD_CURSOR, "a Last-Event-ID of the future")
    # Reads the events page by page.
    same(poll(pool, "key=results", bearer("all"), after=0, limit=2), (events[:2], events[1]["seq"], None), "limit")
    got, at = [], 0
    while page := poll(pool, "key=results:42", bearer("all"), after=at, limit=2)[0]:
        check(len(page) <= 2, f"{len(page)} events")
        got, at = got + page, page[-1]["seq"]
    same(got, here.of("42"), "all pages")
    same(poll(pool, "key=results", bearer("all"))[:2], ([], last), "from now on")
    same(poll(pool, "key=results", bearer("all"), after=last, wait=0), ([], last, None), "nothing new")
    same(poll(pool, "key=results", bearer("all"), after=0, wait=60)[0], events, "no wait when there are events")
    for bad in ("wait=61", "wait=-1", "wait=x", "wait=1.5", "wait=", "limit=0", "limit=1001", "limit=x", "wait=1&wait=2", "other=1"):
        same(here.ways(f"key=results&after=0&{bad}", "all"), (BAD_PARAMETER,) * 3, bad)
    head = pool.request("HEAD", "/v1/events?key=results&after=0", headers=bearer("all"))
    due = pool.get("/v1/events?key=results&after=0", headers=bearer("all"))
    same((head.status, head.body, head.headers["Content-Length"]), (200, b"", str(len(due.body))), "HEAD")
    for more in ({"Accept": "text/event-stream"}, handshake()):
        head = pool.request("HEAD", "/v1/events?key=results&after=0", headers={**bearer("all"), **more})
        same((head.status, head.body), (200, b""), f"HEAD of a stream, {more}")
    same(pool.request("HEAD", "/v1/events?key=results&after=x", headers=bearer("all")).status, 400, "HEAD with an invalid cursor")
    here.pool.stop()


# --- events that the cleaner has removed ---

NOTE = {"note": "x" * 900}


def gap_everywhere(pool, node, after, gap, first):
    """All three ways must report this gap and continue with the event `first` after it (None: there
    is none).
    """
    events, last, told = poll(pool, "key=results", after=after, limit=1)
    same(told, gap, f"gap after {after} by long-poll")
    if not events:  # long-poll answers with the gap at once, and with the events in the next answer
        check(last >= gap["to"], f"last is {last} after {gap}")
        events = poll(pool, "key=results", after=gap["to"], limit=1)[0]
    same(events, [first] if first else [], "what follows by long-poll")
    sse = Raw(pool, f"key=results&after={after}", sse=True)
    same(sse.event(), ("gap", gap["to"], gap), f"gap after {after} by SSE")
    ws = node.open(pool, f"key=results&after={after}")
    same(ws.events(1), [{"gap": gap}], f"gap after {after} by WebSocket")
    if first:
        same((sse.events(1), ws.events(1)), ([first], [first]), "what follows in the streams")
    sse.close()
    ws.tell("close")


def no_gap(pool, node, after, first):
    events, _, told = poll(pool, "key=results", after=after, limit=1)
    same((told, events), (None, [first]), f"after {after} by long-poll")
    same(Raw(pool, f"key=results&after={after}", sse=True).events(1), [first], f"after {after} by SSE")
    same(node.open(pool, f"key=results&after={after}").events(1), [first], f"after {after} by WebSocket")


def newest(pool):
    return poll(pool, "key=results")[1]


def by_size(case):
    """events.max_bytes is small: the cleaner, which runs every 10 s, must remove the oldest events
    first.
    """
    node, pool = NodeWs(), Pool(case, config={"events.max_bytes": "1MiB"})
    here.pool, here.node, here.at = pool.start(), node, 0
    finish(pool, "42", 3000, NOTE)
    wait_until(lambda: all_said() and newest(pool) > 3000, 60, "all events have a number")
    wait_until(lambda: state(pool)[2] <= 1 << 20, 30, lambda: f"the cleaner removes the oldest: {state(pool)}")
    pool.stop()
    # without events.max_bytes the cleaner removes nothing from here on
    pool.config = {k: v for k, v in pool.config.items() if k != "events.max_bytes"}
    pool.start()
    gap = {"from": 1, "to": state(pool)[1]}
    kept, _, told = poll(pool, "key=results", after=gap["to"], limit=1000)
    same(told, None, "gap after the last removed event")
    check(2 <= len(kept) <= newest(pool) - gap["to"] < 1100, f"{len(kept)} are kept after {gap}")
    gap_everywhere(pool, node, 0, gap, kept[0])
    gap_everywhere(pool, node, 5, {"from": 6, "to": gap["to"]}, kept[0])
    gap_everywhere(pool, node, gap["to"] - 1, {"from": gap["to"], "to": gap["to"]}, kept[0])
    no_gap(pool, node, gap["to"], kept[0])
    no_gap(pool, node, kept[0]["seq"], kept[1])


def restarts(case):
    """After a restart and a kill -9 numbers must continue, and subscribers must still learn of the
    gap.
    """
    pool = here.pool
    for how in (pool.stop, pool.kill, pool.kill):
        gap, last = poll(pool, "key=results", after=0, limit=1)[2], newest(pool)
        how()
        pool.start()
        check(newest(pool) >= last, f"{newest(pool)} is the newest after {how.__name__}, {last} was before")
        finish(pool, "42", 1, NOTE)
        new = poll_all(pool, "key=results", 1, after=last)
        check(new[0]["seq"] > last, f"{new[0]['seq']} after {last}")
        told = poll(pool, "key=results", after=0, limit=1)[2]
        same(told, gap, f"gap after {how.__name__}")


def emptied(case):
    """All events have expired, because the test makes the log a day older: the gap must cover them,
    and numbers continue.
    """
    pool, node = here.pool, here.node
    wait_until(all_said, 20, "the end of each batch is an event")
    pool.stop()
    with sqlite3.connect(os.path.join(pool.data, LOG)) as db:
        rows = db.execute("UPDATE events SET at = at - 86400000 - 60000").rowcount
    db.close()
    check(rows > 100, f"{rows} events were kept")
    last = state(pool)[0]
    pool.start()
    wait_until(lambda: state(pool)[1] == last, 30, lambda: f"the cleaner removes all: {state(pool)}")
    for how in (pool.kill, pool.stop):
        how()
        pool.start()
        gap_everywhere(pool, node, 0, {"from": 1, "to": last}, None)
        gap_everywhere(pool, node, last - 1, {"from": last, "to": last}, None)
        # (After its start a server reports again which batches have ended lately, so `now` may be
        # above `last`.)
        events, now, gap = poll(pool, "key=results", after=last)
        check((events, gap) == ([], None) and now >= last, f"after the newest: {events}, {now}, {gap}")
        same(refusal(pool.get(f"/v1/events?key=results&after={last + 1000}")), BAD_CURSOR, "a number of the future")
    finish(pool, "42", 2)
    new = poll_all(pool, "key=results", 2, after=last)
    check(new[0]["seq"] > last, f"{new[0]['seq']} after {last}")
    same(poll(pool, "key=results", after=0, limit=1)[2], {"from": 1, "to": last}, "gap by long-poll")
    no_gap(pool, node, last, new[0])
    node.close()
    pool.stop()


if __name__ == "__main__":
    scenario(starts, who, tickets, numbers, by_size, restarts, emptied)
