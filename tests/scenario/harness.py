"""harness.py: what all scenarios share: `photopool up` and the origin as processes, an HTTP client,
waiting for conditions.

  from harness import Pool, Origin, scenario, check, wait_until

  def test(case):
      origin = Origin(case, hosts="*.example delay=20")
      pool = Pool(case, origin=origin, config={"clients.rpm": None})
      pool.start()
      batch = pool.submit("42", [{"id": "a", "photos": [origin.url("a.example", "/1.jpg")]}])
      pool.wait_finished(batch)
      ...
  if __name__ == "__main__":
      scenario(test)

Nothing sleeps for a fixed time: wait_until() polls. No check measures time either, because a
machine may be slow or busy. To show that something does not wait, a scenario makes the wait longer
than wait_until() allows; to show that something is quick, it counts what happens in the meantime.
All processes end with the case. Standard library only.
"""
import gzip
import hashlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

# libmongoc keeps counters in a file of /dev/shm that is named after the process id. kill -9 leaves
# the file behind, and the next process with that id would warn about it on standard error.
os.environ.setdefault("MONGOC_DISABLE_SHM", "1")
PHOTOPOOL = os.environ.get("PHOTOPOOL", "build/photopool")
ORIGIN = os.environ.get("PP_ORIGIN", "build/loadtest/origin")
SLOW = 6  # Timeouts are given for an idle machine. A wait fails only after SLOW times as long.
SANITIZED = os.environ.get("PP_BUILD") == "asan"
POLL = 0.02
# Endpoints of webhooks may be on this machine.
HOOKS = {"webhooks.allow_networks": ["127.0.0.0/8"], "webhooks.allow_ports": ["1-65535"]}
SKIP = 77


class Failed(Exception):
    """A check of the scenario has failed."""


class Skipped(Exception):
    """The scenario can't run on this machine."""


def check(condition, text):
    if not condition:
        raise Failed(text)


def same(got, due, what):
    check(got == due, f"{what}: got {got!r}, due {due!r}")


def wait_until(condition, timeout, what):
    """Polls until condition() is true and returns its value. `what` names the condition: a text,
    or a function that returns a text.
    """
    end = time.monotonic() + timeout * SLOW
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"not within {timeout * SLOW:g} s: {what() if callable(what) else what}")
        time.sleep(POLL)


def pause_until(moment):
    """Waits until a moment of the monotonic clock, for scenarios that test times."""
    while (left := moment - time.monotonic()) > 0:
        time.sleep(min(left, POLL))


class Lateness:
    """Measures how late this machine is: a thread that should wake up every 10 ms notes its delays.
    For scenarios that measure speed; they call stop() at the end.
    """

    def __init__(self):
        self.late, self.going = [], True  # late: [(moment by time.time(), seconds of delay)]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        due = time.monotonic()
        while self.going:
            due += 0.01
            time.sleep(max(0, due - time.monotonic()))
            late = time.monotonic() - due
            if late > 0.03:
                self.late.append((time.time(), late))
                due = time.monotonic()

    def stop(self):
        self.going = False
        self.thread.join()

    def worst(self):
        return max((late for _, late in self.late), default=0)

    def between(self, begin, end):
        """Returns how many seconds the machine was late in total between two moments."""
        return sum(late for moment, late in self.late if begin <= moment <= end + late)


class Case:
    def __init__(self):
        self.seed = int(os.environ.get("PP_SEED") or random.SystemRandom().randrange(1 << 31))
        self.random = random.Random(self.seed)
        self.dir = tempfile.mkdtemp(prefix="photopool-scenario-")
        self.shared = None
        self.children = []
        self.n = 0

    def path(self, name):
        return os.path.join(self.dir, name)

    def name(self, stem):
        self.n += 1
        return self.path(f"{self.n:02}-{stem}")

    def in_memory(self, name):
        """Returns a path in memory rather than on a disk, on systems that have a file system in
        memory.
        """
        if not self.shared and os.access("/dev/shm", os.W_OK):
            self.shared = tempfile.mkdtemp(prefix="photopool-scenario-", dir="/dev/shm")
        return os.path.join(self.shared or self.dir, name)

    def close(self):
        for child in self.children:
            child.kill()
        if self.shared:
            # keeps the files in memory with the other files, for the case that the scenario failed
            shutil.move(self.shared, self.path("in-memory"))


