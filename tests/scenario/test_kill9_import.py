#!/usr/bin/env python3
# scenario: build=release timeout=300
"""kill -9 at 30 random moments of an import of 20,000 photos. Then every item must have exactly one
result, and files must match records.

The seed determines the moments: from 10 ms after the start of the process (it opens its stores, or
returns lost claims) to some seconds of full work. Batches are posted all the time, each with its
Idempotency-Key until it is answered, so some kills come between the journal entry and its answer.

The breakers of bad and flaky hosts open, so processes die while photos wait for a host. `hosts.wait`
is short: these photos fail with host_down, or are fetched after a restart, which forgets breakers.

blobs.fsync is off: a killed process loses nothing that it gave to the kernel. Only a power cut
would lose it, so fsync would take time and test nothing.
"""
import hashlib
import os
import threading

from harness import Failed, Origin, Pool, check, pause_until, same, scenario, sha256_of, time, wait_until

PHOTOS = 20000
KILLS = 30
CLIENTS = 8
HOSTS = """
fast*.example    delay=5-60 bytes=600-4000 fmt=any
mid*.example     delay=60-300 bytes=600-4000
slow*.example    delay=400-1200 bytes=600-4000
gone*.example    delay=5-60 bytes=600-3000 fail=0.5:404,0.2:403,0.1:410
bad*.example     delay=5-60 bytes=600-3000 fail=0.2:html,0.2:cut,0.2:reset,0.1:500
flaky*.example   delay=5-60 bytes=600-3000 flaky=1
same*.example    delay=5-60 bytes=1500 seed=7
"""
# (kind of host, how often it occurs). Few hosts are slow: kills find photos of slow hosts in flight
# again and again, which makes them suspects, and suspects run one at a time.
SHARES = [("fast", 55), ("mid", 20), ("slow", 1), ("gone", 8), ("bad", 6), ("flaky", 6), ("same", 4)]


class Import:
    """The items of the import, and the batch in which each item was posted."""

    def __init__(self, case, origin):
        self.random, self.origin = case.random, origin
        self.batches = []  # a batch is {key, client, items, size, id}
        made, n = [], 0
        kinds = [k for k, share in SHARES for _ in range(share)]
        while n < PHOTOS:
            urls = []
            for _ in range(self.random.randint(1, 5)):
                if made and self.random.random() < 0.05:
                    # a URL that occurred before, perhaps in a batch of another client
                    urls.append(self.random.choice(made[-3000:]))
                else:
                    host = f"{self.random.choice(kinds)}{self.random.randrange(6)}.example"
                    urls.append(origin.url(host, f"/{n + len(urls)}.jpg"))
                made.append(urls[-1])
            if not self.batches or len(self.batches[-1]["items"]) >= self.batches[-1]["size"]:
                self.batches.append({"key": f"import-{case.seed}-{len(self.batches)}", "client": str(len(self.batches) % CLIENTS),
                                     "items": [], "size": self.random.choice([1, 20, 150, 300]), "id": None})
            self.batches[-1]["items"].append({"id": f"i{n}", "photos": urls})
            n += len(urls)
        self.photos = n

    def post(self, pool, batch):
        """Posts a batch until it is answered, even if several processes are killed in the meantime."""
        while batch["id"] is None:
            try:
                batch["id"] = pool.submit(batch["client"], batch["items"], key=batch["key"])
            except OSError:
                time.sleep(0.01)

    def post_all(self, pool, state):
        """Posts the first third of the batches at once, the others between the kills."""
        for i, batch in enumerate(self.batches):
            while state["kills"] < KILLS and i > len(self.batches) * (0.3 + 0.7 * state["kills"] / KILLS):
                time.sleep(0.01)
            self.post(pool, batch)


def kill_and_restart(case, pool, state):
    """Starts and kills photopool KILLS times. Half of the kills come shortly after the start of a
    process.
    """
    moments = []
    for n in range(KILLS):
        start = time.monotonic()
        pool.spawn_up()
        after = case.random.uniform(0.01, 0.4) if case.random.random() < 0.5 else case.random.uniform(0.4, 3.5)
        killer = threading.Timer(after, pool.kill)
        killer.start()
        try:
            pool.wait_port()
        except Failed:
            pass  # the process was killed before it listened
        pause_until(start + after)
        killer.join()
        moments.append(round(after, 2))
        state["kills"] = n + 1
        state["peak"] = max(state.get("peak", 0), pool.peak_kb)
    print("killed after (s):", *moments, flush=True)


def check_batch(pool, batch, named, quarantined):
    results = pool.results(batch["id"])
    ids = [r["id"] for r in results]
    same(len(set(ids)), len(ids), f"batch {batch['id']}: different result ids")
    by_item = {}
    for r in results:
        by_item.setdefault(r["data"]["item"], []).append(r)
    for item in batch["items"]:
        found = by_item.pop(item["id"], [])
        same(len(found), 1, f"results of item {item['id']} of {batch['id']}")
        data = found[0]["data"]
        same((data["client"], data["batch_id"], data["revision"]), (batch["client"], batch["id"], 1), f"item {item['id']}")
        same([p["url"] for p in data["photos"]], item["photos"], f"URLs of item {item['id']}")
        good = [p["outcome"] in ("stored", "unchanged") for p in data["photos"]]
        same(data["status"], "complete" if all(good) else "partial" if any(good) else "failed", f"status of item {item['id']}")
        for p in data["photos"]:
            check_photo(p, named, quarantined)
    same(by_item, {}, f"results of batch {batch['id']} beside those of its items")
    view = pool.batch(batch["id"])
    same((view["items"]["total"], view["items"]["open"], view["photos"]["total"], view["photos"]["open"]),
         (len(batch["items"]), 0, sum(len(i["photos"]) for i in batch["items"]), 0), f"counters of {batch['id']}")
    for status in ("complete", "partial", "failed"):
        same(view["items"][status], sum(r["data"]["status"] == status for r in results), f"{status} items of {batch['id']}")
    return results


