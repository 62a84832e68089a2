#!/usr/bin/env python3
"""mongo_wire.py: a client for as much of MongoDB's wire protocol as tests need. It uses the
standard library only, neither mongosh nor a driver.

    from mongo_wire import Mongo
    mongo = Mongo("mongodb://127.0.0.1:27017/?replicaSet=rs0")      # or Mongo("127.0.0.1:27017")
    mongo.primary().run("photopool", {"count": "tasks"})             # a dict, or raises MongoError
    mongo.count("photopool", "tasks", {"state": "ready"})
    mongo.find("photopool", "tasks", {"client": "42"}, sort={"due": 1}, limit=10)
    mongo.explain("photopool", {"find": "tasks", "filter": {...}})   # stages() reads the answer
    mongo.step_down(seconds=2)
    with mongo.fail_command(["update"], times=3, errorCode=91): ...  # needs enableTestCommands, which
                                                                     # tests/support/mongod sets

From a shell: mongo_wire.py URL COMMAND; --help lists the commands. A Mongo keeps one connection
per server; use it on one thread.

BSON to Python: a document becomes a dict in order, an array a list, int32 and int64 an int, a date
Date(ms), an id ObjectId, binary data bytes (subtype 0) or Binary, anything else Other(type, raw).
Python to BSON: an int becomes int32 if it fits, Long(n) always int64. Wire format: OP_MSG (opcode
2013) with one section of kind 0, of the MongoDB wire protocol; BSON as of bsonspec.org 1.1.
"""
import argparse
import contextlib
import itertools
import json
import re
import socket
import struct
import sys
import time

OP_MSG = 2013
REPLY_MAX = 48 * 1000 * 1000 + 16384


class MongoError(Exception):
    """The server has answered with an error."""

    def __init__(self, reply):
        errors = reply.get("writeErrors") or ([reply["writeConcernError"]] if reply.get("writeConcernError") else [])
        first = errors[0] if errors else reply
        self.reply, self.code, self.name = reply, first.get("code"), first.get("codeName", "")
        super().__init__(f"{self.name or self.code}: {first.get('errmsg', reply)}")


class Long(int):
    """An int that is always encoded as int64."""


class Date(int):
    """A BSON date: milliseconds since 1970."""


class ObjectId(bytes):
    """A BSON ObjectId: 12 bytes."""

    def __repr__(self):
        return f"ObjectId({self.hex()})"


class Binary(bytes):
    """BSON binary data of a subtype other than 0."""

    subtype = 0


class Timestamp(int):
    """A BSON timestamp: (seconds << 32) + counter."""


class Regex(str):
    """A BSON regular expression without options."""


class Other(tuple):
    """A BSON value of a rare type: (type, raw bytes)."""


# --- BSON ---

def _encode_value(v):
    """Returns (BSON type, bytes). The order of the checks matters: bool and Date are ints, too."""
    if v is None:
        return 0x0A, b""
    if isinstance(v, bool):
        return 0x08, bytes([v])
    if isinstance(v, float):
        return 0x01, struct.pack("<d", v)
    if isinstance(v, Date):
        return 0x09, struct.pack("<q", v)
    if isinstance(v, Timestamp):
        return 0x11, struct.pack("<Q", v)
    if isinstance(v, int):
        if isinstance(v, Long) or not -(1 << 31) <= v < 1 << 31:
            return 0x12, struct.pack("<q", v)
        return 0x10, struct.pack("<i", v)
    if isinstance(v, Regex):
        return 0x0B, v.encode() + b"\0\0"
    if isinstance(v, str):
        raw = v.encode() + b"\0"
        return 0x02, struct.pack("<i", len(raw)) + raw
    if isinstance(v, dict):
        return 0x03, encode(v)
    if isinstance(v, Other):
        return v[0], v[1]
    if isinstance(v, (list, tuple)):
        return 0x04, encode({str(i): x for i, x in enumerate(v)})
    if isinstance(v, ObjectId):
        return 0x07, bytes(v)
    if isinstance(v, (bytes, bytearray)):
        return 0x05, struct.pack("<iB", len(v), getattr(v, "subtype", 0)) + bytes(v)
    raise TypeError(f"{type(v).__name__} has no BSON type here")


