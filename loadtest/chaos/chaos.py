"""chaos.py: a fleet under faults, and what must hold all the same.

A fleet (2 api, 2 ingest, workers, 2 cron) over a real MongoDB and a real Redis, both behind proxies; an origin with hosts of many kinds, which notes
every request; clients that post batches, with an Idempotency-Key, again and again until they get an answer. Faults come at random from a
seed. Then everything is left in peace until all is terminal, and checked:

  I1  what was answered 202 has its results, each item one            results of all batches
  I2  one id, one payload; one result per item revision               results read twice, by two replicas
  I3  nothing is written by who has lost its claim                     a settled photo's attempts and outcome; no task left over
  I4  requests in flight per client                                    the origin's record
  I5  requests of a client in any 60 s                                 the origin's record
  I6  no connection to an address that policy denies                   denied URLs have their code; the origin has no such host
  I7  stored bytes have their hash, every stored photo its bytes       the folder of photos
  I10 all is terminal within BOUND s after the last fault
"""
import json
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tests", "scenario")]
from faults import KINDS, Faults  # noqa: E402
from fleet import Fleet, MongoServers, RedisServers  # noqa: E402
from harness import ORIGIN, Origin, sha256_of, wait_until  # noqa: E402
from proxy import Proxy  # noqa: E402

HOSTS = """
fast*.example   delay=10-80 bytes=600-4000
slow*.example   delay=1200-1800 bytes=600-4000
hop*.example    delay=10-80 bytes=600-2000 hops=1
flaky*.example  delay=10-80 flaky=1 bytes=600-2000
gone*.example   delay=10-80 status=404
busy*.example   delay=10-80 chance=0.3:503 retry_after=1 bytes=600-2000
same*.example   delay=10-80 bytes=3000 seed=7
"""
# photos of an item: kind of host, weight
MIX = {"fast": 60, "slow": 6, "hop": 8, "flaky": 8, "gone": 8, "busy": 4, "same": 4}
BOUND = 240
# of what a client's limit permits, so much is posted: hops and retries come on top
LOAD = 0.4
LOST_BY_POLICY = ("denied_address", "denied_port", "denied_scheme")


