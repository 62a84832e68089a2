"""chaos.py: runs a fleet under faults, and checks the invariants that the fleet must keep.

A fleet (2 api, 2 ingest, workers, 2 cron) works over a real MongoDB and a real Redis, both behind
proxies. An origin with hosts of many kinds records every request. Clients post batches with an
Idempotency-Key, and repeat a POST until they get an answer. A seed determines the random faults.
Then the faults stop, and when everything is terminal, chaos checks:

  I1  every batch answered 202 has its results, one for each item      results of all batches
  I2  one id, one payload; one result per item revision               results read twice, by two replicas
  I3  a worker that has lost its claim writes nothing                  history.py; no task is left over;
                                                                       no more requests than claims
  I4  requests in flight per client                                    the origin's record
  I5  requests of a client in any 60 s                                 the origin's record
  I6  no connection that policy denies                                 denied URLs have their code; the
                                                                       trap's port gets no connection
  I7  stored bytes have their hash, every stored photo its bytes       the folder of photos
  I9  legal transitions                                                history.py
  I10 everything is terminal within BOUND s after the last fault
  I11 the days of the statistics are the sums of the results           the items and days of MongoDB,
                                                                       if a process delivers

The run also checks the limits and the history while the faults happen. The folder bugs has patches
that break an invariant; bugs/plant checks that chaos catches each of them.
"""
import collections
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tests", "scenario")]
from faults import KINDS, Faults  # noqa: E402
from fleet import Fleet, MongoServers, RedisServers  # noqa: E402
from harness import ORIGIN, Lateness, Origin, sha256_of, wait_until  # noqa: E402
from history import STATES, History  # noqa: E402
from proxy import Proxy  # noqa: E402
from recovery import Recovery  # noqa: E402

# MongoDB's names of a day's counts, by the number of the outcome (outcome.h, day.h).
DAY_OUTCOMES = [None, "st", "un", "sk", "fa", "ca"]
HOSTS = """
fast*.example   delay=10-80 bytes=600-4000
slow*.example   delay=1200-1800 bytes=600-4000
hop*.example    delay=10-80 bytes=600-2000 hops=1
flaky*.example  delay=10-80 flaky=1:500 bytes=600-2000
gone*.example   delay=10-80 status=404
busy*.example   delay=10-80 chance=0.3:503 retry_after=1 bytes=600-2000
same*.example   delay=10-80 bytes=3000 seed=7
trap*.example   delay=10-80 location={trap}
"""
# The photos of an item are chosen from these kinds of hosts, by these weights.
MIX = {"fast": 60, "slow": 6, "hop": 8, "flaky": 8, "gone": 8, "busy": 4, "same": 4, "trap": 2}
# On hosts of these kinds each attempt at a photo is exactly one request.
ONE_REQUEST = ("fast", "slow", "gone", "same")
BOUND = 240
# The clients post this share of what their limits permit, because redirects and retries are
# requests, too. Greedy clients first post more than one window of 60 s permits (GREEDY_WINDOWS
# times as much), then GREEDY_LOAD of their limit.
LOAD, GREEDY_LOAD, GREEDY_WINDOWS = 0.4, 0.7, 1.4
# CROWDED is a greedy client without a rate. Only its concurrency limits it, because all of its
# photos are slow: it posts CROWDED_RATE photos a minute, and CROWDED_SLOTS requests in flight fetch
# 80 a minute. While a worker of the first tier only holds one of its two slots, the other slot
# fetches 40.
CROWDED, CROWDED_SLOTS, CROWDED_RATE = "c0", 2, 40
UNLIMITED_RATE = 300  # photos a minute of each other client without a rate
LOST_BY_POLICY = ("denied_address", "denied_port", "denied_scheme")
LOOK_S = 8  # seconds between two checks of limits and history while the faults happen
# Redis may have lost an Idempotency-Key for this time after a fault of Redis.
KEYS_DOUBTFUL_S = 15


class ChaosFleet(Fleet):
    """A fleet in which each worker has its own connection to Redis, and every second worker serves
    the first tier only, so that a client has two slots.
    """

    def __init__(self, case, redis_address, **more):
        self.redis_address = redis_address
        super().__init__(case, **more)

    def make(self, roles, config=None, prefix=()):
        config = dict(config or {})
        way = None
        if roles == "worker":
            way = Proxy(self.redis_address)
            config["coordinator.url"] = f"redis://127.0.0.1:{way.port}"
            if len(self.of("worker")) % 2:
                config["worker.tiers"] = ["1s"]
        replica = super().make(roles, config, prefix)
        replica.way = way
        return replica


