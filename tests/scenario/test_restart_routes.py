#!/usr/bin/env python3
# scenario: build=release timeout=180
"""photopool must learn routes, keep them over a restart and a kill -9, and adapt them when a host
gets faster.

The first import of unknown hosts has to find out how slow they are. The second import must use the
right tier at once: its photos need one request each.
"""
from harness import Origin, Pool, check, same, scenario, wait_until

# The delays differ so much that even on a slow machine no kind of host looks like another.
HOSTS = """
quick*.example  delay=5-60 bytes=600-2000
mid*.example    delay=1200-1300 bytes=600-2000
slow*.example   delay=4000-4500 bytes=600-2000
"""
TIERS = {"quick": 1.0, "mid": 3.0, "slow": 15.0}  # the tier in seconds that each kind of host must get
DOMAINS = [f"{kind}{n}.example" for kind in TIERS for n in range(4)]
EACH = 24


def items(origin, run, domains, each):
    return [{"id": f"{run}-{d}-{i}", "photos": [origin.url(d, f"/{run}/{i}.jpg")]} for i in range(each) for d in domains]


def routes(pool):
    return {r["domain"]: r["tier"] for r in pool.page_all("/v1/routes?client=42", "routes")}


def expected():
    return {d: TIERS[d.split(".")[0].rstrip("0123456789")] for d in DOMAINS}


def attempts(results):
    return [p["attempts"] for r in results for p in r["data"]["photos"]]


def test_restart_routes(case):
    origin = Origin(case, hosts=HOSTS)
    pool = Pool(case, origin=origin, config={
        "clients.rpm": None, "clients.concurrency": 64, "router.interval": "1s", "router.half_life": "10s",
        "fetch.tiers": [{"timeout": f"{int(t * 1000)}ms", "concurrency": 64} for t in TIERS.values()]})
    pool.start()
    first = pool.wait_finished(pool.submit("42", items(origin, "first", DOMAINS, EACH)))
    check(all(r["data"]["status"] == "complete" for r in first), "the first import is complete")
    state = {"run": 0}

    def learned_all():
        """While the machine hangs, a host may look slow. Further photos of it must correct that."""
        now = routes(pool)
        wrong = [d for d, tier in expected().items() if now.get(d) != tier]
        if wrong:
            state["run"] += 1
            pool.wait_finished(pool.submit("42", items(origin, f"more{state['run']}", wrong, 10)))
        return not wrong

    wait_until(learned_all, 60, lambda: f"routes {routes(pool)}")
    learned = attempts(first)
    print(f"first import: {sum(a == 1 for a in learned)} of {len(learned)} photos with one request")

    pool.stop()
    pool.start()
    same(routes(pool), expected(), "routes after a restart")
    pool.kill()
    pool.start()
    same(routes(pool), expected(), "routes after a kill -9")
    before = len(origin.records())
    second = pool.wait_finished(pool.submit("42", items(origin, "second", DOMAINS, EACH)))
    once = sum(a == 1 for a in attempts(second))
    print(f"second import: {once} of {len(second)} photos with one request")
    check(all(r["data"]["status"] == "complete" for r in second), "the second import is complete")
    check(once >= 0.95 * len(second), f"{once} of {len(second)} photos went straight to the right tier")
    check(len(origin.records()) - before <= 1.05 * len(second), "requests of the second import")

    # A new client has no routes to these hosts. The route of a slow host that gets faster must come
    # down step by step.
    check(pool.get_json("/v1/routes?client=43")["routes"] == [], "routes of another client")
    origin.set_hosts("*.example delay=5-60 bytes=600-2000")
    def came_down():
        state["run"] += 1
        pool.wait_finished(pool.submit("42", items(origin, f"faster{state['run']}", ["slow0.example", "slow1.example"], 10)))
        now = routes(pool)
        return now["slow0.example"] == now["slow1.example"] == TIERS["quick"]

    wait_until(came_down, 60, lambda: f"routes come down: {routes(pool)}")
    same(routes(pool)["slow2.example"], TIERS["slow"], "route of a host without requests")
    pool.stop()


if __name__ == "__main__":
    scenario(test_restart_routes)