def check_photo(p, named, quarantined):
    kind = p["url"].split("//")[1].split(".")[0].rstrip("0123456789")
    if p["outcome"] in ("stored", "unchanged"):
        named[p["sha256"]] = (p["object"], p["bytes"])
    elif p["outcome"] == "failed" and p["error"]["code"] == "quarantined":
        quarantined.add(p["url"])
    elif p["outcome"] == "failed" and p["error"]["code"] == "host_down":
        check(kind in ("bad", "flaky"), f"{p['url']} ended as {p}")
    else:
        check(kind in ("gone", "bad"), f"{p['url']} ended as {p}")


def check_files(pool, origin, named, quarantined):
    blobs = pool.blobs()
    for sha, path in blobs.items():
        same(sha256_of(path), sha, f"SHA-256 of the file {path}")
    for sha, (name, size) in named.items():
        check(sha in blobs, f"a result names {sha}, which is not stored")
        same(blobs[sha], os.path.join(pool.photos, name), "path of the stored object")
        same(os.path.getsize(blobs[sha]), size, f"size of {name}")
    orphans = set(blobs) - set(named)
    # A file without a result may belong to a quarantined photo: photopool stored the file, was
    # killed before it wrote the record, and later quarantined the photo.
    if orphans and quarantined:
        orphans -= {sha256(origin.fetch(url)) for url in quarantined}
    same(orphans, set(), "files that no result names")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def test_kill9_import(case):
    origin = Origin(case, hosts=HOSTS)
    pool = Pool(case, origin=origin, config={
        "clients.rpm": None, "clients.concurrency": 12, "blobs.fsync": "off", "retry.delays": ["200ms", "500ms", "1s"], "hosts.wait": "2s",
        "fetch.tiers": [{"timeout": "1s", "concurrency": 64}, {"timeout": "5s", "concurrency": 64}]})
    work = Import(case, origin)
    print(f"{work.photos} photos, {len(work.batches)} batches", flush=True)
    state = {"kills": 0}
    poster = threading.Thread(target=work.post_all, args=(pool, state), daemon=True)
    poster.start()
    kill_and_restart(case, pool, state)
    pool.start()
    queues = pool.get_json("/v1/queue")["open"]
    print(f"after the last kill {sum(q['photos'] for q in queues)} photos are open, "
          f"{sum(q['photos'] for q in queues if q.get('suspect'))} of them suspects", flush=True)
    wait_until(lambda: not poster.is_alive(), 60, "all batches are accepted")
    for batch in work.batches:
        wait_until(lambda b=batch: pool.finished(b["id"]), 90, lambda b=batch: f"finished: {pool.batch(b['id'])}")
    named, quarantined, results = {}, set(), {}
    for batch in work.batches:
        results[batch["id"]] = check_batch(pool, batch, named, quarantined)
    print(f"{len(named)} objects, {len(quarantined)} photos quarantined", flush=True)
    check(len(quarantined) <= PHOTOS // 100, f"{len(quarantined)} photos are quarantined")
    check_files(pool, origin, named, quarantined)
    for sha in case.random.sample(sorted(named), 100):
        answer = pool.get(f"/v1/photos/{sha}")
        same((answer.status, sha256(answer.body)), (200, sha), f"GET /v1/photos/{sha}")
    pool.stop()
    same(pool.temp_files(), [], "temporary files left")
    pool.start()
    for batch in case.random.sample(work.batches, min(20, len(work.batches))):
        same(pool.results(batch["id"]), results[batch["id"]], f"results of {batch['id']} after one more restart")
    pool.stop()
    peak = max(pool.peak_kb, state["peak"]) // 1024
    print(f"peak memory of a process {peak} MiB", flush=True)
    check(peak <= 200, f"peak memory {peak} MiB")


def test_kill9_while_planning(case):
    """The process dies repeatedly, soon after its start. It must not quarantine entries that were
    only waiting.
    """
    origin = Origin(case, hosts="*.example delay=2000")
    pool = Pool(case, origin=origin).start()
    batches = [pool.submit("42", [{"id": f"{b}-{i}", "photos": [origin.url("a.example", f"/{b}/{i}/{p}.jpg") for p in range(3)]}
                                  for i in range(3000)]) for b in range(8)]
    pool.kill()
    for _ in range(10):
        pool.spawn_up()
        pool.wait_port()
        wait_until(pool.ready, 20, "/readyz")
        pool.kill()
    pool.start()
    wait_until(lambda: pool.get_json("/v1/queue")["ingest"]["entries"] == 0, 60, "the queue is empty")
    same(pool.get_json("/v1/queue")["ingest"]["set_aside"], 0, "entries set aside")
    for batch in batches:
        same(pool.batch(batch)["state"], "running", f"state of {batch}")


if __name__ == "__main__":
    scenario(test_kill9_import, test_kill9_while_planning)
