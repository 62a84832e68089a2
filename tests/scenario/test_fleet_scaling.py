#!/usr/bin/env python3
# scenario: build=release timeout=300 fleet
"""An import runs while the number of workers goes from 1 to 16 and back to 1. Nothing may be lost,
every client's limits must hold at the origin all the time, all workers must get work, and each
worker that leaves must exit with 0 and leave no claim and no slot behind.
"""
from concurrent.futures import ThreadPoolExecutor

from fleet import Fleet, Limits
from harness import Origin, check, same, scenario, wait_until

WORKERS = 16
SPREAD = 8  # So many workers must have work at the same moment; all 16 rarely have.
# client: (requests a minute, concurrency). Small clients have one slot, large clients several.
LIMITS = {f"c{n}": (rpm, concurrency) for n, (rpm, concurrency) in enumerate(
    [(60, 2), (120, 4), (300, 4), (600, 8), (1800, 16), (3600, 32), (None, 32)] + [(None, 2), (None, 3), (None, 4)] * 7)}
HOSTS = """
ok*.example    delay=300-600 bytes=600-2000
gone*.example  delay=100-300 status=404
hop*.example   delay=100-300 bytes=600-2000 hops=1
"""
CONFIG = {"worker.lease": "5s", "worker.drain": "60s", "blobs.fsync": "off", "fetch.tiers": [{"timeout": "10s", "concurrency": 64}]}


def items(origin, client, first, n):
    kinds = ["ok"] * 8 + ["gone", "hop"]
    return [{"id": f"i{i}", "photos": [origin.url(f"{kinds[i % 10]}{client}.example", f"/c/{client}/{i}.jpg")]} for i in range(first, first + n)]


def load_of(client):
    """Returns the number of photos in a batch of this client: as many as its limits permit in some
    seconds.
    """
    rpm, concurrency = LIMITS[client]
    return min(80, 10 * concurrency, rpm // 6 if rpm else 80)


class Import:
    """Posts a client's next batch once the previous batch is finished. The test calls top_up()
    while it waits.
    """

    def __init__(self, fleet, origin):
        self.fleet, self.origin = fleet, origin
        self.given, self.open, self.all = dict.fromkeys(LIMITS, 0), dict.fromkeys(LIMITS), []

    def top_up(self):
        for client, batch in self.open.items():
            if batch and not self.fleet.api.finished(batch):
                continue
            n = load_of(client)
            self.open[client] = self.fleet.api.submit(client, items(self.origin, client, self.given[client], n))
            self.given[client] += n
            self.all.append((self.open[client], n))

    def going(self, condition):
        """Returns a condition for wait_until() that also keeps the import running."""
        def step():
            self.top_up()
            return condition()
        return step


def left_by(fleet, pids):
    """Returns the claims and slots that the workers with these process ids still hold."""
    marks = [f"-{pid}-" for pid in pids]
    claims = fleet.mongo.wire.find("photopool", "photos", {"t.s": 2}, projection={"t.w": 1})
    found = [c["t"]["w"] for c in claims if any(m in c["t"]["w"] for m in marks)]
    return found + [s for s in fleet.slots() if any(m in s for m in marks)]


def leave(fleet, load, leavers):
    """Sends SIGTERM to these workers. Each must exit with 0. When all are gone, they must have left
    no claim and no slot.
    """
    pids = [w.pid for w in leavers]
    for worker in leavers:
        worker.leave()
    wait_until(load.going(lambda: not any(w.running() for w in leavers)), 60, "they have left")
    for worker in leavers:
        worker.wait_left()
    same(left_by(fleet, pids), [], "claims and slots of workers that have left")


def all_there(fleet, load):
    def look(entry):
        batch, n = entry
        results = fleet.api.wait_finished(batch, 120)
        same(len({r["data"]["item"] for r in results}), n, f"items with a result of {batch}")
        same(len(results), n, f"results of {batch}")
        outcomes = [p["outcome"] for r in results for p in r["data"]["photos"]]
        same(set(outcomes) - {"stored", "failed"}, set(), f"outcomes of {batch}")
        return [(p["url"], p["outcome"]) for r in results for p in r["data"]["photos"]]

    with ThreadPoolExecutor(4) as threads:
        photos = [p for some in threads.map(look, load.all) for p in some]
    same(sum(o == "failed" for _, o in photos), sum("//gone" in url for url, _ in photos), "failed photos: those of gone hosts")
    return len(photos)


def test_scaling(case):
    origin = Origin(case, hosts=HOSTS, record=case.in_memory("record.txt"))
    limits = Limits(case, origin, LIMITS)
    fleet = Fleet(case, origin=origin, workers=1, config=CONFIG).start()
    for client, (rpm, concurrency) in LIMITS.items():
        fleet.api.set_client(client, rpm=rpm, concurrency=concurrency)
    load = Import(fleet, origin)
    first = fleet.workers[0]
    wait_until(load.going(lambda: first.metric("photopool_claims_total") > 100), 60, "the only worker claims")

    # Adds workers, several at a time; the work must spread over them.
    while len(fleet.workers) < WORKERS:
        more = [fleet.make("worker") for _ in range(min(5, WORKERS - len(fleet.workers)))]
        for worker in more:
            worker.spawn_up()
        for worker in more:
            worker.wait_port(60)
        load.top_up()
    for worker in fleet.workers:
        wait_until(load.going(worker.ready), 60, f"{worker.name} is ready")

    def busy():
        return [w for w in fleet.workers if w.metric("photopool_claims_total") > 0 and any(f"-{w.pid}-" in s for s in fleet.slots())]
    wait_until(load.going(lambda: len(busy()) >= SPREAD), 90, lambda: f"{SPREAD} of {WORKERS} workers have work: {len(busy())}")
    print("claims by", *[int(w.metric("photopool_claims_total")) for w in fleet.workers], flush=True)

    # Removes workers until one is left that is not the first.
    leave(fleet, load, fleet.workers[:6])
    leave(fleet, load, fleet.workers[6:11])
    leave(fleet, load, fleet.workers[11:-1])
    last, before = fleet.workers[-1], fleet.workers[-1].metric("photopool_claims_total")
    wait_until(load.going(lambda: last.metric("photopool_claims_total") > before + 100), 60, "the last worker continues alone")
    photos = all_there(fleet, load)
    # The store drops a task a moment after its item has finished.
    wait_until(lambda: fleet.mongo.wire.count("photopool", "photos", {"t": {"$exists": True}}) == 0, 30, "no task is left over")
    same(fleet.metric("photopool_stale_settles_total"), 0, "stale settlements of running workers")
    urls = [(r["client"], r["host"], r["hash"]) for r in origin.records()]
    check(len(urls) >= photos, "every photo was requested")
    pid = last.pid
    fleet.stop()
    same(left_by(fleet, [pid]), [], "claims and slots of the last worker")
    verdict = limits.held()
    print("most at once:", *[f"{c['client']} {c['worst_concurrency']}/{c['concurrency']}" for c in verdict["clients"]], flush=True)
    print(f"{photos} photos in {len(load.all)} batches", flush=True)


if __name__ == "__main__":
    scenario(test_scaling)
