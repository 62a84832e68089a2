"""fleet_bench.py: what the benches of a fleet share: processes, figures from /metrics and /proc,
and one way to print them (as common.h for the benches in C).

  from fleet_bench import Meter, bench, print_row

  def run(case, args):
      fleet = ...                       # tests/scenario/fleet.py
      meter = Meter(origin, replicas)
      before = meter.now()
      ...
      used = meter.now() - before       # .seconds, .settled, .round_trips("store"), .processors()
      print_row("fleet", "photos", 5800, "photos/s", other=7200, other_is="photopool up")

  if __name__ == "__main__":
      bench(run, parser.parse_args())

A meter reads the figures of all replicas before and after the measured time, never during it,
because reading costs time, too. The binaries are build/photopool and build/loadtest/origin, or
$PHOTOPOOL and $PP_ORIGIN. All files are under $TMPDIR (MongoDB and Redis sync to disk there),
except photos and the origin's record, which are in memory.
"""
import argparse
import collections
import contextlib
import json
import os
import re
import shutil
import signal
import sys
import time
import traceback

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
os.environ.setdefault("PHOTOPOOL", os.path.join(ROOT, "build", "photopool"))
os.environ.setdefault("PP_ORIGIN", os.path.join(ROOT, "build", "loadtest", "origin"))
os.environ.setdefault("PP_SOURCE", ROOT)
sys.path.insert(0, os.path.join(ROOT, "tests", "scenario"))
from fleet import Fleet  # noqa: E402
from harness import ORIGIN, Case, Failed, Pool, Skipped, check  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
FAMILIES = ("store", "coordinator", "ingest")
PHOTOS = re.compile(r'^photopool_photos_total\{outcome="(\w+)",code="[^"]*",tier="([^"]+)"\} (\d+)', re.M)
TRIPS = re.compile(r'^photopool_(\w+)_roundtrips_total\{op="([^"]+)"\} (\d+)', re.M)


# --- printing ---

def print_row(bench, case, ours, unit, other=None, other_is=None, **more):
    """Prints one figure, the figure that it is compared with, and related values: numbers, texts,
    dicts of numbers.
    """
    ratio = ours / other if other else None
    if not sys.stdout.isatty():
        row = {"bench": bench, "case": case, "ours": round(ours, 4)}
        if ratio is not None:
            row.update({"other": round(other, 4), "other_is": other_is, "ratio": round(ratio, 4)})
        row["unit"] = unit
        row.update({k: rounded(v) for k, v in more.items() if v is not None})
        print(json.dumps(row), flush=True)
        return
    text = f"{bench:<10} {case:<44} {short(ours):>12}"
    if ratio is not None:
        text += f" {short(other):>12}  x{ratio:.3f}"
    text += f"  {unit}" + (f"  against {other_is}" if ratio is not None else "")
    notes = [f"{k.replace('_', ' ')} {short(v)}" for k, v in more.items() if v is not None and not isinstance(v, dict)]
    print("; ".join([text, *notes]))
    for name, parts in more.items():
        if isinstance(parts, dict):
            print(f"{'':<10}   {name.replace('_', ' ')}: " + ", ".join(f"{k} {short(v)}" for k, v in parts.items()))
    sys.stdout.flush()


def rounded(v):
    if isinstance(v, dict):
        return {k: rounded(x) for k, x in v.items()}
    return round(v, 4) if isinstance(v, float) else v


def short(v):
    if not isinstance(v, float):
        return str(v)
    return f"{v:,.0f}" if abs(v) >= 1000 else f"{v:.1f}" if abs(v) >= 10 else f"{v:.4f}" if abs(v) >= 0.0001 else "0"


def say(text):
    """Prints a line of progress for people."""
    print(f"   {text}", file=sys.stderr, flush=True)


# --- measuring ---

