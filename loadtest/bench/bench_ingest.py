#!/usr/bin/env python3
"""bench_ingest: photos accepted by one api into Redis, and planned from there into MongoDB; nothing
is fetched.

  bench_ingest.py [--accept N] [--plan N] [--items N] [--connections N] [--rounds N]
                  [--ingests N] [--set NAME=VALUE]...

accept  large batches over a few kept connections, from the first POST to the last 202; in turns
        with `photopool up`, whose queue is SQLite and which is stopped (SIGSTOP) meanwhile
tls     the same of `photopool up` over TLS, in turns with plain HTTP
plan    an ingest role starts after that: from the first photo in MongoDB to the last. Compared with
        bare insertion of as many documents of the same sizes, 1,000 a command, w:majority, j:true,
        over --inserters connections; without indexes, and with the indexes of photos and items
filter  the same plan on a fleet of its own, whose filter of known photos is complete before the
        first batch. Compared with a fleet without a filter
"""
import http.client
import os
import signal
import statistics
import struct
import threading
import time

from fleet_bench import Fleet, Meter, Pool, arguments, bench, check, make_batches, print_mongo, print_processors, print_row, say, shares
from mongo_wire import Mongo, Other, encode
from tls import TlsPool

DATABASE, TIMEOUT = "photopool", 600
PER_ITEM, PER_COMMAND = 5, 1000


class Place:
    """Stands in for an origin: it makes URLs, but nothing is fetched from them."""

    @staticmethod
    def url(host, target):
        return f"http://{host}{target}"


# --- accept ---

def connect(pool):
    return pool.connect(TIMEOUT) if isinstance(pool, TlsPool) else http.client.HTTPConnection("127.0.0.1", pool.port, timeout=TIMEOUT)


def pause_clients(pool, n):
    c = connect(pool)
    for i in range(n):
        c.request("PUT", f"/v1/clients/c{i}", '{"paused": true}', {"Content-Type": "application/json"})
        r = c.getresponse()
        check(r.read() and r.status in (200, 201), f"PUT /v1/clients/c{i}: {r.status}")
    c.close()


def post_over(c, bodies, errors):
    for body in bodies:
        c.request("POST", "/v1/batches", body, {"Content-Type": "application/json"})
        r = c.getresponse()
        answer = r.read()
        if r.status != 202:
            errors.append(f"{r.status} {answer[:300]}")
            break
    c.close()


def accept(pool, bodies, connections):
    """Posts the bodies over the connections. Returns how many seconds that took."""
    errors = []
    threads = [threading.Thread(target=post_over, args=(connect(pool), bodies[i::connections], errors)) for i in range(connections)]
    begin = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not errors, f"POST /v1/batches: {errors}")
    return time.monotonic() - begin


def bench_accept(case, args, fleet, bodies, photos):
    pool = Pool(case, config=fleet.config).start()
    pause_clients(pool, args.clients)
    meter = Meter(None, fleet.replicas, fleet.mongo, fleet.redis)
    ours, other, used = [], [], None
    per_round = len(bodies) // args.rounds
    per_turn = photos / args.rounds
    for i in range(args.rounds):
        part = bodies[i * per_round:(i + 1) * per_round]
        other.append(per_turn / accept(pool, part, args.connections))
        pool.signal(signal.SIGSTOP)
        before = meter.now()
        ours.append(per_turn / accept(fleet.api, part, args.connections))
        now = meter.now() - before
        used = used + now if used else now
        pool.signal(signal.SIGCONT)
    pool.kill()
    print_row("ingest", f"accepted by one api, {args.connections} connections", statistics.median(ours), "photos/s", statistics.median(other),
              "photopool up", asked=50000, photos=photos, durability=fleet.api.get_json("/readyz").get("durability"),
              queue_trips_a_thousand=shares(used.round_trips("ingest", "op"), photos / 1000))
    print_processors("ingest", "accept", used)