def scenario(*tests):
    """Runs the tests of a scenario. Exits with 0 (passed), 1 (failed) or 77 (skipped)."""
    case = Case()
    print(f"seed {case.seed} (PP_SEED)", flush=True)
    status = 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    try:
        for test in tests:
            start = time.monotonic()
            test(case)
            for child in case.children:
                child.check_health()
            print(f"{test.__name__}: {time.monotonic() - start:.1f} s", flush=True)
    except Skipped as e:
        print(f"skipped: {e}")
        status = SKIP
    except Failed as e:
        print(f"FAILED: {e}", flush=True)
        traceback.print_exc(limit=-3)
        status = 1
    except BaseException:  # the processes of the scenario must end after any error
        traceback.print_exc()
        status = 1
    finally:
        case.close()
    if status == 1:
        for child in case.children:
            child.show_log()
        print(f"files: {case.dir}")
    elif not os.environ.get("PP_SOURCE"):  # if PP_SOURCE is set, tests/scenario/run removes the folder
        shutil.rmtree(case.dir, ignore_errors=True)
    sys.stdout.flush()
    os._exit(status)  # os._exit() does not wait for threads that wait for a dead server


class Process:
    """A program that the scenario starts, at most one process of it at a time, and its log."""

    def __init__(self, case, stem, program):
        self.case, self.program = case, program
        self.log = case.name(stem + ".log")
        self.process = None
        case.children.append(self)

    def spawn(self, args, **more):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.program, *args], stderr=log, **{"stdin": subprocess.DEVNULL, **more})

    @property
    def pid(self):
        return self.process.pid

    def running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """Kills the process (kill -9)."""
        if self.running():
            self.process.kill()
            self.process.wait()

    def wait_exit(self, timeout=30):
        try:
            return self.process.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.program} did not end within {timeout * SLOW} s") from None

    def text(self):
        if not os.path.exists(self.log):  # the process was never started
            return ""
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def show_log(self, lines=40):
        print(f"--- {self.log}, the last lines")
        print("\n".join(self.text().split("\n")[-lines:]))

    def check_health(self):
        bad = re.search(r"ERROR: \w+Sanitizer|runtime error: |WARNING: ThreadSanitizer|Assertion .* failed", self.text())
        check(not bad, f"{self.program}: {bad and bad.group(0)}, see its log")


