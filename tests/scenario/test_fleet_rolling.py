#!/usr/bin/env python3
# scenario: build=release timeout=300 fleet
"""A rolling upgrade under load: the test stops every replica of every role with SIGTERM and starts
it again, one by one, while it posts batches all the time. No POST may fail for a client that goes
to another replica when a connection fails; each result must come, once; a draining replica must
say so in /readyz; each replica must exit with 0, and no photo may be fetched twice because of the
upgrade.
"""
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from fleet import Fleet
from harness import Failed, Origin, check, same, scenario, time, wait_until

HOSTS = """
fast*.example  delay=10-40 bytes=600-2000
slow*.example  delay=700-900 bytes=600-2000
"""
CONFIG = {"clients.rpm": None, "clients.concurrency": 16, "blobs.fsync": "off", "worker.drain": "60s",
          "fetch.tiers": [{"timeout": "10s", "concurrency": 64}]}
POSTERS = 8
PAUSE = 0.1  # seconds between two POSTs; there is no pause while an api is stopped and started


class Import:
    """Threads that post batches until the test ends them. A batch has two items; one of their
    photos is the same in all batches.
    """

    def __init__(self, fleet, origin):
        self.fleet, self.origin, self.batches, self.errors = fleet, origin, {}, []
        self.going, self.hurry, self.elsewhere = True, False, 0
        self.threads = [threading.Thread(target=self.run, args=(n,), daemon=True) for n in range(POSTERS)]
        for thread in self.threads:
            thread.start()

    def run(self, poster):
        number, client = 0, f"c{poster}"
        while self.going:
            number += 1
            kind = "slow" if number % 10 == 0 else "fast"
            items = [{"id": f"i{number}", "photos": [self.origin.url(f"{kind}{client}.example", f"/c/{client}/{number}.jpg")]},
                     {"id": f"k{number}", "photos": [self.origin.url(f"fast{client}.example", f"/c/{client}/known.jpg")]}]
            try:
                self.post(f"{client}-{number}", {"client": client, "items": items}, number)
            except Exception as e:  # noqa: BLE001  (the waiting test reports it)
                self.errors.append(f"POST {number} of {client}: {e!r}")
                return
            if not self.hurry:
                time.sleep(PAUSE)

    def post(self, key, body, number):
        """Posts to one replica, and to the next replica if the connection fails. Retries nothing
        else.
        """
        apis = self.fleet.of("api")
        for turn in range(2 * len(apis)):
            try:
                answer = apis[(number + turn) % len(apis)].post("/v1/batches", body, {"Idempotency-Key": key})
            except OSError:
                self.elsewhere += 1
                continue
            same(answer.status, 202, f"status of {answer}")
            self.batches[answer.json["batch_id"]] = sorted(item["id"] for item in body["items"])
            return
        raise Failed("no replica accepts it")

    def end(self):
        self.going = False
        for thread in self.threads:
            thread.join()
        same(self.errors, [], "failed posts")


def says_that_it_drains(replica):
    """Returns True if /readyz answers 503, False if it answers 200, and None if nothing answers any
    more.
    """
    try:
        answer = replica.get("/readyz")
    except OSError:
        return None
    if answer.status == 200:
        return False
    same(answer.status, 503, f"/readyz of a draining replica: {answer}")
    check(b"being stopped" in answer.body, f"why: {answer}")
    return True


def roll(replica, load):
    """Sends SIGTERM to a replica, checks that it is ready until it drains and not ready from then
    on, and starts it again.
    """
    load.hurry = "api" in replica.roles
    before = len(load.batches)
    if replica.roles == "worker":  # a worker needs a transfer in flight, so that it drains for a while
        wait_until(lambda: replica.metric("photopool_in_flight") > 0, 30, f"{replica.name} has work")
    replica.leave()
    said = wait_until(lambda: {True: "drains", None: "gone"}.get(says_that_it_drains(replica)), 20, f"{replica.name} drains")
    while said == "drains" and says_that_it_drains(replica) is not None:
        time.sleep(0.02)
    replica.wait_left()
    check(said == "drains" or replica.roles != "worker", f"/readyz of {replica.name} with work in flight")
    replica.start()
    wait_until(lambda: len(load.batches) > before or load.errors, 30, "posts go on")
    load.hurry = False
    print(f"{replica.name}: {said}, {len(load.batches) - before} batches meanwhile", flush=True)


def all_there(fleet, batches):
    """Checks that every batch is finished, each item has a result, and no id occurs twice."""
    ids = []

    def look(entry):
        number, (batch, due) = entry
        api = fleet.of("api")[number % 2]
        results = api.wait_finished(batch, 90)
        same(sorted(r["data"]["item"] for r in results), due, f"items with a result of {batch}")
        same({p["outcome"] for r in results for p in r["data"]["photos"]} - {"stored", "unchanged"}, set(), f"outcomes of {batch}")
        ids.extend(r["id"] for r in results)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(look, enumerate(batches.items())))
    same(len(ids), 2 * len(batches), "results")
    same(len(set(ids)), len(ids), "results of different ids")


def test_rolling_upgrade(case):
    origin = Origin(case, hosts=HOSTS)
    fleet = Fleet(case, origin=origin, apis=2, ingests=2, workers=2, crons=2, config=CONFIG).start()
    load = Import(fleet, origin)
    wait_until(lambda: len(load.batches) > 10 or load.errors, 30, "batches are posted")
    for replica in fleet.of("api") + fleet.of("ingest") + fleet.of("worker") + fleet.of("cron"):
        same(load.errors, [], "failed posts")
        roll(replica, load)
    load.end()
    print(f"{len(load.batches)} batches, {load.elsewhere} times another replica", flush=True)
    check(load.elsewhere > 0, "no POST went to another replica")
    all_there(fleet, load.batches)
    fetched = Counter((r["client"], r["host"], r["hash"]) for r in origin.records())
    same([photo for photo, n in fetched.items() if n > 1], [], "photos fetched more than once")
    same(fleet.metric("photopool_stale_settles_total"), 0, "stale settlements")
    fleet.stop()


if __name__ == "__main__":
    scenario(test_rolling_upgrade)