def bench_tls(case, args, config, bodies, photos):
    """Each of two processes accepts each body; one of them is stopped while the other one works."""
    pools = [make(case, config=config).start() for make in (Pool, TlsPool)]
    rates = {pool: [] for pool in pools}
    per_round = len(bodies) // args.rounds
    for pool in pools:
        pause_clients(pool, args.clients)
        pool.signal(signal.SIGSTOP)
    for i in range(args.rounds):
        for pool in pools:
            pool.signal(signal.SIGCONT)
            seconds = accept(pool, bodies[i * per_round:(i + 1) * per_round], args.connections)
            rates[pool].append(photos / args.rounds / seconds)
            pool.signal(signal.SIGSTOP)
    for pool in pools:
        pool.kill()
    plain, tls = (statistics.median(rates[pool]) for pool in pools)
    print_row("ingest", f"accepted by `photopool up` over TLS, {args.connections} connections", tls, "photos/s", plain, "plain HTTP",
              photos=photos)


# --- plan ---

def counted(server, collection):
    """Returns the number of documents in a collection, read from its metadata, which costs nothing."""
    return server.run(DATABASE, {"count": collection})["n"]


def plan(args, fleet, photos):
    """Waits until the ingest role has planned all photos. Returns (photos a second, costs)."""
    server, begin = fleet.mongo.wire.primary(), time.monotonic()
    check(counted(server, "photos") == 0, "something is planned already")
    planners = [fleet.add("ingest") for _ in range(args.ingests)]
    meter = Meter(None, fleet.replicas, fleet.mongo, fleet.redis)
    n = 0
    while not (n := counted(server, "photos")):
        check(time.monotonic() - begin < TIMEOUT, f"nothing is planned after {TIMEOUT} s")
    first, before = n, meter.now()
    while (n := counted(server, "photos")) < photos:
        check(time.monotonic() - begin < TIMEOUT, f"{n} of {photos} photos are planned after {TIMEOUT} s")
        time.sleep(0.02)
    used = meter.now() - before
    while fleet.api.get_json("/v1/queue")["ingest"]["photos"]:
        check(time.monotonic() - begin < TIMEOUT, f"the queue is not empty after {TIMEOUT} s")
        time.sleep(0.05)
    for p in planners:
        p.kill()
    return (photos - first) / used.seconds, used


def bench_plan(args, fleet, photos):
    rate, used = plan(args, fleet, photos)
    say("bare insertion")
    bare, indexed = (insert(args, fleet, photos, flag) for flag in (False, True))
    print_row("ingest", f"planned by {args.ingests} ingest", rate, "photos/s", bare, "bare insertion", asked=20000, insertion_with_indexes=indexed,
              store_trips_a_thousand=shares(used.round_trips("store", "op"), photos / 1000))
    print_mongo("ingest", "plan", used, photos)
    print_processors("ingest", "plan", used)


def wait_for_filter(fleet):
    """Waits until the leader has built the filter of known photos."""
    begin = time.monotonic()
    while not fleet.redis.wire.run("HEXISTS", "{photopool:filter}:meta", "at"):
        check(time.monotonic() - begin < TIMEOUT, f"the filter is not complete after {TIMEOUT} s")
        time.sleep(0.2)


def bench_filter(case, args, config, bodies, photos):
    rates, trips = [], []
    for size in ("16MiB", "0"):
        fleet = Fleet(case, config={**config, "ingest.filter_bytes": size}, replicas={"api": 1, "cron": 1}).start()
        if size != "0":
            wait_for_filter(fleet)
        accept(fleet.api, bodies, args.connections)
        say(f"plan with a filter of {size}")
        rate, used = plan(args, fleet, photos)
        rates.append(rate)
        trips.append(used.round_trips("store", "op").get("lookup", 0) / (photos / 1000))
        for replica in fleet.replicas:
            replica.kill()
    print_row("ingest", f"new photos planned by {args.ingests} ingest, with the filter", rates[0], "photos/s", rates[1], "no filter",
              lookups_a_thousand=trips[0], lookups_a_thousand_without=trips[1])


def element(number, raw):
    return b"\x03" + str(number).encode() + b"\0" + raw


