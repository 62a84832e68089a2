"""history.py: reads every change of photos and items from MongoDB's oplog, and checks that each was
legal.

The end of a run shows little of what went wrong before: other workers may have repaired what a
stale worker wrote. So history.py applies all changes to its own copy of the documents, and checks
for each change:

  I9  A task's states follow this order: none -> waiting -> claimed -> waiting or settled -> none.
      A waiting task may be removed.
  I3  A claim belongs to one worker: its nonce changes only with its state; the claim is lost only
      when its lease is over; an outcome names its attempt, which must be the claimed one.
  I2  An item is planned once for each batch that names it. Terminal items and the outcomes of
      photos never change. A photo's outcome is one that its task was settled with.

To add a rule, extend photo() or item(), which get the document before and after the change. Use a
History on one thread at a time.
"""
import copy

ILLEGAL = {(0, 2), (0, 3), (1, 3), (2, 0), (3, 1), (3, 2)}
STATES = {0: "no task", 1: "waiting", 2: "claimed", 3: "settled"}
CANCELLED = 5
# largest error, in ms, of the adapter's estimate of the server's clock when connections are slow
SLACK_MS = 1000


def patch(document, diff):
    """Applies the diff of an update, in the oplog's format $v: 2, to a document."""
    if diff.get("a"):  # the diff is one of an array
        if "l" in diff:
            del document[diff["l"]:]
        for name, value in diff.items():
            if name[0] in "us" and name[1:].isdigit():
                at = int(name[1:])
                document.extend([None] * (at + 1 - len(document)))
                if name[0] == "u":
                    document[at] = value
                else:
                    patch(document[at], value)
        return
    for name, value in diff.items():
        if name == "d":
            for field in value:
                document.pop(field, None)
        elif name in ("u", "i"):
            document.update(value)
        elif name[0] == "s":
            patch(document[name[1:]], value)


def outcome_of(o):
    return tuple(o.get(name) for name in ("k", "at", "ms", "c", "fa"))


class History:
    def __init__(self, servers, database, wrong):
        self.servers, self.db, self.wrong = servers, database, wrong
        self.last, self.changes = None, 0
        self.documents = {"photos": {}, "items": {}}
        self.settled = {}  # for each photo, the outcomes that its task was settled with
        self.planned = {}  # for each (batch, item), the _id of the item's document
        # for each photo, the claims as [(ms, worker)], and the ends of claims in the same form
        self.claims, self.back = {}, {}

    def read(self):
        """Reads and checks the changes since the last call. Raises OSError if the server is down;
        then the next call reads these changes.
        """
        query = {"ns": {"$in": [f"{self.db}.photos", f"{self.db}.items", "admin.$cmd"]}}
        if self.last is not None:
            query["ts"] = {"$gt": self.last}
        rows = self.servers.wire.find("local", "oplog.rs", query, projection={"ts": 1, "op": 1, "ns": 1, "o": 1, "o2": 1, "wall": 1})
        for row in rows:
            self.last = row["ts"]
            self.apply(row, row["wall"])

    def apply(self, row, wall):
        if row["op"] == "c":
            for inner in row["o"].get("applyOps", []):
                self.apply(inner, wall)
            return
        name = row["ns"].partition(".")[2]
        if row["op"] not in "iud" or name not in self.documents:
            return
        self.changes += 1
        documents, key = self.documents[name], (row["o2"] if row["op"] == "u" else row["o"])["_id"]
        before = documents.get(key)
        if row["op"] == "d":
            documents.pop(key, None)
            return
        after = row["o"]
        if "diff" in after:
            after = copy.deepcopy(before) if before is not None else {}
            patch(after, row["o"]["diff"])
        documents[key] = after
        (self.photo if name == "photos" else self.item)(key, before or {}, after, wall)

    # --- photos ---

    def photo(self, key, before, after, wall):
        old, new = before.get("t", {}), after.get("t", {})
        was, now = old.get("s", 0), new.get("s", 0)
        who = f"photo {key.hex()} of {after.get('c')}"
        if (was, now) in ILLEGAL:
            self.wrong(f"I9, I3: {who}: {STATES[was]} -> {STATES[now]}")
        elif was == now and (old.get("n"), old.get("w")) != (new.get("n"), new.get("w")):
            by = f" by {old.get('w')}, and then by {new.get('w')}" if was == 2 else ", and was changed by a worker that had lost it"
            self.wrong(f"I3: {who}: {STATES[was]}{by}")
        if now == 2 and was != 2:
            self.claims.setdefault(key, []).append((wall, new.get("w")))
            if after.get("e") != before.get("e", 0) + 1:
                self.wrong(f"I3: {who}: claimed without a new epoch")
        if was == 2 and now != 2:
            self.back.setdefault(key, []).append((wall, old.get("w")))
            if new.get("l", 0) > old.get("l", 0) and wall < old["lu"] - SLACK_MS:
                self.wrong(f"I3: {who}: lost {old['lu'] - wall} ms before the end of its lease")
        if now == 3 and was != 3:
            self.settled.setdefault(key, set()).add(outcome_of(new["x"]))
            attempt, claimed = new["x"].get("at", 0), old.get("at", 0)
            if was == 2 and attempt != claimed and not (attempt == claimed - 1 and not new["x"].get("ms")):
                self.wrong(f"I3: {who}: the outcome of attempt {attempt} while attempt {claimed} was in flight")

    # --- items ---

    def item(self, key, before, after, _wall):
        if not before:
            name = (after.get("b"), after.get("i"))
            if self.planned.setdefault(name, key) != key:
                self.wrong(f"I2: item {after.get('i')} of batch {after.get('b')} is {self.planned[name]} and {key}")
            return
        if "b" not in after:  # the retention has removed the item
            return
        if before.get("s") and after.get("s") != before.get("s"):
            self.wrong(f"I2: {key} had ended with {before['s']} and ends with {after.get('s')}")
        for old, new in zip(before.get("ph", []), after.get("ph", [])):
            if "o" in old and old["o"] != new.get("o"):
                self.wrong(f"I2: {key}: outcome {old['o']} became {new.get('o')}")
            if "o" not in old and "o" in new and new["o"]["k"] != CANCELLED and \
                    outcome_of(new["o"]) not in self.settled.get(new["k"], ()):
                self.wrong(f"I3: {key}: {new['o']} is no outcome that {new['k'].hex()} was settled with")

    # --- for measurements ---

    def claimed_again(self, worker_part, died_ms):
        """Returns, for the tasks that a worker held when it died, [(client, ms until the claim was
        released, ms until the task was claimed again, or None)].
        """
        rows = []
        for key, claims in self.claims.items():
            held = [ms for ms, worker in claims if worker_part in worker and ms <= died_ms]
            ends = [ms for ms, worker in self.back.get(key, []) if worker_part in worker and ms > died_ms]
            if not held or not ends:
                continue
            again = [ms for ms, _ in claims if ms >= ends[0]]
            rows.append((self.documents["photos"][key]["c"], ends[0] - died_ms, again[0] - died_ms if again else None))
        return rows
