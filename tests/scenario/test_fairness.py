#!/usr/bin/env python3
# scenario: build=release timeout=120 alone
"""A client with 160,000 photos that takes all there is does not hold up one with 10: those are on their way as soon as transfers end,
while the large one is fetched, and while it is still being planned.

Measured at the origin: from the answer to the POST to the last of the 10 requests. A cycle is what a transfer of the large client takes,
0.5 s at most; with 128 in flight one ends every 3 ms."""
from harness import Origin, Pool, check, same, scenario, time, wait_until

CYCLE = 0.5


def ten(origin, client):
    return [{"id": f"i{i}", "photos": [origin.url(f"shop{client}.example", f"/c/{client}/{i}.jpg")]} for i in range(10)]


def delay_of(origin, pool, client):
    """Seconds from the 202 until all requests of a small client have arrived at the origin."""
    batch = pool.submit(client, ten(origin, client))
    answered = time.time()
    results = pool.wait_finished(batch)
    check(all(r["data"]["status"] == "complete" for r in results), f"batch of {client} is complete")
    mine = [r["start"] for r in origin.records() if r["client"] == client]
    same(len(mine), 10, f"requests of {client}")
    return max(mine) - answered


def test_fairness(case):
    origin = Origin(case, hosts="big*.example delay=300-500 bytes=600\nshop*.example delay=5 bytes=600")
    pool = Pool(case, origin=origin, config={"clients.rpm": None, "blobs.fsync": "off",
                                             "fetch.tiers": [{"timeout": "5s", "concurrency": 128}]})
    pool.start()
    pool.set_client("big", rpm=None, concurrency=1000)
    alone = delay_of(origin, pool, "alone")
    for b in range(8):
        pool.submit("big", [{"id": f"{b}-{i}", "photos": [origin.url(f"big{p}.example", f"/c/big/{b}/{i}/{p}.jpg") for p in range(4)]}
                            for i in range(5000)])
    planning = delay_of(origin, pool, "planning")
    queue = pool.get_json("/v1/queue")
    print(f"alone {alone * 1000:.0f} ms; while the large one is planned {planning * 1000:.0f} ms "
          f"({queue['ingest']['entries']} entries left)", flush=True)
    check(queue["ingest"]["entries"] > 0, "the large client is still being planned")
    wait_until(lambda: pool.get_json("/v1/queue")["ingest"]["entries"] == 0, 60, "all is planned")
    wait_until(lambda: pool.metric("photopool_in_flight") == 128, 20, "the large client takes all there is")
    delays = [delay_of(origin, pool, f"small{n}") for n in range(20)]
    check(pool.metric("photopool_in_flight") >= 120, "the large client still takes all there is")
    print("beside the large one (ms):", *[f"{d * 1000:.0f}" for d in sorted(delays)], flush=True)
    check(planning <= CYCLE, f"delay while the large client is planned {planning:.2f} s")
    check(max(delays) <= CYCLE, f"longest delay {max(delays):.2f} s")
    share = [r for r in origin.records() if r["client"] == "big"]
    check(len(share) > 300, "the large client has gone on, too")
    pool.kill()


if __name__ == "__main__":
    scenario(test_fairness)
