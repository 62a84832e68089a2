#!/usr/bin/env python3
# scenario: timeout=180
"""At a limit photopool refuses input and keeps running. With ingest.high_water photos waiting, POST
answers 503 with Retry-After. A full disk loses nothing that was accepted, and work continues once
there is space again.

The full disk is a small tmpfs in a mount namespace of the test. Mounting needs root; without root
the test leaves this part out.
"""
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

from harness import Origin, Pool, check, outcomes, pause_until, same, scenario, sha256_of, time, wait_until
from namespace import fill, small_disk


def items(origin, name, n, photos):
    return [{"id": f"{name}-{i}", "photos": [origin.url(f"h{p}.example", f"/{name}/{i}/{p}.jpg") for p in range(photos)]} for i in range(n)]


def high_water(case):
    """With more photos waiting than ingest.high_water allows, POST must answer 503, and accept the
    same batches later. Planning is fast, so the test posts batches at the same time until one
    arrives while others wait.
    """
    origin = Origin(case, hosts="*.example delay=5 bytes=600")
    pool = Pool(case, origin=origin, config={"clients.rpm": None, "ingest.high_water": 1000, "blobs.fsync": "off"})
    pool.start()
    batches, refused = [], []

    def post(n):
        body = {"client": "42", "items": items(origin, f"b{n}", 200, 5)}
        return n, body, pool.post("/v1/batches", body, {"Idempotency-Key": f"k{n}"}, compress=True)

    with ThreadPoolExecutor(8) as threads:
        for start in range(0, 240, 8):
            for n, body, answer in threads.map(post, range(start, start + 8)):
                if answer.status == 202:
                    batches.append(answer.json["batch_id"])
                    continue
                same((answer.status, answer.json["code"]), (503, "overloaded"), f"POST above the mark: {answer}")
                same(answer.headers["Content-Type"].split(";")[0], "application/problem+json", "its type")
                check(1 <= int(answer.headers["Retry-After"]) <= 3600, f"Retry-After {answer.headers['Retry-After']}")
                check(pool.get_json("/v1/queue")["ingest"]["photos"] <= 2000, "the number of waiting photos is bounded")
                refused.append((n, body))
            if refused:
                break
    check(refused, "nothing was refused")
    check(pool.ready(), "ready despite the refusals")
    for n, body in refused:
        def accepted(n=n, body=body):
            answer = pool.post("/v1/batches", body, {"Idempotency-Key": f"k{n}"}, compress=True)
            check(answer.status in (202, 503), f"POST again: {answer}")
            return answer.json["batch_id"] if answer.status == 202 else None
        batches.append(wait_until(accepted, 60, "the batch is accepted"))
    for batch in batches:
        wait_until(lambda b=batch: pool.finished(b), 90, f"{batch} finished")
        same(pool.batch(batch)["photos"]["stored"], 1000, f"stored photos of {batch}")
    print(f"{len(refused)} batches were refused and accepted later", flush=True)
    pool.stop()


def disk_full(case):
    disk = small_disk(case, "disk", "56m")
    if not disk:
        return
    origin = Origin(case, hosts="*.example delay=150-250 bytes=20000")
    pool = Pool(case, origin=origin, data=os.path.join(disk, "data"), config={"clients.rpm": None, "clients.concurrency": 8,
                                                                              "retry.attempts": 2})
    pool.start()
    first = pool.submit("42", items(origin, "first", 10, 5))
    pool.wait_finished(first)
    second = pool.submit("42", items(origin, "second", 100, 5))
    wait_until(lambda: pool.batch(second)["photos"]["stored"] >= 50, 20, "the second batch is being fetched")
    ballast = os.path.join(disk, "ballast")
    fill(ballast)
    wait_until(lambda: shutil.disk_usage(disk).free == 0 and origin.stats()["in_flight"] == 0, 20, "the disk is full")
    refused = pool.post("/v1/batches", {"client": "42", "items": items(origin, "third", 400, 5)})
    check(refused.status >= 500 or refused.status == 202, f"POST on a full disk: {refused}")
    print(f"POST on a full disk: {refused.status}; {pool.batch(second)['photos']}", flush=True)
    # While the disk is full, no photo may fail, because the fault is photopool's. The test waits
    # for some tries.
    seen, start = len(origin.records()), time.monotonic()
    pause_until(start + 6)
    took, tries = time.monotonic() - start, len(origin.records()) - seen
    photos = pool.batch(second)["photos"]
    same(photos["failed"], 0, "photos that failed for lack of space")
    check(photos["open"] > 0, f"photos still open: {photos}")
    check(tries < 330 * took, f"{tries} requests to the origin in {took:.1f} s for photos that can't be kept")
    pool.kill()  # kills photopool at the worst moment
    os.remove(ballast)
    pool.config["clients.concurrency"] = 64
    pool.start()
    results = pool.wait_finished(second, 90)
    same({o for o, _ in outcomes(results).values()}, {"stored"}, "outcomes when there was space again")
    same(len(results), 100, "results")
    if refused.status == 202:
        pool.wait_finished(refused.json["batch_id"], 60)
    third = pool.wait_finished(pool.submit("42", items(origin, "fourth", 10, 5)))
    same({o for o, _ in outcomes(third).values()}, {"stored"}, "the next batch")
    for sha, path in pool.blobs().items():
        same(sha256_of(path), sha, f"SHA-256 of {path}")
    for r in results:
        for p in r["data"]["photos"]:
            check(os.path.exists(os.path.join(pool.photos, p["object"])), f"{p['object']} is stored")
    same(len(pool.results(first)), 10, "results of the first batch")
    pool.stop()
    same(pool.temp_files(), [], "temporary files")


def disk_full_goes_on(case):
    """The disk is full for a while, but nobody kills photopool: the running process must recover by
    itself.
    """
    disk = small_disk(case, "disk2", "40m")
    if not disk:
        return
    origin = Origin(case, hosts="*.example delay=50-150 bytes=20000")
    pool = Pool(case, origin=origin, data=os.path.join(disk, "data"), config={"clients.rpm": None, "clients.concurrency": 8})
    pool.start()
    batch = pool.submit("42", items(origin, "a", 60, 5))
    wait_until(lambda: pool.batch(batch)["photos"]["stored"] >= 30, 20, "the batch is being fetched")
    ballast = os.path.join(disk, "ballast")
    fill(ballast)
    wait_until(lambda: origin.stats()["in_flight"] == 0, 20, "nothing is in flight")
    check(pool.running(), "photopool still runs")
    os.remove(ballast)
    results = pool.wait_finished(batch, 60)
    same({o for o, _ in outcomes(results).values()}, {"stored"}, "outcomes when there was space again")
    pool.stop()


if __name__ == "__main__":
    scenario(high_water, disk_full, disk_full_goes_on)
