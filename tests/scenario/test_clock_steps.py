#!/usr/bin/env python3
# scenario: build=release timeout=150 first
"""The wall clock of photopool's machine is set 50 times during an import, by seconds to 40 days,
forth and back, also while the process is killed and started again. libfaketime shows photopool
another wall clock; the monotonic clocks, and all clocks of the origin, are right.

- No client exceeds its rate in any window, as `origin check` sees it.
- Retries and photos of slow hosts start when they are due, by the monotonic clock.
- The process notices the steps.
- Results, events and idempotency keys are still there, also after a start with the wrong clock.
"""
import glob
import os
import subprocess

from harness import ORIGIN, Lateness, Origin, Pool, Skipped, check, pause_until, same, scenario, time

STEPS = 50
EVERY = 0.7  # seconds between two steps; photopool looks at its clock twice a second
WAIT = 2  # seconds that a host asks to wait (Retry-After)
JITTER = 0.5  # photopool adds up to this to a wait (retry.delays)
LIMITED = {"c0": 60, "c1": 90, "c2": 120}  # requests a minute
DAYS = 86400
FAIL = f"flaky=1:503&retry_after={WAIT}"


class Clock:
    """The wall clock that a process sees: ahead of the right one by `ahead` seconds."""

    def __init__(self, case):
        libraries = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
        if not libraries:
            raise Skipped("libfaketime is not installed")
        self.file, self.ahead = case.path("faketime"), 0
        self.set(0)
        self.prefix = ["env", f"LD_PRELOAD={libraries[0]}", f"FAKETIME_TIMESTAMP_FILE={self.file}", "FAKETIME_NO_CACHE=1",
                       "FAKETIME_DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1"]

    def set(self, ahead):
        self.ahead = ahead
        with open(self.file + ".new", "w", encoding="ascii") as f:
            f.write(f"{ahead:+d}\n")
        os.rename(self.file + ".new", self.file)

    def step(self, random):
        size = random.choice([random.randint(1, 100), random.randint(100, 7200), random.randint(DAYS, 40 * DAYS)])
        # near the right time, so that the steps go both ways
        self.set(self.ahead + (size if random.random() < 0.5 + (self.ahead < 0) * 0.2 - (self.ahead > 0) * 0.2 else -size))


def submit(pool, clock, kept):
    """Posts a batch, which has results, events and a record of its key."""
    clock.set(0)
    kept["batch"] = pool.submit("kept", [{"id": f"i{i}", "photos": [kept["url"](i)]} for i in range(5)], key="import-1")
    pool.wait_finished(kept["batch"])


def check_kept(pool, kept):
    same(len(pool.results(kept["batch"])), 5, "results of the first batch")
    same(pool.submit("kept", [{"id": f"i{i}", "photos": [kept["url"](i)]} for i in range(5)], key="import-1"), kept["batch"],
         "the batch of a repeated Idempotency-Key")
    page = pool.get_json("/v1/events?after=0&key=results:kept&limit=10&wait=0")
    check(len(page["events"]) >= 5, f"events: {page}")


def check_start_with_wrong_clock(origin, pool, clock, kept):
    """Restarts with a clock that is 40 days ahead. The jobs that delete old events and idempotency
    keys run at the start, before anything else is written to the same files. (The job that deletes
    old batches runs every ten minutes: contract/test_pipeline_clock.c turns the clock for it.)
    """
    pool.kill()
    clock.set(40 * DAYS)
    pool.start()
    pool.wait_finished(pool.submit("after", [{"id": "i", "photos": [origin.url("kept.example", "/c/after/1.jpg")]}]))
    check_kept(pool, kept)


def requests_of(origin):
    """Returns {host: [seconds at which the origin read a request, in order]}, and when each answer
    ended.
    """
    found = {}
    with open(origin.record_file, encoding="ascii") as f:
        for line in f:
            start, end, _, host, *_ = line.split()
            found.setdefault(host.split(":")[0], []).append((int(start) / 1e6, int(end) / 1e6))
    return {host: sorted(times) for host, times in found.items()}


