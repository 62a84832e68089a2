"""server.py: photopool with its origin, honest callers and attackers, for loadtest/attack and
loadtest/soak. The binaries are build/photopool and build/loadtest/origin, or $PHOTOPOOL and
$PP_ORIGIN.
"""
import contextlib
import hashlib
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
os.environ.setdefault("PHOTOPOOL", os.path.join(ROOT, "build", "photopool"))
os.environ.setdefault("PP_ORIGIN", os.path.join(ROOT, "build", "loadtest", "origin"))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "scenario")]
from attackers import KINDS, READER, SENDER  # noqa: E402
from harness import Origin, Pool  # noqa: E402

HONEST, WATCHER = "honest", "watcher"
MIB = 1 << 20


def key(text, scopes, client=None):
    row = {"name": text, "sha256": hashlib.sha256(text.encode()).hexdigest(), "scopes": scopes}
    return {**row, "client": client} if client else row


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


class Server:
    """photopool with its origin, the honest callers, and the attackers if there are any."""

    def __init__(self, case, sets=(), photos=2000):
        self.case, self.photos = case, photos
        self.origin = Origin(case, hosts="* delay=5-50", record="/dev/null")
        keys = [key(HONEST, ["submit", "read"]), key(WATCHER, ["read", "admin"])]
        for kind in ["", *(f"-{name}" for name in KINDS)]:
            keys += [key(READER + kind, ["read"]), key(SENDER + kind, ["submit", "read"], "attacker")]
        self.pool = Keyed(case, origin=self.origin, config={"auth.keys": keys, "clients.rpm": None, "clients.concurrency": 64,
                                                            "blobs.url": f"file:{case.in_memory('photos')}", **dict(sets)})
        self.pool.start()
        self.pool.post("/v1/clients/h0", {"rpm": None}, method="PUT")
        self.lines = case.path("honest.txt")
        self.honest = self.program("honest.py", HONEST, str(self.origin.port), self.lines, f"--photos={photos}")
        self.attackers = None

    def program(self, name, *args):
        return subprocess.Popen([sys.executable, os.path.join(HERE, name), str(self.pool.port), *args],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def attack(self, kinds):
        self.attackers = self.program("attackers.py", str(self.origin.port), "--only", ",".join(kinds))
        if self.attackers.stdout.readline() != "ready\n":
            sys.exit("the attackers could not begin")

    def end_attack(self):
        """Returns what the attackers did: {kind: {count: n}}."""
        text, _ = self.attackers.communicate()
        self.attackers = None
        return json.loads(text or "{}")

    def latencies(self, begin, end):
        """Returns {kind: [(ms, status)...]} of the honest requests that ended between two moments."""
        found = {}
        if not os.path.exists(self.lines):  # the honest callers have just been started
            return {}
        with open(self.lines, encoding="ascii") as f:
            for line in f:
                if line.endswith("\n"):
                    at, kind, ms, status = line.split()
                    if begin <= float(at) <= end:
                        found.setdefault(kind, []).append((float(ms), int(status)))
        return found

    def end(self):
        for program in (self.honest, self.attackers):
            if program:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.communicate(timeout=10)
                program.kill()


class Keyed(Pool):
    """A Pool whose own requests carry the watcher's key."""

    def request(self, method, path, body=None, headers=None, timeout=30, source=None, key=WATCHER):
        return super().request(method, path, body, {**(headers or {}), "Authorization": f"Bearer {key}"}, timeout, source or ("127.0.0.9", 0))
