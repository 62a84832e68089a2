#!/usr/bin/env python3
# scenario: build=release timeout=240 fleet
"""Every kind of consumer follows the same import, while the test kills deliver and api replicas,
Redis and the broker (kill -9), starts them again, and drains an api. Each consumer must end with
exactly the ids of all items, an id must have the same payload everywhere, and no number may stand
for two events.

PP_DELIVERY_ITEMS, PP_DELIVERY_KILLS: the size (6000 items, 8 kills). PP_DELIVERY_FSYNC: the
setting appendfsync of Redis (default always; with off a kill loses all data). PP_DELIVERY_KINDS:
what is killed (deliver,api,redis,broker; freeze or kafka: a deliver, or Kafka, stops until the
other replicas have made progress, or for some seconds). PP_SEED: the order of the kills.
loadtest/chaos/delivery runs the full size.
"""
import json
import os
import random
import re
import signal
import threading
import time

os.environ.setdefault("PP_SEED", "20261122")
from fleet import Fleet, KafkaCluster, RabbitServers, RedisServers  # noqa: E402
from followers import Amqp, Book, Events, Hook, Kafka, LongPoll, Refused, WebSocket, data_of, elements, get, read_list  # noqa: E402
from harness import Origin, check, same, scenario, wait_until  # noqa: E402

ITEMS = int(os.environ.get("PP_DELIVERY_ITEMS") or 6000)
KILLS = int(os.environ.get("PP_DELIVERY_KILLS") or 8)
FSYNC = os.environ.get("PP_DELIVERY_FSYNC") or "always"
KINDS = (os.environ.get("PP_DELIVERY_KINDS") or "deliver,api,redis,broker").split(",")
BATCHES = 160
SHARE_S = 4  # at least so many seconds pass between kills; in this time a share of the batches is posted
PHOTOS = 0.03  # share of the items that have a photo to fetch
TOPIC, RESULT = "photopool.results", "photopool.item.finished"


class Import:
    """A thread that posts the batches, each until it is accepted, up to the number allowed so far."""

    def __init__(self, fleet, origin, case):
        self.fleet, self.origin, self.random = fleet, origin, random.Random(case.seed)
        self.posted, self.allowed, self.retries, self.error = [], 0, 0, None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def item(self, i):
        lot = self.random.random()
        item = {"id": f"ad-{i}", "photos": [], "meta": {"n": i, "text": "Fahrrad, gr\u00fcn \u2013 \"wie neu\"</script>\u2028" + "x" * self.random.randrange(60)}}
        if lot < PHOTOS:
            item["photos"] = [self.origin.url(f"h{i % 9}.example", f"/{i}.jpg"), "no url"]
        elif lot < 0.6:
            item["photos"] = ["http://", f"ftp://h.example/{i}.jpg"]
        return item

    def run(self):
        try:
            for n in range(BATCHES):
                while n >= self.allowed:
                    time.sleep(0.02)
                time.sleep(SHARE_S * (KILLS + 1) / BATCHES)
                first, end = ITEMS * n // BATCHES, ITEMS * (n + 1) // BATCHES
                self.posted.append(self.post(f"shop{n % 7}", [self.item(i) for i in range(first, end)], f"batch-{n}"))
        except Exception as e:  # noqa: BLE001  (the waiting test reports it)
            self.error = repr(e)

    def post(self, client, items, key):
        """Posts a batch until it is accepted and returns its id. The Idempotency-Key makes it safe
        to repeat the POST.
        """
        while True:
            try:
                replica = some_api(self.fleet, self.random)
                answer = replica.post("/v1/batches", {"client": client, "items": items}, {"Idempotency-Key": key})
                if answer.status == 202:
                    same(answer.json["accepted"], len(items), f"accepted of {answer}")
                    return answer.json["batch_id"]
                check(answer.status in (409, 503), f"POST /v1/batches: {answer}")
            except OSError:
                pass
            self.retries += 1
            time.sleep(0.1)

    def check(self):
        check(not self.error, f"the import: {self.error}")


def some_api(fleet, lot=random):
    running = [r for r in fleet.of("api") if r.running() and r.port]
    if not running:
        raise Refused("no api runs")
    return lot.choice(running)