def commands_of(server, collection, target, n):
    """Returns commands, ready to send, that insert n documents with new ids, 1,000 documents a
    command. The documents are like those of a collection, of which this function reads the first
    64.
    """
    like = server.run(DATABASE, {"find": collection, "limit": 64})["cursor"]["firstBatch"]
    shapes = [(d["_id"], encode({k: v for k, v in d.items() if k != "_id"})) for d in like]
    commands = []
    for first in range(0, n, PER_COMMAND):
        parts = []
        for i in range(first, min(first + PER_COMMAND, n)):
            key, raw = shapes[i % len(shapes)]
            new = os.urandom(len(key)) if isinstance(key, bytes) else f"{i:0{len(key)}}"
            head = encode({"_id": new})[4:-1]
            parts.append(element(i - first, struct.pack("<i", len(raw) + len(head)) + head + raw[4:]))
        body = b"".join(parts)
        array = Other((0x04, struct.pack("<i", len(body) + 5) + body + b"\0"))
        commands.append({"insert": target, "documents": array, "ordered": False, "writeConcern": {"w": "majority", "j": True}})
    return commands


def copy_indexes(server, collection, target):
    wanted = [{k: v for k, v in row.items() if k != "v"} for row in server.run(DATABASE, {"listIndexes": collection})["cursor"]["firstBatch"]
              if row["name"] != "_id_"]
    if wanted:
        server.run(DATABASE, {"createIndexes": target, "indexes": wanted})


def insert_all(url, database, commands):
    server = Mongo(url).primary()
    for command in commands:
        server.run(database, command)
    server.close()


def insert(args, fleet, photos, indexed):
    """Inserts as many photos and items as the ingest role has planned. Returns photos a second."""
    server = fleet.mongo.wire.primary()
    commands = []
    for name, n in (("items", counted(server, "items")), ("photos", photos)):
        target = f"bench_{name}_{'indexed' if indexed else 'bare'}"
        server.run(DATABASE, {"create": target})
        if indexed:
            copy_indexes(server, name, target)
        commands.append(commands_of(server, name, target, n))
    # Items and photos alternate, as when the ingest role plans.
    order = sorted((k / len(part), which, k) for which, part in enumerate(commands) for k in range(len(part)))
    order = [commands[which][k] for _, which, k in order]
    threads = [threading.Thread(target=insert_all, args=(fleet.mongo.url, DATABASE, order[i::args.inserters])) for i in range(args.inserters)]
    begin = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    seconds = time.monotonic() - begin
    check(counted(server, "bench_photos_indexed" if indexed else "bench_photos_bare") == photos, "documents are missing")
    return photos / seconds


def bodies_of(args, photos):
    """Returns bodies of POSTs, equal except for their clients, with at least this many photos in
    all. Their number is a multiple of args.rounds.
    """
    clients = [f"c{i}" for i in range(args.clients)]
    batches = -(-photos // (args.items * PER_ITEM * args.rounds)) * args.rounds
    per_client = -(-batches // args.clients) * args.items * PER_ITEM
    return [body for _, body in make_batches(Place, clients, per_client, PER_ITEM, args.items * PER_ITEM)][:batches]


def run(case, args):
    config, per_batch = {"ingest.high_water": "1G", **dict(args.set)}, args.items * PER_ITEM
    bodies = bodies_of(args, args.accept)
    first = Fleet(case, config=config, replicas={"api": 1}).start()
    say(f"accept: {len(bodies)} batches of {per_batch} photos, {len(bodies[0]) / 1024:.0f} KiB each")
    bench_accept(case, args, first, bodies, len(bodies) * per_batch)
    first.api.kill()
    bench_tls(case, args, config, bodies, len(bodies) * per_batch)
    bodies = bodies_of(args, args.plan)
    # a new Redis, whose queue is empty
    fleet = Fleet(case, config=config, replicas={"api": 1}, mongo=first.mongo).start()
    accept(fleet.api, bodies, args.connections)
    say(f"plan: {len(bodies) * per_batch} photos")
    bench_plan(args, fleet, len(bodies) * per_batch)
    for replica in fleet.replicas:
        replica.kill()
    bench_filter(case, args, config, bodies, len(bodies) * per_batch)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--accept", type=int, default=1000000, help="photos (1000000)")
    parser.add_argument("--plan", type=int, default=200000, help="photos (200000)")
    parser.add_argument("--items", type=int, default=1000, help="items of a batch, each with 5 photos (1000)")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="of accepting (5)")
    parser.add_argument("--ingests", type=int, default=1)
    parser.add_argument("--inserters", type=int, default=4, help="connections of the bare insertion (4)")
    bench(run, parser.parse_args())


if __name__ == "__main__":
    main()
