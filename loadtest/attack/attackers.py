"""attackers.py: attackers of every kind, each as strong as one machine with a few addresses. Run as a
program of its own.

  attackers.py PORT ORIGIN_PORT [--only KIND,KIND] [--list]

Prints a JSON object of counts by kind when its standard input ends. Each kind has two keys
(server.py): a reader's, and a sender's, which may submit and belongs to one client. To add a kind,
write a coroutine function with the decorator @kind; its document says what it tries.
"""
import argparse
import asyncio
import collections
import contextlib
import gzip
import json
import os
import random
import sys

from wire import Caller, connect, head, read_answer

READER, SENDER = "attack-reader", "attack-sender"
BOMB = gzip.compress(b"\0" * (32 << 20), 9)  # 32 KiB on the wire
JSON = "Content-Type: application/json"
FAILURES = OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError
KINDS = {}


def kind(function):
    KINDS[function.__name__] = function
    return function


class Attack:
    def __init__(self, port, origin, name):
        self.port, self.origin, self.name = port, origin, name
        self.random = random.Random(name)
        # keys of its own, so that the limits that one kind meets do not stop another
        self.reader, self.sender = f"{READER}-{name}", f"{SENDER}-{name}"
        self.counts = collections.Counter()
        self.address = 2 + list(KINDS).index(name)

    def source(self):
        """Returns one of the attacker's four addresses."""
        return f"127.0.{self.address}.{self.random.randint(1, 4)}"

    async def once(self, data, key=None, read=True, timeout=10):
        """Sends `data` on a new connection, and counts the answer's status."""
        reader, writer = await connect(self.port, self.source())
        try:
            writer.write(data)
            if read:
                answer = await asyncio.wait_for(read_answer(reader), timeout)
                self.counts[str(answer.status)] += 1
                return answer
        finally:
            writer.close()

    async def repeat(self, rate, what, at_once=200):
        """Starts what() at once, and then `rate` times a second."""
        tasks = set()
        while True:
            if len(tasks) < at_once:
                task = asyncio.create_task(self.guard(what))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await asyncio.sleep(1 / rate)

    async def hold(self, n, what):
        """Keeps n connections busy: what() again and again on each."""
        async def again():
            while True:
                await self.guard(what)
                await asyncio.sleep(self.random.uniform(0.2, 1))
        await asyncio.gather(*(again() for _ in range(n)))

    async def guard(self, what):
        self.counts["tries"] += 1
        try:
            await what()
        except FAILURES as e:
            self.counts[type(e).__name__] += 1


def batch_head(length, *headers, key=None):
    return head("POST", "/v1/batches", key, (JSON, *headers), length)


@kind
async def gzip_stranger(a):
    """32 KiB of gzip that are 32 MiB, without a key."""
    await a.repeat(20, lambda: a.once(batch_head(len(BOMB), "Content-Encoding: gzip") + BOMB))


@kind
async def gzip_sender(a):
    """The same with a key."""
    await a.repeat(1, lambda: a.once(batch_head(len(BOMB), "Content-Encoding: gzip", key=a.sender) + BOMB))


@kind
async def slow_body(a):
    """Bodies that never end, more than one key may send: half of them without a key."""
    async def drip():
        key = a.random.choice([None, a.sender])
        reader, writer = await connect(a.port, a.source())
        try:
            writer.write(batch_head(30_000_000, key=key) + b" " * 4096)
            while not reader.at_eof() and not writer.is_closing():
                writer.write(b" " * 1024)
                await asyncio.sleep(1)
                a.counts["bytes"] += 1024
                if reader._buffer:  # the answer has come
                    break
        finally:
            writer.close()
    await a.hold(400, drip)


@kind
async def slow_reader(a):
    """Large photos and pages of results, read at 5 KB/s each."""
    async def read():
        photo = a.shared["photo"]
        target = f"/v1/photos/{photo}" if a.random.random() < 0.5 else f"/v1/batches/{a.shared['batch']}/results?limit=1000"
        reader, writer = await connect(a.port, a.source(), receive=4096)
        try:
            writer.write(head("GET", target, a.reader))
            while await reader.read(5000):
                a.counts["reads"] += 1
                await asyncio.sleep(1)
        finally:
            writer.close()
    await a.hold(100, read)


@kind
async def idle(a):
    """Connections that say nothing, or only now and then."""
    async def stay():
        reader, writer = await connect(a.port, a.source())
        try:
            if a.random.random() < 0.5:
                writer.write(head("GET", "/healthz"))
            while await reader.read(65536):
                await asyncio.sleep(30)
                writer.write(head("GET", "/healthz"))
        finally:
            writer.close()
    await a.hold(800, stay)


@kind
async def long_poll(a):
    """Long-polls that take every place."""
    target = "/v1/events?key=results:nobody&wait=60"
    await a.hold(600, lambda: a.once(head("GET", target, a.reader), timeout=90))


