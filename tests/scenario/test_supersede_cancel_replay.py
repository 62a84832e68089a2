#!/usr/bin/env python3
# scenario: timeout=120 main
"""What callers do to batches: a newer list of an item, DELETE, replay, the same Idempotency-Key
after a kill -9, the modes of refresh, photos that are too old, labels, calls that wait for a batch,
items without photos, URLs that occur twice, failures after which a URL is skipped, items that are
deleted.
"""
import datetime
import subprocess
import time

from harness import PHOTOPOOL, Origin, Pool, check, outcomes, same, scenario, wait_until

HOSTS = """
stall*.example  stall=head
etag*.example   delay=5 etag=1 last_modified=1
gone*.example   delay=5 status=404
down*.example   delay=5 status=500
*.example       delay=5 bytes=600-2000
"""


class Run:
    def __init__(self, case):
        self.origin = Origin(case, hosts=HOSTS)
        self.pool = Pool(case, origin=self.origin, config={"clients.rpm": None, "retry.attempts": 2, "retry.delays": ["50ms"],
                                                           "fetch.tiers": [{"timeout": "1m", "concurrency": 64}]})
        self.pool.start()

    def url(self, host, target="/1.jpg"):
        return self.origin.url(host + ".example", target)

    def item(self, name, *urls):
        return {"id": name, "photos": list(urls)}

    def run(self, *items, client="42", **more):
        return self.pool.wait_finished(self.pool.submit(client, list(items), **more))

    def requests(self, host):
        return [r for r in self.origin.records() if r["host"] == host + ".example"]


def statuses(results):
    return {r["data"]["item"]: r["data"]["status"] for r in results}


def supersede(r):
    old = r.pool.submit("42", [r.item("ad", r.url("stall1"), r.url("s1")), r.item("other", r.url("s2"))])
    wait_until(lambda: r.pool.batch(old)["photos"]["stored"] == 2, 20, "the photos that do not stall are stored")
    same(r.pool.item("42", "ad")["data"]["status"] if "data" in r.pool.item("42", "ad") else "open", "open", "the item")
    new = r.run(r.item("ad", r.url("s3")))
    same((new[0]["data"]["status"], new[0]["data"]["revision"]), ("complete", 2), "the newer list")
    was = r.pool.wait_finished(old)
    same(statuses(was), {"ad": "superseded", "other": "complete"}, "items of the older batch")
    ad = next(x for x in was if x["data"]["item"] == "ad")
    same(ad["data"]["revision"], 1, "revision of the older list")
    check(ad["id"] != new[0]["id"], "each revision has a result of its own")
    same(len(ad["data"]["photos"]), 2, "photos of the superseded item")
    same(r.pool.batch(old)["items"]["superseded"], 1, "superseded items in the batch's counters")
    same(r.pool.item("42", "ad")["id"], new[0]["id"], "the newest revision by GET /v1/items")


