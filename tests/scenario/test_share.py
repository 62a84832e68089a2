#!/usr/bin/env python3
# scenario: build=release timeout=120
"""Three clients import the same 10 URLs at the same time: the origin gets 10 requests, and 20 photos
share their outcomes. A client that comes later shares them, too. Without sharing each photo is
fetched.
"""
from harness import Origin, Pool, same, scenario

CLIENTS = ["a", "b", "c"]


def items(origin):
    return [{"id": f"i{i}", "photos": [origin.url("shop.example", f"/c/all/{i}.jpg")]} for i in range(10)]


def import_all(case, origin, config):
    """Imports the photos for all clients; returns the results, by client, and the number of
    requests and of shared photos.
    """
    before = len(origin.records())
    pool = Pool(case, origin=origin, config={"fetch.tiers": [{"timeout": "1m", "concurrency": 64}], **config})
    pool.start()
    batches = {client: pool.submit(client, items(origin)) for client in CLIENTS}
    results = {client: pool.wait_finished(batch) for client, batch in batches.items()}
    late = pool.wait_finished(pool.submit("late", items(origin)))
    shared = pool.metric("photopool_shared_photos_total")
    pool.stop()
    return results, late, len(origin.records()) - before, shared


def photos_of(results):
    return [photo for result in results for photo in result["data"]["photos"]]


def test_share(case):
    origin = Origin(case, hosts="shop.example delay=500 bytes=2000")
    results, late, requests, shared = import_all(case, origin, {})
    same(requests, 10, "requests")
    same(shared, 30, "shared photos")
    photos = [photo for some in results.values() for photo in photos_of(some)]
    same([p["outcome"] for p in photos], ["stored"] * 30, "outcomes")
    same(sorted(p["attempts"] for p in photos), [0] * 20 + [1] * 10, "attempts")
    same(sorted(p.get("shared", False) for p in photos), [False] * 10 + [True] * 20, "which are shared")
    same({p["sha256"] for p in photos_of(late)}, {p["sha256"] for p in photos}, "photos of the late client")
    same([p["shared"] for p in photos_of(late)], [True] * 10, "photos of the late client are shared")

    _, _, requests, shared = import_all(case, origin, {"share.window": "off"})
    same(requests, 40, "requests without sharing")
    same(shared, 0, "shared photos without sharing")


if __name__ == "__main__":
    scenario(test_share)
