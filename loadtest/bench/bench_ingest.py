#!/usr/bin/env python3
"""bench_ingest: photos accepted by one api into Redis, and photos planned from there into MongoDB, nothing fetched.

  bench_ingest.py [--photos N] [--items N] [--connections N] [--rounds N] [--ingests N] [--set NAME=VALUE]...

accept  large batches over a few kept connections, from the first POST to the last 202; in turn with `photopool up`, whose queue is SQLite, and which is
        stopped (SIGSTOP) meanwhile
plan    an ingest role is started after that: from the first photo in MongoDB to the last. Against the bare insertion of as many documents of the same
        sizes, 1,000 a command, w:majority, j:true, over --inserters connections; without indexes, and with those that photos and items have
"""
import http.client
import os
import statistics
import struct
import threading
import time

from fleet_bench import (Fleet, Meter, Pool, arguments, bench, check, make_batches, print_processors, print_row, say, shares)
from mongo_wire import Mongo, Other, encode

DATABASE, TIMEOUT = "photopool", 600
PER_COMMAND = 1000


class Place:
    """Stands for an origin that nobody asks."""

    @staticmethod
    def url(host, target):
        return f"http://{host}{target}"


# --- accept ---

def post_over(port, bodies, errors):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    for body in bodies:
        c.request("POST", "/v1/batches", body, {"Content-Type": "application/json"})
        r = c.getresponse()
        answer = r.read()
        if r.status != 202:
            errors.append(f"{r.status} {answer[:300]}")
            break
    c.close()


def accept(pool, bodies, connections):
    """Seconds."""
    errors = []
    threads = [threading.Thread(target=post_over, args=(pool.port, bodies[i::connections], errors)) for i in range(connections)]
    begin = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not errors, f"POST /v1/batches: {errors}")
    return time.monotonic() - begin


def bench_accept(case, args, fleet, clients, bodies):
    pool = Pool(case, config={"ingest.high_water": "1G", **dict(args.set)}).start()
    for client in clients:
        pool.set_client(client, paused=True)
    meter = Meter(None, fleet.replicas, fleet.mongo, fleet.redis)
    ours, other, used = [], [], None
    per_round = len(bodies) // args.rounds
    photos = args.photos / len(bodies) * per_round
    for i in range(args.rounds):
        part = bodies[i * per_round:(i + 1) * per_round]
        other.append(photos / accept(pool, part, args.connections))
        pool.signal(19)  # SIGSTOP
        before = meter.now()
        ours.append(photos / accept(fleet.api, part, args.connections))
        now = meter.now() - before
        used = used + now if used else now
        pool.signal(18)
    pool.kill()
    n = photos * args.rounds
    print_row("ingest", f"accepted by one api, {args.connections} connections", statistics.median(ours), "photos/s", statistics.median(other),
              "photopool up", asked=50000, photos=int(n), durability=fleet.api.get_json("/readyz").get("durability"),
              queue_trips_a_thousand=shares(used.trips("ingest", "op"), n / 1000))
    print_processors("ingest", "accept", used)
    return int(n)


# --- plan ---

def counted(server, collection):
    """From the collection's metadata: costs nothing."""
    return server.run(DATABASE, {"count": collection})["n"]


def bench_plan(args, fleet, photos):
    server = fleet.mongo.wire.primary()
    check(counted(server, "photos") == 0, "something is planned already")
    begin = time.monotonic()
    planners = [fleet.make("ingest") for _ in range(args.ingests)]
    for p in planners:
        p.start()
    meter = Meter(None, fleet.replicas, fleet.mongo, fleet.redis)
    first = before = None
    while True:
        n, now = counted(server, "photos"), time.monotonic()
        if n and not first:
            first, before = (now, n), meter.now()
        if n >= photos:
            break
        check(now - begin < TIMEOUT, f"{n} of {photos} photos are planned after {TIMEOUT} s")
        time.sleep(0.05)
    used = meter.now() - before
    rate = (photos - first[1]) / max(now - first[0], 1e-9)
    while fleet.api.get_json("/v1/queue")["ingest"]["photos"]:
        check(time.monotonic() - begin < TIMEOUT, f"the queue is not empty after {TIMEOUT} s")
        time.sleep(0.05)
    return rate, used


def element(number, raw):
    return b"\x03" + str(number).encode() + b"\0" + raw


def commands_of(server, collection, target, n):
    """Documents as those of a collection, of which only the first 64 are read, with other ids; in arrays of a thousand, ready to be sent."""
    like = [d for d in server.run(DATABASE, {"find": collection, "limit": 64})["cursor"]["firstBatch"]]
    shapes = []
    for d in like:
        raw = encode({k: v for k, v in d.items() if k != "_id"})
        shapes.append((d["_id"], raw))
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


def bench_insert(args, fleet, photos, items, indexed):
    """Documents a second; what they stand for is photos."""
    server = fleet.mongo.wire.primary()
    names = {"photos": photos, "items": items}
    commands = []
    for name, n in names.items():
        target = f"bench_{name}_{'indexed' if indexed else 'bare'}"
        server.run(DATABASE, {"create": target})
        if indexed:
            copy_indexes(server, name, target)
        commands.append(commands_of(server, name, target, n))
    # In turn, as planning does it: so many items, then their photos.
    mixed = sorted((k / len(part), which, k) for which, part in enumerate(commands) for k in range(len(part)))
    mixed = [commands[which][k] for _, which, k in mixed]
    threads = [threading.Thread(target=insert_all, args=(fleet.mongo.url, DATABASE, mixed[i::args.inserters])) for i in range(args.inserters)]
    begin = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return photos / (time.monotonic() - begin)


def run(case, args):
    clients = [f"c{i}" for i in range(args.clients)]
    per_batch = args.items * 5
    # as many batches as divide evenly into rounds
    per_client = -(-args.photos // (len(clients) * per_batch)) * per_batch
    args.photos = per_client * len(clients)
    bodies = [body for _, body in make_batches(Place, clients, per_client, per_batch=per_batch)]
    fleet = Fleet(case, config={"ingest.high_water": "1G", **dict(args.set)}, replicas={"api": 1}).start()
    say(f"accept: {len(bodies)} batches of {per_batch} photos, {len(bodies[0]) / 1024:.0f} KiB each")
    photos = bench_accept(case, args, fleet, clients, bodies)
    say(f"plan: {photos} photos")
    rate, used = bench_plan(args, fleet, photos)
    for p in fleet.of("ingest"):
        p.kill()
    say("bare insertion")
    items = counted(fleet.mongo.wire.primary(), "items")
    bare, indexed = (bench_insert(args, fleet, photos, items, flag) for flag in (False, True))
    print_row("ingest", f"planned by {args.ingests} ingest", rate, "photos/s", bare, "bare insertion", asked=20000, insertion_with_indexes=indexed,
              store_trips_a_thousand=shares(used.trips("store", "op"), photos / 1000))
    print_processors("ingest", "plan", used)
    for replica in fleet.replicas:
        replica.kill()


def main():
    parser = arguments(__doc__)
    parser.add_argument("--photos", type=int, default=200000)
    parser.add_argument("--items", type=int, default=1000, help="of a batch, each of 5 photos (1000)")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3, help="of accepting (3)")
    parser.add_argument("--ingests", type=int, default=1)
    parser.add_argument("--inserters", type=int, default=4, help="connections of the bare insertion (4)")
    bench(run, parser.parse_args())


if __name__ == "__main__":
    main()
