#!/usr/bin/env python3
"""bench_limits: many clients with a small rate each, many workers, one origin, whose record
decides.

  bench_limits.py [--clients N] [--rpm N] [--workers N] [--minutes M] [--record FILE]
                  [--set NAME=VALUE]...

2,000 clients of 10 requests a minute have a backlog for the whole run; once it is planned, 16
workers start. During the first window all clients reach their limit; then the bench measures M
minutes (5). It prints requests a minute, against what the limits permit; windows that were over,
and the machine's worst lateness (a request may be noted late by as much); figures by minute; round
trips a photo, and the use of the processors. A quick run: --clients 500 --workers 4 --minutes 1.
"""
import json
import os
import subprocess
import time

from fleet_bench import ORIGIN, Fleet, Meter, arguments, bench, check, make_batches, post_all, print_costs, print_row, say
from harness import Lateness, Origin

WINDOW = 60


def wait_planned(api, timeout):
    begin = time.monotonic()
    while left := api.get_json("/v1/queue")["ingest"]["photos"]:
        check(time.monotonic() - begin < timeout, f"{left} photos are not planned after {timeout} s")
        time.sleep(0.5)


def judge(case, args, origin, edges):
    """Returns the verdict of `origin check`. Its segments are each minute, and last all minutes
    together.
    """
    limits, times = case.path("limits.txt"), case.path("times.txt")
    with open(limits, "w", encoding="ascii") as f:
        f.write(f"* {args.rpm} {args.concurrency}\n")
    with open(times, "w", encoding="ascii") as f:
        f.writelines(f"{a:.6f} {b:.6f}\n" for a, b in [*zip(edges, edges[1:]), (edges[0], edges[-1])])
    check_run = subprocess.run([ORIGIN, "check", origin.record_file, "--limits", limits, "--between-kills", times, "--json"],
                               stdout=subprocess.PIPE, check=False)
    check(check_run.returncode < 2, "origin check failed")
    return json.loads(check_run.stdout)


def run(case, args):
    check(not args.record or not os.path.exists(args.record), f"{args.record} exists already, and the origin would append to it")
    origin = Origin(case, hosts=args.hosts, record=args.record or case.in_memory("record.txt"))
    clients = [f"c{i}" for i in range(args.clients)]
    per_client = int(args.rpm * (args.minutes + 3))
    config = {"clients.rpm": args.rpm, "clients.concurrency": args.concurrency, "blobs.url": f"file:{case.in_memory('photos')}", **dict(args.set)}
    fleet = Fleet(case, origin=origin, config=config, workers=0).start()
    say(f"planning {args.clients * per_client} photos")
    post_all(fleet.api, make_batches(origin, clients, per_client, hosts=1))
    wait_planned(fleet.api, 1200)
    say(f"{args.workers} workers: the first window, then {args.minutes:g} minutes")
    lateness = Lateness()
    add_workers(fleet, args.workers)
    meter = Meter(origin, fleet.replicas, fleet.mongo, fleet.redis)
    begin, start = meter.now(), time.time() + WINDOW
    time.sleep(WINDOW)
    first = meter.now()
    time.sleep(max(0, start + 60 * args.minutes - time.time()))
    last, end = meter.now(), time.time()
    for replica in fleet.replicas:
        replica.kill()
    origin.stop()
    lateness.stop()
    edges = [start + 60 * i for i in range(int(args.minutes) + 1)]
    edges += [end] if end - edges[-1] > 1 else []
    report(args, judge(case, args, origin, edges), lateness.worst(), last - first, last - begin)


def add_workers(fleet, n):
    workers = [fleet.make("worker") for _ in range(n)]
    for worker in workers:
        worker.spawn_up()
    for worker in workers:
        worker.wait_port()


def report(args, verdict, late, used, whole):
    *minutes, total = verdict["segments"]
    seconds = total["to"] - total["from"]
    name = f"{args.clients} clients of {args.rpm} RPM, {args.workers} workers"
    print_row("limits", name, total["requests"] * 60 / seconds, "requests/min", args.clients * args.rpm, "what the limits permit",
              asked=f"{0.995:.1%}", windows_over=sum(c["worst_window"] > args.rpm for c in verdict["clients"]),
              concurrency_over=sum(c["worst_concurrency"] > args.concurrency for c in verdict["clients"]),
              fullest_window=max((c["worst_window"] for c in verdict["clients"]), default=0), share_of_reachable=total["share_of_reachable"],
              machine_late_ms=round(late * 1000), clients_seen=len(verdict["clients"]), seconds=seconds,
              by_minute={str(i + 1): m["share"] for i, m in enumerate(minutes)})
    print_costs("limits", name, used, used.settled, (whole, whole.settled), asked=False)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--rpm", type=int, default=10)
    parser.add_argument("--concurrency", type=int, default=16, help="requests in flight of a client (16)")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--minutes", type=float, default=5, help="minutes to measure after the first window (5)")
    parser.add_argument("--hosts", default="* delay=20-80 bytes=2000-6000", help="a line of the origin's hosts file (%(default)s)")
    parser.add_argument("--record", metavar="FILE", help="where the origin writes its record, which stays; best in memory")
    bench(run, parser.parse_args())


if __name__ == "__main__":
    main()
