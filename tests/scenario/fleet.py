"""fleet.py: runs a MongoDB, a Redis and replicas of `photopool serve` as processes, for scenarios
with several instances.

  from fleet import Fleet
  from harness import Origin, scenario, ...

  def test(case):
      origin = Origin(case, hosts="*.example delay=20")
      fleet = Fleet(case, origin=origin, config={"clients.rpm": None}, workers=3)
      fleet.start()
      batch = fleet.api.submit("42", [{"id": "a", "photos": [origin.url("a.example", "/1.jpg")]}])
      fleet.workers[0].kill()            # kill -9; also freeze(), thaw(), start() (again)
      fleet.workers[1].stop()            # SIGTERM; the worker must exit with 0
      fleet.mongo.restart()              # kill -9 and start on the same data; also kill_one(),
                                         # start(), end(), freeze(), thaw(), wipe()
      with fleet.mongo.wire.fail_command(["update"], times=3, errorCode=91): ...
      fleet.add("worker", {"worker.tiers": "[1s]"})
      fleet.api.wait_finished(batch)
      fleet.stop()

Each Replica is a harness.Pool (submit(), batch(), metric()...) with its own data folder. All
replicas share the folder of photos. Without a mongod the scenario fails (`scripts/setup mongo`
installs one); `make test` installs it first.
"""
import json
import os
import re
import signal
import subprocess
import sys
import threading

from harness import Failed, HOOKS, Lateness, ORIGIN, Pool, Process, check, same, wait_until