@kind
async def streams(a):
    """Event streams that take every place, and never read."""
    async def stream():
        reader, writer = await connect(a.port, a.source(), receive=4096)
        try:
            writer.write(head("GET", "/v1/events?key=results", a.reader, ["Accept: text/event-stream"]))
            while await reader.read(100):
                await asyncio.sleep(20)
        finally:
            writer.close()
    await a.hold(400, stream)


@kind
async def reconnect(a):
    """Connections that come and go: some at once, some within a head."""
    async def storm():
        reader, writer = await connect(a.port, a.source())
        with contextlib.suppress(OSError):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"[:a.random.randint(0, 40)])
            if a.random.random() < 0.3:
                await asyncio.sleep(0.1)
        writer.transport.abort()
    await a.repeat(200, storm)


@kind
async def wrong_key(a):
    """A flood of wrong keys."""
    await a.repeat(200, lambda: a.once(head("GET", "/v1/batches", f"guess-{a.random.random()}")))


@kind
async def flood(a):
    """A flood of requests with a key, on kept connections."""
    callers = [Caller(a.port, a.reader, a.source()) for _ in range(8)]

    async def ask():
        caller = callers.pop() if callers else None
        if caller:
            try:
                a.counts[str((await caller.ask("GET", "/v1/batches?limit=1")).status)] += 1
            finally:
                callers.append(caller)
    await a.repeat(300, ask)


@kind
async def replay(a):
    """Replays of a batch in which everything has failed."""
    target, body = f"/v1/batches/{a.shared['failed']}/replay", b"{}"
    await a.repeat(5, lambda: a.once(head("POST", target, a.sender, (JSON,), len(body)) + body))


@kind
async def host_names(a):
    """Many photos whose host names were made to collide in a hash table; the same ones each time."""
    names = [f"127.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in range(1, 4001)]

    async def post():
        items = [{"id": f"x{i}", "photos": [f"http://{name}:{a.origin}/" for name in names[i * 50:(i + 1) * 50]]} for i in range(80)]
        body = json.dumps({"client": "attacker", "items": items}).encode()
        await a.once(batch_head(len(body), key=a.sender) + body)
    await a.repeat(0.2, post)


@kind
async def rejected(a):
    """Small batches with thousands of wrong lines, and an Idempotency-Key each."""
    line = b"[\n" * 9000 + b'{"id": "one", "photos": []}\n'
    data = gzip.compress(line, 9)

    async def post():
        headers = ["Content-Type: application/x-ndjson", "Content-Encoding: gzip", f"Idempotency-Key: r{a.random.randrange(200)}"]
        await a.once(head("POST", "/v1/batches?client=attacker", a.sender, headers, len(data)) + data)
    await a.repeat(1, post)


async def setup(port, origin):
    """Prepares what the attackers use: a large photo, a batch with many results, a failed batch."""
    caller = Caller(port, SENDER)

    async def post(items):
        answer = await caller.ask("POST", "/v1/batches", {"client": "attacker", "items": items})
        return answer.json["batch_id"]
    large = f"http://big.example:{origin}/c/big/1.jpg?bytes=30000000"
    batch = await post([{"id": "big", "photos": [large]}] + [{"id": f"e{i}", "photos": ["http://127.0.0.1/"] * 10} for i in range(2000)])
    failed = await post([{"id": f"f{i}", "photos": ["http://127.0.0.1/"] * 20} for i in range(2000)])
    reader = Caller(port, READER)
    for _ in range(60):
        state = await reader.ask("GET", f"/v1/batches/{failed}")
        item = await reader.ask("GET", "/v1/items/attacker/big")
        if state.json.get("state") == "finished" and "data" in item.json:
            photo = item.json["data"]["photos"][0]
            return {"batch": batch, "failed": failed, "photo": photo.get("sha256", "0" * 64)}
        await asyncio.sleep(1)
    sys.exit("attackers.py: the attackers' own batches were not finished within 60 s")


async def run(args, kinds):
    shared = await setup(args.port, args.origin)
    attacks, tasks = [], []
    for name in kinds:
        attack = Attack(args.port, args.origin, name)
        attack.shared = shared
        attacks.append(attack)
        tasks.append(asyncio.create_task(KINDS[name](attack)))
    while not all(a.counts["tries"] for a in attacks) and not any(t.done() for t in tasks):
        await asyncio.sleep(0.01)
    print("ready", flush=True)  # each kind has begun
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for task in tasks:
        if task.done() and task.exception():
            print(f"attackers.py: {task.exception()!r}", file=sys.stderr)
    print(json.dumps({a.name: dict(a.counts) for a in attacks}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("origin", type=int)
    parser.add_argument("--only", default=",".join(KINDS), help="kinds of attackers")
    parser.add_argument("--list", action="store_true")
    if "--list" in sys.argv:
        print("\n".join(f"{name:<14} {f.__doc__}" for name, f in KINDS.items()))
        return
    args = parser.parse_args()
    os.nice(10)  # the attackers have one machine with photopool, but should not take its processors
    asyncio.run(run(args, args.only.split(",")))


if __name__ == "__main__":
    main()