def encode(document):
    body = bytearray()
    for name, value in document.items():
        kind, raw = _encode_value(value)
        body += bytes([kind]) + name.encode() + b"\0" + raw
    return struct.pack("<i", len(body) + 5) + bytes(body) + b"\0"


_FIXED = {0x01: ("<d", float), 0x09: ("<q", Date), 0x10: ("<i", int), 0x11: ("<Q", Timestamp), 0x12: ("<q", int)}
# the types without content: undefined, null, max key, min key
_EMPTY = {0x06: b"", 0x0A: b"", 0x7F: b"", 0xFF: b""}


def _decode_value(kind, raw, at):
    """Returns (value, offset of the next element)."""
    if kind in _FIXED:
        pattern, make = _FIXED[kind]
        return make(struct.unpack_from(pattern, raw, at)[0]), at + struct.calcsize(pattern)
    if kind == 0x0A:
        return None, at
    if kind in _EMPTY:
        return Other((kind, b"")), at
    if kind == 0x08:
        return bool(raw[at]), at + 1
    if kind == 0x07:
        return ObjectId(raw[at:at + 12]), at + 12
    if kind == 0x0B:
        end = raw.index(0, raw.index(0, at) + 1) + 1
        return Regex(raw[at:raw.index(0, at)].decode()), end
    if kind == 0x13:
        return Other((kind, bytes(raw[at:at + 16]))), at + 16
    size = struct.unpack_from("<i", raw, at)[0]
    if kind in (0x03, 0x04):
        inner = decode(raw[at:at + size])
        return (inner if kind == 0x03 else list(inner.values())), at + size
    if kind == 0x02:
        return bytes(raw[at + 4:at + 3 + size]).decode(), at + 4 + size
    if kind == 0x05:
        value = bytes(raw[at + 5:at + 5 + size])
        if raw[at + 4]:
            value = Binary(value)
            value.subtype = raw[at + 4]
        return value, at + 5 + size
    raise ValueError(f"BSON type {kind:#x} is not known here")


def decode(raw):
    size = struct.unpack_from("<i", raw)[0]
    if size > len(raw):
        raise ValueError("a BSON document is cut off")
    document, at = {}, 4
    while raw[at]:
        kind, end = raw[at], raw.index(0, at + 1)
        name = bytes(raw[at + 1:end]).decode()
        document[name], at = _decode_value(kind, raw, end + 1)
    return document


# --- one server ---

