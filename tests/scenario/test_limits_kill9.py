#!/usr/bin/env python3
# scenario: build=release timeout=420
"""50 clients with 60 to 600 requests a minute, always busy, over three kill -9: measured at the origin, no client is over its rate in
any window of 60 s nor over its concurrency, and what the limits permit is used.

Some photos are redirected (a hop is a request), some fail and are tried again. `origin check` does the sums: it looks at every window,
across the kills. The use is measured from a while after each start, when the clients' slots are taken and their windows are full or
filling, to the next kill, against what a sender with endless work could have placed, given what went before."""
import json
import subprocess

from harness import ORIGIN, Origin, Pool, check, pause_until, same, scenario, time, wait_until

CLIENTS = 50
SECONDS = 150  # in all
ALL_BUSY = 40  # from then on every client has work; before, they come one by one, so that their windows differ
SETTLE = 3  # after a start, until the segment begins
HOSTS = """
ok*.example     delay=10-250 bytes=600-2000
hop*.example    delay=10-100 bytes=600-2000 hops=2
flaky*.example  delay=10-100 bytes=600-2000 flaky=1
bad*.example    delay=10-100 chance=0.3:reset,0.2:503 retry_after=1 bytes=600-2000
"""


def urls(case, origin, client, n):
    for i in range(n):
        kind = case.random.choices(["ok", "hop", "flaky", "bad"], [80, 8, 8, 4])[0]
        yield origin.url(f"{kind}{client}.example", f"/c/{client}/{i}.jpg")


def submit(case, origin, pool, client, rpm):
    photos = list(urls(case, origin, client, int(rpm * (SECONDS / 60 + 1.5)) + 50))
    pool.submit(client, [{"id": f"i{i}", "photos": photos[i:i + 5]} for i in range(0, len(photos), 5)])


def test_limits_kill9(case):
    origin = Origin(case, hosts=HOSTS)
    pool = Pool(case, origin=origin, config={"blobs.fsync": "off", "retry.delays": ["500ms", "1s", "2s"]})
    pool.start()
    limits = {}
    for n in range(CLIENTS):
        client = f"c{n}"
        limits[client] = (60 + n * (600 - 60) // (CLIENTS - 1), case.random.choice([4, 8, 16]))
        pool.set_client(client, rpm=limits[client][0], concurrency=limits[client][1])
    with open(case.path("limits.txt"), "w", encoding="ascii") as f:
        f.writelines(f"{client} {rpm} {concurrency}\n" for client, (rpm, concurrency) in limits.items())
    start = time.monotonic()
    # In the middle of a burst, all clients at once; then where windows see what went out before and after; segments once all are busy.
    kills = [case.random.uniform(2, 8), case.random.uniform(65, 85), case.random.uniform(95, 140)]
    print("kills at (s):", *[round(k, 1) for k in kills], flush=True)
    steps = [(t, "kill", None) for t in kills] + [(SECONDS, "end", None), (ALL_BUSY, "segment", None)]
    steps += [(0 if n % 2 else case.random.uniform(0, ALL_BUSY - 5), "submit", client) for n, client in enumerate(limits)]
    segments, begin = [], None
    for at, what, client in sorted(steps, key=lambda step: step[0]):
        pause_until(start + at)
        check(pool.running(), "photopool has ended")
        if what == "submit":
            submit(case, origin, pool, client, limits[client][0])
        elif what == "segment":
            begin = time.time()
        else:
            if begin:
                segments.append((begin, time.time()))
                begin = time.time() + SETTLE
            pool.kill()
            if what == "kill":
                pool.start()
    wait_until(lambda: origin.stats()["in_flight"] == 0, 10, "the origin is idle")
    origin.stop()
    with open(case.path("segments.txt"), "w", encoding="ascii") as f:
        f.writelines(f"{int(a * 1000)} {int(b * 1000)}\n" for a, b in segments)
    run = subprocess.run([ORIGIN, "check", origin.record_file, "--limits", case.path("limits.txt"), "--between-kills",
                          case.path("segments.txt"), "--grace", "0", "--json"], stdout=subprocess.PIPE, check=False)
    verdict = json.loads(run.stdout)
    over = [c for c in verdict["clients"] if c["over"]]
    for c in over:
        print("over:", c)
    for s, (a, b) in zip(verdict["segments"], segments):
        print(f"segment of {b - a:.1f} s: {s['requests']} requests, {s['share']:.3f} of rate x time, "
              f"{s['share_of_reachable']:.3f} of what was reachable", flush=True)
    full = sum(c["worst_window"] == c["rpm"] for c in verdict["clients"])
    print(f"{verdict['requests']} requests of {len(verdict['clients'])} clients; {full} filled a window to the last request")
    same((len(verdict["clients"]), verdict["bad_lines"]), (CLIENTS, 0), "clients in the record, bad lines")
    same(over, [], "clients over a limit")
    same(run.returncode, 0, "exit status of origin check")
    total = sum(s["requests"] for s in verdict["segments"]), sum(s["reachable"] for s in verdict["segments"])
    print(f"{total[0] / total[1]:.4f} of what was reachable between kills", flush=True)
    for s in verdict["segments"]:
        check(s["requests"] >= 0.98 * s["reachable"], f"use of the permitted rate: {s}")


if __name__ == "__main__":
    scenario(test_limits_kill9)
