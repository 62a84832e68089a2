#!/usr/bin/env python3
# scenario: build=release timeout=300 fleet
"""Two kinds of workers: two workers serve only the tier of 1 s, a third serves all tiers. While the
third is frozen, the two get both slots of a client that posts fast photos all the time. Once the
third is back, the client's slow photos must be fetched: a slot must move to the third worker.
"""
from fleet import Fleet
from harness import Origin, scenario, wait_until


def test_kinds(case):
    origin = Origin(case, hosts="fast.example delay=10-50\nslow.example delay=1500")
    fleet = Fleet(case, origin=origin, replicas={"api": 1, "ingest": 1, "cron": 1}, config={
        "worker.lease": "3s", "clients.rpm": None, "clients.concurrency": 2,
        "fetch.tiers": [{"timeout": "1s", "concurrency": 16}, {"timeout": "5s", "concurrency": 16}]})
    fleet.start()
    whole = fleet.add("worker")
    short = [fleet.add("worker", {"worker.tiers": ["1s"]}) for _ in range(2)]
    fast = []

    def post_fast():
        number = len(fast)
        if not fast or fleet.api.finished(fast[-1]):
            fast.append(fleet.api.submit("42", [{"id": f"fast-{i}", "photos": [origin.url("fast.example", f"/{number}-{i}.jpg")]}
                                                for i in range(40)]))
        return True

    whole.freeze()
    wait_until(lambda: post_fast() and all(w.metric("photopool_slots_held") for w in short), 40, "the small workers have both slots")
    slow = fleet.api.submit("42", [{"id": "slow", "photos": [origin.url("slow.example", f"/{i}.jpg") for i in range(3)]}])
    whole.thaw()
    wait_until(lambda: post_fast() and fleet.api.finished(slow), 40, lambda: f"slow photos are fetched: {fleet.api.batch(slow)}")
    fleet.api.wait_finished(fast[-1])
    fleet.stop()


if __name__ == "__main__":
    scenario(test_kinds)