class Server:
    """A connection to one mongod. It opens at the first command, and again at the first command
    after an error; a command raises OSError if that fails.
    """

    numbers = itertools.count(1)

    def __init__(self, address, timeout=30):
        host, _, port = address.rpartition(":")
        self.address, self.host, self.port, self.timeout = address, host.strip("[]"), int(port), timeout
        self.socket = None

    def close(self):
        if self.socket:
            self.socket.close()
            self.socket = None

    def _read(self, n):
        parts = []
        while n:
            part = self.socket.recv(min(n, 1 << 20))
            if not part:
                raise ConnectionError("the server closed the connection")
            parts.append(part)
            n -= len(part)
        return b"".join(parts)

    def _exchange(self, document, timeout):
        if not self.socket:
            self.socket = socket.create_connection((self.host, self.port), timeout=timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(timeout)
        body = struct.pack("<IB", 0, 0) + encode(document)
        self.socket.sendall(struct.pack("<iiii", len(body) + 16, next(self.numbers), 0, OP_MSG) + body)
        size, _, _, opcode = struct.unpack("<iiii", self._read(16))
        if opcode != OP_MSG or not 26 <= size <= REPLY_MAX:
            raise ConnectionError(f"no OP_MSG: opcode {opcode}, {size} bytes")
        return decode(self._read(size - 16)[5:])  # skips the flags and the section's kind

    def run(self, db, document, check=True, timeout=None):
        """Sends a command once and returns the reply. Raises MongoError if the reply has an error,
        unless check is False.
        """
        try:
            reply = self._exchange({**document, "$db": db}, timeout or self.timeout)
        except Exception:
            self.close()
            raise
        if check and (not reply.get("ok") or reply.get("writeErrors") or reply.get("writeConcernError")):
            raise MongoError(reply)
        return reply

    def admin(self, name, value=1, **more):
        return self.run("admin", {name: value, **more})

    def hello(self, timeout=None):
        return self.run("admin", {"hello": 1}, timeout=timeout)

    def shutdown(self, force=True):
        """Makes the server shut down. The server answers by closing the connection."""
        with contextlib.suppress(OSError):
            self.admin("shutdown", force=force, timeoutSecs=0)
        self.close()


# --- the replica set ---

def addresses_of(url):
    """Returns HOST:PORT of each member that a URL names."""
    m = re.fullmatch(r"(?:mongodb://)?(?:[^@/]*@)?([^/?]+).*", url)
    if not m or url.startswith("mongodb+srv:"):
        raise ValueError(f"no mongodb://HOST:PORT,...: {url}")
    return [a if re.search(r":\d+$", a) else a + ":27017" for a in m.group(1).split(",")]


class Mongo:
    """A client for a replica set or one server, as tests use it. Commands go to the primary."""

    def __init__(self, url, timeout=30):
        self.servers = [Server(a, timeout) for a in addresses_of(url)]

    def close(self):
        for server in self.servers:
            server.close()

    def primary_now(self, timeout=2):
        """Returns the primary, or None. Each member has `timeout` seconds to answer."""
        for server in self.servers:
            try:
                if server.hello(timeout).get("isWritablePrimary"):
                    return server
            except (OSError, MongoError):
                continue
        return None

    def primary(self, wait=30):
        """Returns the primary. Waits up to `wait` seconds for an election, then raises TimeoutError."""
        end = time.monotonic() + wait
        while True:
            server = self.primary_now()
            if server:
                return server
            if time.monotonic() > end:
                raise TimeoutError(f"no primary within {wait} s")
            time.sleep(0.05)

    def run(self, db, document):
        return self.primary().run(db, document)

    # --- reading ---

    def _cursor(self, db, document):
        server = self.primary()
        reply = server.run(db, document)
        rows = reply["cursor"]["firstBatch"]
        while reply["cursor"]["id"]:
            reply = server.run(db, {"getMore": Long(reply["cursor"]["id"]), "collection": reply["cursor"]["ns"].split(".", 1)[1]})
            rows += reply["cursor"]["nextBatch"]
        return rows

    def find(self, db, collection, query=None, **more):
        """Returns all matching documents. `more` are further arguments of the command `find`: sort,
        projection, limit, hint...
        """
        return self._cursor(db, {"find": collection, "filter": query or {}, **more})

    def aggregate(self, db, collection, pipeline):
        return self._cursor(db, {"aggregate": collection, "pipeline": pipeline, "cursor": {}})

    def count(self, db, collection, query=None):
        """Counts the matching documents exactly: the collection's metadata may be wrong."""
        rows = self.aggregate(db, collection, [{"$match": query or {}}, {"$count": "n"}])
        return rows[0]["n"] if rows else 0

    def collections(self, db):
        return sorted(row["name"] for row in self._cursor(db, {"listCollections": 1, "nameOnly": True}))

    def indexes(self, db, collection):
        return {row["name"]: row["key"] for row in self._cursor(db, {"listIndexes": collection})}

    def explain(self, db, command, verbosity="executionStats"):
        return self.run(db, {"explain": command, "verbosity": verbosity})

    def drop(self, db):
        self.run(db, {"dropDatabase": 1})

    # --- faults ---

    def step_down(self, seconds=1, force=True):
        """The primary steps down, and can't be elected again for `seconds`. Returns the former primary."""
        server = self.primary()
        # some versions of MongoDB close the connection instead of answering
        with contextlib.suppress(OSError):
            server.run("admin", {"replSetStepDown": seconds, "secondaryCatchUpPeriodSecs": 0, "force": force})
        return server.address

    def fail_point(self, name, mode, data=None, members=None):
        """Sets a fail point on all members that answer. mode: "alwaysOn", "off", {"times": n},
        {"skip": n} or {"activationProbability": p}.
        """
        for server in members or self.servers:
            server.run("admin", {"configureFailPoint": name, "mode": mode, "data": data or {}})

    @contextlib.contextmanager
    def fail_command(self, commands, times=None, probability=None, **data):
        """Makes these commands fail while the block runs. data: errorCode=, closeConnection=True,
        blockConnection=True with blockTimeMS=, or writeConcernError={...} (answered after the
        write was done); appName= restricts it to one client.
        """
        self.fail_on(commands, times, probability, **data)
        try:
            yield
        finally:
            self.fail_off()

    def fail_on(self, commands, times=None, probability=None, **data):
        mode = {"times": times} if times else {"activationProbability": probability} if probability else "alwaysOn"
        self.fail_point("failCommand", mode, {"failCommands": list(commands), **data})

    def fail_off(self):
        for server in self.servers:
            with contextlib.suppress(OSError):
                self.fail_point("failCommand", "off", members=[server])

    def shutdown(self):
        for server in self.servers:
            server.shutdown()


def stages(explained):
    """Returns the names of all stages in the winning plans of an answer of explain(), such as
    {"IXSCAN", "FETCH"}.
    """
    found = set()

    def walk(x, key=""):
        if isinstance(x, dict):
            if "stage" in x:
                found.add(x["stage"])
            for k, v in x.items():
                if k != "rejectedPlans":
                    walk(v, k)
            found.update(k for k in x if key in ("stages", "") and k.startswith("$"))
        elif isinstance(x, list):
            for v in x:
                walk(v, key)

    walk(explained)
    return found


def readable(value):
    """Converts a decoded BSON value into one that json.dumps() accepts."""
    if isinstance(value, dict):
        return {k: readable(v) for k, v in value.items()}
    if isinstance(value, Other):
        return f"BSON type {value[0]:#x}"
    if isinstance(value, list):
        return [readable(v) for v in value]
    return value.hex() if isinstance(value, bytes) else value


def main():
    parser = argparse.ArgumentParser(
        description="Commands to a MongoDB, for tests.", formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""commands:
  hello                         the server's description, as JSON
  primary                       waits until there is one; its host:port
  run DB JSON                   any command, on the primary
  count DB COLLECTION [JSON]    the number of matches
  find DB COLLECTION [JSON]     the matches, one JSON document per line
  explain DB JSON               of a find, update... command
  stepdown [SECONDS]            the primary steps down (1)
  fail JSON                     fail point failCommand: {"mode": {"times": 2}, "data": {"failCommands": ["update"], "errorCode": 91}}
  fail-off                      no more failures
  shutdown                      ends all members""")
    parser.add_argument("url")
    parser.add_argument("command")
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args()
    mongo, rest = Mongo(args.url), args.arguments

    def show(x):
        print(json.dumps(readable(x)))

    def fail(text):
        point = json.loads(text)
        mongo.fail_point("failCommand", point.get("mode", "alwaysOn"), point.get("data"))

    def find(db, collection, query="{}"):
        for row in mongo.find(db, collection, json.loads(query)):
            show(row)

    commands = {
        "hello": lambda: show(mongo.servers[0].hello()),
        "primary": lambda: print(mongo.primary().address),
        "run": lambda db, text: show(mongo.run(db, json.loads(text))),
        "count": lambda db, collection, query="{}": print(mongo.count(db, collection, json.loads(query))),
        "find": find,
        "explain": lambda db, text: show(mongo.explain(db, json.loads(text))),
        "stepdown": lambda seconds="1": print(mongo.step_down(int(seconds))),
        "fail": fail,
        "fail-off": mongo.fail_off,
        "shutdown": mongo.shutdown,
    }
    if args.command not in commands:
        parser.error(f"no such command: {args.command}")
    try:
        commands[args.command](*rest)
    except (OSError, MongoError, TypeError, ValueError) as e:
        sys.exit(f"mongo_wire: {args.command}: {e}")


if __name__ == "__main__":
    main()