def cancel(r):
    batch = r.pool.submit("42", [r.item("c1", r.url("c1")), r.item("c2", r.url("stall2"), r.url("c2")), r.item("c3", r.url("stall3"))])
    wait_until(lambda: r.pool.batch(batch)["photos"]["stored"] == 2, 20, "the photos that do not stall are stored")
    for _ in range(2):
        answer = r.pool.request("DELETE", f"/v1/batches/{batch}")
        same(answer.status // 100, 2, f"DELETE: {answer}")
    results = r.pool.wait_finished(batch)
    same(statuses(results), {"c1": "complete", "c2": "cancelled", "c3": "cancelled"}, "items of the cancelled batch")
    same({k: o for k, (o, _) in outcomes(results).items()},
         {("c1", 0): "stored", ("c2", 0): "cancelled", ("c2", 1): "stored", ("c3", 0): "cancelled"}, "its photos")
    view = r.pool.batch(batch)
    same((view["state"], view["items"]["open"], view["items"]["cancelled"]), ("cancelled", 0, 2), "state of the cancelled batch")
    same(len(r.pool.results(batch, "?status=cancelled")), 2, "results?status=cancelled")
    same(r.pool.request("DELETE", "/v1/batches/b_none").status, 404, "DELETE of an unknown batch")


def replay(r):
    first = r.pool.submit("42", [r.item("r1", r.url("gone1"), r.url("ok1")), r.item("r2", r.url("down1")),
                                 r.item("r3", r.url("gone2")), r.item("r4", r.url("ok2"))])
    results = r.pool.wait_finished(first)
    same(statuses(results), {"r1": "partial", "r2": "failed", "r3": "failed", "r4": "complete"}, "items")
    same(r.pool.batch(first)["errors"], {"http_404": 2, "http_500": 1}, "errors of the batch")
    path = f"/v1/batches/{first}/replay"

    def ask(key=None, **how):
        answer = r.pool.post(path, how, key and {"Idempotency-Key": key})
        same(answer.status // 100, 2, f"replay {how}: {answer}")
        return answer.json

    same(ask(codes=["http_404"], dry_run=True), {"photos": 2, "batch_id": None, "not_replayed": {}}, "dry run by code")
    same(ask(domains=["gone1.example"], dry_run=True), {"photos": 1, "batch_id": None, "not_replayed": {}}, "dry run by domain")
    same(ask(codes=["http_500"], domains=["gone1.example"], dry_run=True), {"photos": 0, "batch_id": None, "not_replayed": {}}, "dry run by both")
    same(ask(dry_run=True)["photos"], 3, "dry run of all that failed")
    before = len(r.origin.records())
    r.origin.set_hosts("*.example delay=5 bytes=600-2000")
    again = ask(key="once-more", codes=["http_404"])
    same(again["photos"], 2, "photos replayed")
    results = r.pool.wait_finished(again["batch_id"])
    same(statuses(results), {"r1": "complete", "r3": "complete"}, "items of the replay")
    same({k: o for k, (o, _) in outcomes(results).items()}, {("r1", 0): "stored", ("r1", 1): "unchanged", ("r3", 0): "stored"},
         "photos of the replay")
    same(len(r.origin.records()) - before, 2, "requests of the replay")
    same({x["data"]["revision"] for x in results}, {2}, "revisions of the replay")
    same(ask(key="once-more", codes=["http_404"]), again, "the same replay again, when it is done")
    same(ask(codes=["http_404"]), {"photos": 0, "batch_id": None, "not_replayed": {"newer_revision": 2}}, "another one")
    r.origin.set_hosts(HOSTS)
    same(r.pool.post(path, {"codes": ["no_such_code"]}).status // 100, 4, "replay of an unknown code")
    same(r.pool.post("/v1/batches/b_none/replay", {}).status, 404, "replay of an unknown batch")


def idempotency(r):
    body = {"client": "42", "items": [r.item("k1", r.url("k1")), {"id": "", "photos": []}]}
    key = {"Idempotency-Key": "import-2026-11-21"}
    first = r.pool.post("/v1/batches", body, key)
    same(first.status, 202, f"POST: {first}")
    same(len(first.json["rejected"]), 1, "rejected items")
    r.pool.wait_finished(first.json["batch_id"])
    for n in range(2):
        again = r.pool.post("/v1/batches", body, key)
        same((again.status, again.json, again.headers["Idempotency-Replayed"]), (202, first.json, "true"), f"the same POST again ({n})")
        other = r.pool.post("/v1/batches", {**body, "refresh": "always"}, key)
        same((other.status, other.json["code"]), (422, "idempotency_mismatch"), f"the same key, another body ({n})")
        r.pool.kill()
        r.pool.start()
    same(r.pool.item("42", "k1")["data"]["revision"], 1, "revisions made")
    fresh = r.pool.post("/v1/batches", {**body, "client": "43"}, key)
    same((fresh.status, fresh.headers["Idempotency-Replayed"]), (202, None), "the same key of another client")


def refresh(r):
    urls = [r.url("etag1"), r.url("plain1")]
    first = outcomes(r.run(r.item("f1", *urls)))
    same(first, {("f1", 0): ("stored", None), ("f1", 1): ("stored", None)}, "first import")
    known = r.run(r.item("f2", *urls))
    same(outcomes(known), {("f2", 0): ("unchanged", None), ("f2", 1): ("unchanged", None)}, "refresh: known")
    same((len(r.requests("etag1")), len(r.requests("plain1"))), (1, 1), "requests after refresh: known")
    changed = r.run(r.item("f3", *urls), refresh="changed")
    same(outcomes(changed), {("f3", 0): ("unchanged", None), ("f3", 1): ("unchanged", None)}, "refresh: changed")
    same([x["status"] for x in r.requests("etag1")], [200, 304], "answers to the conditional request")
    same([x["status"] for x in r.requests("plain1")], [200, 200], "answers where there is no validator")
    always = r.run(r.item("f4", *urls), refresh="always")
    same([x["status"] for x in r.requests("etag1")], [200, 304, 200], "answers with refresh: always")
    same(outcomes(always), {("f4", 0): ("unchanged", None), ("f4", 1): ("unchanged", None)}, "unchanged bytes")
    photos = {x["data"]["item"]: x["data"]["photos"][0]["sha256"] for x in known + changed + always}
    same(len(set(photos.values())), 1, "one object")
    same(r.pool.post("/v1/batches", {"client": "42", "refresh": "sometimes", "items": []}).status // 100, 4, "an unknown refresh")


def max_age(r):
    urls = [r.url("etag2"), r.url("plain2")]
    first = r.run(r.item("g1", *urls))
    times = [x["fetched_at"] for x in first[0]["data"]["photos"]]
    fetched = max(datetime.datetime.strptime(t, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp() for t in times)
    young = r.run(r.item("g2", *urls), max_age="1h")
    same([x["fetched_at"] for x in young[0]["data"]["photos"]], times, "photos that are young enough")
    same((len(r.requests("etag2")), len(r.requests("plain2"))), (1, 1), "requests for photos that are young enough")
    wait_until(lambda: time.time() > fetched + 1.1, 10, "the photos are older than a second")
    old = r.run(r.item("g3", *urls), max_age="1s")
    same(outcomes(old), {("g3", 0): ("unchanged", None), ("g3", 1): ("unchanged", None)}, "photos that are too old")
    same([x["status"] for x in r.requests("etag2")], [200, 304], "one conditional request")
    same([x["status"] for x in r.requests("plain2")], [200, 200], "a photo without validators is fetched again")


def label(r):
    first = r.pool.submit("42", [r.item("l1", r.url("ok-l1"))], label="monday „import“")
    r.pool.submit("42", [r.item("l2", r.url("ok-l2"))], label="tuesday")
    wait_until(lambda: r.pool.get_json(f"/v1/batches/{first}?wait=10")["state"] == "finished", 60, "a call that waits for the end")
    same(r.pool.batch(first)["label"], "monday „import“", "the label of a batch")
    query = "?label=monday+%E2%80%9Eimport%E2%80%9C"
    same([b["batch_id"] for b in r.pool.page_all("/v1/batches" + query, "batches")], [first], "batches with the label")
    stalls = r.pool.submit("42", [r.item("l3", r.url("stall-l3"))], label="tuesday")
    same(r.pool.get_json(f"/v1/batches/{stalls}?wait=1")["state"], "running", "a batch that takes longer than the call waits")
    r.pool.request("DELETE", f"/v1/batches/{stalls}")
    same(r.pool.get_json(f"/v1/batches/{stalls}?wait=10")["state"], "cancelled", "a cancelled batch")
    same(r.pool.get(f"/v1/batches/{stalls}?wait=61").status, 400, "a wait that is too long")


def twice(r):
    results = r.run(r.item("none"), r.item("t1", r.url("twice"), r.url("twice"), r.url("twice")), r.item("t2", r.url("twice")))
    same(statuses(results), {"none": "complete", "t1": "complete", "t2": "complete"}, "items")
    same(len(r.requests("twice")), 1, "requests for a URL that occurs four times")
    same(len(results[[x["data"]["item"] for x in results].index("t1")]["data"]["photos"]), 3, "photos of the item")
    batch = r.pool.submit("42", [r.item("empty")])
    same(r.pool.wait_finished(batch)[0]["data"]["photos"], [], "photos of an item without any")
    # Several batches of two clients name the same URL at once: photopool must send one request, and
    # the other client's task takes its outcome.
    pairs = [r.pool.submit(c, [r.item(f"w{n}-{c}", r.url("shared", "/s.jpg?delay=500"))]) for n in range(3) for c in ("42", "43")]
    for batch in pairs:
        same({o for o, _ in outcomes(r.pool.wait_finished(batch)).values()} - {"stored", "unchanged"}, set(), "outcomes")
    same(len(r.requests("shared")), 1, "requests for a URL of three batches of two clients")


def skipped(r):
    outcome = [outcomes(r.run(r.item(f"g{n}", r.url("gone9"))))[(f"g{n}", 0)] for n in range(4)]
    same(outcome[0], ("failed", "http_404"), "the first import")
    same(outcome[1], ("failed", "http_404"), "the second import")
    same(outcome[2], ("skipped", "http_404"), "the third import")
    same(len(r.requests("gone9")), 3, "requests of four imports")
    down = [outcomes(r.run(r.item(f"d{n}", r.url("down9"))))[(f"d{n}", 0)] for n in range(4)]
    same(set(down), {("failed", "http_500")}, "a 500 is never skipped")
    same(len(r.requests("down9")), 8, "requests with one retry each")


def forget(r):
    def cli(*words):
        return subprocess.run([PHOTOPOOL, *words, "--server", f"http://127.0.0.1:{r.pool.port}"], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()

    def results_after(n):
        return [(e["data"]["data"]["item"], e["data"]["data"]["revision"]) for e in r.pool.get_json(f"/v1/events?key=results:46&after={n}")["events"]]

    first = r.pool.submit("46", [r.item("f1", r.url("f1"), r.url("gone-f1")), r.item("f2", r.url("f2"))])
    r.pool.wait_finished(first)
    second = r.pool.submit("46", [r.item("f1", r.url("f1"))])
    r.pool.wait_finished(second)
    stalls = r.pool.submit("46", [r.item("f3", r.url("stall-f3")), r.item("f4", r.url("f4"))])
    wait_until(lambda: r.pool.batch(stalls)["photos"]["stored"] == 1, 20, "the photo that does not stall is stored")
    check("item_open" in cli("forget", "46", "f3") and "item_open" in cli("forget", "46", "f4"), "items of a batch that runs stay")
    counts = [r.pool.batch(b) for b in (first, second)]
    wait_until(lambda: '"revisions":2' in cli("forget", "46", "f1"), 60, "the results are delivered, and the item is deleted")
    check("not_found" in cli("forget", "46", "f1"), "there is nothing left to delete")
    r.pool.kill()
    r.pool.start()
    same(r.pool.get("/v1/items/46/f1").status, 404, "the item")
    same([x["item"] if "item" in x else x["data"]["item"] for x in r.pool.get_json("/v1/items?client=46")["items"]], ["f2", "f3", "f4"], "the client's items")
    same([x["data"]["item"] for x in r.pool.results(first)], ["f2"], "results of the first batch")
    same(r.pool.results(second), [], "results of the second batch")
    same([r.pool.batch(b) for b in (first, second)], counts, "the batches' counts")
    r.pool.request("DELETE", f"/v1/batches/{stalls}")
    again = r.run(r.item("f1", r.url("f1")), client="46")
    same((again[0]["data"]["revision"], again[0]["data"]["photos"][0]["outcome"]), (3, "unchanged"), "a later import")
    same(len(r.requests("f1")), 1, "requests for the photo, which photopool still knows")
    wait_until(lambda: ("f1", 3) in results_after(0), 20, "the new result is an event")
    same(sorted(results_after(0)), [("f1", 1), ("f1", 2), ("f1", 3), ("f2", 1), ("f3", 1), ("f4", 1)], "events stay")


def test_supersede_cancel_replay(case):
    r = Run(case)
    for part in (supersede, cancel, label, replay, idempotency, refresh, max_age, twice, skipped, forget):
        part(r)
        print(part.__name__, flush=True)
    r.pool.stop()


if __name__ == "__main__":
    scenario(test_supersede_cancel_replay)
