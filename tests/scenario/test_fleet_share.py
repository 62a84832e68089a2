#!/usr/bin/env python3
# scenario: build=release timeout=300 fleet
"""24 clients import the same 80 URLs on 4 workers, two of which are killed meanwhile. Every photo is
stored. The origin gets one request for each URL, and few more: those of killed workers and of
tasks that had waited for them.
"""
from fleet import Fleet
from harness import Origin, check, same, scenario, time, wait_until

CLIENTS, URLS = 24, 80
# A killed worker fetched at most this many photos, which others fetch again; so do tasks that ask
# while the owner changes.
CONFIG = {"clients.rpm": None, "clients.concurrency": 16, "worker.lease": "3s", "blobs.fsync": "off",
          "fetch.tiers": [{"timeout": "1m", "concurrency": 64}]}


def test_fleet_share(case):
    origin = Origin(case, hosts="shop.example delay=300-600 bytes=2000")
    fleet = Fleet(case, origin=origin, config=CONFIG, workers=4)
    fleet.start()
    items = [{"id": f"i{i}", "photos": [origin.url("shop.example", f"/c/all/{i}.jpg")]} for i in range(URLS)]
    batches = [fleet.api.submit(f"client{c}", items) for c in range(CLIENTS)]
    for worker in fleet.workers[:2]:
        wait_until(lambda: worker.metric("photopool_in_flight") > 0 or finished(fleet, batches), 60, f"{worker.name} fetches")
        worker.kill()
        time.sleep(0.5)
    results = [fleet.api.wait_finished(batch, timeout=120) for batch in batches]
    photos = [photo for some in results for result in some for photo in result["data"]["photos"]]
    same(len(photos), CLIENTS * URLS, "photos")
    same({p["outcome"] for p in photos}, {"stored"}, "outcomes")
    requests, shared = len(origin.records()), sum(p.get("shared", False) for p in photos)
    print(f"{requests} requests for {URLS} URLs, {shared} photos shared", flush=True)
    # a worker that was killed may have made an attempt at a photo that was shared later
    check(all(p["attempts"] <= 2 for p in photos if p.get("shared")), "shared photos had no attempts but those of killed workers")
    check(all(p["attempts"] > 0 for p in photos if not p.get("shared")), "other photos had attempts")
    check(requests >= URLS, "each URL was fetched")
    check(shared >= CLIENTS * URLS / 2, "most photos were shared")
    fleet.stop()


def finished(fleet, batches):
    return all(fleet.api.batch(batch)["state"] == "finished" for batch in batches)


if __name__ == "__main__":
    scenario(test_fleet_share)
