#!/usr/bin/env python3
# scenario: timeout=120 main
"""Webhooks against receivers of all kinds, verified by npm's standardwebhooks: signatures and their
rotation, the retry schedule, Retry-After, 410, redirects, endless answers, endpoints that hang,
deleting and creating again, pausing, clients, kill -9, and the address policy.

Items without photos finish at once. Each test has its own client, and its endpoint gets only the
results of that client.
"""
import base64
import json
import os
from datetime import datetime

from harness import HOOKS, Pool, check, same, scenario, wait_until
from receiver import ENDLESS, Judge, Receiver, Reply


def new_secret(n=32):
    return "whsec_" + base64.b64encode(os.urandom(n)).decode()


def put(pool, name, url, status=201, **more):
    answer = pool.put(f"/v1/webhooks/{name}", {"url": url, **more})
    same(answer.status, status, f"PUT of webhook {name}: {answer}")
    return answer.json


def finish(pool, client, n=1):
    """Submits n items without photos, which finish at once. Returns their results by id."""
    batch = pool.submit(client, [{"id": f"item-{i}", "photos": []} for i in range(n)])
    return {r["id"]: r for r in pool.wait_finished(batch)}


def deliveries(pool, name, status=None):
    return pool.page_all(f"/v1/webhooks/{name}/deliveries" + (f"?status={status}" if status else ""), "deliveries", 100)


def wait_delivered(pool, name, n):
    wait_until(lambda: len(deliveries(pool, name, "delivered")) == n, 20, lambda: f"{n} deliveries of {name}: {deliveries(pool, name)}")


def the_attempt(pool, name, attempts=1):
    """Returns the only delivery of this webhook, once it has had this many attempts."""
    wait_until(lambda: any(d["attempts"] >= attempts for d in deliveries(pool, name)), 20, lambda: f"attempts at {name}: {deliveries(pool, name)}")
    rows = deliveries(pool, name)
    same(len(rows), 1, f"deliveries of {name}")
    return rows[0]


