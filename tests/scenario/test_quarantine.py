#!/usr/bin/env python3
# scenario: timeout=120 main
"""A photo whose process dies each time it is in flight must end as `quarantined`; a photo that was
only in flight beside it must not.

The test kills the process (-9) while the photo is in flight: twice with another photo beside it,
which makes both suspects. Suspects run alone, so the third kill hits only the killer. A photo that
was lost only once counts as new again.
"""
from harness import Origin, Pool, check, outcomes, same, scenario, wait_until

HOSTS = """
killer.example  stall=head
near.example    stall=head
once.example    stall=head
other.example   delay=10
"""


def in_flight(origin, hosts):
    """Returns a condition: the origin has exactly one request in flight for each of these hosts,
    and none for others.
    """
    def look():
        rows = [line.split() for line in origin.page("GET", "/_max").decode().split("\n") if line]
        now = {r[0]: int(r[2]) for r in rows if r[0] in ("killer.example", "near.example", "once.example")}
        return {h for h, n in now.items() if n > 0} == set(hosts) and all(n <= 1 for n in now.values())
    return look


def test_quarantine(case):
    origin = Origin(case, hosts=HOSTS)
    pool = Pool(case, origin=origin, config={"clients.rpm": None, "fetch.tiers": [{"timeout": "1m", "concurrency": 16}]})
    pool.start()
    batch = pool.submit("42", [{"id": "bad", "photos": [origin.url("killer.example", "/k.jpg"), origin.url("other.example", "/1.jpg")]},
                               {"id": "near", "photos": [origin.url("near.example", "/n.jpg")]},
                               {"id": "once", "photos": [origin.url("once.example", "/o.jpg")]}])
    wait_until(in_flight(origin, ["killer.example", "near.example", "once.example"]), 20, "all three are in flight")
    wait_until(lambda: pool.batch(batch)["photos"]["stored"] == 1, 20, "the photo of another host is stored")
    pool.kill()
    # All three photos were lost once. The photo of once.example ends before the next kill.
    wait_until(in_flight(origin, []), 10, "the origin has seen the process end")
    origin.set_hosts(HOSTS.replace("once.example    stall=head", "once.example delay=1"))
    pool.start()
    wait_until(in_flight(origin, ["killer.example", "near.example"]), 20, "the killer and the near one are in flight again")
    wait_until(lambda: pool.batch(batch)["items"]["complete"] == 1, 20, "the one that was lost once is stored")
    pool.kill()
    # Two photos were lost twice, so they are suspects. Suspects run one at a time, in any order.
    wait_until(in_flight(origin, []), 10, "the origin has seen the process end")
    origin.set_hosts(HOSTS.replace("near.example    stall=head", "near.example delay=300"))
    pool.start()
    queue = pool.get_json("/v1/queue")["open"]
    wait_until(in_flight(origin, ["killer.example"]), 30, lambda: f"the killer is in flight alone; {queue}")
    pool.kill()
    wait_until(in_flight(origin, []), 10, "the origin has seen the process end")
    pool.start()
    results = pool.wait_finished(batch)
    got = outcomes(results)
    same(got[("bad", 0)], ("failed", "quarantined"), "the killer")
    same(got[("bad", 1)], ("stored", None), "another photo of its item")
    same(got[("near", 0)], ("stored", None), "the one near it")
    same(got[("once", 0)], ("stored", None), "the one lost once")
    photo = next(p for r in results for p in r["data"]["photos"] if "killer" in p["url"])
    same(photo["attempts"], 3, "attempts of the killer")
    records = origin.records()
    same(sum(r["host"] == "killer.example" for r in records), 3, "requests for the killer")
    suspects = [(r["start"], r["end"]) for r in records if r["host"] in ("killer.example", "near.example")][-2:]
    check(max(s for s, _ in suspects) >= min(e for _, e in suspects), f"two suspects at the same time: {suspects}")
    # A quarantined photo is not in the negative cache: the next import must try it again.
    origin.set_hosts("*.example delay=1")
    again = pool.wait_finished(pool.submit("42", [{"id": "bad", "photos": [origin.url("killer.example", "/k.jpg")]}]))
    same(outcomes(again)[("bad", 0)], ("stored", None), "the former killer")
    pool.stop()


if __name__ == "__main__":
    scenario(test_quarantine)