class Here:
    """The parts of a run: servers, replicas, consumers."""

    def __init__(self, case):
        self.case, self.random, self.book = case, case.random, Book()
        self.hook = Hook(self.book)
        self.rabbit = RabbitServers(case).begin()
        self.kafka = KafkaCluster(case, TOPIC)
        self.origin = Origin(case, hosts="*.example delay=20-200 bytes=600-2000")
        self.fleet = Fleet(case, origin=self.origin, apis=2, ingests=1, workers=1, delivers=2, redis=RedisServers(case, False, "--fsync", FSYNC), config={
            "clients.rpm": None, "worker.lease": "5s", "blobs.fsync": "off",
            "kafka.brokers": self.kafka.brokers, "kafka.topic": TOPIC})
        self.fleet.own = ["mongo", "redis"]
        self.fleet.config["amqp.url"] = self.rabbit.wait_up().url
        self.amqp = Amqp(self.book, case, self.rabbit.url)
        self.amqp.start()
        self.amqp.wait_ready()
        self.fleet.start(60)
        self.store = self.fleet.mongo.wire
        answer = self.fleet.api.put("/v1/webhooks/all", self.hook.settings)
        same(answer.status, 201, f"PUT of a webhook: {answer}")
        api = lambda: some_api(self.fleet).port
        self.web_socket = WebSocket(self.book, api)
        self.streams = [LongPoll(self.book, api), Events(self.book, api), self.web_socket]
        self.all = [*self.streams, self.hook, self.amqp, Kafka(self.book, case, self.kafka.brokers, TOPIC)]
        for follower in self.all:
            if follower is not self.amqp:
                follower.start()
        self.begin, self.grown, self.delivers_killed = time.monotonic(), False, 0

    def say(self, text):
        print(f"{time.monotonic() - self.begin:6.1f} s  {text}; has {' '.join(str(len(f.ids)) for f in self.all)}", flush=True)

    def outbox(self, sink=None):
        """Returns how many results a sink, or all sinks, have not received yet. cron counts them
        periodically.
        """
        name = "photopool_outbox_length" + (f'{{sink="{sink}"}}' if sink else "")
        return sum(r.metric(name) for r in self.fleet.of("cron"))

    # --- kills ---

    def leader(self):
        """Returns the deliver replica whose log is the last to say that it leads."""
        said = {r: re.findall(r"^(\S+) info this process leads what=deliver/hub$", r.text(), re.M) for r in self.fleet.of("deliver")}
        return max(said, key=lambda r: said[r][-1:])

    def kill_replica(self, role):
        """Kills a replica and starts it again, either at once or after the other replica has served
        its followers.
        """
        replica = self.random.choice(self.fleet.of(role) + ([self.leader()] * 3 if role == "deliver" else []))
        replica.kill()
        if self.random.random() < 0.5:
            followers = self.streams if role == "api" else self.all
            before = {f: len(f.ids) for f in followers}
            # If all posted results have arrived already, the followers get nothing more.
            wait_until(lambda: all(len(f.ids) > before[f] for f in followers) or self.all_have_all_posted(), 30, f"work continues without {replica.name}")
        replica.start(60)
        return replica.name

    def kill_deliver(self):
        """Kills one deliver replica. Every second time it kills all of them, and then the first one
        that is back, while that one works off the backlog.
        """
        self.delivers_killed += 1
        if self.delivers_killed % 2 == 0:
            return self.kill_replica("deliver")
        replicas = self.fleet.of("deliver")
        for replica in replicas:
            replica.kill()
        wait_until(lambda: len(self.load.posted) >= self.load.allowed or self.load.error, 30, "a share of the import is accepted")
        due = ITEMS * len(self.load.posted) // BATCHES * 95 // 100
        wait_until(lambda: self.results() >= due, 30, lambda: f"nearly all items have finished: {self.results()} of {due}")
        first, before = self.random.choice(replicas), len(self.hook.ids)
        first.start(60)
        some = self.random.randrange(1, 40)
        wait_until(lambda: len(self.hook.ids) >= min(before + some, due), 30, f"{first.name} delivers")
        first.kill()
        for replica in replicas:
            replica.start(60)
        return f"all delivers, and again {first.name}"

    def results(self):
        """Returns how many results the task store has."""
        return self.store.count("photopool", "items", {"q": {"$gt": 0}})

    def kill_api(self):
        return self.kill_replica("api")

    def kill_redis(self):
        self.fleet.redis.restart()
        return "Redis"

    def kill_broker(self):
        self.rabbit.kill_one()
        if not self.grown:
            wait_until(lambda: self.outbox("amqp") > 0, 30, "the backlog of amqp shows")
            self.grown = True
        self.rabbit.start()
        return "RabbitMQ"

    def kill_freeze(self):
        """Freezes the leader beyond its leases: when it wakes up, it believes for a moment that it
        still leads.
        """
        replica = self.leader()
        replica.freeze()
        before = len(self.streams[0].ids)
        wait_until(lambda: len(self.streams[0].ids) > before + 200 or self.all_have_all_posted(), 30, f"work continues without {replica.name}")
        replica.thaw()
        return f"{replica.name}, frozen"

    def kill_kafka(self):
        self.kafka.signal(signal.SIGSTOP)
        others = [f for f in self.all if f.name != "Kafka"]
        before = {f: len(f.ids) for f in others}
        wait_until(lambda: all(len(f.ids) > before[f] + 100 for f in others) or len(self.load.posted) >= self.load.allowed, 30, "work continues without Kafka")
        self.kafka.signal(signal.SIGCONT)
        return "Kafka, frozen"

    def drain_api(self):
        """Sends SIGTERM to the api to which the WebSocket is connected."""
        replica = wait_until(lambda: next((r for r in self.fleet.of("api") if self.web_socket.open and r.port == self.web_socket.port), None), 20,
                             "the WebSocket is open")
        port = replica.port
        replica.leave()
        replica.wait_left()
        wait_until(lambda: (port, 1001) in self.web_socket.closes, 5, lambda: f"close 1001 of {port}, which was drained: {self.web_socket.closes}")
        replica.start(60)
        self.say(f"drained {replica.name}")

    # --- the end ---

    def all_have_all_posted(self):
        n = ITEMS * len(self.load.posted) // BATCHES
        return all(len(f.ids) >= n for f in self.all)

    def due(self):
        """Returns the ids of all results, read from the API. If Redis has lost an Idempotency-Key,
        a batch may exist twice.
        """
        ids, port = set(), self.fleet.api.port
        for batch in self.load.posted:
            self.fleet.api.wait_finished(batch, 60)
        rows = {row["batch_id"]: row for row in map(json.loads, read_list(port, "/v1/batches", "batches"))}
        check(set(self.load.posted) <= set(rows), "every batch is listed")
        if FSYNC == "always":
            same(sorted(set(rows) - set(self.load.posted)), [], "batches that the poster does not know, although it used keys")
        for batch, row in rows.items():
            self.fleet.api.wait_finished(batch, 60)
            texts = read_list(port, f"/v1/batches/{batch}/results", "results")
            same(len(texts), row["items"]["total"], f"results of {batch}")
            ids.update(self.book.result(text, "the API")["id"] for text in texts)
        same(sum(rows[batch]["items"]["total"] for batch in self.load.posted), ITEMS, "items of the batches")
        same(len(ids), sum(row["items"]["total"] for row in rows.values()), "ids in the API")
        return ids

    def read_log(self, port):
        """Reads all events that the server keeps, and compares them by the book. Returns (ids of
        results, gaps).
        """
        at, ids, gaps = 0, set(), []
        while True:
            text = get(port, f"/v1/events?key=results&key=batch&key=ops&after={at}&limit=1000").read().decode()
            page = json.loads(text)
            for event, event_text in zip(page["events"], elements(text, "events")):
                self.book.event(event["seq"], event_text, "the log")
                if event["type"] == RESULT:
                    ids.add(self.book.result(data_of(event_text), "the log")["id"])
            if page["gap"]:
                gaps.append((page["gap"]["from"], page["gap"]["to"]))
            if page["last"] == at:
                return ids, gaps
            at = page["last"]

    def check_end(self):
        due = self.due()
        self.say("all batches are finished")
        for f in self.all:
            wait_until(lambda f=f: len(f.ids) >= len(due) or self.book.wrong, 60, lambda f=f: f"{f.name} has all: {f.summary()}, {dict(f.errors)}")
        wait_until(lambda: self.outbox() == 0, 30, lambda: f"nothing is left to deliver: {self.fleet.api.get_json('/v1/queue')['outbox']}")
        self.say("all have all")
        logs = [self.read_log(r.port) for r in self.fleet.of("api")]
        for f in self.all:
            f.going = False
            print(f"{f.summary()}; {dict(f.errors)}", flush=True)
        for f in self.all:
            same(f.ids ^ due, set(), f"ids that {f.name} has too many or too few")
        same(self.book.wrong, [], "violations")
        same(set(self.book.results), due, "ids in the book")
        same(logs[0], logs[1], "the log as two replicas show it")
        print(f"{len(due)} ids, {len(self.book.events)} numbers; not in the log: {len(due - logs[0][0])}; gaps in the log: {len(logs[0][1])}; "
              f"posts again: {self.load.retries}", flush=True)
        if FSYNC == "always":
            same(due - logs[0][0], set(), "results that the log has lost")
            same([f.made_up for f in self.streams], [set()] * len(self.streams), "results that did not come by the stream")
        check(self.grown or "broker" not in KINDS, "the broker was killed")


def test_delivery(case):
    here = Here(case)
    here.load = load = Import(here.fleet, here.origin, case)
    kinds = [KINDS[i % len(KINDS)] for i in range(KILLS)]
    case.random.shuffle(kinds)
    for i, kind in enumerate(kinds):
        before = len(here.book.results)
        load.allowed = BATCHES * (i + 1) // (KILLS + 1)
        share = ITEMS * load.allowed // BATCHES - before
        some = before + case.random.randrange(max(1, share // 2))
        wait_until(lambda: len(here.book.results) > some or load.error, 60, lambda: f"results come: {len(here.book.results)} of {some}")
        load.check()
        here.say(f"kill {i + 1}: {getattr(here, 'kill_' + kind)()}")
        if i == KILLS // 2:
            here.drain_api()
    load.allowed = BATCHES
    wait_until(lambda: len(load.posted) == BATCHES or load.error, 60, lambda: f"all is posted: {len(load.posted)}")
    load.check()
    here.check_end()
    here.fleet.stop()


if __name__ == "__main__":
    scenario(test_delivery)