def check_waits(origin, probes, slow, late):
    seen, worst = requests_of(origin), 0
    for host in probes:
        times = seen.get(host, [])
        same(len(times), 2, f"requests for {host}")
        waited = times[1][0] - times[0][1]
        check(waited >= WAIT - 0.05, f"{host} was asked again after {waited:.2f} s, due after {WAIT} s")
        worst = max(worst, waited - WAIT - JITTER)
    for host in slow:
        times = seen.get(host, [])
        same(len(times), 3, f"requests for {host}")
        waited = times[-1][0] - times[0][1]
        worst = max(worst, waited - WAIT - JITTER)
    print(f"{len(probes)} retries and {len(slow)} slow hosts: at most {worst:.2f} s late, the machine {late:.2f} s", flush=True)
    check(worst <= 1 + late, f"a request was {worst:.2f} s late")


def test_clock_steps(case):
    clock = Clock(case)
    origin = Origin(case, record=case.in_memory("record.txt"))
    origin.keep_time()
    pool = Pool(case, origin=origin, prefix=clock.prefix,
                config={"blobs.fsync": "off", "clients.rpm": None, "retry.delays": [f"{int(JITTER * 1000)}ms"]})
    pool.start()
    kept = {"url": lambda i: origin.url("kept.example", f"/c/kept/{i}.jpg")}
    submit(pool, clock, kept)
    for client, rpm in LIMITED.items():
        pool.set_client(client, rpm=rpm, concurrency=8)
        pool.submit(client, [{"id": f"i{i}", "photos": [origin.url(f"{client}.example", f"/c/{client}/{i}.jpg")]}
                             for i in range(3 * rpm)])
    probes, slow, batches = [], [], []
    start, lateness, noticed = time.monotonic(), Lateness(), 0
    for i in range(STEPS):
        pause_until(start + i * EVERY)
        if i in (STEPS // 3, 2 * STEPS // 3):
            noticed += pool.metric("photopool_clock_steps_total")
            pool.kill()
            clock.step(case.random)
            pool.start()
        clock.step(case.random)
        # Near a kill a photo may be asked for once more; it is not counted.
        if min(abs(i - k) for k in (STEPS // 3, 2 * STEPS // 3)) <= 6:
            continue
        if i % 2:
            host = f"p{i}.example"
            batches.append(pool.submit("p", [{"id": host, "photos": [origin.url(host, f"/c/p/a.jpg?{FAIL}")]}]))
            probes.append(host)
        else:
            host = f"s{i}.example"
            batches.append(pool.submit("s", [{"id": host, "photos": [origin.url(host, f"/c/s/a.jpg?{FAIL}")]}]))
            pause_until(start + i * EVERY + 0.4)
            batches.append(pool.submit("s", [{"id": host + "-b", "photos": [origin.url(host, "/c/s/b.jpg")]}]))
            slow.append(host)
    for batch in batches:
        pool.wait_finished(batch, 20)
    lateness.stop()
    noticed += pool.metric("photopool_clock_steps_total")
    # two steps may follow each other so fast that they are one, or none
    check(noticed >= STEPS * 0.8, f"{noticed} of {STEPS} steps were noticed")
    check_kept(pool, kept)
    check_start_with_wrong_clock(origin, pool, clock, kept)
    origin.stop()
    check_waits(origin, probes, slow, lateness.worst())
    limits = case.path("limits.txt")
    with open(limits, "w", encoding="ascii") as f:
        f.writelines(f"{client} {rpm} 8\n" for client, rpm in LIMITED.items())
    run = subprocess.run([ORIGIN, "check", origin.record_file, "--limits", limits], stdout=subprocess.PIPE, check=False)
    print(run.stdout.decode())
    same(run.returncode, 0, "status of origin check")


if __name__ == "__main__":
    scenario(test_clock_steps)
