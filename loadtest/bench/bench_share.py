#!/usr/bin/env python3
"""bench_share: many clients import the same photos on several workers. Ideally the origin gets one
request for each URL.

  bench_share.py [--clients N] [--urls N] [--workers N] [--set NAME=VALUE]...

1,000 clients post the same 1,000 URLs within some seconds, and four workers fetch them. It prints
the requests of the origin, against one for each URL; photos that were not stored; the seconds from
the first POST to the last result; and costs. A run that lasts longer than share.window fetches each
URL again, so --set share.window=30m for a slow machine. A quick run: --urls 100.
"""
import time

from fleet_bench import Fleet, Meter, arguments, bench, check, print_costs, print_row, say
from harness import Origin

PER_ITEM = 10


def post(fleet, origin, args):
    items = [{"id": f"i{i}", "photos": [origin.url("shop.example", f"/c/all/{n}.jpg") for n in range(i, min(i + PER_ITEM, args.urls))]}
             for i in range(0, args.urls, PER_ITEM)]
    return [fleet.api.submit(f"client{c}", items) for c in range(args.clients)]


def wait_all(fleet, batches, timeout):
    """Waits until all batches are finished. Returns (photos that are stored, photos in all)."""
    end, stored, photos = time.monotonic() + timeout, 0, 0
    for n, batch in enumerate(batches):
        while (view := fleet.api.batch(batch))["state"] != "finished":
            check(time.monotonic() < end, f"{len(batches) - n} batches are not finished after {timeout} s")
            time.sleep(0.5)
        stored += view["photos"]["stored"]
        photos += view["photos"]["total"]
    return stored, photos


def run(case, args):
    origin = Origin(case, hosts=args.hosts, record=case.in_memory("record.txt"))
    config = {"clients.rpm": None, "clients.concurrency": 64, "blobs.url": f"file:{case.in_memory('photos')}", **dict(args.set)}
    fleet = Fleet(case, origin=origin, config=config, workers=args.workers).start()
    meter = Meter(origin, fleet.replicas, fleet.mongo, fleet.redis)
    before, begin = meter.now(), time.monotonic()
    batches = post(fleet, origin, args)
    posted = time.monotonic() - begin
    say(f"posted {args.clients * args.urls} photos in {posted:.0f} s")
    stored, photos = wait_all(fleet, batches, args.timeout)
    seconds, used = time.monotonic() - begin, meter.now() - before
    requests = origin.stats()["requests"]
    name = f"{args.clients} clients x {args.urls} URLs, {args.workers} workers"
    print_row("share", name, requests, "requests", args.urls, "one a URL", photos=photos, not_stored=photos - stored,
              seconds=seconds, seconds_posting=posted)
    print_costs("share", name, used, used.settled, asked=False)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--urls", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--timeout", type=int, default=1800, help="seconds until it gives up (1800)")
    parser.add_argument("--hosts", default="* delay=100-400 bytes=2000-6000", help="a line of the origin's hosts file (%(default)s)")
    bench(run, parser.parse_args())


if __name__ == "__main__":
    main()
