#!/usr/bin/env python3
# scenario: build=release timeout=240
"""A host that begins to answer 404, 403 or a page to everything must not have its photos recorded as
missing: its breaker opens, the failures are held back, and all photos are stored once it is up again.
"""
from harness import Origin, Pool, check, same, scenario, wait_until

GOOD = "bytes=600-2000 delay=5-30"
HOSTS = {"gone.example": "status=404", "closed.example": "status=403", "login.example": "body=html"}
CLIENTS = ["41", "42", "43"]
EACH = 200


def lines(behaviour):
    return "".join(f"{host} {behaviour.get(host, GOOD)}\n" for host in HOSTS)


def items(origin, run, each):
    return [{"id": f"{run}-{host}-{i}", "photos": [origin.url(host, f"/{run}/{i}.jpg")]}
            for i in range(each) for host in HOSTS]


def state(pool, host):
    return pool.get_json(f"/v1/hosts/{host}")


def host_events(pool, host):
    events = pool.get_json("/v1/events?key=ops&after=0&limit=1000")["events"]
    return [e["type"].rsplit(".", 1)[1] for e in events if e["data"].get("host") == host]


def test_outages(case):
    origin = Origin(case, hosts=lines({}))
    pool = Pool(case, origin=origin, config={"clients.rpm": None, "clients.concurrency": 16})
    pool.start()
    first = pool.wait_finished(pool.submit("42", items(origin, "first", 20)))
    check(all(r["data"]["status"] == "complete" for r in first), "the first import is complete")

    origin.set_hosts(lines(HOSTS))
    batches = [pool.submit(c, items(origin, f"run{c}", EACH)) for c in CLIENTS]
    for host in HOSTS:
        wait_until(lambda: state(pool, host)["state"] == "open", 60, lambda: f"{host}: {state(pool, host)}")
        same(state(pool, host)["reason"], "absent", f"why the breaker of {host} is open")
        wait_until(lambda: state(pool, host)["waiting_photos"] > 0, 30, "photos wait for their host")
    url = origin.url("gone.example", "/run42/7.jpg")
    explain = lambda: pool.get_json(f"/v1/explain?client=42&url={url}")  # noqa: E731
    wait_until(lambda: explain()["verdict"] == "wait", 30, lambda: f"the photo waits, also if it was in flight: {explain()}")

    origin.set_hosts(lines({}))
    for host in HOSTS: # probes would begin in five minutes
        same(pool.post(f"/v1/breakers/{host}", {"action": "auto"}).status, 200, "an operator's order")
    for batch in batches:
        results = pool.wait_finished(batch, timeout=120)
        same({r["data"]["status"] for r in results}, {"complete"}, "the imports during the outage")
    for host in HOSTS:
        same(state(pool, host)["state"], "closed", f"the breaker of {host}")
        same(host_events(pool, host)[:3], ["opened", "half_open", "closed"], f"events of {host}")
    pool.stop()


if __name__ == "__main__":
    scenario(test_outages)
