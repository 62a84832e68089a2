#!/usr/bin/env python3
# scenario: build=release timeout=120
"""A client with 160,000 photos uses all transfers. A client with 10 photos must not be delayed: its
requests must go out as soon as transfers end, both while the large client's photos are fetched and
while they are still planned.

The scenario measures in requests at the origin rather than in time: how many requests of the large
client begin between the answer to the small client's POST and the last of its 10 requests. 128
transfers are in flight, so 128 requests begin during one transfer; if the small client queued
behind the large one, it would be tens of thousands.
"""
from harness import Origin, Pool, check, same, scenario, time, wait_until

AT_ONCE = 128
# The time of one transfer, and three times as much for the steps before it on a busy machine.
TURNS = 4 * AT_ONCE


def ten(origin, client):
    return [{"id": f"i{i}", "photos": [origin.url(f"shop{client}.example", f"/c/{client}/{i}.jpg")]} for i in range(10)]


def from_to(origin, pool, client):
    """Submits the 10 photos of a small client. Returns when the POST was answered, and when the
    last request arrived at the origin.
    """
    batch = pool.submit(client, ten(origin, client))
    answered = time.time()
    results = pool.wait_finished(batch)
    check(all(r["data"]["status"] == "complete" for r in results), f"batch of {client} is complete")
    mine = [r["start"] for r in origin.records() if r["client"] == client]
    same(len(mine), 10, f"requests of {client}")
    return answered, max(mine)


def post_big(origin, pool, name):
    for b in range(8):
        pool.submit("big", [{"id": f"{name}-{b}-{i}", "photos": [origin.url(f"big{p}.example", f"/c/big/{name}/{b}/{i}/{p}.jpg")
                                                                 for p in range(4)]} for i in range(5000)])


def while_planned(origin, pool):
    """Returns from_to() of a small client whose photos are fetched while the large client's are
    still being planned.
    """
    for n in range(5):
        post_big(origin, pool, n)
        times = from_to(origin, pool, f"planning{n}")
        left = pool.get_json("/v1/queue")["ingest"]["entries"]
        if left > 0:
            print(f"{left} entries left to plan", flush=True)
            return times
    check(False, "a large client was still being planned")


def test_fairness(case):
    origin = Origin(case, hosts="big*.example delay=300-500 bytes=600\nshop*.example delay=5 bytes=600")
    pool = Pool(case, origin=origin, config={"clients.rpm": None, "blobs.fsync": "off",
                                             "fetch.tiers": [{"timeout": "1m", "concurrency": AT_ONCE}]})
    pool.start()
    pool.set_client("big", rpm=None, concurrency=1000)
    times = [while_planned(origin, pool)]
    wait_until(lambda: pool.get_json("/v1/queue")["ingest"]["entries"] == 0, 60, "all is planned")
    wait_until(lambda: pool.metric("photopool_in_flight") == AT_ONCE, 20, "the large client uses all transfers")
    times += [from_to(origin, pool, f"small{n}") for n in range(20)]
    wait_until(lambda: pool.metric("photopool_in_flight") == AT_ONCE, 20, "the large client still uses all transfers")
    pool.kill()
    wait_until(lambda: origin.stats()["in_flight"] == 0, 20, "the origin has seen the process end")
    starts = [r["start"] for r in origin.records() if r["client"] == "big"]
    turns = [sum(answered <= start <= last for start in starts) for answered, last in times]
    print(f"while the large one is planned {turns[0]} turns, beside it:", *sorted(turns[1:]), flush=True)
    check(max(turns) <= TURNS, f"{max(turns)} requests of the large client went before")
    check(sum(start > times[1][0] for start in starts) > 300, "the large client continued, too")


if __name__ == "__main__":
    scenario(test_fairness)