def seconds(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def wait_of(row):
    """Returns the seconds from an attempt to the next attempt."""
    return seconds(row["next_attempt_at"]) - seconds(row["attempted_at"])


class Here:
    """What the tests of this file share: one server, one receiver, one judge of signatures."""

    def __init__(self, case):
        self.case, self.receiver, self.judge = case, Receiver(), Judge(case)
        self.pool = Pool(case, config=HOOKS).start()

    def endpoint(self, name, answers=204, **more):
        self.receiver.answers["/" + name] = answers
        return put(self.pool, name, self.receiver.url("/" + name), clients=[name], secret=new_secret(), **more)


here = None


def starts(case):
    global here
    here = Here(case)


def signatures(case):
    pool, receiver, judge = here.pool, here.receiver, here.judge
    old, new = new_secret(24), new_secret(64)
    shown = put(pool, "signed", receiver.url("/signed"), secret=old, clients=["signed"])
    check("secret" not in shown and old not in pool.get("/v1/webhooks").body.decode(), "the API never returns a secret")
    due = finish(pool, "signed", 3)
    wait_delivered(pool, "signed", 3)
    for d in receiver.got("/signed"):
        same(json.loads(d.body), due[d.id], "what was delivered")
        same(d.headers["content-type"], "application/cloudevents+json", "its type")
        check(judge.good(d, old), f"the signature of {d}")
        check(not judge.good(d, new), "another secret")
        check(not judge.good(d, old, body=d.body.replace(b"complete", b"failed")), "a body that was changed")
        check(not judge.good(d, old, headers={"webhook-id": "r_other"}), "an id that was changed")
        check(not judge.good(d, old, headers={"webhook-timestamp": str(int(d.headers["webhook-timestamp"]) - 3600)}), "an old time")
    # After a change of the secret, both secrets sign for one day.
    put(pool, "signed", receiver.url("/signed"), 200, secret=new, clients=["signed"])
    finish(pool, "signed")
    wait_delivered(pool, "signed", 4)
    d = receiver.got("/signed")[-1]
    same(len(d.headers["webhook-signature"].split()), 2, f"signatures in {d.headers['webhook-signature']}")
    check(judge.good(d, old) and judge.good(d, new), "both secrets verify")
    check(not judge.good(d, new_secret()), "and no third")
    # A PUT that changes another setting must not change the secret.
    put(pool, "signed", receiver.url("/signed"), 200, clients=["signed"])
    same(pool.post("/v1/webhooks/signed/test", {}).json["delivered"], True, "a test")
    d = receiver.got("/signed")[-1]
    same(json.loads(d.body)["type"], "photopool.webhook.test", "type of a test")
    check(judge.good(d, old) and judge.good(d, new), "a test is signed, too")
    for bad in ("whsec_", "whsec_" + base64.b64encode(b"x" * 23).decode(), "x" * 40, new_secret(65)):
        same(pool.put("/v1/webhooks/bad", {"url": receiver.url("/"), "secret": bad}).status, 422, f"a secret {bad}")


def clients_and_time(case):
    """An endpoint must get the results of its clients that finish after the first PUT, except while
    it is paused.
    """
    pool, receiver = here.pool, here.receiver
    finish(pool, "early", 3)
    here.endpoint("early")
    put(pool, "everybody", receiver.url("/everybody"), secret=new_secret())
    put(pool, "nobody", receiver.url("/nobody"), secret=new_secret(), clients=[])
    some = put(pool, "some", receiver.url("/some"), secret=new_secret(), statuses=["failed", "partial"])
    same((some["statuses"], pool.get_json("/v1/webhooks/everybody")["statuses"]), (["partial", "failed"], None), "statuses")
    due = set(finish(pool, "early", 2))
    others = set(finish(pool, "other", 2))
    wait_delivered(pool, "early", 2)
    same(set(receiver.ids("/early")), due, "results of the client, from the PUT on")
    wait_delivered(pool, "everybody", 4)
    same(set(receiver.ids("/everybody")), due | others, "results of all clients")
    same(receiver.ids("/nobody"), [], "results of no client")
    broken = pool.wait_finished(pool.submit("early", [{"id": "broken", "photos": ["ftp://shop.example/1.jpg"]}]))
    wait_delivered(pool, "some", 1)
    same(receiver.ids("/some"), [r["id"] for r in broken], "results that are partial or failed")
    for bad in ([], ["open"], "failed", [17]):
        code = pool.put("/v1/webhooks/bad", {"url": receiver.url("/"), "secret": new_secret(), "statuses": bad}).json["code"]
        check(code in ("bad_type", "bad_value"), f"statuses {bad}: {code}")
    # While the endpoint is paused, deliveries must wait, and nothing may be lost.
    wait_delivered(pool, "early", 3)
    before = len(receiver.got("/early"))
    put(pool, "early", receiver.url("/early"), 200, clients=["early"], paused=True)
    late = set(finish(pool, "early", 3))
    wait_delivered(pool, "everybody", 8)
    same(len(receiver.got("/early")), before, "deliveries while paused")
    put(pool, "early", receiver.url("/early"), 200, clients=["early"])
    wait_delivered(pool, "early", 6)
    same(set(receiver.ids("/early")[before:]), late, "what had waited")
    # A PUT names other clients while deliveries wait: those of the former client must not be sent
    # any more.
    receiver.answers["/others"] = [Reply(500, {"Retry-After": "3600"}), 204]
    put(pool, "others", receiver.url("/others"), secret=new_secret(), clients=["early"])
    failed = set(finish(pool, "early"))
    the_attempt(pool, "others")
    put(pool, "others", receiver.url("/others"), 200, clients=["early", "other"], paused=True)
    finish(pool, "early", 2)
    others = set(finish(pool, "other", 2))
    wait_delivered(pool, "everybody", 13)
    put(pool, "others", receiver.url("/others"), 200, clients=["other"])
    wait_delivered(pool, "others", 2)
    same(pool.post("/v1/webhooks/others/replay", {"status": "pending"}).json, {"messages": 1}, "a replay of failed deliveries")
    wait_until(lambda: deliveries(pool, "others", "dead"), 20, "it is dead")
    same({d["id"] for d in deliveries(pool, "others", "dead")}, failed, "what is dead")
    same(set(receiver.ids("/others")[1:]), others, "what is sent")
    for name in ("everybody", "nobody", "some"):
        same(pool.request("DELETE", f"/v1/webhooks/{name}?force=true").status, 204, "DELETE")
    same(pool.get("/v1/webhooks/everybody").status, 404, "what was deleted")


def schedule(case):
    """A failed delivery must be retried after 5 s, then after 5 min; a replay must not wait."""
    pool, receiver = here.pool, here.receiver
    here.endpoint("retry", [500, 503, 204])
    finish(pool, "retry")
    row = the_attempt(pool, "retry")
    same((row["status"], row["http_status"]), ("pending", 500), f"the first attempt: {row}")
    check(4.5 <= wait_of(row) <= 5.6, f"5 s to the second: {row}")
    row = the_attempt(pool, "retry", 2)
    same((row["status"], row["http_status"]), ("pending", 503), f"the second attempt: {row}")
    check(270 <= wait_of(row) <= 331, f"5 min to the third: {row}")
    same(pool.post("/v1/webhooks/retry/replay", {"status": "pending"}).json, {"messages": 1}, "a replay")
    wait_delivered(pool, "retry", 1)
    first, second, third = receiver.got("/retry")
    check(first.id == second.id == third.id and first.body == second.body == third.body, "one id, one body")
    check(all(a.headers["webhook-timestamp"] <= b.headers["webhook-timestamp"] for a, b in ((first, second), (second, third))), "the time is the attempt's")
    # A replay by time must send delivered messages again.
    row = deliveries(pool, "retry")[0]
    same(pool.post("/v1/webhooks/retry/replay", {"to": "2020-01-01T00:00:00Z"}).json, {"messages": 0}, "a replay of long ago")
    same(pool.post("/v1/webhooks/retry/replay", {"from": row["finished_at"], "status": "delivered"}).json, {"messages": 1}, "a replay by time")
    wait_until(lambda: len(receiver.got("/retry")) == 4, 20, "it comes again")
    same(receiver.got("/retry")[3].body, first.body, "its body")


def retry_after(case):
    here.endpoint("patient", Reply(429, {"Retry-After": "120"}))
    finish(here.pool, "patient")
    row = the_attempt(here.pool, "patient")
    same(row["http_status"], 429, f"its status: {row}")
    check(119 <= wait_of(row) <= 133, f"Retry-After: 120 is honoured: {row}")


def redirect(case):
    here.endpoint("moved", Reply(302, {"Location": here.receiver.url("/elsewhere")}))
    finish(here.pool, "moved")
    row = the_attempt(here.pool, "moved")
    same((row["status"], row["http_status"]), ("pending", 302), f"a redirect is a failure: {row}")
    same(here.receiver.got("/elsewhere"), [], "requests to the target of the redirect")


def endless_answer(case):
    reply = Reply(200, endless=True)
    here.endpoint("endless", reply)
    finish(here.pool, "endless")
    wait_delivered(here.pool, "endless", 1)
    wait_until(lambda: reply.broken, 20, "the connection is closed")
    check(reply.sent < ENDLESS // 8, f"{reply.sent} bytes of the answer were sent")


def gone(case):
    """An endpoint answers 410: all its deliveries must stop until a PUT; then also the refused
    delivery must be sent.
    """
    pool, receiver = here.pool, here.receiver
    here.endpoint("gone", [410, 204])
    due = set(finish(pool, "gone"))
    wait_until(lambda: pool.get_json("/v1/webhooks/gone")["disabled"], 20, "disabled")
    due |= set(finish(pool, "gone", 3))
    here.endpoint("witness")  # must get its results in the meantime
    finish(pool, "witness", 3)
    wait_delivered(pool, "witness", 3)
    same(len(receiver.got("/gone")), 1, "deliveries to a disabled endpoint")
    same(put(pool, "gone", receiver.url("/gone"), 200, clients=["gone"])["disabled"], False, "disabled after a PUT")
    receiver.answers["/gone"] = 204
    wait_delivered(pool, "gone", 4)
    same(set(receiver.ids("/gone")), due, "all of it")


def gone_before(case):
    """A 410 to a delivery that was sent before a PUT must not disable the endpoint."""
    pool, receiver = here.pool, here.receiver
    late = Reply(410, held=True)
    here.endpoint("late", [late, 204])
    due = set(finish(pool, "late"))
    wait_until(lambda: receiver.got("/late"), 20, "the delivery is in flight")
    put(pool, "late", receiver.url("/late"), 200, clients=["late"])
    here.endpoint("other")
    finish(pool, "other", 3)
    wait_delivered(pool, "other", 3)  # photopool has read the endpoints again
    late.release()
    wait_delivered(pool, "late", 1)
    same((set(receiver.ids("/late")), pool.get_json("/v1/webhooks/late")["disabled"]), (due, False), "the delivery, disabled")


def hanging(case):
    """An endpoint that accepts connections and never answers must not delay another endpoint. An
    answer that lacks the end of its body must count as an answer.
    """
    pool, receiver = here.pool, here.receiver
    here.endpoint("stuck", Reply(200, stuck=True))
    finish(pool, "stuck")
    here.endpoint("hangs", Reply(hang=True))
    finish(pool, "hangs", 300)
    wait_until(lambda: receiver.got("/hangs"), 20, "a delivery hangs")
    here.endpoint("quick")
    due = set(finish(pool, "quick", 300))
    wait_delivered(pool, "quick", 300)
    same(set(receiver.ids("/quick")), due, "what the other gets")
    same(deliveries(pool, "hangs", "delivered"), [], "deliveries to the hanging endpoint")
    # The attempt at the hanging endpoint must fail after 15 s without an answer.
    wait_until(lambda: any("15 s" in (d["error"] or "") for d in deliveries(pool, "hangs")), 30, "the attempt is given up")
    same(pool.request("DELETE", "/v1/webhooks/hangs?force=true").status, 204, "DELETE")
    row = the_attempt(pool, "stuck")
    same((row["status"], row["http_status"]), ("delivered", 200), f"an answer with only its head: {row}")


def anew(case):
    """An endpoint is deleted while a delivery is in flight, and created again: the new endpoint
    must wait for nothing, and get the results that finish from now on.
    """
    pool, receiver = here.pool, here.receiver
    held = Reply(500, held=True)
    here.endpoint("anew", held)
    finish(pool, "anew")
    wait_until(lambda: receiver.got("/anew"), 20, "a delivery is in flight")
    same(pool.request("DELETE", "/v1/webhooks/anew?force=true").status, 204, "DELETE")
    receiver.answers["/new"] = 204
    put(pool, "anew", receiver.url("/new"), clients=["anew"], secret=new_secret())
    due = set(finish(pool, "anew", 2))
    wait_delivered(pool, "anew", 2)
    held.release()
    due |= set(finish(pool, "anew", 2))
    wait_delivered(pool, "anew", 4)
    same({d["id"] for d in deliveries(pool, "anew")}, due, "deliveries of the new endpoint")
    same(set(receiver.ids("/new")), due, "what it gets")


def killed(case):
    """kill -9 in the middle of deliveries: the other results must come, and a repeated delivery
    must have the same bytes.
    """
    pool, receiver = here.pool, here.receiver
    n = 400
    here.endpoint("killed")
    batch = pool.submit("killed", [{"id": f"item-{i}", "photos": [], "meta": {"n": i}} for i in range(n)])
    wait_until(lambda: len(receiver.got("/killed")) >= 20, 20, "deliveries")
    pool.kill()
    print(f"killed after {len(receiver.got('/killed'))} of {n}")
    pool.start()
    due = {r["id"]: r for r in pool.wait_finished(batch)}
    wait_until(lambda: set(receiver.ids("/killed")) == set(due), 60, lambda: f"{len(set(receiver.ids('/killed')))} of {n} are delivered")
    bodies = {}
    for d in receiver.got("/killed"):
        same(bodies.setdefault(d.id, d.body), d.body, f"body of {d.id}")
        same(json.loads(d.body), due[d.id], "what was delivered")
    print(f"{len(receiver.got('/killed')) - n} arrived twice")
    wait_delivered(pool, "killed", n)


def policy(case):
    """Without webhooks.allow_networks photopool must not reach a private address, by any name. And an
    endpoint that was deleted with a delivery in flight must not delay a shutdown.
    """
    receiver, held = here.receiver, Reply(500, held=True)
    here.endpoint("deleted", held)
    finish(here.pool, "deleted")
    wait_until(lambda: receiver.got("/deleted"), 20, "a delivery is in flight")
    same(here.pool.request("DELETE", "/v1/webhooks/deleted?force=true").status, 204, "DELETE")
    held.release()
    here.pool.stop()
    pool = Pool(case, config={"webhooks.allow_ports": ["1-65535"], "fetch.allow_networks": ["127.0.0.0/8"], "fetch.resolve": [f"inside.example:{receiver.port}:127.0.0.1"]}).start()
    for url in (receiver.url("/"), "http://[::1]:9/", "http://0x7f000001/", "http://169.254.169.254/latest", "ftp://shop.example/", "nonsense"):
        answer = pool.put("/v1/webhooks/inside", {"url": url, "secret": new_secret()})
        same((answer.status, answer.json["code"], answer.json["field"]), (422, "bad_value", "url"), f"PUT of {url}: {answer}")
    put(pool, "inside", receiver.url("/inside", "inside.example"), secret=new_secret())
    finish(pool, "any")
    row = the_attempt(pool, "inside")
    same((row["status"], row["http_status"]), ("pending", None), f"a delivery to a forbidden address: {row}")
    check("webhooks.allow_networks" in row["error"], f"the reason: {row}")
    answer = pool.post("/v1/webhooks/inside/test", {}).json
    check(not answer["delivered"] and "webhooks.allow_networks" in answer["error"], f"a test: {answer}")
    same(receiver.got("/inside"), [], "requests")
    pool.stop()


if __name__ == "__main__":
    scenario(starts, signatures, clients_and_time, schedule, retry_after, redirect, endless_answer, gone, gone_before, hanging, anew, killed, policy)
