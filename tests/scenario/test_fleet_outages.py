#!/usr/bin/env python3
# scenario: build=release timeout=300 fleet
"""Outages that a fleet must survive: MongoDB is down (POSTs are still accepted); Redis loses all
its data (limits hold, nothing accepted is lost); a worker is frozen beyond its lease (another
worker fetches its claims, and the store refuses its writes when it wakes up); a worker is killed.
"""
from fleet import Fleet
from harness import Origin, check, same, scenario, time, wait_until

TIERS = [{"timeout": "1s", "concurrency": 64}, {"timeout": "5s", "concurrency": 64}]
CONFIG = {"clients.rpm": None, "clients.concurrency": 8, "fetch.tiers": TIERS, "worker.lease": "3s"}


def items(origin, client, n, target=""):
    return [{"id": f"i{i}", "photos": [origin.url(f"{client}.example", f"/c/{client}/{i}.jpg{target}")]} for i in range(n)]


def all_stored(api, batch, n):
    results = api.wait_finished(batch, 90)
    same(len({r["id"] for r in results}), n, f"results of {batch}")
    same([p["outcome"] for r in results for p in r["data"]["photos"]], ["stored"] * n, f"outcomes of {batch}")


def test_mongodb_down(case):
    origin = Origin(case, hosts="*.example delay=20-60 bytes=600-2000")
    fleet = Fleet(case, origin=origin, workers=2, config=CONFIG).start()
    before = fleet.api.submit("before", items(origin, "before", 50))
    all_stored(fleet.api, before, 50)
    fleet.mongo.kill_one()
    during = [fleet.api.submit(f"d{n}", items(origin, f"d{n}", 20), key=f"k{n}") for n in range(5)]
    ready = fleet.api.get_json("/readyz")
    check(ready["roles"]["api"]["ready"], f"the api stays ready without MongoDB: {ready}")
    same(fleet.api.batch(during[0])["state"], "accepted", "a batch accepted without MongoDB")
    api, worker = fleet.api, fleet.workers[0]
    for replica in (api, worker):  # neither role needs MongoDB to start
        replica.kill()
        replica.spawn_up()
        replica.wait_port()
    wait_until(api.ready, 20, "an api that was started without MongoDB is ready")
    during.append(api.submit("d5", items(origin, "d5", 20), key="k5"))
    same(worker.get("/readyz").status, 503, "a worker that was started without MongoDB")
    fleet.mongo.start()
    back = time.monotonic()
    for batch in during:
        all_stored(fleet.api, batch, 20)
    print(f"caught up {time.monotonic() - back:.1f} s after MongoDB was back", flush=True)
    fleet.stop()


def test_redis_wiped(case):
    origin = Origin(case, hosts="*.example delay=20-60 bytes=600-2000")
    fleet = Fleet(case, origin=origin, workers=2, config=CONFIG).start()
    batch = fleet.api.submit("a", items(origin, "a", 300))
    wait_until(lambda: fleet.api.batch(batch)["photos"]["stored"] >= 20, 60, "photos are being fetched")
    fleet.mongo.freeze()  # freezes MongoDB, so that nobody plans the next batch before Redis loses its data
    lost = fleet.api.submit("b", items(origin, "b", 30), key="kept-in-the-journal")
    fleet.redis.wipe()
    fleet.redis.start()
    fleet.mongo.thaw()
    all_stored(fleet.api, batch, 300)
    all_stored(fleet.api, lost, 30)
    fleet.stop()


def at_work(case):
    """Starts a fleet and a batch of 120 photos. Returns the fleet, the batch, and a worker with
    photos in flight.
    """
    origin = Origin(case, hosts="*.example delay=400 bytes=600-2000")
    fleet = Fleet(case, origin=origin, workers=2, config=CONFIG).start()
    batch = fleet.api.submit("a", items(origin, "a", 120))
    holder = wait_until(lambda: next((w for w in fleet.workers if w.metric("photopool_in_flight") > 0), None), 30, "a worker is at work")
    return fleet, batch, holder


def test_frozen_worker(case):
    fleet, batch, holder = at_work(case)
    holder.freeze()
    all_stored(fleet.api, batch, 120)
    holder.thaw()
    wait_until(lambda: holder.metric("photopool_in_flight") == 0, 30, "the frozen worker has nothing in flight")
    wait_until(lambda: fleet.mongo.wire.count("photopool", "photos", {"t": {"$exists": True}}) == 0, 30, "no task is left over")
    fleet.stop()


def test_killed_worker(case):
    fleet, batch, holder = at_work(case)
    holder.kill()
    all_stored(fleet.api, batch, 120)
    fleet.stop()


if __name__ == "__main__":
    scenario(test_mongodb_down, test_redis_wiped, test_frozen_worker, test_killed_worker)
