#!/usr/bin/env python3
"""bench_fleet: a whole fleet on this machine with all its servers: an api, an ingest, workers, a
cron, a MongoDB, a Redis, the origin.

  bench_fleet.py [--photos N] [--workers N] [--clients N] [--only burst,rated] [--set NAME=VALUE]...

burst   N photos of clients without a rate, posted at once; ends when all batches are finished
        (and the same through `photopool up`)
rated   clients of 600 requests a minute: their steady state for a minute or more (--windows)

Prints photos a second; round trips a photo to MongoDB, to Redis and to the ingest queue, by role
and by operation; mongod's own time; and each part's share of the processors ("other": the kernel,
or processes that the bench did not start). The steady part of a burst is from the first tenth of
its requests to the ninth; `whole run` is everything from the first POST on, with planning.
"""
import time

from fleet_bench import Fleet, Meter, Pool, arguments, bench, check, make_batches, post_all, print_costs, print_processors, print_row, say
from harness import Origin

TIMEOUT = 600


class Progress:
    """Follows an import by the requests that the origin has got: a question to the fleet would
    cause round trips.
    """

    def __init__(self, origin):
        self.origin, self.begin, self.seen = origin, time.monotonic(), []
        origin.page("POST", "/_reset")

    def requests(self):
        n = self.origin.stats()["requests"]
        self.seen.append((time.monotonic(), n))
        return n

    def wait(self, n):
        while (done := self.requests()) < n:
            check(time.monotonic() - self.begin < TIMEOUT, f"{done} of {n} requests after {TIMEOUT} s")
            time.sleep(0.1)

    def still(self):
        """Returns the seconds without any request between the first and the last request. Only
        pauses of a second or more count.
        """
        total, since = 0.0, None
        for (a, n), (b, m) in zip(self.seen, self.seen[1:]):
            if n and m == n:
                since = since or a
            elif since:
                total, since = total + (b - since if b - since >= 1 else 0), None
        return total


    def by_second(self):
        """Returns the number of requests in each second since the first POST."""
        seconds = [0] * int(self.seen[-1][0] - self.begin + 1)
        for (a, n), (_, m) in zip(self.seen, self.seen[1:]):
            seconds[int(a - self.begin)] += m - n
        return seconds


def wait_finished(pool, ids, began):
    for batch in ids:
        while pool.batch(batch)["state"] != "finished":
            check(time.monotonic() - began < TIMEOUT, f"{batch} is not finished after {TIMEOUT} s: {pool.batch(batch)}")
            time.sleep(0.05)


class Run:
    """One import, with readings of its steady part and of the whole import, which ends when all
    batches are finished.
    """

    def __init__(self, pool, meter, origin, bodies, photos):
        progress = Progress(origin)
        begin = meter.now()
        ids = post_all(pool, bodies)
        progress.wait(photos * 0.1)
        first = meter.now()
        progress.wait(photos * 0.9)
        last = meter.now()
        progress.wait(photos)
        fetched = time.monotonic()
        wait_finished(pool, ids, progress.begin)
        self.steady, self.whole, self.photos = last - first, meter.now() - begin, photos
        self.requests, self.still, self.after = progress.requests(), progress.still(), time.monotonic() - fetched
        say(f"requests by second: {' '.join(map(str, progress.by_second()))}")

    @property
    def rate(self):
        return self.photos / self.whole.seconds

    @property
    def steady_rate(self):
        """Returns requests a second in the steady part. It counts requests, because photos count
        only when settled.
        """
        return self.photos * 0.8 / self.steady.seconds


def settings(case, args, installation, rpm=None):
    return {"clients.rpm": rpm, "clients.concurrency": 64, "blobs.url": f"file:{case.in_memory(installation)}", **dict(args.set)}