class Origin(Process):
    """The fake photo host. photopool resolves every host name to it, whatever the port in the URL."""

    def __init__(self, case, hosts="", behaviour="", listen=("127.0.0.1:0",), extra=(), record=None):
        super().__init__(case, "origin", ORIGIN)
        self.record_file = record or case.name("record.txt")
        self.hosts_file = case.name("hosts.txt")
        port_file = case.name("port")
        self.set_hosts_file(hosts)
        args = ["--port-file", port_file, "--record", self.record_file, "--hosts", self.hosts_file, *extra]
        for address in listen:
            args += ["--listen", address]
        if behaviour:
            args += ["--behaviour", behaviour]
        self.spawn(args)
        wait_until(lambda: os.path.exists(port_file) or not self.running(), 10, "the origin listens")
        check(self.running(), "the origin did not start")
        with open(port_file, encoding="ascii") as f:
            self.port = int(f.readline())
        self.address = listen[0].rsplit(":", 1)[0].strip("[]")

    def keep_time(self):
        """Gives the origin priority over everything else on this machine, if that is permitted. For
        scenarios that measure.
        """
        try:
            os.sched_setscheduler(self.pid, os.SCHED_FIFO, os.sched_param(1))
        except OSError:
            print("the origin runs at an ordinary priority", flush=True)

    def set_hosts_file(self, hosts):
        with open(self.hosts_file, "w", encoding="utf-8") as f:
            f.write(hosts.strip() + "\n")

    def url(self, host, target):
        return f"http://{host}:{self.port}{target}" if self.port != 80 else f"http://{host}{target}"

    def page(self, method, path):
        c = http.client.HTTPConnection(self.address, self.port, timeout=10 * SLOW)
        c.request(method, path)
        answer = c.getresponse().read()
        c.close()
        return answer

    def stats(self):
        return json.loads(self.page("GET", "/_stats"))

    def set_hosts(self, hosts):
        self.set_hosts_file(hosts)
        self.page("POST", "/_reload")

    def fetch(self, url):
        """Fetches a URL directly from the origin and returns the body. The record shows the request
        as client `probe`.
        """
        host, target = re.match(r"http://([^/]+)(/.*)", url).groups()
        c = http.client.HTTPConnection(self.address, self.port, timeout=30 * SLOW)
        c.request("GET", target, headers={"Host": host})
        body = c.getresponse().read()
        c.close()
        return body

    def records(self):
        """Returns a dict for each request so far: start and end (in s), client, host, status,
        outcome, hash, bytes.
        """
        if self.running():
            self.page("POST", "/_flush")
        with open(self.record_file, encoding="utf-8") as f:
            rows = [line.split() for line in f if line.endswith("\n")]
        return [{"start": int(r[0]) / 1e6, "end": int(r[1]) / 1e6, "client": r[2], "host": r[3], "hash": r[4],
                 "status": int(r[5]), "outcome": r[6], "bytes": int(r[7])} for r in rows]

    def stop(self):
        self.signal(signal.SIGTERM)
        self.wait_exit()


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class Pool(Process):
    """`photopool up` with its own data directory and configuration file. It listens on a free port,
    which is a new one at each start.
    """

    def __init__(self, case, origin=None, config=None, data=None, prefix=()):
        super().__init__(case, "photopool", prefix[0] if prefix else PHOTOPOOL)
        self.prefix = [*prefix[1:], PHOTOPOOL] if prefix else []
        self.data = data or case.name("data")
        self.photos = os.path.join(self.data, "photos")
        self.config_file = case.name("photopool.yaml")
        self.port = None
        self.config = {"http.listen": "127.0.0.1:0"}
        if origin:
            self.config.update({"fetch.allow_networks": ["127.0.0.0/8"], "fetch.allow_ports": [origin.port],
                                "fetch.resolve": [f"*:{origin.port}:127.0.0.1"], **HOOKS})
        self.config.update(config or {})
        self.peak_kb = 0
        self.local = threading.local()

    def write_config(self):
        """Writes the configuration file: turns dotted names into nested ones, and writes JSON,
        which is YAML, too.
        """
        tree = {}
        for name, value in self.config.items():
            section, key = name.split(".", 1)
            tree.setdefault(section, {})[key] = value
        with open(self.config_file, "w", encoding="utf-8") as f:
            json.dump(tree, f, indent=1)

    def spawn_up(self):
        """Starts the process without waiting for it."""
        self.write_config()
        self.port = None
        self.spawn([*self.prefix, "up", "--data", self.data, "--config", self.config_file], stdout=subprocess.PIPE)

    def wait_port(self, timeout=20):
        line = self.process.stdout.readline().decode()
        self.process.stdout.close()
        m = re.search(r":(\d+), data in", line)
        check(m, f"photopool did not start: {line!r}")
        self.port = int(m.group(1))

    def start(self, timeout=20):
        self.spawn_up()
        self.wait_port(timeout)
        wait_until(self.ready, timeout, "/readyz")
        return self

    def ready(self):
        try:
            return self.get("/readyz").status == 200
        except OSError:
            check(self.running(), "photopool has ended")
            return False

    def kill(self):
        if self.running():
            self.peak_kb = max(self.peak_kb, self.memory_kb("VmHWM"))
        super().kill()

    def stop(self, timeout=40):
        """Sends SIGTERM and waits for the end. The exit status must be 0."""
        self.peak_kb = max(self.peak_kb, self.memory_kb("VmHWM"))
        self.signal(signal.SIGTERM)
        same(self.wait_exit(timeout), 0, "exit status after SIGTERM")

    def memory_kb(self, name):
        try:
            with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
                m = re.search(rf"^{name}:\s+(\d+)", f.read(), re.M)
        except FileNotFoundError:
            m = None
        return int(m.group(1)) if m else 0

    # --- HTTP ---

    def request(self, method, path, body=None, headers=None, timeout=30, source=None):
        """Sends a request and returns the answer. Each thread keeps one connection for each
        process. Raises OSError if the server is gone.
        """
        key = (self.port, source)
        kept = getattr(self.local, "kept", None)
        if kept is None:
            kept = self.local.kept = {}
        c = kept.pop(key, None)
        fresh = c is None
        for old in list(kept):
            if old[0] != self.port:
                kept.pop(old).close()
        if fresh:
            if self.port is None:
                raise ConnectionRefusedError("not started")
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * SLOW, source_address=source)
        try:
            c.request(method, path, body=body, headers=headers or {})
            r = c.getresponse()
            answer = Answer(r.status, r.headers, r.read())
        except http.client.HTTPException as e:
            c.close()
            # The server may close a kept connection at the moment of the next request. Methods that
            # are idempotent can be repeated then (RFC 9110 9.2.2).
            if not fresh and method in ("GET", "PUT", "DELETE"):
                return self.request(method, path, body, headers, timeout, source)
            raise ConnectionError(str(e)) from e
        except OSError:
            c.close()
            # The server may close a kept connection at the moment of the next request. Methods that
            # are idempotent can be repeated then (RFC 9110 9.2.2).
            if not fresh and method in ("GET", "PUT", "DELETE"):
                return self.request(method, path, body, headers, timeout, source)
            raise
        if r.will_close:
            c.close()
        else:
            kept[key] = c
        return answer

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def get_json(self, path):
        answer = self.get(path)
        same(answer.status, 200, f"GET {path}: {answer}")
        return answer.json

    def post(self, path, data, headers=None, method="POST", compress=False, **more):
        body = json.dumps(data).encode()
        headers = {"Content-Type": "application/json", **(headers or {})}
        if compress:
            body = gzip.compress(body, 1)
            headers["Content-Encoding"] = "gzip"
        return self.request(method, path, body, headers, **more)

    def put(self, path, data):
        return self.post(path, data, method="PUT")

    def submit(self, client, items, key=None, **fields):
        """Posts a batch with these fields, as refresh="changed". Every item must be accepted. Returns
        the batch's id.
        """
        data = {"client": client, **{k: v for k, v in fields.items() if v}, "items": items}
        answer = self.post("/v1/batches", data, {"Idempotency-Key": key} if key else None, compress=True)
        same(answer.status, 202, f"POST /v1/batches: {answer}")
        same(answer.json["accepted"], len(items), f"accepted of {answer}")
        return answer.json["batch_id"]

    def set_client(self, client, **settings):
        answer = self.put(f"/v1/clients/{client}", settings)
        check(answer.status in (200, 201, 204), f"PUT /v1/clients/{client}: {answer}")

    def batch(self, batch):
        return self.get_json(f"/v1/batches/{batch}")

    def page_all(self, path, field, limit=1000):
        """Returns the rows of a list, over all of its pages."""
        rows, after = [], None
        while True:
            sep = "&" if "?" in path else "?"
            page = self.get_json(f"{path}{sep}limit={limit}" + (f"&after={after}" if after else ""))
            rows += page[field]
            after = page["next"]
            if not after:
                return rows

    def results(self, batch, query="", limit=1000):
        return self.page_all(f"/v1/batches/{batch}/results{query}", "results", limit)

    def finished(self, batch):
        return self.batch(batch)["state"] in ("finished", "cancelled")

    def wait_finished(self, batch, timeout=60):
        wait_until(lambda: self.finished(batch), timeout, lambda: f"batch finished: {self.batch(batch)}")
        return self.results(batch)

    def item(self, client, item):
        return self.get_json(f"/v1/items/{client}/{item}")

    def metric(self, name):
        """Returns the sum of a metric's samples. name: the metric's name, or NAME{label="value"}."""
        total = 0.0
        for line in self.get("/metrics").body.decode().split("\n"):
            if line.startswith(name) and line[len(name):len(name) + 1] in ("{", " "):
                total += float(line.rsplit(" ", 1)[1])
        return total

    # --- files ---

    def blobs(self):
        """Returns {sha256: path} of every stored photo."""
        found = {}
        for folder, _, names in os.walk(os.path.join(self.photos, "sha256")):
            for name in names:
                found[name.split(".")[0]] = os.path.join(folder, name)
        return found

    def temp_files(self):
        return os.listdir(os.path.join(self.photos, "tmp"))


def sha256_of(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def free_port():
    """Returns a port that nobody listens on. If possible, it is a port that the kernel does not
    choose for port 0.
    """
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        first = int(f.read().split()[0])
    for _ in range(100 if first >= 12000 else 0):
        with socket.socket() as s:
            port = random.SystemRandom().randrange(10000, first)
            if s.connect_ex(("127.0.0.1", port)) != 0:
                return port
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def outcomes(results):
    """Returns {(item, index of the photo): (outcome, error code or None)}."""
    return {(r["data"]["item"], i): (p["outcome"], p.get("error", {}).get("code"))
            for r in results for i, p in enumerate(r["data"]["photos"])}
