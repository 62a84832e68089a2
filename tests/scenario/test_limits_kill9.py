#!/usr/bin/env python3
# scenario: build=release timeout=420 first
"""50 clients with 60 to 600 requests a minute are always busy, over three kill -9. At the origin,
no client may exceed its rate in any window of 60 s, nor its concurrency, and photopool must use
what the limits permit.

Some photos are redirected (each hop is a request), some fail and are retried. `origin check`
evaluates every window, also across the kills. To measure the use of the limits, it compares
segments: a segment begins some time after a start and ends at the next kill. The reference is an
ideal sender with endless work and the same requests before the segment. Clients start one by one:
if all had their bursts at the same moments, a burst shortly before or after a kill would decide
the figure. The ideal sender is never late. photopool sends a request that is due after 60.000 s
after 60.2 s (the margin for the network), or when a transfer ends. So the test does not count what
becomes due in the last TAIL seconds before a kill. Nor does the ideal sender wait for a processor:
the test allows for three times the machine's lateness.

The origin notes a request when it reads it. If the machine is late by more than half of the
margin, the origin may note two requests closer together than photopool sent them. So the checked
windows are shorter by twice the excess: requests noted within such a window were sent within 60 s.
"""
import json
import math
import subprocess

from harness import ORIGIN, Lateness, Origin, Pool, check, pause_until, same, scenario, time, wait_until

CLIENTS = 50
SECONDS = 170  # duration of the import in seconds
ALL_BUSY = 58  # from this second on every client has work
DELAY = 0.4  # mean delay of the origin's answers in seconds
MARGIN = 0.2  # photopool's margin for the network in seconds
# The seconds before a kill that do not count: a request that becomes due waits for the margin, and
# on average half a transfer passes until one of the client's transfers ends.
TAIL = MARGIN + DELAY / 2
# seconds from a start until the segment begins; by then photopool has sent the backlog of due
# requests
SETTLE = 6
HOSTS = """
ok*.example     delay=200-600 bytes=600-2000
hop*.example    delay=200-600 bytes=600-2000 hops=2
flaky*.example  delay=200-600 bytes=600-2000 flaky=1
bad*.example    delay=200-600 chance=0.3:reset,0.2:503 retry_after=1 bytes=600-2000
"""


def urls(case, origin, client, n):
    for i in range(n):
        kind = case.random.choices(["ok", "hop", "flaky", "bad"], [80, 8, 8, 4])[0]
        yield origin.url(f"{kind}{client}.example", f"/c/{client}/{i}.jpg")


def submit(case, origin, pool, client, rpm):
    photos = list(urls(case, origin, client, int(rpm * (SECONDS / 60 + 1.5)) + 50))
    pool.submit(client, [{"id": f"i{i}", "photos": photos[i:i + 5]} for i in range(0, len(photos), 5)])


def checked(case, origin, *more):
    """Returns the exit status and the output of `origin check`."""
    run = subprocess.run([ORIGIN, "check", origin.record_file, "--limits", case.path("limits.txt"), *more, "--grace", "0", "--json"],
                         stdout=subprocess.PIPE, check=False)
    return run.returncode, json.loads(run.stdout)


def test_limits_kill9(case):
    # The origin notes the time when it has read a request. To be late by less than the margin, it
    # must not wait for a disk or a core.
    origin = Origin(case, hosts=HOSTS, record=case.in_memory("record.txt"))
    origin.keep_time()
    pool = Pool(case, origin=origin, config={"blobs.fsync": "off", "retry.delays": ["500ms", "1s", "2s"]})
    pool.start()
    limits = {}
    for n in range(CLIENTS):
        client = f"c{n}"
        rpm = 60 + n * (600 - 60) // (CLIENTS - 1)
        limits[client] = (rpm, math.ceil(3 * DELAY * rpm / 60))
        pool.set_client(client, rpm=limits[client][0], concurrency=limits[client][1])
    with open(case.path("limits.txt"), "w", encoding="ascii") as f:
        f.writelines(f"{client} {rpm} {concurrency}\n" for client, (rpm, concurrency) in limits.items())
    start = time.monotonic()
    kills = [case.random.uniform(15, 45), case.random.uniform(80, 95), case.random.uniform(115, 130)]
    print("kills at (s):", *[round(k, 1) for k in kills], flush=True)
    steps = [(t, "kill", None) for t in kills] + [(SECONDS, "end", None), (ALL_BUSY, "segment", None)]
    steps += [(case.random.uniform(0, ALL_BUSY - 3), "submit", client) for client in limits]
    segments, begin, lateness = [], None, Lateness()
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
    lateness.stop()
    wait_until(lambda: origin.stats()["in_flight"] == 0, 10, "the origin is idle")
    origin.stop()
    for name, tail in (("segments.txt", 0), ("due.txt", TAIL)):
        with open(case.path(name), "w", encoding="ascii") as f:
            f.writelines(f"{int(a * 1000)} {int((b - tail) * 1000)}\n" for a, b in segments)
    window = 60 - 2 * max(0, lateness.worst() - MARGIN / 2)
    code, strict = checked(case, origin, "--window", f"{window:.3f}")
    _, verdict = checked(case, origin, "--between-kills", case.path("segments.txt"))
    _, due = checked(case, origin, "--between-kills", case.path("due.txt"))
    for segment, ideal in zip(verdict["segments"], due["segments"]):
        segment["reachable"] = ideal["reachable"]
    # c["over"] uses the limit of a full window of 60 s in a shorter window, so this does not use it
    over = [c for c in strict["clients"]
            if c["worst_window"] > limits[c["client"]][0] or c["worst_concurrency"] > limits[c["client"]][1]]
    for c in over:
        print("over:", c)
    print(f"the machine was late by up to {lateness.worst() * 1000:.0f} ms: windows of {window:.2f} s; "
          f"{sum(c['over'] for c in verdict['clients'])} clients over in 60 s as noted", flush=True)
    for s, (a, b) in zip(verdict["segments"], segments):
        print(f"segment of {b - a:.1f} s: {s['requests']} requests, {s['share']:.3f} of rate x time, "
              f"{s['requests'] / s['reachable']:.3f} of the reachable requests", flush=True)
    full = sum(c["worst_window"] == c["rpm"] for c in verdict["clients"])
    print(f"{verdict['requests']} requests of {len(verdict['clients'])} clients; {full} filled a window to the last request")
    same((len(verdict["clients"]), verdict["bad_lines"]), (CLIENTS, 0), "clients in the record, bad lines")
    same(over, [], f"clients over a limit in {window:.2f} s; starts at {[round(a, 1) for a, _ in segments]}; late: {lateness.late}")
    check(code in (0, 1), f"exit status of origin check: {code}")
    total = sum(s["requests"] for s in verdict["segments"]), sum(s["reachable"] for s in verdict["segments"])
    late = [lateness.between(a, b) / (b - a) for a, b in segments]
    print(f"{total[0] / total[1]:.4f} of the reachable requests between kills; late for", *[f"{x:.4f}" for x in late], "of the segments", flush=True)
    check(total[0] >= (0.985 - 3 * max(late)) * total[1], f"use of the permitted rate: {total[0] / total[1]:.4f}")
    for s, x in zip(verdict["segments"], late):
        check(s["requests"] >= (0.96 - 3 * x) * s["reachable"], f"use of the permitted rate in one segment: {s}")


if __name__ == "__main__":
    scenario(test_limits_kill9)