def burst(case, args):
    origin = Origin(case, hosts=args.hosts, record=case.in_memory("record.txt") if args.keep else "/dev/null")
    clients = [f"c{i}" for i in range(args.clients)]
    bodies = make_batches(origin, clients, args.photos // args.clients)
    photos = args.photos // args.clients * args.clients
    pool = Pool(case, origin=origin, config=settings(case, args, "embedded")).start()
    say(f"{photos} photos through photopool up")
    alone = Run(pool, Meter(origin, [pool]), origin, bodies, photos)
    pool.stop()
    fleet = Fleet(case, origin=origin, config=settings(case, args, "fleet"), workers=args.workers).start()
    say(f"{photos} photos through a fleet of {args.workers} workers")
    ours = Run(fleet.api, Meter(origin, fleet.replicas, fleet.mongo, fleet.redis), origin, bodies, photos)
    fleet.stop()
    origin.stop()
    name = f"{args.clients} clients, no rate"
    print_row("fleet", f"{name}: batch to result", ours.rate, "photos/s", alone.rate, "photopool up", seconds=ours.whole.seconds,
              seconds_without_a_request=ours.still, seconds_after_the_last=ours.after, requests_a_photo=ours.requests / photos, outcomes=dict(ours.whole.photos))
    print_row("fleet", f"{name}: steady part", ours.steady_rate, "photos/s", alone.steady_rate, "photopool up")
    print_costs("fleet", name, ours.steady, ours.photos * 0.8, (ours.whole, photos))
    print_processors("fleet", "photopool up", alone.steady)


def rated(case, args):
    origin = Origin(case, hosts=args.hosts, record=case.in_memory("record.txt") if args.keep else "/dev/null")
    clients = [f"c{i}" for i in range(args.rated_clients)]
    per_client = int(args.rpm * (args.windows + 1.3))
    bodies = make_batches(origin, clients, per_client)
    fleet = Fleet(case, origin=origin, config=settings(case, args, "rated", args.rpm), workers=args.workers).start()
    meter = Meter(origin, fleet.replicas, fleet.mongo, fleet.redis)
    say(f"{len(clients)} clients of {args.rpm} a minute, {args.workers} workers, {60 * (args.windows + 1)} s")
    progress, begin = Progress(origin), meter.now()
    post_all(fleet.api, bodies)
    progress.wait(1)
    start = time.monotonic() + 60
    time.sleep(max(0, start - time.monotonic()))
    first, asked_before = meter.now(), progress.requests()
    time.sleep(max(0, start + 60 * args.windows - time.monotonic()))
    last, asked = meter.now(), progress.requests()
    used, whole = last - first, last - begin
    name = f"{len(clients)} clients of {args.rpm} RPM"
    permitted = len(clients) * args.rpm / 60
    print_row("fleet", f"{name}: requests", (asked - asked_before) / used.seconds, "requests/s", permitted, "what their limits permit",
              settled_photos_s=used.settled / used.seconds)
    print_costs("fleet", name, used, used.settled, (whole, whole.settled))
    for replica in fleet.replicas:
        replica.kill()
    origin.stop()


def main():
    parser = arguments(__doc__)
    parser.add_argument("--photos", type=int, default=20000, help="photos of the burst (20000)")
    parser.add_argument("--clients", type=int, default=10, help="clients of the burst (10)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rated-clients", type=int, default=50, help="clients with a rate (50)")
    parser.add_argument("--rpm", type=int, default=600, help="their rate (600)")
    parser.add_argument("--windows", type=float, default=1, help="minutes of steady state of the clients with a rate (1)")
    parser.add_argument("--hosts", default="* delay=20-80 bytes=2000-6000", help="a line of the origin's hosts file (%(default)s)")
    parser.add_argument("--only", default="burst,rated")
    args = parser.parse_args()
    cases = {"burst": burst, "rated": rated}
    chosen = args.only.split(",")
    if set(chosen) - set(cases):
        parser.error(f"--only takes {', '.join(cases)}")
    bench(lambda case, args: [cases[name](case, args) for name in chosen], args)


if __name__ == "__main__":
    main()
