"""kills.py: kills workers at random moments, and measures when their photos are claimed again.

Each round posts slow photos of new clients to a fleet. At a random moment after the first request a
worker that has claimed some of them dies. All of them must be claimed by other workers within the
lease and a second, because the clients' concurrency leaves room for them beside those of the dead
worker. FLEETS has the fleets.
"""
import os
import random
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tests", "scenario")]
from fleet import Fleet  # noqa: E402
from harness import SLOW, Lateness, Origin, check, wait_until  # noqa: E402

PHOTOS, HOSTS, CONCURRENCY = 200, 100, 512  # of all clients of a round; hosts of a client; of each client
LEASE, MORE = 5, 1.0  # seconds
CLAIMED = 2  # the state of a claimed task in MongoDB
MOMENTS = 3  # a worker dies within this many seconds after the first request
SLOWEST = {"tiers": ["30s"], "delay": "25000-28000"}
# clients: number of clients in a round; puts: number of other clients whose settings are changed
# before; delay: of the hosts, in ms.
FLEETS = {
    "one client": {"clients": 1, "puts": 0, **SLOWEST},
    "settings of 25 others": {"clients": 1, "puts": 25, **SLOWEST},
    "eight clients": {"clients": 8, "puts": 25, **SLOWEST},
    "three tiers": {"clients": 2, "puts": 25, "tiers": ["1s", "5s", "30s"], "delay": "300-28000"},
}


class Kills:
    def __init__(self, case, kind, workers=3):
        self.kind, self.rounds, self.random = FLEETS[kind], 0, random.Random(f"{case.seed} {kind}")
        self.origin = Origin(case, hosts=f"*.example delay={self.kind['delay']} bytes=600-2000")
        self.fleet = Fleet(case, origin=self.origin, workers=workers, config={
            "clients.rpm": None, "clients.concurrency": CONCURRENCY, "worker.lease": f"{LEASE}s", "blobs.fsync": "off",
            "fetch.tiers": [{"timeout": t, "concurrency": 1024} for t in self.kind["tiers"]]})
        self.fleet.start()
        self.mongo = self.fleet.mongo.wire

    def end(self):
        for replica in self.fleet.replicas:
            replica.kill()
        self.fleet.mongo.kill()
        self.fleet.redis.kill()
        self.origin.stop()

    def post(self):
        self.rounds += 1
        api, n = self.fleet.api, self.kind["clients"]
        for i in range(self.kind["puts"]):
            api.set_client(f"other{i}", rpm=600 + self.rounds, concurrency=4)
        clients = [f"client{self.rounds}-{c}" for c in range(n)]
        return clients, [api.submit(client, [
            {"id": f"i{i}", "photos": [self.origin.url(f"h{i % HOSTS}.{client}.example", f"/{i}.jpg")]} for i in range(PHOTOS // n)])
            for client in clients]

    def claims(self, clients):
        """Returns {photo: (worker, attempts)} of these clients' photos that are not done. The worker
        is "" if none has claimed the photo.
        """
        rows = self.mongo.find("photopool", "photos", {"c": {"$in": clients}, "t": {"$exists": True}},
                               projection={"t.s": 1, "t.w": 1, "t.at": 1})
        return {row["_id"]: (row["t"]["w"] if row["t"]["s"] == CLAIMED else "", row["t"]["at"]) for row in rows}

    def kill_one(self):
        """Returns (seconds from the first request to the kill, number of photos that the worker had
        claimed, seconds until the last of these claims was taken back, seconds until the last of
        these photos was claimed again or done, the longest answer of MongoDB meanwhile in seconds).
        """
        before = self.origin.stats()["requests"]
        clients, batches = self.post()
        wait_until(lambda: self.origin.stats()["requests"] > before, 30, "the first request")
        moment = self.random.uniform(0, MOMENTS)
        time.sleep(moment)
        workers = [worker for worker, _ in self.claims(clients).values()]
        victim = max(self.fleet.workers, key=lambda w: sum(f"-{w.pid}-" in worker for worker in workers))
        mark = f"-{victim.pid}-"
        victim.kill()
        died = time.monotonic()
        left = {photo: attempts for photo, (worker, attempts) in self.claims(clients).items() if mark in worker}
        n, back, took, slowest = len(left), 0, 0, 0
        while left:
            check(time.monotonic() - died < 60 * SLOW, f"{len(left)} of {n} photos are not claimed again")
            asked = time.monotonic()
            claims, took = self.claims(clients), time.monotonic() - died
            slowest = max(slowest, time.monotonic() - asked)
            # An attempt that is recorded now was the worker's last message: the photo is not lost,
            # and waits for the pause after an attempt.
            left = {photo: attempts for photo, attempts in left.items()
                    if photo in claims and claims[photo][1] == attempts and (not claims[photo][0] or mark in claims[photo][0])}
            if not back and not any(mark in worker for worker, _ in claims.values()):
                back = took
            time.sleep(0.02)
        victim.start()
        for batch in batches:
            self.fleet.api.request("DELETE", f"/v1/batches/{batch}")
        return moment, n, back, took, slowest


def kill_workers(case, kinds, kills, say):
    """Kills `kills` workers, in turn in a fleet of each kind. Returns the seconds of each kill, by
    kind, and the number of kills whose photos were claimed again too late.
    """
    lateness, seconds, over = Lateness(), {}, 0
    for k, kind in enumerate(kinds):
        run = Kills(case, kind)
        for _ in range(kills // len(kinds) + (k < kills % len(kinds))):
            begin = time.time()
            moment, n, back, took, slowest = run.kill_one()
            # To claim the photos again takes three requests to MongoDB, one after the other: the
            # reaper's, the worker's look at the queue, and its claim.
            late = lateness.between(begin, time.time()) + 3 * slowest
            too_late = took > LEASE + MORE + late
            over += too_late
            seconds.setdefault(kind, []).append(took)
            say(f"{kind}: killed {moment:.2f} s after the first request with {n} photos; all wait after {back:.2f} s, "
                f"claimed again after {took:.2f} s"
                + (f" (the machine and MongoDB were late by {late:.2f} s)" if late > 0.1 else "") + (": TOO LATE" if too_late else ""))
        run.end()
    lateness.stop()
    for kind, all_of in seconds.items():
        all_of.sort()
        say(f"{kind}: {len(all_of)} kills, median {all_of[len(all_of) // 2]:.2f} s, worst {all_of[-1]:.2f} s, due within {LEASE + MORE:.0f} s")
    return seconds, over
