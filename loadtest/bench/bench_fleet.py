#!/usr/bin/env python3
"""bench_fleet: a whole fleet on this machine, all servers included: an api, an ingest, workers, a cron, a MongoDB, a Redis, the origin.

  bench_fleet.py [--photos N] [--workers N] [--clients N] [--only burst,rated] [--set NAME=VALUE]...

burst   N photos of clients without a rate: posted at once, until all batches are finished; and the same through `photopool up`
rated   clients of 600 requests a minute: a minute and more of their steady state (--windows)

Printed: photos a second, round trips to MongoDB, to Redis and to the ingest queue a photo, by role and by operation, and who had the processors. The steady
part of a burst is from a tenth of its photos to nine tenths; `whole run` is all from the first POST on, planning included.
"""
import time

from fleet_bench import Fleet, Meter, Pool, arguments, bench, check, make_batches, post_all, print_costs, print_processors, print_row, say
from harness import Origin

TIMEOUT = 600


def wait_requests(origin, n, began, timeout=TIMEOUT):
    """Asks the origin, not the fleet: that would be round trips."""
    while (done := origin.stats()["requests"]) < n:
        check(time.monotonic() - began < timeout, f"{done} of {n} requests after {timeout} s")
        time.sleep(0.1)


def wait_finished(pool, ids, began):
    for batch in ids:
        while pool.batch(batch)["state"] != "finished":
            check(time.monotonic() - began < TIMEOUT, f"{batch} is not finished after {TIMEOUT} s: {pool.batch(batch)}")
            time.sleep(0.05)


def import_all(pool, meter, origin, bodies, photos):
    """(steady reading, whole reading); whole ends when all batches are finished."""
    origin.page("POST", "/_reset")
    begin = meter.now()
    ids = post_all(pool, bodies)
    wait_requests(origin, photos * 0.1, begin.at)
    first = meter.now()
    wait_requests(origin, photos * 0.9, begin.at)
    last = meter.now()
    wait_requests(origin, photos, begin.at)
    wait_finished(pool, ids, begin.at)
    return last - first, meter.now() - begin


def settings(case, args, **more):
    return {"clients.rpm": None, "clients.concurrency": 64, "blobs.url": f"file:{case.in_memory('photos')}", **dict(args.set), **more}


def burst(case, args):
    origin = Origin(case, hosts=args.hosts, record="/dev/null")
    clients = [f"c{i}" for i in range(args.clients)]
    bodies = make_batches(origin, clients, args.photos // args.clients)
    photos = args.photos // args.clients * args.clients
    pool = Pool(case, origin=origin, config=settings(case, args, **{"blobs.url": f"file:{case.in_memory('embedded')}"})).start()
    say(f"{photos} photos through photopool up")
    _, alone = import_all(pool, Meter(origin, [pool]), origin, bodies, photos)
    pool.stop()
    fleet = Fleet(case, origin=origin, config=settings(case, args), workers=args.workers).start()
    say(f"{photos} photos through a fleet of {args.workers} workers")
    meter = Meter(origin, fleet.replicas, fleet.mongo, fleet.redis)
    used, whole = import_all(fleet.api, meter, origin, bodies, photos)
    fleet.stop()
    origin.stop()
    name = f"{args.clients} clients, no rate"
    print_row("fleet", f"{name}: batch to result", photos / whole.seconds, "photos/s", photos / alone.seconds, "photopool up")
    print_row("fleet", f"{name}: steady part", used.photos / used.seconds, "photos/s")
    print_costs("fleet", name, used, used.photos, (whole, photos))
    print_processors("fleet", "photopool up", alone)


def rated(case, args):
    origin = Origin(case, hosts=args.hosts, record="/dev/null")
    clients = [f"c{i}" for i in range(args.rated_clients)]
    per_client = int(args.rpm * (args.windows + 1.3))
    bodies = make_batches(origin, clients, per_client)
    fleet = Fleet(case, origin=origin, config=settings(case, args, **{"clients.rpm": args.rpm}), workers=args.workers).start()
    meter = Meter(origin, fleet.replicas, fleet.mongo, fleet.redis)
    say(f"{len(clients)} clients of {args.rpm} a minute, {args.workers} workers, {60 * (args.windows + 1)} s")
    begin = meter.now()
    post_all(fleet.api, bodies)
    wait_requests(origin, 1, begin.at)
    start = time.monotonic() + 60
    time.sleep(max(0, start - time.monotonic()))
    first, asked_before = meter.now(), origin.stats()["requests"]
    time.sleep(max(0, start + 60 * args.windows - time.monotonic()))
    last, asked = meter.now(), origin.stats()["requests"]
    used, whole = last - first, last - begin
    name = f"{len(clients)} clients of {args.rpm} RPM"
    permitted = len(clients) * args.rpm / 60
    print_row("fleet", f"{name}: requests", (asked - asked_before) / used.seconds, "requests/s", permitted, "what their limits permit",
              settled_photos_s=used.photos / used.seconds)
    print_costs("fleet", name, used, used.photos, (whole, whole.photos))
    for replica in fleet.replicas:
        replica.kill()
    origin.stop()


def main():
    parser = arguments(__doc__)
    parser.add_argument("--photos", type=int, default=20000, help="of the burst (20000)")
    parser.add_argument("--clients", type=int, default=10, help="of the burst (10)")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rated-clients", type=int, default=50, help="clients with a rate (50)")
    parser.add_argument("--rpm", type=int, default=600, help="their rate (600)")
    parser.add_argument("--windows", type=float, default=1, help="minutes of their steady state (1)")
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
