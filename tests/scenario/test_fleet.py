#!/usr/bin/env python3
# scenario: build=release timeout=300 fleet main
"""A fleet of replicas without faults: a batch posted at any api must be complete at any other;
workers start and stop while photos are in flight; a worker may serve one tier only; an idle fleet
must start to fetch soon after a POST. No photo may be fetched twice.
"""
from fleet import Fleet
from harness import Origin, check, same, scenario, time, wait_until

HOSTS = """
fast*.example  delay=20-60 bytes=600-4000
slow*.example  delay=1300-1500 bytes=600-4000
gone*.example  delay=20 status=404
"""
TIERS = [{"timeout": "1s", "concurrency": 64}, {"timeout": "5s", "concurrency": 64}]


def items(origin, client, n, kinds=("fast", "fast", "gone")):
    return [{"id": f"i{i}", "photos": [origin.url(f"{kind}{client}.example", f"/c/{client}/{i}-{k}.jpg") for k, kind in enumerate(kinds)],
             "meta": {"n": i}} for i in range(n)]


def all_there(api, batch, n, stored, failed):
    results = api.wait_finished(batch, 90)
    same(sorted(r["data"]["item"] for r in results), sorted(f"i{i}" for i in range(n)), "items with a result")
    outcomes = [p["outcome"] for r in results for p in r["data"]["photos"]]
    same((outcomes.count("stored"), outcomes.count("failed")), (stored, failed), f"outcomes of {batch}")


def test_fleet(case):
    origin = Origin(case, hosts=HOSTS)
    fleet = Fleet(case, origin=origin, apis=2, ingests=2, workers=2, crons=2,
                  config={"clients.rpm": None, "clients.concurrency": 8, "fetch.tiers": TIERS, "worker.lease": "5s"})
    fleet.start()
    first, second = fleet.of("api")
    batches = [first.submit(f"c{c}", items(origin, f"c{c}", 30)) for c in range(6)]
    fleet.add("worker")  # starts another worker while photos are in flight
    fleet.workers[0].leave()
    for batch in batches:
        all_there(second, batch, 30, 60, 30)
    fleet.workers[0].wait_left()

    # Known photos must be answered without a request, whichever ingest role plans them.
    before = origin.stats()["requests"]
    again = second.submit("c0", [{"id": "again", "photos": [origin.url("fastc0.example", "/c/c0/1-0.jpg")]}])
    same([p["outcome"] for r in first.wait_finished(again) for p in r["data"]["photos"]], ["unchanged"], "a known photo")
    same(origin.stats()["requests"], before, "requests at the origin")

    # In an idle fleet the first request must go out soon after the POST. It would take seconds if a
    # process had to poll.
    moment = time.monotonic()
    batch = first.submit("new", items(origin, "new", 1, ("fast",)))
    wait_until(lambda: origin.stats()["requests"] > before, 10, "a request for a new client")
    print(f"first request seen {time.monotonic() - moment:.2f} s after the POST", flush=True)
    first.wait_finished(batch)
    urls = [(r["client"], r["host"], r["hash"]) for r in origin.records() if r["status"] == 200]
    same(len(urls), len(set(urls)), "photos fetched once")
    same(fleet.metric("photopool_stale_settles_total"), 0, "stale settlements")
    fleet.stop()


def test_workers_of_one_tier(case):
    origin = Origin(case, hosts=HOSTS)
    fleet = Fleet(case, origin=origin, replicas={"api,ingest,cron": 1},
                  config={"clients.rpm": None, "clients.concurrency": 8, "fetch.tiers": TIERS, "worker.lease": "5s"})
    fleet.start()
    fast = fleet.add("worker", {"worker.tiers": ["1s"]})
    batch = fleet.api.submit("c", items(origin, "c", 10, ("fast", "slow")))
    wait_until(lambda: fleet.api.batch(batch)["photos"]["stored"] >= 10, 60, "the fast photos are stored")
    same(fleet.api.batch(batch)["state"], "running", "slow photos wait for a worker of their tier")
    fleet.add("worker", {"worker.tiers": ["5s"]})
    all_there(fleet.api, batch, 10, 20, 0)
    check(fast.metric('photopool_in_flight{tier="5"}') == 0, "a worker of the first tier runs nothing of the second")
    tiers = {w["tiers"] for w in fleet.api.get_json("/v1/workers")["workers"]}
    same(tiers, {"1", "5"}, "tiers of the workers")
    fleet.stop()


if __name__ == "__main__":
    scenario(test_fleet, test_workers_of_one_tier)