class Chaos:
    def __init__(self, case, seconds, faults_every=2.0, workers=4, clients=20, lease=5, kinds=tuple(KINDS), bound=BOUND, progress=print):
        self.case, self.random, self.seconds, self.every = case, case.random, seconds, faults_every
        self.lease, self.kinds, self.bound, self.say = lease, kinds, bound, progress
        self.errors, self.accepted, self.lock = [], {}, threading.Lock()
        self.over = self.posting = False
        self.faults, self.recoveries, self.n = 0, {}, 0
        self.origin = Origin(case, hosts=HOSTS, record=case.in_memory("record.txt"))
        self.origin.keep_time()
        self.mongo, self.redis = MongoServers(case), RedisServers(case)
        for servers in (self.mongo.begin(), self.redis.begin()):
            servers.wait_up()
        self.mongo_proxy = Proxy(address_of(self.mongo.url))
        self.redis_proxy = Proxy(address_of(self.redis.url))
        self.fleet = Fleet(case, origin=self.origin, mongo=self.mongo, redis=self.redis, config={
            "store.url": f"mongodb://127.0.0.1:{self.mongo_proxy.port}/chaos?directConnection=true",
            "coordinator.url": f"redis://127.0.0.1:{self.redis_proxy.port}",
            "worker.lease": f"{lease}s", "worker.drain": "3s", "clients.rpm": None, "clients.concurrency": 4, "blobs.fsync": "off",
            "fetch.tiers": [{"timeout": "1s", "concurrency": 64}, {"timeout": "5s", "concurrency": 64}],
            "retry.delays": ["500ms", "1s", "2s"]}, replicas={"api": 2, "ingest": 2, "worker": workers, "cron": 2})
        self.limits = {}
        for n in range(clients):  # some without a rate, most with one
            self.limits[f"c{n}"] = (None if n % 5 == 0 else self.random.choice([60, 120, 300, 600]), self.random.choice([2, 4, 8]))

    def wrong(self, text):
        with self.lock:
            self.errors.append(text)
            self.say(f"WRONG: {text}")

    # --- load ---

    def photos(self, client):
        kinds = self.random.choices(list(MIX), list(MIX.values()), k=self.random.randint(0, 5))
        for kind in kinds:
            self.n += 1
            yield self.origin.url(f"{kind}{client}.example", f"/c/{client}/{self.n}.jpg")
        if self.random.random() < 0.05:
            yield self.random.choice(["http://10.1.2.3/a.jpg", "http://[::ffff:169.254.169.254]/x", "ftp://fastc1.example/1.jpg",
                                      "http://fastc1.example:22/1.jpg"])

    def poster(self, name, clients):
        """Posts batches as an import service does: the same body and key until there is an answer. Some items come again, with another
        list. A client gets no more than a part of what its limit permits, or the end would be long in coming."""
        began, spent, number = time.monotonic(), dict.fromkeys(clients, 0), 0
        while self.posting:
            client = self.random.choice(clients)
            permitted = LOAD * (self.limits[client][0] or 300) / 60 * (time.monotonic() - began) + 5
            if spent[client] < permitted:
                number += 1
                ids = self.random.sample(range(200), self.random.randint(1, 15))
                items = [{"id": f"i{i}", "photos": list(self.photos(client))} for i in ids]
                spent[client] += sum(len(item["photos"]) for item in items)
                refresh = self.random.choices(["known", "changed", "always"], [8, 1, 1])[0]
                self.post_until_answered(f"{name}-{number}", {"client": client, "refresh": refresh, "items": items})
            time.sleep(self.random.uniform(0.05, 0.3))

    def post_until_answered(self, key, body):
        ids = set()
        while not self.over:
            apis = [r for r in self.fleet.of("api") if r.running() and r.port]
            try:
                api = self.random.choice(apis)
                answer = api.post("/v1/batches", body, {"Idempotency-Key": key}, timeout=8)
            except Exception:  # noqa: BLE001  (killed, not there, too late)
                time.sleep(0.2)
                continue
            if answer.status == 202:
                ids.add(answer.json["batch_id"])
                with self.lock:
                    self.accepted[answer.json["batch_id"]] = {item["id"]: item["photos"] for item in body["items"]}
                return
            if answer.status not in (409, 429, 500, 503):
                self.wrong(f"POST answered {answer}")
                return
            time.sleep(0.3)

    # --- recoveries ---

    def killed(self, replica):
        if replica.roles == "worker":
            threading.Thread(target=self.time_claims, args=(replica,), daemon=True).start()

    def time_claims(self, replica):
        """From the death of a worker until nothing is claimed by it any more."""
        try:
            dead, pid = time.monotonic(), replica.process.pid
            query = {"t.s": 2, "t.w": {"$regex": f"-{pid}-"}}
            while self.mongo.wire.count("chaos", "photos", query) > 0:
                if self.over or time.monotonic() - dead > 60:
                    return
                time.sleep(0.1)
            self.note("claims of a dead worker are gone", time.monotonic() - dead)
        except Exception:  # noqa: BLE001  (MongoDB is away as well: not a measurement)
            pass

    def server_back(self, name):
        threading.Thread(target=self.time_requests, args=(name,), daemon=True).start()

    def time_requests(self, name):
        """From a server's return until requests go out as before."""
        try:
            back, before = time.monotonic(), self.origin.stats()["requests"]
            while self.origin.stats()["requests"] < before + 20:
                if self.over or time.monotonic() - back > 60:
                    return
                time.sleep(0.1)
            self.note(f"requests after {name} is back", time.monotonic() - back)
        except Exception:  # noqa: BLE001
            pass

    def note(self, what, seconds):
        with self.lock:
            self.recoveries.setdefault(what, []).append(seconds)

    # --- the run ---

    def run(self):
        self.fleet.start(60)
        for client, (rpm, concurrency) in self.limits.items():
            self.fleet.api.set_client(client, rpm=rpm, concurrency=concurrency)
        self.posting = True
        names = list(self.limits)
        posters = [threading.Thread(target=self.poster, args=(f"p{i}", names[i::3]), daemon=True) for i in range(3)]
        for t in posters:
            t.start()
        self.strike_until(time.monotonic() + self.seconds)
        self.posting = False
        for t in posters:
            t.join(30)
        return self.settle()

    def strike_until(self, end):
        faults, began = Faults(self), time.monotonic()
        while time.monotonic() < end:
            time.sleep(self.random.expovariate(1 / self.every))
            name = faults.pick(self.kinds)
            try:
                done = faults.strike(name)
            except Exception as e:  # noqa: BLE001  (its object is away just now)
                done = None
                self.say(f"  {name}: {e}")
            if done is not None:
                self.faults += 1
                self.say(f"{time.monotonic() - began:7.1f} s  {name} {done}")
        faults.heal()

    def settle(self):
        """All is terminal within BOUND s; then the checks."""
        self.say(f"{self.faults} faults; {len(self.accepted)} batches accepted; waiting until all is terminal")
        peace = time.monotonic()
        left = set(self.accepted)
        while left and time.monotonic() - peace < self.bound:
            for batch in list(left):
                try:
                    if self.fleet.api.batch(batch)["state"] in ("finished", "cancelled"):
                        left.discard(batch)
                except Exception:  # noqa: BLE001
                    time.sleep(0.5)
            time.sleep(0.2)
        self.say(f"terminal after {time.monotonic() - peace:.1f} s" if not left else f"{len(left)} batches are still open")
        for batch in sorted(left)[:5]:
            self.wrong(f"I10, I1: {batch} is not finished: {self.fleet.api.batch(batch)}")
        self.check_results(left)
        self.check_tasks()
        self.check_blobs()
        wait_until(lambda: self.origin.stats()["in_flight"] == 0, 30, "the origin is idle")
        stale = self.fleet.metric("photopool_stale_settles_total")
        self.over = True
        self.fleet.stop()
        self.origin.stop()
        self.check_limits()
        self.report(stale)
        return not self.errors

    def check_results(self, left):
        """I1, I2, I6."""
        ids, apis = {}, [r for r in self.fleet.of("api") if r.running()]
        for batch, items in self.accepted.items():
            if batch in left:
                continue
            rows = apis[0].results(batch)
            if json.dumps(rows) != json.dumps(apis[-1].results(batch)):
                self.wrong(f"I2: results of {batch} differ from one reading to the next")
            names = [r["data"]["item"] for r in rows]
            if sorted(names) != sorted(items):
                self.wrong(f"I1: {batch} has results of {len(names)} items ({len(set(names))} different), due {len(items)}")
            for r in rows:
                if r["id"] in ids:
                    self.wrong(f"I2: {r['id']} is a result of {batch} and of {ids[r['id']]}")
                ids[r["id"]] = batch
                self.check_result(r["data"], items.get(r["data"]["item"], []))
        self.say(f"{len(ids)} results")

    def check_result(self, data, urls):
        if [p["url"] for p in data["photos"]] != urls:
            self.wrong(f"I1: {data['client']}/{data['item']} revision {data['revision']} has other photos than were posted")
        for p in data["photos"]:
            denied = not p["url"].startswith("http://") or f":{self.origin.port}/" not in p["url"]
            code = p.get("error", {}).get("code")
            if denied and p["outcome"] != "cancelled" and code not in LOST_BY_POLICY:
                self.wrong(f"I6: {p['url']}: {p['outcome']} {code}")
            if code == "quarantined" or code == "internal":
                self.say(f"  {p['url']}: {code}")

    def check_tasks(self):
        """I3, I9: nothing is left claimed or waiting; a photo's record says what its bytes are."""
        wire = self.mongo.wire
        try:
            wait_until(lambda: wire.count("chaos", "photos", {"t": {"$exists": True}}) == 0, 30, "no task is left over")
        except Exception:  # noqa: BLE001
            left = wire.find("chaos", "photos", {"t": {"$exists": True}})
            self.wrong(f"I3: {len(left)} tasks are left over, such as {left[0]}")
        open_items = wire.count("chaos", "items", {"s": 0})
        if open_items:
            self.wrong(f"I1: {open_items} items are open")

    def check_blobs(self):
        """I7: every stored photo of every result has its file, and every file its hash."""
        files = {}
        for folder, _, names in os.walk(os.path.join(self.fleet.photos, "sha256")):
            for name in names:
                files[name.split(".")[0]] = os.path.join(folder, name)
        for sha, path in files.items():
            if sha256_of(path) != sha:
                self.wrong(f"I7: {path} has other bytes")
        known = {o["o"]["h"].hex() for o in self.mongo.wire.find("chaos", "photos", {"o.h": {"$exists": True}}, projection={"o.h": 1})}
        missing = known - set(files)
        if missing:
            self.wrong(f"I7: {len(missing)} objects have a record and no bytes, such as {min(missing)}")
        self.say(f"{len(files)} objects, {len(known)} of them with a record")

    def check_limits(self):
        """I4, I5."""
        path = self.case.path("limits.txt")
        with open(path, "w", encoding="ascii") as f:
            f.writelines(f"{c} {'-' if rpm is None else rpm} {concurrency}\n" for c, (rpm, concurrency) in self.limits.items())
        run = subprocess.run([ORIGIN, "check", self.origin.record_file, "--limits", path, "--json"], stdout=subprocess.PIPE, check=False)
        verdict = json.loads(run.stdout)
        for c in verdict["clients"]:
            if c["over"]:
                self.wrong(f"I4, I5: {c}")
        self.say(f"{verdict['requests']} requests of {len(verdict['clients'])} clients")

    def report(self, stale):
        row = {"chaos": "ok" if not self.errors else "failed", "seed": self.case.seed, "faults": self.faults, "batches": len(self.accepted),
               "wrong": len(self.errors), "stale_settlements_refused": int(stale)}
        for what, seconds in sorted(self.recoveries.items()):
            seconds.sort()
            row[what] = {"n": len(seconds), "median_s": round(seconds[len(seconds) // 2], 2), "worst_s": round(seconds[-1], 2)}
        self.say(json.dumps(row))


def address_of(url):
    host = url.split("://")[1].split("/")[0].split("@")[-1]
    name, _, port = host.partition(":")
    return name, int(port)


