#!/usr/bin/env python3
# scenario: timeout=60 main
"""`photopool events` into a pipe, over a restart and a kill -9 of its server, and with a gap; and
`photopool webhooks` from add to remove.
"""
import base64
import json
import os
import pty
import re
import signal
import subprocess
import threading

from harness import HOOKS, PHOTOPOOL, SLOW, Pool, Process, check, free_port, same, scenario, wait_until
from receiver import Receiver


def run(pool, *args, status=0, **more):
    """Runs a command of photopool. Returns its standard output, or its standard error if it must
    fail (`status` not 0).
    """
    done = subprocess.run([PHOTOPOOL, *args, "--server", pool.url], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=30 * SLOW, check=False, **more)
    same(done.returncode, status, f"exit status of {args}, which said {done.stderr.decode()!r}")
    return done.stderr.decode() if status else done.stdout.decode()


def on_terminal(pool, *args):
    """Runs a command on a terminal of 80 columns. Returns what it prints."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen([PHOTOPOOL, *args, "--server", pool.url], stdin=theirs, stdout=theirs, stderr=theirs,
                             env={**os.environ, "NO_COLOR": "1", "COLUMNS": "80"})
    os.close(theirs)
    text = b""
    timer = threading.Timer(30 * SLOW, child.kill)
    timer.start()
    try:
        while chunk := os.read(ours, 65536):
            text += chunk
    except OSError:  # EIO: the command has ended
        pass
    timer.cancel()
    same(child.wait(), 0, f"exit status of {args}, which said {text!r}")
    os.close(ours)
    return text.decode().replace("\r\n", "\n")


class Follower(Process):
    """`photopool events` whose output goes into a file; only its standard error is a terminal."""

    def __init__(self, case, pool, *args):
        super().__init__(case, "events", PHOTOPOOL)
        self.file = case.name("events.ndjson")
        ours, theirs = pty.openpty()
        with open(self.file, "wb") as out:
            self.process = subprocess.Popen([PHOTOPOOL, "events", *args, "--server", pool.url], stdin=subprocess.DEVNULL, stdout=out, stderr=theirs)
        os.close(theirs)
        threading.Thread(target=self.keep_said, args=(ours,), daemon=True).start()

    def keep_said(self, terminal):
        with open(self.log, "ab") as log:
            try:
                while chunk := os.read(terminal, 4096):
                    log.write(chunk)
                    log.flush()
            except OSError:
                pass
        os.close(terminal)

    def events(self):
        with open(self.file, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]

    def seqs(self):
        return [e["seq"] for e in self.events() if "seq" in e]

    def ids(self):
        return [e["data"]["id"] for e in self.events() if e.get("type") == "photopool.item.finished"]


class FixedPool(Pool):
    """A server that keeps its port over restarts."""

    def __init__(self, case, **more):
        super().__init__(case, config={"http.listen": f"127.0.0.1:{free_port()}", **more})

    @property
    def url(self):
        return "http://" + self.config["http.listen"]


def finish(pool, n, name="a", meta=None):
    item = {"meta": meta} if meta else {}
    batch = pool.submit("42", [{"id": f"{name}{i}", "photos": [], **item} for i in range(n)])
    return batch, [r["id"] for r in pool.wait_finished(batch)]


def follows(case):
    pool = FixedPool(case).start()
    follower = Follower(case, pool)
    wait_until(lambda: "following" in follower.text(), 10, "it reports that it follows")
    _, due = finish(pool, 5)
    for end in (pool.stop, pool.kill):
        wait_until(lambda: set(follower.ids()) == set(due), 20, lambda: f"{len(due)} results: {follower.ids()}")
        said = follower.text().count("trying again until it is back")
        end()
        wait_until(lambda n=said: follower.text().count("trying again until it is back") == n + 1, 20, "it reports that the server is gone")
        check(follower.running(), "it goes on")
        pool.start()
        due += finish(pool, 5, f"after-{end.__name__}-")[1]
    wait_until(lambda: set(follower.ids()) == set(due), 20, lambda: f"{len(due)} results: {follower.ids()}")
    # a killed server may number a result twice
    same(follower.seqs(), sorted(set(follower.seqs())), "numbers that only grow")
    check("is back" in follower.text(), "it reports that the server is back")
    check(all(set(e) == {"seq", "time", "key", "type", "data"} for e in follower.events()), "JSON lines")
    follower.signal(signal.SIGINT)
    same(follower.wait_exit(), 0, "exit status after Ctrl-C")

    # Reads the events again from a number on, and then with other keys.
    again = [json.loads(line) for line in run(pool, "events", "--after", "0", "--limit", str(len(follower.ids()))).splitlines()]
    same([e["data"]["id"] for e in again], follower.ids(), "the same again, from the oldest")
    last = again[-1]["seq"]
    batch, ids = finish(pool, 3, "b")
    lines = run(pool, "events", "--key", "results:42", "--after", str(last), "--limit", "3").splitlines()
    same({json.loads(line)["data"]["id"] for line in lines}, set(ids), "results")
    line = json.loads(run(pool, "events", "--key", f"batch:{batch}", "--after", str(last), "--limit", "1"))
    check(line["type"].startswith("photopool.batch.") and line["data"]["batch_id"] == batch, f"the batch's progress: {line}")
    text = on_terminal(pool, "events", "--key", "results", "--after", str(last), "--limit", "3")
    check(re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\d+  results:42  b0 r1  complete  0 of 0 photos$", text, re.M), text)
    pool.stop()


def refused(case):
    pool = FixedPool(case)
    check("can't reach" in run(pool, "events", status=4), "no server")
    pool.start()
    check("has not had an event 999 yet (bad_cursor)" in run(pool, "events", "--after", "999", status=1), "a number of the future")
    check("keys begin with" in run(pool, "events", "--key", "photos", status=1), "an unknown key")
    run(pool, "events", "--after", "x", status=2)
    check(run(pool, "events", "--help").startswith("Usage: photopool events"), "--help")
    pool.stop()


def gap(case):
    pool = FixedPool(case, **{"events.max_bytes": "1MiB"}).start()
    finish(pool, 1)
    finish(pool, 1500, "large", {"text": "x" * 900})

    def first_line():
        pool.stop()  # the server drops the events in its memory
        pool.start()
        return json.loads(run(pool, "events", "--after", "1", "--limit", "1").splitlines()[0])

    line = wait_until(lambda: "gap" in (found := first_line()) and found, 20, "the cleaner removes old events")
    same(line["gap"]["from"], 2, f"where the gap begins: {line}")
    events = [json.loads(x) for x in run(pool, "events", "--after", "1", "--limit", "1").splitlines()]
    same(events[1]["seq"], events[0]["gap"]["to"] + 1, f"the event after the gap: {events}")
    text = on_terminal(pool, "events", "--after", "1", "--limit", "1")
    check(re.search(r"^gap: the events from 2 to \d+ are no longer kept; it goes on after them$", text, re.M), text)
    pool.stop()


def webhooks(case):
    receiver = Receiver()
    pool = FixedPool(case, **HOOKS).start()
    same(run(pool, "webhooks"), "", "none")
    same(on_terminal(pool, "webhooks", "list"), "no webhooks\n", "an empty list, on a terminal")
    made = json.loads(run(pool, "webhooks", "add", "shop", "--url", receiver.url("/shop"), "--client", "42", "--client", "43"))
    same((made["name"], made["clients"]), ("shop", ["42", "43"]), "what was added")
    same(len(base64.b64decode(made["secret"].removeprefix("whsec_"), validate=True)), 32, "bytes of the secret that was made")
    check("already" in run(pool, "webhooks", "add", "shop", "--url", receiver.url("/"), status=1), "twice")
    run(pool, "webhooks", "add", "other", status=2)
    check("(bad_value, HTTP 422)" in run(pool, "webhooks", "add", "other", "--url", "http://10.0.0.1/", status=1), "an address that is denied")
    secret = case.name("secret")
    with open(secret, "w", encoding="ascii") as f:
        f.write(made["secret"] + "\n")
    check("secret" not in json.loads(run(pool, "webhooks", "add", "other", "--url", receiver.url("/other"), "--secret-file", secret)), "one's own secret")
    same([json.loads(line)["name"] for line in run(pool, "webhooks").splitlines()], ["other", "shop"], "names")
    check(re.search(r"^shop +active +42, 43 .*/shop$", on_terminal(pool, "webhooks"), re.M), "the table")

    same(json.loads(run(pool, "webhooks", "test", "shop"))["delivered"], True, "a test")
    receiver.answers["/other"] = 500
    check(not json.loads(subprocess.run([PHOTOPOOL, "webhooks", "test", "other", "--server", pool.url], stdout=subprocess.PIPE, check=False).stdout)["delivered"],
          "a test that fails")
    run(pool, "webhooks", "test", "other", status=1)
    check("there is no webhook nobody" in run(pool, "webhooks", "test", "nobody", status=1), "a test of an unknown webhook")
    _, due = finish(pool, 3)

    def shown(status):
        return [json.loads(line) for line in run(pool, "webhooks", "deliveries", "shop", "--status", status).splitlines()]

    wait_until(lambda: len(shown("delivered")) == 3, 20, lambda: f"deliveries: {shown('delivered')}")
    same({d["id"] for d in shown("delivered")}, set(due), "deliveries")
    same(shown("dead"), [], "dead ones")
    check(re.search(rf"^{due[0]} +delivered ", on_terminal(pool, "webhooks", "deliveries", "shop"), re.M), "the table of deliveries")
    same(json.loads(run(pool, "webhooks", "replay", "shop")), {"messages": 0}, "nothing is dead")
    same(json.loads(run(pool, "webhooks", "replay", "shop", "--status", "delivered")), {"messages": 3}, "all again")
    wait_until(lambda: all(receiver.ids("/shop").count(i) == 2 for i in due), 20, lambda: f"the receiver gets them again: {receiver.ids('/shop')}")

    same(json.loads(run(pool, "webhooks", "pause", "shop"))["paused"], True, "paused")
    check("paused" in on_terminal(pool, "webhooks"), "the table shows it")
    same(json.loads(run(pool, "webhooks", "resume", "shop"))["paused"], False, "resumed")
    changed = json.loads(run(pool, "webhooks", "set", "shop", "--all-clients", "--new-secret"))
    check(changed["clients"] is None and changed["secret"] != made["secret"] and changed["old_secret_until"], f"changed: {changed}")
    run(pool, "webhooks", "remove", "shop", "--force")  # its cursor may be saved a little later
    run(pool, "webhooks", "show", "shop", status=1)
    pool.stop()


if __name__ == "__main__":
    scenario(follows, refused, gap, webhooks)
