"""faults.py: the faults that chaos causes in a fleet. Each is a method of Faults, and has a row
with its weight in KINDS. A fault ends by itself, at once or by a timer (later()). To add a fault,
add a method and a row.
"""
import os
import threading
import time

# name of the fault: its weight in the random choice
KINDS = {
    "kill_worker": 6, "freeze_worker": 4, "roll_worker": 3, "kill_api": 2, "kill_ingest": 2, "kill_cron": 2,
    "part_worker": 4, "break_disk": 1,
    "step_down": 3, "fail_commands": 5, "kill_mongo": 2, "freeze_mongo": 2, "lose_mongo_answer": 6, "cut_mongo": 4, "late_mongo": 3,
    "kill_redis": 2, "freeze_redis": 2, "wipe_redis": 1, "lose_redis_answer": 5, "cut_redis": 4, "late_redis": 3,
}
# When a run measures recovery, it kills a worker that holds at least WORTH_KILLING photos, and
# waits up to WORTH_WAITING_S seconds for one.
WORTH_KILLING, WORTH_WAITING_S = 5, 5


class Faults:
    def __init__(self, chaos):
        self.chaos, self.random, self.fleet = chaos, chaos.random, chaos.fleet
        self.pending = []
        self.busy = {"mongo": threading.Lock(), "redis": threading.Lock()}

    def pick(self, kinds):
        names = [k for k in KINDS if k in kinds]
        return self.random.choices(names, [KINDS[k] for k in names])[0]

    def strike(self, name):
        """Causes a fault and returns a description for the log, or None if the fault is impossible
        now.
        """
        return getattr(self, name)()

    def later(self, seconds, function):
        t = threading.Timer(seconds, function)
        t.daemon = True
        t.start()
        self.pending.append(t)

    def heal(self):
        """Waits for the timers of all faults, then ends all faults that are left."""
        for t in self.pending:
            t.join()
        self.chaos.mongo_proxy.heal()
        self.chaos.redis_proxy.heal()
        for replica in self.fleet.of("worker"):
            replica.way.heal()
        self.fleet.mongo.wire.fail_off()

    # --- replicas ---

    def one_of(self, role):
        running = [r for r in self.fleet.of(role) if r.running() and r.port and not getattr(r, "frozen", False)]
        return self.random.choice(running) if len(running) > 1 else None

    def busiest_worker(self):
        """Returns the worker that holds most tasks, or None if no worker holds one. The run
        measures what happens to these tasks.
        """
        end, best = time.monotonic() + WORTH_WAITING_S, (0, None)
        while best[0] < WORTH_KILLING and time.monotonic() < end:
            held = [t["t"]["w"] for t in self.fleet.mongo.wire.find("chaos", "photos", {"t.s": 2}, projection={"t.w": 1})]
            workers = [r for r in self.fleet.of("worker") if r.running() and r.port]
            best = max(((sum(f"-{r.process.pid}-" in w for w in held), r) for r in workers), key=lambda x: x[0], default=best)
        return best[1]

    def kill(self, role):
        replica = self.busiest_worker() if role == "worker" and self.chaos.regular else self.one_of(role)
        if not replica:
            return None
        pid = replica.process.pid
        replica.kill()
        if role == "worker":
            self.chaos.recovery.killed(pid)
        self.later(self.random.uniform(0.2, 4), lambda: self.again(replica))
        return replica.name

    def again(self, replica):
        """Starts a replica again, and retries like a process supervisor: the replica's servers may
        be down at first.
        """
        while not self.chaos.over:
            try:
                replica.spawn_up()
                replica.wait_port(30)
                return
            except Exception:  # noqa: BLE001
                replica.kill()

    def kill_worker(self):
        return self.kill("worker")

    def kill_api(self):
        return self.kill("api")

    def kill_ingest(self):
        return self.kill("ingest")

    def kill_cron(self):
        return self.kill("cron")

    def freeze_worker(self):
        replica = self.one_of("worker")
        if not replica:
            return None
        seconds = self.random.choice([0.5, 1.2, 2.5]) * self.chaos.lease
        replica.frozen = True
        replica.freeze()

        def thaw():
            replica.thaw()
            replica.frozen = False
        self.later(seconds, thaw)
        return f"{replica.name} for {seconds:.1f} s"

    def roll_worker(self):
        replica = self.one_of("worker")
        if not replica:
            return None
        port, replica.port = replica.port, None
        replica.leave()

        def roll():
            try:
                replica.wait_exit(60)
            except Exception:  # noqa: BLE001
                self.chaos.wrong(f"{replica.name} (port {port}) did not end after SIGTERM")
                replica.kill()
            self.again(replica)
        self.later(0.1, roll)
        return replica.name

    def part_worker(self):
        """Cuts one worker off from Redis for a while. All other workers still reach Redis."""
        replica = self.one_of("worker")
        if not replica:
            return None
        seconds = self.random.choice([0.5, 1.2, 2.5]) * self.chaos.lease
        replica.way.refuse(seconds)
        self.later(seconds, lambda: None)
        return f"{replica.name} for {seconds:.1f} s"

    def break_disk(self):
        """Makes photos unwritable: the folder to which files are renamed becomes a file for a while."""
        folder = os.path.join(self.fleet.photos, "sha256")
        away = folder + ".away"
        if os.path.exists(away) or not os.path.isdir(folder):
            return None
        seconds = self.random.uniform(0.5, 4)
        os.rename(folder, away)
        with open(folder, "w", encoding="ascii"):
            pass

        def mend():
            os.unlink(folder)
            os.rename(away, folder)
        self.later(seconds, mend)
        return f"for {seconds:.1f} s"

    # --- servers ---

    def with_server(self, name, begin, seconds, end, back=None):
        struck = time.monotonic()
        lock = self.busy[name]
        if not lock.acquire(blocking=False):
            return None

        def finish():
            end()
            self.chaos.recovery.server_back(back or name, struck)
            lock.release()
        begin()
        self.later(seconds, finish)
        return f"{name} for {seconds:.1f} s"

    def kill_mongo(self):
        m = self.fleet.mongo
        return self.with_server("mongo", m.kill_one, self.random.uniform(0.1, 8), m.start)

    def freeze_mongo(self):
        m = self.fleet.mongo
        return self.with_server("mongo", m.freeze, self.random.uniform(0.5, 6), m.thaw)

    def step_down(self):
        lock = self.busy["mongo"]
        if not lock.acquire(blocking=False):
            return None
        try:
            self.fleet.mongo.wire.step_down(1)
        finally:
            lock.release()
        return "primary"

    def fail_commands(self):
        lock = self.busy["mongo"]
        if not lock.acquire(blocking=False):
            return None
        command = self.random.choice(["find", "update", "insert", "aggregate", "findAndModify", "delete"])
        how = self.random.choice([{"closeConnection": True}, {"errorCode": 91}, {"errorCode": 11602}, {"errorCode": 50}])
        try:
            self.fleet.mongo.wire.fail_on([command], times=self.random.randint(1, 5), **how)
        finally:
            lock.release()
        return f"{command} {how}"

    def kill_redis(self):
        r = self.fleet.redis
        return self.with_server("redis", r.kill_one, self.random.uniform(0.1, 6), r.start)

    def freeze_redis(self):
        r = self.fleet.redis
        return self.with_server("redis", r.freeze, self.random.uniform(0.5, 7), r.thaw)

    def wipe_redis(self):
        r = self.fleet.redis
        return self.with_server("redis", r.wipe, self.random.uniform(0.1, 2), r.start, "a wiped redis")

    # --- the network ---

    def redis_way(self):
        """Chooses the proxy of one worker's connection to Redis, or the proxy that all other roles
        share.
        """
        ways = [r.way for r in self.fleet.of("worker")] + [self.chaos.redis_proxy]
        return self.random.choice(ways)

    def lose_mongo_answer(self):
        self.chaos.mongo_proxy.lose_answer(self.random.randint(1, 4))
        return ""

    def cut_mongo(self):
        self.chaos.mongo_proxy.refuse(self.random.uniform(0, 2))
        return ""

    def late_mongo(self):
        self.chaos.mongo_proxy.late(self.random.uniform(0.02, 0.4), self.random.uniform(0.5, 3))
        return ""

    def lose_redis_answer(self):
        self.redis_way().lose_answer(self.random.randint(1, 4))
        return ""

    def cut_redis(self):
        self.redis_way().refuse(self.random.uniform(0, 2))
        return ""

    def late_redis(self):
        self.redis_way().late(self.random.uniform(0.02, 0.4), self.random.uniform(0.5, 3))
        return ""
