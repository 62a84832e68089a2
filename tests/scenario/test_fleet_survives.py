#!/usr/bin/env python3
# scenario: build=release timeout=300 fleet
"""Faults that the clients of a fleet must not notice: a worker dies, the primary of a replica set
of three steps down, another primary is killed, Redis restarts, answers of MongoDB and Redis are
lost after the operation was done. Every POST must be accepted, every photo stored, every result
come once, no client's limits be exceeded, and work continue by itself.
"""
import os
import sys
import threading

from fleet import SUPPORT, Fleet, Limits, MongoServers, RedisServers
from harness import Origin, check, same, scenario, time, wait_until

sys.path.append(os.path.join(SUPPORT, "..", "..", "loadtest", "chaos"))
from proxy import Proxy  # noqa: E402

HOSTS = "*.example delay=100-400 bytes=600-2000"
CONFIG = {"clients.rpm": None, "clients.concurrency": 8, "worker.lease": "3s", "blobs.fsync": "off",
          "fetch.tiers": [{"timeout": "5s", "concurrency": 64}]}
RATED = "rated"  # a client with more photos than its rate permits during the test; the test cancels the rest
RPM, CONCURRENCY, PHOTOS = 120, 4, 1000
LIMITS = {RATED: (RPM, CONCURRENCY), "a": (None, 8), "b": (None, 8)}


class Import:
    """Two clients that post one batch after the other all the time, and a third client with a rate."""

    def __init__(self, fleet, origin):
        self.fleet, self.origin, self.batches, self.errors, self.going = fleet, origin, [], [], True
        fleet.api.set_client(RATED, rpm=RPM, concurrency=CONCURRENCY)
        self.submit(RATED, 0, PHOTOS)
        self.threads = [threading.Thread(target=self.run, args=(client,), daemon=True) for client in ("a", "b")]
        for thread in self.threads:
            thread.start()

    def submit(self, client, first, n):
        items = [{"id": f"i{i}", "photos": [self.origin.url(f"{client}.example", f"/c/{client}/{i}.jpg")]} for i in range(first, first + n)]
        self.batches.append((self.fleet.api.submit(client, items, key=f"{client}{first}"), client, n))

    def run(self, client):
        first = 0
        try:
            while self.going:
                self.submit(client, first, 10)
                first += 10
                time.sleep(0.4)
        except Exception as e:  # noqa: BLE001  (the waiting test reports it)
            self.errors.append(f"{client}: {e!r}")

    def goes_on(self, what):
        """Waits until the origin has got 40 more requests and every replica is ready. No POST may
        have failed.
        """
        moment, before = time.monotonic(), len(self.origin.records())
        wait_until(lambda: len(self.origin.records()) > before + 40, 30, lambda: f"work continues, {what}; {self.errors}")
        for replica in self.fleet.replicas:
            if replica.running():
                wait_until(replica.ready, 30, f"{replica.name} is ready, {what}")
        same(self.errors, [], f"failed posts, {what}")
        print(f"{what}: 40 more requests and all ready after {time.monotonic() - moment:.1f} s", flush=True)

    def end(self):
        self.going = False
        for thread in self.threads:
            thread.join()
        same(self.errors, [], "failed posts")
        answer = self.fleet.api.request("DELETE", f"/v1/batches/{self.batches[0][0]}")
        check(answer.status < 300, f"DELETE: {answer}")
        ids = set()
        for batch, client, n in self.batches:
            results = self.fleet.api.wait_finished(batch, 120)
            same(len(results), n, f"results of {batch} of {client}")
            ids.update(r["id"] for r in results)
            left = {"cancelled"} if client == RATED else set()
            same({p["outcome"] for r in results for p in r["data"]["photos"]} - left, {"stored"}, f"outcomes of {batch}")
        same(len(ids), sum(n for _, _, n in self.batches), "results of different ids")
        tasks = self.fleet.mongo.wire
        wait_until(lambda: tasks.count("photopool", "photos", {"t": {"$exists": True}}) == 0, 30, "no task is left over")
        print(f"{len(ids)} results", flush=True)


def busy(fleet):
    return wait_until(lambda: next((w for w in fleet.workers if w.running() and w.metric("photopool_in_flight") > 0), None), 30, "a worker has work")


def worker_dies(fleet, load):
    worker = busy(fleet)
    pid = worker.pid
    worker.kill()
    mongo = fleet.mongo.wire
    wait_until(lambda: mongo.count("photopool", "photos", {"t.w": {"$regex": f"-{pid}-"}}) == 0, 30, "other workers have its claims")
    load.goes_on("a worker died")
    worker.start()


def step_down(fleet, load):
    old = fleet.mongo.wire.step_down(2)
    load.goes_on("the primary stepped down")
    check(fleet.mongo.wire.primary().address, "there is a primary")
    print(f"primary: {old}, then {fleet.mongo.wire.primary().address}", flush=True)


def primary_dies(fleet, load):
    mongo = fleet.mongo.wire
    old = mongo.primary()
    member = mongo.servers.index(old)
    fleet.mongo.kill_one(member)
    load.goes_on("the primary was killed")
    check(fleet.mongo.wire.primary().address != old.address, "another primary")
    fleet.mongo.begin_start(member)


def redis_restarted(fleet, load):
    fleet.redis.restart()
    load.goes_on("Redis was restarted")


def test_processes(case):
    origin = Origin(case, hosts=HOSTS, record=case.in_memory("record.txt"))
    limits = Limits(case, origin, LIMITS)
    fleet = Fleet(case, origin=origin, mongo=MongoServers(case, 3), redis=RedisServers(case), workers=3, config=CONFIG)
    fleet.own = ["mongo", "redis"]
    fleet.start(60)
    load = Import(fleet, origin)
    for event in (worker_dies, step_down, redis_restarted, primary_dies):
        event(fleet, load)
    load.end()
    fleet.stop()
    limits.held()


def test_lost_answers(case):
    """Several times, the proxies drop the next answer on the connections that were used last, and
    cut these connections, after the server has done the operation.
    """
    origin = Origin(case, hosts=HOSTS, record=case.in_memory("record2.txt"))
    limits = Limits(case, origin, LIMITS)
    mongo, redis = MongoServers(case).begin(), RedisServers(case).begin()
    proxies = {"MongoDB": Proxy(("127.0.0.1", port_of(mongo.wait_up().url))), "Redis": Proxy(("127.0.0.1", port_of(redis.wait_up().url)))}
    fleet = Fleet(case, origin=origin, mongo=mongo, redis=redis, workers=3, config={
        **CONFIG, "store.url": f"mongodb://127.0.0.1:{proxies['MongoDB'].port}/photopool?directConnection=true",
        "coordinator.url": f"redis://127.0.0.1:{proxies['Redis'].port}"}).start()
    load = Import(fleet, origin)
    busy(fleet)
    for name in ("MongoDB", "Redis") * 3:
        proxies[name].lose_answer(3)
        load.goes_on(f"answers of {name} were lost")
    load.end()
    fleet.stop()
    limits.held()


def port_of(url):
    return int(url.split("://")[1].split("/")[0].rsplit(":", 1)[1])


if __name__ == "__main__":
    scenario(test_processes, test_lost_answers)
