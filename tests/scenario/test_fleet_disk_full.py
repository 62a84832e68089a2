#!/usr/bin/env python3
# scenario: build=release timeout=300 fleet
"""Full disks. When the disk of an api's journal is full, POST must answer 503 with Retry-After,
nothing answered 202 may be lost, and the same batch must be accepted once there is room. When the
disk of the photos is full, no photo may fail because of it or be fetched again and again, and work
must continue by itself once there is room.

The disks are small tmpfs in a mount namespace of the test. Mounting needs root; without root the
scenario is skipped.
"""
import os
import shutil

from fleet import Fleet
from harness import Origin, Skipped, check, pause_until, same, scenario, sha256_of, time, wait_until
from namespace import fill, small_disk

CONFIG = {"clients.rpm": None, "clients.concurrency": 8, "worker.lease": "5s", "fetch.tiers": [{"timeout": "5s", "concurrency": 64}]}


def items(case, origin, name, n, photos=1):
    """Returns n items with random meta that does not compress."""
    return [{"id": f"{name}-{i}", "meta": {"x": f"{case.random.getrandbits(800):x}"},
             "photos": [origin.url(f"h{p}.example", f"/{name}/{i}/{p}.jpg") for p in range(photos)]} for i in range(n)]


def disk(case, name, size):
    path = small_disk(case, name, size)
    if not path:
        raise Skipped("a small disk can't be mounted here")
    return path


def all_stored(api, batch, n):
    results = api.wait_finished(batch, 90)
    same(len({r["data"]["item"] for r in results}), n, f"items with a result of {batch}")
    same({p["outcome"] for r in results for p in r["data"]["photos"]}, {"stored"}, f"outcomes of {batch}")
    return results


def test_journal(case):
    journal = disk(case, "journal", "8m")
    origin = Origin(case, hosts="*.example delay=20-60 bytes=600-2000")
    fleet = Fleet(case, origin=origin, workers=2, config=CONFIG, replicas={"ingest": 1, "worker": 2, "cron": 1}).start()
    api = fleet.make("api")
    api.data = os.path.join(journal, "data")
    api.start()
    accepted = {api.submit("42", items(case, origin, "first", 20)): 20}
    all_stored(api, next(iter(accepted)), 20)

    ballast = os.path.join(journal, "ballast")
    fill(ballast)
    refused = None
    for n in range(200):  # the journal's files may have some room left
        body = {"client": "42", "items": items(case, origin, f"b{n}", 100)}
        answer = api.post("/v1/batches", body, {"Idempotency-Key": f"k{n}"})
        if answer.status != 202:
            refused = n, body, answer
            break
        accepted[answer.json["batch_id"]] = 100
    check(refused, "nothing was refused")
    n, body, answer = refused
    same((answer.status, answer.json["code"]), (503, "overloaded"), f"POST on a full disk: {answer}")
    check(int(answer.headers["Retry-After"]) >= 1, "Retry-After")
    print(f"{len(accepted)} batches accepted, then {answer}", flush=True)
    for batch, count in accepted.items():  # the fleet must continue with the accepted batches
        all_stored(api, batch, count)
    api.kill()  # kills the api at the worst moment
    os.remove(ballast)
    api.start()

    def again():
        answer = api.post("/v1/batches", body, {"Idempotency-Key": f"k{n}"})
        check(answer.status in (202, 503), f"POST again: {answer}")
        return answer.json["batch_id"] if answer.status == 202 else None
    accepted[wait_until(again, 30, "the refused batch is accepted")] = 100
    for batch, count in accepted.items():
        all_stored(api, batch, count)
    fleet.stop()


def test_photos(case):
    photos = disk(case, "photos", "24m")
    origin = Origin(case, hosts="*.example delay=100-200 bytes=20000")
    fleet = Fleet(case, origin=origin, workers=2, config=CONFIG)
    fleet.photos = os.path.join(photos, "photos")
    fleet.start()
    batch = fleet.api.submit("42", items(case, origin, "a", 100, 5))
    wait_until(lambda: fleet.api.batch(batch)["photos"]["stored"] >= 50, 30, "the batch is being fetched")
    ballast = os.path.join(photos, "ballast")
    fill(ballast)
    wait_until(lambda: shutil.disk_usage(photos).free < 20000, 30, "no photo has room")
    other = fleet.api.submit("43", items(case, origin, "b", 20))
    seen, start = len(origin.records()), time.monotonic()
    pause_until(start + 6)  # gives time for some tries
    took, tries = time.monotonic() - start, len(origin.records()) - seen
    counts = fleet.api.batch(batch)["photos"]
    same(counts["failed"], 0, "photos that failed for lack of space")
    check(counts["open"] > 0, f"photos still open: {counts}")
    check(tries < 200 * took, f"{tries} requests to the origin in {took:.1f} s for photos that can't be kept")
    check(all(w.running() for w in fleet.workers), "the workers still run")
    print(f"{tries} requests in {took:.1f} s; {counts}", flush=True)
    os.remove(ballast)
    results = all_stored(fleet.api, batch, 100) + all_stored(fleet.api, other, 20)
    stored = fleet.api.blobs()
    for sha, path in stored.items():
        same(sha256_of(path), sha, f"SHA-256 of {path}")
    for r in results:
        for p in r["data"]["photos"]:
            check(os.path.exists(os.path.join(fleet.photos, p["object"])), f"{p['object']} is stored")
    fleet.stop()
    same(fleet.workers[0].temp_files(), [], "temporary files")


if __name__ == "__main__":
    scenario(test_journal, test_photos)