def cpu_of(pid):
    """Returns the processor time of a process in seconds, with all its threads, also those that
    have ended.
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def machine():
    """Returns the processor time of the machine in seconds. "disk" is the part of "idle" in which a
    process waited for a disk.
    """
    with open("/proc/stat", encoding="ascii") as f:
        n = [int(x) for x in f.readline().split()[1:9]]
    return {"all": sum(n) / TICKS, "idle": (n[3] + n[4]) / TICKS, "disk": n[4] / TICKS}


def wineservers(folder):
    """Returns the process ids of the wineservers that use this folder. A mongod under wine has a
    wineserver, which is not a child of any of our processes.
    """
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as f:
                if not f.read().startswith("wineserver"):
                    continue
            with open(f"/proc/{pid}/environ", "rb") as f:
                if os.path.realpath(folder).encode() + b"/" in f.read():
                    found.append(int(pid))
    return found


class Reading:
    """The figures of one moment, or, after a subtraction, of the interval between two moments."""

    def __init__(self, seconds, **figures):
        """figures: for each name a number; cpu: seconds by part of the fleet; machine: seconds of
        all processors; trips: counts by (role, family, op); photos: counts by tier; mongo: what
        mongo_now() returns.
        """
        self.seconds, self.figures = seconds, figures

    def __getattr__(self, name):
        return self.figures[name]

    def __sub__(self, before):
        return self.combined(before, -1)

    def __add__(self, more):
        return self.combined(more, 1)

    def combined(self, other, sign):
        both = {name: {k: a.get(k, 0) + sign * other.figures[name].get(k, 0) for k in {**a, **other.figures[name]}}
                for name, a in self.figures.items()}
        return Reading(self.seconds + sign * other.seconds, **both)

    @property
    def settled(self):
        """Returns the number of photos that have a final outcome."""
        return sum(self.photos.values())

    def round_trips(self, family, key=None):
        """Returns the number of round trips of a family ("store", "coordinator", "ingest"). With a
        key ("role" or "op") returns a count for each value of that key.
        """
        found = collections.Counter()
        for (role, fam, op), n in self.trips.items():
            if fam == family:
                found[{"role": role, "op": op, None: ""}[key]] += n
        return found if key else found[""]

    def processors(self):
        """Returns {part: percent of all processors' time}. "other" is the kernel and processes that
        the bench did not start; "disk" is a part of "idle".
        """
        percent = 100 / max(self.machine["all"], 1e-9)
        parts = {name: s * percent for name, s in self.cpu.items()}
        idle = self.machine["idle"] * percent
        parts["other"] = max(0.0, 100 - sum(parts.values()) - idle)
        return {**parts, "idle": idle, "disk": self.machine["disk"] * percent}


class Meter:
    """Reads the figures of a fleet's processes, or of a single `photopool up` (replicas: [pool],
    roles "up").
    """

    def __init__(self, origin, replicas, mongo=None, redis=None):
        self.replicas = replicas
        self.pids, self.server = collections.defaultdict(list), mongo and mongo.wire.primary()
        if mongo:
            self.pids["mongod"] = mongo.pids()
            wine = wineservers(mongo.dir)
            if wine:
                self.pids["wineserver"] = wine
        if redis:
            self.pids["redis"] = redis.pids()
        for r in replicas:
            self.pids[self.role(r)].append(r.pid)
        if origin:
            self.pids["origin"] = [origin.pid]
        self.pids["bench"] = [os.getpid()]

    @staticmethod
    def role(replica):
        return getattr(replica, "roles", "up")

    def now(self):
        trips, photos = collections.Counter(), collections.Counter()
        for r in self.replicas:
            text = r.get("/metrics").body.decode()
            for family, op, n in TRIPS.findall(text):
                trips[(self.role(r), family, op)] += int(n)
            for outcome, tier, n in PHOTOS.findall(text):
                photos[f"{outcome} in the tier of {tier} s"] += int(n)
        cpu = {name: sum(map(cpu_of, pids)) for name, pids in self.pids.items()}
        return Reading(time.monotonic(), cpu=cpu, machine=machine(), trips=trips, photos=photos, mongo=self.mongo_now())

    def mongo_now(self):
        """Returns statistics of mongod: how many seconds its commands took; how many of these were
        writes to each collection; syncs of its journal.
        """
        if not self.server:
            return {}
        status = self.server.run("admin", {"serverStatus": 1})
        log, took = status["wiredTiger"]["log"], status["opLatencies"]
        found = {("command", k): took[k]["latency"] / 1e6 for k in ("reads", "writes")}
        found.update({("journal", "syncs"): log["log sync operations"], ("journal", "s"): log["log sync time duration (usecs)"] / 1e6})
        for name, kinds in self.server.admin("top")["totals"].items():
            database, _, collection = name.partition(".")
            if database not in ("admin", "config", "local", "note"):
                found.update({("change", f"{collection}.{k}"): kinds[k]["time"] / 1e6 for k in ("insert", "update", "remove")})
        return found


def print_costs(bench, case, used, photos, whole=None, asked=True):
    """Prints rows with the round trips, MongoDB's time and the processor time of one photo. `whole`
    is a reading that includes planning, and the number of its photos.
    """
    names = {"store": ("MongoDB", 0.05), "coordinator": ("Redis", 0.1), "ingest": ("ingest queue", None)}
    photos = max(photos, 1)
    for family, (name, limit) in names.items():
        print_row(bench, f"{case}: {name}", used.round_trips(family) / photos, "round trips/photo", asked=limit if asked else None,
                  whole_run=whole and whole[0].round_trips(family) / max(whole[1], 1), by_role=shares(used.round_trips(family, "role"), photos),
                  by_op=shares(used.round_trips(family, "op"), photos))
    print_mongo(bench, case, used, photos)
    print_processors(bench, case, used)


def print_mongo(bench, case, used, photos):
    """Prints how long mongod worked on commands, by its clock, how many commands were in flight on
    average, and the syncs of its journal.
    """
    by = collections.defaultdict(collections.Counter)
    for (kind, name), n in used.mongo.items():
        by[kind][name] = n
    seconds, syncs = sum(by["command"].values()), max(by["journal"]["syncs"], 1)
    print_row(bench, f"{case}: MongoDB, at work", 1000 * seconds / max(photos, 1), "ms/photo", commands_at_a_time=seconds / used.seconds,
              journal_syncs_s=syncs / used.seconds, ms_a_sync=1000 * by["journal"]["s"] / syncs, commands=shares(by["command"], photos / 1000),
              changes=shares(by["change"], photos / 1000))


def print_processors(bench, case, used):
    parts = used.processors()
    print_row(bench, f"{case}: processors busy", 100 - parts["idle"], f"% of {os.cpu_count()}", parts=parts)


def shares(counts, photos):
    """Returns each count divided by `photos`, the largest first."""
    return {k: n / photos for k, n in counts.most_common() if n / photos >= 0.00005}


# --- running ---

def assignment(text):
    """Parses NAME=VALUE of --set. A VALUE that is not JSON is a text."""
    name, sep, value = text.partition("=")
    if not sep or "." not in name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    with contextlib.suppress(ValueError):
        value = json.loads(value)
    return name, value


def arguments(doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", default=[], type=assignment, metavar="NAME=VALUE", help="a parameter of all replicas")
    parser.add_argument("--keep", action="store_true", help="keep the folder with all logs, and print its name at the end")
    return parser


def make_batches(origin, clients, photos, per_item=5, per_batch=5000, hosts=4):
    """Returns [(client, body)]: bodies of POSTs, ready to send, with `photos` photos of each
    client. The clients take turns.
    """
    batches = []
    for first in range(0, photos, per_batch):
        for client in clients:
            last = min(first + per_batch, photos)
            items = [{"id": f"i{i}", "photos": [origin.url(f"h{k % hosts}-{client}.example", f"/c/{client}/{k}.jpg")
                                                for k in range(i, min(i + per_item, last))]} for i in range(first, last, per_item)]
            batches.append((client, json.dumps({"client": client, "items": items}).encode()))
    return batches


def post_all(pool, bodies):
    """Posts the bodies. Returns the ids of the batches."""
    ids = []
    for _, body in bodies:
        answer = pool.request("POST", "/v1/batches", body, {"Content-Type": "application/json"})
        check(answer.status == 202, f"POST /v1/batches: {answer}")
        ids.append(answer.json["batch_id"])
    return ids


def bench(run, args):
    """Runs run(case, args) in a new folder, which it removes after success. Exits with 1 after a
    failure.
    """
    case, status = Case(), 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    try:
        run(case, args)
    except (Skipped, Failed) as e:
        print(f"{os.path.basename(sys.argv[0])}: {e}", file=sys.stderr)
        status = 1
    except BaseException:  # after any error the processes of the bench must end, too
        traceback.print_exc()
        status = 1
    finally:
        if status:
            with contextlib.redirect_stdout(sys.stderr):
                for child in case.children:
                    child.show_log(10)
        case.close()
    if status or args.keep:
        print(f"files: {case.dir}", file=sys.stderr)
    else:
        shutil.rmtree(case.dir, ignore_errors=True)
    sys.stdout.flush()
    os._exit(status)


__all__ = ["ORIGIN", "Fleet", "Meter", "Pool", "arguments", "bench", "check", "make_batches", "post_all", "print_costs", "print_mongo", "print_processors", "print_row",
           "say", "shares"]
