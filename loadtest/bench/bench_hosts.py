#!/usr/bin/env python3
"""bench_hosts: one of 50 hosts goes down, with load on all. The others must not notice, and nobody
may claim its photos.

  bench_hosts.py [--hosts N] [--rate N] [--workers N] [--seconds N] [--set NAME=VALUE]...

Each client has photos on all hosts. Every second, batches of 10 photos are posted: --rate photos a
second for the healthy hosts, and --down-rate for the one that goes down. In the first phase all
hosts answer. Then one host resets every connection; the second phase begins 60 s later. It prints
the photos of the other hosts that were finished in the second phase, against the first, and the
median and the 99th percentile of the time from a POST to the end of its batch; and how often photos
of the host that is down were claimed in the second phase, with what is asked: one a minute.
"""
import time
from datetime import datetime

from fleet_bench import Fleet, arguments, bench, check, print_row, say
from harness import Origin

PER_BATCH = 10
CLIENTS = 10
HOST = "h{}.example"
FILE = "{down}* {usual}\n"


class Load:
    """Posts batches at a steady rate, and remembers them."""

    def __init__(self, fleet, origin, args):
        self.fleet, self.origin, self.args, self.n = fleet, origin, args, 0

    def post(self, hosts):
        self.n += 1
        photos = [self.origin.url(HOST.format(h), f"/c/all/{self.n}-{i}.jpg") for i, h in enumerate(hosts)]
        return self.fleet.api.submit(f"client{self.n % CLIENTS}", [{"id": f"i{self.n}", "photos": photos}])

    def second(self):
        """Posts the batches of a second. Returns those of the healthy hosts."""
        healthy = 0
        batches = []
        for _ in range(self.args.rate // PER_BATCH):
            batches.append(self.post([1 + (healthy + i) % (self.args.hosts - 1) for i in range(PER_BATCH)]))
            healthy += PER_BATCH
        for _ in range(self.args.down_rate // PER_BATCH):
            self.post([0] * PER_BATCH)
        return batches

    def run(self, seconds):
        """Returns the batches of the healthy hosts."""
        batches, begin = [], time.monotonic()
        for s in range(seconds):
            batches += self.second()
            time.sleep(max(0, begin + s + 1 - time.monotonic()))
        return batches


def when(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def phase(load, seconds):
    """Returns photos a second from the first POST to the last result, and the sorted times in ms from
    a POST to the end of its batch.
    """
    begin, batches = time.time(), load.run(seconds)
    end, waits, last = time.time(), [], begin
    for batch in batches:
        while not (view := load.fleet.api.batch(batch))["finished_at"]:
            check(time.time() < end + 120, f"{batch} is not finished")
            time.sleep(0.2)
        waits.append(when(view["finished_at"]) - when(view["created_at"]))
        last = max(last, when(view["finished_at"]))
    return len(batches) * PER_BATCH / (last - begin), sorted(1000 * w for w in waits)


def percentile(values, n):
    return values[len(values) * n // 100]


def claims_of(fleet, host):
    """Returns how often the photos of the host have been claimed."""
    rows = fleet.mongo.wire.find("photopool", "photos", {"t.d": host}, projection={"e": 1})
    return sum(row.get("e", 0) for row in rows)


def run(case, args):
    origin = Origin(case, hosts=FILE.format(down="", usual=args.behaviour), record=case.in_memory("record.txt"))
    config = {"clients.rpm": None, "clients.concurrency": 64, "hosts.wait": "1h",
              "blobs.url": f"file:{case.in_memory('photos')}", **dict(args.set)}
    fleet = Fleet(case, origin=origin, config=config, workers=args.workers).start()
    load = Load(fleet, origin, args)
    load.run(10)
    say(f"{args.seconds} s with {args.hosts} hosts")
    before = phase(load, args.seconds)
    origin.set_hosts(FILE.format(down=f"{HOST.format(0)} reset=1\n", usual=args.behaviour))
    say(f"{HOST.format(0)} is down: 60 s, and then {args.seconds} s")
    load.run(60)
    claimed = claims_of(fleet, HOST.format(0))
    after = phase(load, args.seconds)
    claimed = claims_of(fleet, HOST.format(0)) - claimed
    name = f"{args.hosts} hosts, {args.workers} workers, {args.rate} photos/s"
    print_row("hosts", f"{name}: the others", after[0], "photos/s", before[0], "before", asked="0.980")
    print_row("hosts", f"{name}: median of a batch", percentile(after[1], 50), "ms", percentile(before[1], 50), "before")
    print_row("hosts", f"{name}: p99 of a batch", percentile(after[1], 99), "ms", percentile(before[1], 99), "before", asked="1.020")
    print_row("hosts", f"{name}: claims of the one that is down", claimed * 60 / args.seconds, "a minute", asked="1")


def main():
    parser = arguments(__doc__)
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--rate", type=int, default=100, help="photos a second of the healthy hosts (100)")
    parser.add_argument("--down-rate", type=int, default=10, help="photos a second of the host that goes down (10)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=60, help="length of a phase (60)")
    parser.add_argument("--behaviour", default="delay=100-300 bytes=2000-6000", help="of a healthy host (%(default)s)")
    bench(run, parser.parse_args())


if __name__ == "__main__":
    main()