class Trap:
    """A port that the policy denies. Redirects of some hosts lead to it; it counts the connections
    that it gets.
    """

    def __init__(self):
        self.calls, self.socket = 0, socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            connection, _ = self.socket.accept()
            self.calls += 1
            connection.close()


def origin_hash(host, target):
    """Returns the hash of a request as in the origin's record; the same as og_hash() of behave.c."""
    h = 0
    for text in (host, target):
        h ^= 0xCBF29CE484222325
        for c in text.encode():
            h = (h ^ c) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
        h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        h = (h ^ h >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        h ^= h >> 31
    return f"{h:016x}"


class Chaos:
    def __init__(self, case, seconds, faults_every=2.0, workers=4, clients=20, lease=5, kinds=tuple(KINDS), bound=BOUND, progress=print,
                 crons=2, greedy=0.25, first=False, regular=False, delivers=0):
        self.case, self.random, self.seconds, self.every = case, case.random, seconds, faults_every
        self.lease, self.kinds, self.bound, self.say = lease, kinds, bound, progress
        self.errors, self.accepted, self.lock = [], {}, threading.Lock()
        self.over = self.posting = False
        self.first = first  # True: the first violation ends the run.
        # True: the faults come at regular times and in a fixed order, and no fault comes at the
        # end.
        self.regular = regular
        self.faults, self.n, self.redis_trouble = 0, 0, time.monotonic() - KEYS_DOUBTFUL_S
        self.trap = Trap()
        hosts = HOSTS.format(trap=f"http%3A//127.0.0.1%3A{self.trap.port}/x.jpg")
        self.origin = Origin(case, hosts=hosts, record=case.in_memory("record.txt"))
        self.origin.keep_time()
        self.lateness = Lateness()  # how late this machine may note a request
        self.mongo, self.redis = MongoServers(case), RedisServers(case)
        for servers in (self.mongo.begin(), self.redis.begin()):
            servers.wait_up()
        self.mongo_proxy = Proxy(address_of(self.mongo.url))
        self.redis_proxy = Proxy(address_of(self.redis.url))
        self.fleet = ChaosFleet(case, address_of(self.redis.url), origin=self.origin, mongo=self.mongo, redis=self.redis, config={
            "store.url": f"mongodb://127.0.0.1:{self.mongo_proxy.port}/chaos?directConnection=true",
            "coordinator.url": f"redis://127.0.0.1:{self.redis_proxy.port}",
            "worker.lease": f"{lease}s", "worker.drain": "3s", "clients.rpm": None, "clients.concurrency": 4, "blobs.fsync": "off",
            "fetch.tiers": [{"timeout": "1s", "concurrency": 64}, {"timeout": "5s", "concurrency": 64}],
            "retry.delays": ["500ms", "1s", "2s"],
            # The breakers of flaky hosts open. Their photos fail with host_down after this time.
            "hosts.wait": "15s"}, replicas={"api": 2, "ingest": 2, "worker": workers, "cron": crons, "deliver": delivers})
        self.limits, self.greedy = {}, set()
        for n in range(clients):  # every fifth client has no rate, the others have one
            self.limits[f"c{n}"] = (None if n % 5 == 0 else self.random.choice([60, 120, 300, 600]), self.random.choice([2, 4, 8]))
            # Measurements of recovery need clients without a rate that have free places.
            if regular and n % 5 == 0:
                self.limits[f"c{n}"] = (None, 8)
        for n in range(1, 1 + int(clients * greedy)):
            self.limits[f"c{n}"] = (self.random.choice([60, 90, 120]), self.random.choice([4, 8]))
            self.greedy.add(f"c{n}")
        if self.greedy:
            self.limits[CROWDED] = (None, CROWDED_SLOTS)
            self.greedy.add(CROWDED)
        self.history, self.recovery = History(self.mongo, "chaos", self.wrong), Recovery(self)

    def wrong(self, text):
        with self.lock:
            self.errors.append(text)
            if len(self.errors) <= 50:
                self.say(f"WRONG: {text}")

    def may_stop(self):
        return self.first and self.errors

    # --- load ---

    def photos(self, client):
        n = self.random.randint(0, 5)
        crowded = client == CROWDED and client in self.greedy
        for kind in ["slow"] * n if crowded else self.random.choices(list(MIX), list(MIX.values()), k=n):
            self.n += 1
            yield self.origin.url(f"{kind}{client}.example", f"/c/{client}/{self.n}.jpg")
        if self.random.random() < 0.05:
            yield self.random.choice(["http://10.1.2.3/a.jpg", "http://[::ffff:169.254.169.254]/x", "ftp://fastc1.example/1.jpg",
                                      "http://fastc1.example:22/1.jpg"])

    def poster(self, name, clients):
        """Posts batches as an import service does: it repeats the same body and key until it gets
        an answer. It posts some items again with another list of photos. It posts only a part of
        what a client's limit permits, so that the run can end soon after the last fault.
        """
        began, spent, number = time.monotonic(), dict.fromkeys(clients, 0), 0
        while self.posting:
            client = self.random.choice(clients)
            greedy = client in self.greedy
            rate = self.limits[client][0] or (CROWDED_RATE if greedy else UNLIMITED_RATE)
            permitted = (GREEDY_LOAD if greedy else LOAD) * rate / 60 * (time.monotonic() - began) + (GREEDY_WINDOWS * rate if greedy else 5)
            if spent[client] < permitted:
                number += 1
                ids = self.random.sample(range(200), self.random.randint(1, 15))
                items = [{"id": f"i{i}", "photos": list(self.photos(client))} for i in ids]
                spent[client] += sum(len(item["photos"]) for item in items)
                refresh = self.random.choices(["known", "changed", "always"], [8, 1, 1])[0]
                self.post_until_answered(f"{name}-{number}", {"client": client, "refresh": refresh, "items": items})
            time.sleep(self.random.uniform(0.05, 0.3))

    def post_until_answered(self, key, body):
        first = None
        while not self.over:
            apis = [r for r in self.fleet.of("api") if r.running() and r.port]
            try:
                api = self.random.choice(apis)
                answer = api.post("/v1/batches", body, {"Idempotency-Key": key}, timeout=8)
            except Exception:  # noqa: BLE001  (the replica was killed, is starting, or answers too late)
                time.sleep(0.2)
                continue
            if answer.status == 202:
                batch = answer.json["batch_id"]
                with self.lock:
                    self.accepted[batch] = {item["id"]: item["photos"] for item in body["items"]}
                if first and batch != first[0] and first[1] > self.redis_trouble + KEYS_DOUBTFUL_S:
                    self.wrong(f"I2: the same batch with the same Idempotency-Key is {first[0]}, and {batch}")
                if first or self.random.random() > 0.1:
                    return
                # posts the batch again, as a client does that has not received the answer
                first = batch, time.monotonic()
                continue
            if answer.status not in (409, 429, 500, 503):
                self.wrong(f"POST answered {answer}")
                return
            time.sleep(0.3)

    # --- while it runs ---

    def watch(self):
        """Checks limits and history during the run. If a server is down, the next round checks."""
        while self.posting and not self.may_stop():
            time.sleep(LOOK_S)
            try:
                self.history.read()
            except Exception:  # noqa: BLE001  (MongoDB is down)
                pass
            try:
                self.origin.page("POST", "/_flush")
                self.check_limits(False)
            except OSError:
                pass

    # --- the run ---

    def run(self):
        self.fleet.start(60)
        for client, (rpm, concurrency) in self.limits.items():
            self.fleet.api.set_client(client, rpm=rpm, concurrency=concurrency)
        self.posting = True
        self.recovery.start()
        names = list(self.limits)
        posters = [threading.Thread(target=self.poster, args=(f"p{i}", names[i::3]), daemon=True) for i in range(3)]
        posters.append(threading.Thread(target=self.watch, daemon=True))
        for t in posters:
            t.start()
        self.strike_until(time.monotonic() + self.seconds)
        self.posting = False
        for t in posters:
            t.join(30)
        return not self.errors if self.may_stop() else self.settle()

    def strike_until(self, end):
        faults, began = Faults(self), time.monotonic()
        due = began
        while not self.may_stop():
            due += self.every if self.regular else min(self.random.expovariate(1 / self.every), 4 * self.every)
            if due > end - (self.every if self.regular else 0):
                time.sleep(max(0, end - time.monotonic()))
                break
            time.sleep(max(0, due - time.monotonic()))
            for _ in range(5):  # some faults are impossible at the moment, so it tries up to five
                name = self.kinds[self.faults % len(self.kinds)] if self.regular else faults.pick(self.kinds)
                if self.strike(faults, name, began):
                    break
        faults.heal()

    def strike(self, faults, name, began):
        """Causes one fault. Returns True if a fault has happened."""
        if "redis" in name:
            self.redis_trouble = time.monotonic() + 10  # the fault may last that long
        try:
            done = faults.strike(name)
        except Exception as e:  # noqa: BLE001  (the target of the fault is down at the moment)
            self.say(f"  {name}: {e}")
            return False
        if done is None:
            return False
        self.faults += 1
        self.recovery.struck()
        self.say(f"{time.monotonic() - began:7.1f} s  {name} {done}")
        return True

    def settle(self):
        """Waits until everything is terminal, at most BOUND s, then checks all invariants."""
        self.say(f"{self.faults} faults; {len(self.accepted)} batches accepted; waiting until everything is terminal")
        peace = time.monotonic()
        left = set(self.accepted)
        while left and time.monotonic() - peace < self.bound and not self.may_stop():
            for batch in list(left):
                if time.monotonic() - peace > self.bound:
                    break
                try:
                    if self.fleet.api.batch(batch)["state"] in ("finished", "cancelled"):
                        left.discard(batch)
                except Exception:  # noqa: BLE001
                    time.sleep(0.5)
            time.sleep(0.2)
        self.say(f"terminal after {time.monotonic() - peace:.1f} s" if not left else f"{len(left)} batches are still open")
        for batch in sorted(left)[5:]: self.say(self.unfinished(batch))
        for batch in sorted(left)[:5]:
            self.wrong(f"I10, I1: {batch} is not finished; {self.unfinished(batch)}")
        if self.may_stop():
            return False
        self.check_results(left)
        self.check_tasks()
        self.check_blobs()
        if self.fleet.of("deliver"):
            self.check_statistics()
        self.history.read()
        self.say(f"{self.history.changes} changes of photos and items")
        wait_until(lambda: self.origin.stats()["in_flight"] == 0, 30, "the origin is idle")
        stale = self.fleet.metric("photopool_stale_settles_total")
        self.over = True
        self.fleet.stop()
        self.origin.stop()
        self.check_limits(True)
        self.check_requests()
        if self.trap.calls:
            self.wrong(f"I6: {self.trap.calls} connections to a port that policy denies")
        self.recovery.count_claims(self.history, self.limits)
        self.report(stale)
        return not self.errors

    def unfinished(self, batch):
        wire, open_photos, tasks = self.mongo.wire, [], []
        for item in wire.find("chaos", "items", {"b": batch}, projection={"ok": 1}):
            open_photos += item.get("ok", [])
        for photo in wire.find("chaos", "photos", {"_id": {"$in": open_photos[:100]}}):
            t = photo.get("t", {})
            tasks.append(f"{photo['c']}'s {t.get('u', photo['_id'])} is {STATES[t.get('s', 0)]} in tier {t.get('q')}, by {t.get('w')}")
        state = self.fleet.api.get(f"/v1/batches/{batch}")
        return f"{state.status} {state.json.get('state')}, {len(open_photos)} photos open: {'; '.join(tasks[:3])}"

    def check_results(self, left):
        """Checks the invariants I1, I2 and I6 on the results."""
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
        """Checks I1 and I3: at the end no task is left and no item is open."""
        wire = self.mongo.wire
        try:
            wait_until(lambda: wire.count("chaos", "photos", {"t": {"$exists": True}}) == 0, 30, "no task is left over")
        except Exception:  # noqa: BLE001
            left = wire.find("chaos", "photos", {"t": {"$exists": True}})
            self.wrong(f"I3: {len(left)} tasks are left over, such as {left[0]}")
        open_items = wire.count("chaos", "items", {"s": 0})
        if open_items:
            self.wrong(f"I1: {open_items} items are open")

    def check_statistics(self):
        """Checks I11: each day of all clients, of a client and of a host is the sum of its results,
        by outcome and by code.
        """
        wire, sums = self.mongo.wire, collections.Counter()
        items = wire.find("chaos", "items", {"q": {"$gt": 0}})
        last = max((item["q"] for item in items), default=0)

        def counted():
            sinks = wire.find("chaos", "sinks", {"_id": "statistics"})
            return bool(sinks) and sinks[0]["c"] >= last
        try:
            wait_until(counted, 60, "the statistics have all results")
        except Exception:  # noqa: BLE001
            self.wrong("I11: results are not in the statistics in time")
            return
        for item in items:
            day = item["f"] // 86400000
            both, hosts = [(0, "", day), (1, item["c"], day)], set()
            for photo in item["ph"]:
                o = photo["o"]
                counts = {DAY_OUTCOMES[o["k"]]: 1, "rq": o.get("at", 0), "sh": int(o.get("sh", False)),
                          "by": o["ob"]["b"] if DAY_OUTCOMES[o["k"]] == "st" else 0}
                if DAY_OUTCOMES[o["k"]] in ("sk", "fa"):
                    counts["code", o["c"]] = 1
                url = photo["u"] if isinstance(photo["u"], str) else bytes(photo["u"]).decode()
                # Other URLs have addresses in spellings that Python reads in its own way.
                host = re.match(r"https?://([^/:]+\.example)[:/]", url)
                host = host and host[1]
                hosts |= {host} - {None}
                for key in [*both, *([(2, host, day)] if host else [])]:
                    sums.update({(key, name): n for name, n in counts.items()})
            for key in both:
                sums.update({(key, "it"): 1, (key, "ba"): int(item["n"] == 0)})
            sums.update(((2, host, day), "it") for host in hosts)
        days = wire.find("chaos", "days")
        for d in days:
            key = (d["_id"]["o"], d["_id"]["n"], d["_id"]["d"])
            if key[0] == 2 and (key, "it") not in sums:
                continue
            sums.subtract({(key, name): d.get(name, 0) for name in (*DAY_OUTCOMES[1:], "rq", "sh", "by", "it", "ba")})
            sums.subtract({(key, ("code", int(code))): n for code, n in d.get("e", {}).items()})
        for key, n in list((key, n) for key, n in sums.items() if n != 0)[:5]:
            self.wrong(f"I11: the results have {n} more than the statistics: {key}")
        self.say(f"{len(days)} days of statistics are the sums of {len(items)} results")

    def check_blobs(self):
        """Checks I7: every stored photo of every result has its file, and every file has the hash
        in its name.
        """
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

    def check_requests(self):
        """Checks I3: no photo got more requests than its task had claims."""
        claims, claimed = {}, {key: doc.get("e", 0) for key, doc in self.history.documents["photos"].items()}
        for item in self.history.documents["items"].values():
            for photo in item.get("ph", []):
                place, _, target = photo["u"].decode().partition("://")[2].partition("/")
                if place.startswith(ONE_REQUEST):
                    claims[origin_hash(place.partition(":")[0], "/" + target)] = photo["u"].decode(), claimed.get(photo["k"], 0)
        requests = {}
        for row in self.origin.records():
            requests[row["hash"]] = requests.get(row["hash"], 0) + 1
        known = sum(h in claims for h in requests)
        many = [(claims[h], n) for h, n in requests.items() if h in claims and n > claims[h][1]]
        self.say(f"{known} photos whose requests are counted")
        for (url, n), seen in many[:5]:
            self.wrong(f"I3: {url} was claimed {n} times and requested {seen} times")

    def check_limits(self, last):
        """Checks I4 and I5: no client exceeded its limits."""
        path = self.case.path("limits.txt")
        with open(path, "w", encoding="ascii") as f:
            f.writelines(f"{c} {'-' if rpm is None else rpm} {concurrency}\n" for c, (rpm, concurrency) in self.limits.items())
        window = 60 - 2 * max(0, self.lateness.worst() - 0.1)
        run = subprocess.run([ORIGIN, "check", self.origin.record_file, "--limits", path, "--window", f"{window:.3f}", "--json"],
                             stdout=subprocess.PIPE, check=False)
        verdict = json.loads(run.stdout)
        # c["over"] uses the limit of a full window of 60 s in a shorter window, so this does not
        # use it
        for c in verdict["clients"]:
            rpm, concurrency = self.limits.get(c["client"], (None, c["worst_concurrency"]))
            if (rpm is not None and c["worst_window"] > rpm) or c["worst_concurrency"] > concurrency:
                self.wrong(f"I4, I5: {c}")
        if last:
            self.say(f"{verdict['requests']} requests of {len(verdict['clients'])} clients, windows of {window:.2f} s")

    def report(self, stale):
        row = {"chaos": "ok" if not self.errors else "failed", "seed": self.case.seed, "faults": self.faults, "batches": len(self.accepted),
               "wrong": len(self.errors), "stale_settlements_refused": int(stale)}
        row.update(self.recovery.rows())
        self.say(json.dumps(row))


def address_of(url):
    host = url.split("://")[1].split("/")[0].split("@")[-1]
    name, _, port = host.partition(":")
    return name, int(port)


