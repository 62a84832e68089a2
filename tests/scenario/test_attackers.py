#!/usr/bin/env python3
# scenario: timeout=240
"""Attackers of every kind at once (loadtest/attack) beside an honest import: every request of the
honest callers is answered and succeeds, the honest batches finish, and afterwards nothing of the
attack is left: no descriptor, no charged byte, no crash. `loadtest/attack/run` measures how fast
the answers come.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "loadtest", "attack"))
from attackers import KINDS  # noqa: E402
from server import WATCHER, Server  # noqa: E402
from harness import check, scenario, wait_until  # noqa: E402
from watch import Watch  # noqa: E402

REQUESTS = 300  # of the honest callers while the attack lasts


def test(case):
    server = Server(case)
    start = time.time()
    answered = lambda since: [s for rows in server.latencies(since, time.time()).values() for _, s in rows]  # noqa: E731
    wait_until(lambda: len(answered(start)) >= 50, 30, "the honest callers are at work")
    watch = Watch(server.pool, WATCHER)
    before = wait_until(lambda: watch.samples and watch.samples[-1], 10, "a first sample")
    server.attack(list(KINDS))
    begin = time.time()
    wait_until(lambda: len(answered(begin)) >= REQUESTS, 60, "the honest callers are answered beside the attackers")
    done = server.end_attack()
    bad = [s for s in answered(begin) if not 200 <= s < 300]
    check(not bad, f"{len(bad)} honest requests failed, for example with {bad[:10]}")
    for name, counts in done.items():
        check(counts.get("tries", 0) > 0, f"{name} has not attacked")
    limits = (before.fds + 24, {name: n + (1 << 20 if "bytes" in name else 24) for name, n in before.used.items()})

    def quiet():
        last = watch.samples[-1]
        return last.fds <= limits[0] and all(n <= limits[1].get(name, 0) for name, n in last.used.items())
    wait_until(quiet, 60, lambda: f"the server uses as little as before: {watch.samples[-1]}, before {before}")
    watch.stop()
    server.end()
    server.pool.stop()


if __name__ == "__main__":
    scenario(test)
