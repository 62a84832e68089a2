#!/usr/bin/env python3
"""bench_counters: the counters of a fleet, with a real MongoDB and Redis: how many keys are read and
incremented a minute over HTTP at once, and what a cached counter takes of Redis.

  bench_counters.py [--counters N] [--keys N] [--per-post N] [--load X] [--apis N] [--seconds S] [--no-sweep]
                    [--set NAME=VALUE]...

First it reads --counters counters once, so that all are cached, and prints the bytes of Redis that
each takes. Then two wrk send requests over kept connections, at --load times the asked rates:
reads of --keys counters each, and increments of --per-post counters each. A fifth of the counters
gets 80 % of the requests. It prints keys a minute and the share of all requests that were answered
within 5 ms; wrk counts a slow answer also for the requests that it kept from being sent. Last, the
processes start again with clocks that are 25 hours ahead, and read 1,000 of the counters. Exactly
these must be left in the cache after one round of the sweep: some 4 minutes.
"""
import json
import math
import os
import resource
import shutil
import subprocess
import threading
import time

from fleet_bench import HERE, Fleet, Meter, arguments, bench, check, print_processors, print_row, say
from test_clock_steps import Clock

READS, INCREMENTS, IN_TIME, BYTES = 6000000, 180000, 0.99, 100  # asked: keys a minute, share, bytes a counter
LATE_MS = 5
SKEW = math.log(0.2) / math.log(0.8)  # a fifth of the counters gets 80 % of the requests
KEYS_OF_A_READ = 300  # while the cache is filled
KEPT = 1000
PREFIX = "{photopool:counters}:"
DAY_AND_MORE = 25 * 3600


def name(i):
    return f"view:42:ad-{i}"


def read_all(api, counters):
    """Reads each counter once, on several connections."""
    starts = list(range(0, counters, KEYS_OF_A_READ))
    failed = []

    def work():
        while starts and not failed:
            try:
                first = starts.pop()
            except IndexError:
                return
            keys = "&".join(f"key={name(i)}" for i in range(first, min(first + KEYS_OF_A_READ, counters)))
            answer = api.get(f"/v1/counters?{keys}")
            if answer.status != 200:
                failed.append(repr(answer))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not failed, f"GET /v1/counters: {failed[:1]}")


class Cache:
    """What Redis has of the counters."""

    def __init__(self, fleet):
        self.redis = fleet.redis.wire

    def counters(self):
        return sum(self.redis.run("HLEN", bucket) for bucket in self.redis.keys(PREFIX + "b:*"))

    def bytes(self):
        """Returns the memory of Redis without the keys of others, such as the filter of known photos."""
        while self.redis.info("persistence")["aof_rewrite_in_progress"] not in ("0", 0):
            time.sleep(0.2)
        others = [key for key in self.redis.keys() if not key.startswith(PREFIX.encode())]
        used = int(self.redis.info("memory")["used_memory"])
        return used - sum(self.redis.run("MEMORY", "USAGE", key) or 0 for key in others)


def fill(fleet, args):
    """Caches all counters. Prints what each takes of Redis."""
    cache, end = Cache(fleet), time.monotonic() + 120
    while cache.counters() == 0:  # nothing is cached before the first process leads
        check(time.monotonic() < end, "no counter is cached")
        read_all(fleet.api, 1)
        time.sleep(0.2)
    before, had = cache.bytes(), cache.counters()
    say(f"{args.counters:,} counters are read")
    while (n := cache.counters()) < args.counters:
        check(time.monotonic() < end + 600, f"{n} counters are cached")
        read_all(fleet.api, args.counters)
    print_row("counters", f"{n:,} cached counters: Redis", (cache.bytes() - before) / (n - had), "bytes/counter", BYTES, "asked")


def start_wrk(fleet, args, kind, keys, rate, connections):
    api = fleet.of("api")[0 if kind == "get" else -1]
    words = ["wrk", "-t", "1", "-c", str(connections), "-d", f"{args.seconds}s", "--timeout", "10s", "-s",
             os.path.join(HERE, "counters.lua"), f"http://127.0.0.1:{api.port}", "--", kind,
             str(args.counters), str(keys), str(SKEW), str(rate)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def ended(wrk):
    text = wrk.communicate()[0]
    check(wrk.returncode == 0, f"wrk: exit {wrk.returncode}: {text}")
    found = json.loads(text.strip().split("\n")[-1])
    check(found["errors"] == 0, f"wrk: {found}")
    return found


def load(fleet, args):
    meter = Meter(None, fleet.replicas, fleet.mongo, fleet.redis)
    say(f"{args.seconds} s of load")
    before, children = meter.now(), resource.getrusage(resource.RUSAGE_CHILDREN)
    wrks = [start_wrk(fleet, args, "get", args.keys, args.load * READS / 60 / args.keys, args.connections),
            start_wrk(fleet, args, "post", args.per_post, args.load * INCREMENTS / 60 / args.per_post, args.connections)]
    reads, posts = [ended(wrk) for wrk in wrks]
    used, after = meter.now() - before, resource.getrusage(resource.RUSAGE_CHILDREN)
    used.cpu["wrk"] = after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    for found, keys, asked, what, unit in ((reads, args.keys, READS, "reads", "keys/min"),
                                           (posts, args.per_post, INCREMENTS, "increments at once", "increments/min")):
        print_row("counters", f"{what}, {keys} a request", found["requests"] * keys * 60 / found["seconds"], unit, asked, "asked",
                  p50_ms=found["p50_ms"], p99_ms=found["p99_ms"], in_time=found["in_time"] / found["timed"])
    print_row("counters", f"requests answered in {LATE_MS} ms", (reads["in_time"] + posts["in_time"]) / (reads["timed"] + posts["timed"]),
              "of all", IN_TIME, "asked")
    print_processors("counters", "load", used)


def sweep(case, fleet, args):
    """Sets the clocks a day ahead, reads KEPT counters, and waits until the others have left the cache."""
    clock = Clock(case)
    clock.set(DAY_AND_MORE)
    for replica in fleet.replicas:
        replica.stop()
    api, _ = [fleet.add(role, {"counters.flush": "100ms"}, clock.prefix) for role in ("api", "cron")]
    read_all(api, KEPT)
    cache, begin = Cache(fleet), time.monotonic()
    had = cache.counters()
    say("a round of the sweep")
    while (left := cache.counters()) > KEPT and time.monotonic() < begin + 600:
        time.sleep(5)
    print_row("counters", f"of {had:,} counters a day later: left", left, "counters", KEPT, "that were read", seconds=time.monotonic() - begin)


def run(case, args):
    check(shutil.which("wrk"), "there is no wrk: scripts/setup bench installs it")
    config = {"callers.requests_per_second": 100000, **dict(args.set)}  # wrk is one caller
    fleet = Fleet(case, config=config, replicas={"api": args.apis, "cron": 1}).start(60)
    fill(fleet, args)
    load(fleet, args)
    if not args.no_sweep:
        sweep(case, fleet, args)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--counters", type=int, default=1000000)
    parser.add_argument("--keys", type=int, default=10, help="that a GET reads (10)")
    parser.add_argument("--per-post", type=int, default=1, help="increments of a POST (1)")
    parser.add_argument("--load", type=float, default=1.05, help="times the asked rates; 0: as fast as it goes (1.05)")
    parser.add_argument("--connections", type=int, default=32, help="of each wrk (32)")
    parser.add_argument("--apis", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=30, help="of load (30)")
    parser.add_argument("--no-sweep", action="store_true", help="leave out what happens a day later")
    bench(run, parser.parse_args())


if __name__ == "__main__":
    main()