SUPPORT = os.path.join(os.environ.get("PP_SOURCE") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."), "tests", "support")
sys.path.insert(0, SUPPORT)
from mongo_wire import Mongo  # noqa: E402
from redis_wire import Redis  # noqa: E402
from servers import ask, state_of  # noqa: E402

# Length in bytes of a slot's row in Redis before the worker's id; the last of these bytes holds the
# flags.
ROW = 7 + 7 + 7 + 8 + 4 + 4 + 8 + 4 + 8 + 8 + 1


class Servers(Process):
    """Servers that one of the scripts of tests/support runs. They are numbered from 0."""

    def __init__(self, case, script, *args):
        super().__init__(case, script, os.path.join(SUPPORT, script))
        self.dir, self.args, self.url = case.name(script), args, None

    def begin(self):
        """Starts the servers without waiting for them."""
        self.spawn(["--dir", self.dir, "--until-eof", "--quick", *self.args], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def wait_up(self):
        self.url = self.process.stdout.readline().decode().strip()
        check(self.url, f"{self.program} did not start: {self.text()}")
        return self

    def kill(self):
        """Ends the script, which ends all its servers."""
        if self.running():
            self.signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                super().kill()

    def do(self, what, number=0):
        ask(self.dir, f"{what} {number}")

    def kill_one(self, number=0):
        """Kills one server (kill -9)."""
        self.do("kill", number)

    def begin_start(self, number=0):
        """Starts one server again, on the same port and data, without waiting for it."""
        self.do("spawn", number)

    def start(self, number=0):
        self.do("start", number)

    def restart(self, number=0):
        """Kills a server (kill -9) and starts it again."""
        self.do("restart", number)

    def freeze(self, number=0):
        self.do("stop", number)

    def thaw(self, number=0):
        self.do("cont", number)

    def end(self, number=0):
        """Shuts the server down cleanly."""
        self.do("end", number)

    def wipe(self, number=0):
        """Kills the server (kill -9) and deletes its data."""
        self.do("wipe", number)

    def pids(self):
        return [s["pid"] for s in state_of(self.dir)["servers"]]


class MongoServers(Servers):
    def __init__(self, case, members=1, *args):
        super().__init__(case, "mongod", "--members", str(members), *args)

    def database(self, name="photopool"):
        """Returns a value for store.url that names this database."""
        return self.url.replace("/?", f"/{name}?")

    @property
    def wire(self):
        """Returns a new client (mongo_wire.py) each time, because the server of an earlier client
        may be gone.
        """
        return Mongo(self.url)


class RedisServers(Servers):
    def __init__(self, case, cluster=False, *args):
        super().__init__(case, "redis", *(["--cluster"] if cluster else []), *args)

    @property
    def wire(self):
        return Redis(self.url)


class RabbitServers(Servers):
    """RabbitMQ servers. `url` is a value for amqp.url."""

    def __init__(self, case, *args):
        super().__init__(case, "rabbitmq", *args)


class KafkaCluster(Process):
    """The in-memory Kafka cluster of librdkafka (tests/support/kafka). `brokers` is a value for
    kafka.brokers. When the cluster ends, its data are lost.
    """

    def __init__(self, case, topic, partitions=4):
        binary, source = case.path("kafka-cluster"), os.path.join(SUPPORT, "kafka", "cluster.c")
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "rdkafka"], check=True, stdout=subprocess.PIPE).stdout.decode().split()
        subprocess.run(["cc", "-O1", "-Wall", "-o", binary, source, *flags], check=True)
        super().__init__(case, "kafka", binary)
        self.spawn([topic, str(partitions)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.brokers = self.process.stdout.readline().decode().strip()
        check(self.brokers, f"{binary} did not start: {self.text()}")


class Replica(Pool):
    """A process `photopool serve` with some roles. Its port changes at each start."""

    def __init__(self, case, name, roles, config, prefix=()):
        super().__init__(case, config=config, prefix=prefix)
        self.name, self.roles = name, roles
        self.photos = config.get("blobs.url", "").removeprefix("file:")

    def spawn_up(self):
        self.write_config()
        self.port = None
        self.spawn([*self.prefix, "serve", "--roles", self.roles, "--data", self.data, "--config", self.config_file], stdout=subprocess.PIPE)

    def wait_port(self, timeout=20):
        line = self.process.stdout.readline().decode()
        self.process.stdout.close()
        m = re.search(r"://[^ ]*:(\d+), roles ", line)
        check(m, f"{self.name} did not start: {line!r}")
        self.port = int(m.group(1))

    def freeze(self):
        self.signal(signal.SIGSTOP)

    def thaw(self):
        self.signal(signal.SIGCONT)

    def leave(self):
        """Sends SIGTERM without waiting for the end. wait_left() waits."""
        self.signal(signal.SIGTERM)

    def wait_left(self, timeout=40):
        same(self.wait_exit(timeout), 0, f"exit status of {self.name} after SIGTERM")


class Fleet:
    """A fleet of replicas. replicas: {role or "role,role": how many}. config: settings of all
    replicas; add() takes more settings for one replica. mongo, redis: servers that run already, to
    share them or to run them with options; by default the fleet starts its own servers.
    """

    def __init__(self, case, origin=None, config=None, replicas=None, mongo=None, redis=None, **counts):
        self.case, self.origin, self.config = case, origin, dict(config or {})
        self.counts = replicas or {"api": counts.get("apis", 1), "ingest": counts.get("ingests", 1), "worker": counts.get("workers", 3),
                                   "deliver": counts.get("delivers", 0), "cron": counts.get("crons", 1)}
        unknown = set(counts) - {"apis", "ingests", "workers", "delivers", "crons"}
        check(not unknown, f"Fleet() has no {unknown}")
        self.own = [] if mongo else ["mongo"]
        self.own += [] if redis else ["redis"]
        need_mongod()
        self.mongo, self.redis = mongo or MongoServers(case), redis or RedisServers(case)
        self.photos = case.name("photos")
        self.replicas = []

    def start_servers(self):
        """Starts MongoDB and Redis in parallel."""
        begun = [getattr(self, name).begin() for name in self.own]
        for servers in begun:
            servers.wait_up()
        return self

    def start(self, timeout=30):
        """Starts everything and waits until every replica is ready."""
        self.start_servers()
        made = [self.make(roles) for roles, n in self.counts.items() for _ in range(n)]
        # On an empty database the first replica creates the collections, so it starts alone: a
        # mongod under wine (tests/support/mongod_wine.py) crashes if two clients create the same
        # collection at once.
        for part in (made[:1], made[1:]):
            for replica in part:
                replica.spawn_up()
            for replica in part:
                replica.wait_port(timeout)
            database = re.search(r"/(\w+)\?", made[0].config["store.url"]).group(1)
            wait_until(lambda: self.mongo.wire.count(database, "meta", {"_id": "schema"}) == 1, timeout, "the collections exist")
        for replica in made:
            wait_until(replica.ready, timeout, lambda r=replica: f"{r.name} is ready: {r.get('/readyz')}")
        return self

    def make(self, roles, config=None, prefix=()):
        """Returns a new replica that has not been started."""
        name = f"{roles}{sum(r.roles == roles for r in self.replicas)}"
        base = {"store.url": self.mongo.database(), "coordinator.url": self.redis.url, "blobs.url": f"file:{self.photos}"}
        if self.origin:
            base.update({"fetch.allow_networks": ["127.0.0.0/8"], "fetch.allow_ports": [self.origin.port],
                         "fetch.resolve": [f"*:{self.origin.port}:127.0.0.1"], **HOOKS})
        replica = Replica(self.case, name, roles, {**base, **self.config, **(config or {})}, prefix)
        self.replicas.append(replica)
        return replica

    def add(self, roles, config=None, prefix=()):
        """Starts one more replica and waits until it is ready."""
        return self.make(roles, config, prefix).start()

    def of(self, role):
        """Returns the replicas with this role, oldest first."""
        return [r for r in self.replicas if role in r.roles.split(",")]

    @property
    def api(self):
        """Returns the first replica of the role api that runs."""
        for replica in self.of("api"):
            if replica.running():
                return replica
        raise Failed("no api runs")

    @property
    def workers(self):
        return self.of("worker")

    def metric(self, name):
        """Returns the sum of a metric over all running replicas."""
        return sum(r.metric(name) for r in self.replicas if r.running() and r.port)

    def slots(self):
        """Returns "CLIENT SHARE WORKER" for every slot that a worker holds.
        lib/adapter/redis/coord_rows.lua describes the rows in Redis.
        """
        wire, held = self.redis.wire, []
        for key in wire.keys("{photopool:coord}:s:*"):
            fields = wire.run("HGETALL", key)
            for share, row in zip(fields[::2], fields[1::2]):
                if share.isdigit() and len(row) > ROW and row[ROW - 1] % 2 == 1:
                    held.append(f"{key.decode().split(':s:', 1)[1]} {share.decode()} {row[ROW:].decode()}")
        return held

    def stop(self, timeout=40):
        """Sends SIGTERM to all replicas; each replica must exit with 0. The servers run until the
        case ends.
        """
        running = [r for r in self.replicas if r.running()]
        for replica in running:
            replica.leave()
        for replica in running:
            replica.wait_left(timeout)

    def all_do(self, function):
        """Calls function(replica) for all running replicas, in parallel."""
        threads = [threading.Thread(target=function, args=(r,)) for r in self.replicas if r.running()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class Limits:
    """Checks that clients stay within their limits at the origin, from now on. limits: {client:
    (requests a minute or None, concurrency)}.

    The origin notes a request when it reads it. If this machine is late by more than half of
    photopool's margin for the network, the origin may note two requests closer together than
    photopool sent them. So the checked windows are shorter by twice the excess, as in
    test_limits_kill9.py.
    """
    MARGIN = 0.2  # seconds

    def __init__(self, case, origin, limits):
        self.case, self.origin, self.limits = case, origin, limits
        origin.keep_time()
        self.lateness = Lateness()

    def held(self):
        """Stops the origin and checks its record: no client may be over a limit, and every client
        of `limits` must occur. Returns the verdict of `origin check`.
        """
        wait_until(lambda: self.origin.stats()["in_flight"] == 0, 30, "the origin is idle")
        self.lateness.stop()
        self.origin.stop()
        path = self.case.name("limits.txt")
        with open(path, "w", encoding="ascii") as f:
            f.writelines(f"{client} {rpm or '-'} {concurrency}\n" for client, (rpm, concurrency) in self.limits.items())
        window = 60 - 2 * max(0, self.lateness.worst() - self.MARGIN / 2)
        run = subprocess.run([ORIGIN, "check", self.origin.record_file, "--limits", path, "--window", f"{window:.3f}", "--json"],
                             stdout=subprocess.PIPE, check=False)
        verdict = json.loads(run.stdout)
        print(f"{verdict['requests']} requests; the machine was late by up to {self.lateness.worst() * 1000:.0f} ms: windows of {window:.2f} s",
              flush=True)
        check(run.returncode in (0, 1), f"exit status of origin check: {run.returncode}")
        over = []
        # c["over"] uses the limit of a full window of 60 s in a shorter window, so this does not
        # use it
        for c in verdict["clients"]:
            rpm, concurrency = self.limits.get(c["client"], (None, None))
            if c["worst_window"] > (rpm or c["worst_window"]) or c["worst_concurrency"] > (concurrency or c["worst_concurrency"]):
                over.append(c)
        same(over, [], "clients over a limit")
        same(set(self.limits) - {c["client"] for c in verdict["clients"]}, set(), "clients that are not in the record")
        return verdict


def need_mongod():
    """Fails if no mongod is installed: a skipped scenario might not be noticed."""
    run = subprocess.run([os.path.join(SUPPORT, "mongod"), "--which"], stdout=subprocess.DEVNULL, check=False)
    check(run.returncode == 0, "there is no mongod: scripts/setup mongo installs one")
