"""honest.py: the callers whose service must not suffer: an import service, a consumer and a health
check. Run as a program of its own, so that the attackers' work does not delay its clock.

  honest.py PORT KEY ORIGIN_PORT FILE [--photos N] [--clients N]

It posts 5 batches a second, reads them in all ways, and asks /healthz on new connections, until its
standard input ends. Each finished request is a line of FILE: MOMENT KIND MS STATUS, where STATUS is
0 for a connection that failed. An import service goes on where it left: photos of a client are the
same --photos again and again, and each tenth batch has one of 50 Idempotency-Keys, which repeat.
"""
import argparse
import asyncio
import contextlib
import os
import sys
import time

from wire import Caller

BATCHES = 5        # a second
ITEMS = 10         # of a batch, with two photos each
LATE = asyncio.TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError


class Honest:
    def __init__(self, args):
        self.args = args
        self.out = open(args.file, "w", encoding="ascii", buffering=1)
        self.idle = {}  # kind -> callers without a request in flight
        self.batches, self.photos = [], []
        self.n = 0

    async def ask(self, kind, method, target, body=None, headers=(), fresh=False):
        """Sends a request on a kept connection (or a new one), and notes how long it took."""
        pool = self.idle.setdefault(kind, [])
        caller = pool.pop() if pool and not fresh else Caller(self.args.port, self.args.key if kind != "health" else None)
        begin, answer = time.monotonic(), None
        with contextlib.suppress(*LATE):
            answer = await caller.ask(method, target, body, headers)
        ms = 1000 * (time.monotonic() - begin)
        self.out.write(f"{time.time():.3f} {kind} {ms:.2f} {answer.status if answer else 0}\n")
        if fresh:
            caller.close()
        else:
            pool.append(caller)
        return answer

    async def post(self):
        a, n = self.args, self.n
        self.n += 1
        client, first = f"h{n % a.clients}", n // a.clients * ITEMS
        urls = [f"http://shop{n % a.clients}.example:{a.origin}/c/h/{(2 * first + i) % a.photos}.jpg?bytes=20000" for i in range(2 * ITEMS)]
        items = [{"id": f"i{(first + i) % (a.photos // 2)}", "photos": urls[2 * i:2 * i + 2]} for i in range(ITEMS)]
        keyed = n % 10 == 0
        body = {"client": "h0", "items": items[:1]} if keyed else {"client": client, "refresh": "always", "items": items}
        if keyed:  # a repeated key has the same body
            body["items"] = [{"id": f"k{n // 10 % 50}", "photos": []}]
        answer = await self.ask("post", "POST", "/v1/batches", body, [f"Idempotency-Key: k{n // 10 % 50}"] if keyed else ())
        if answer and answer.status == 202 and not keyed:
            self.batches = [*self.batches[-50:], answer.json["batch_id"]]

    async def read(self):
        if not self.batches:
            return
        batch = self.batches[0]
        await self.ask("get", "GET", f"/v1/batches/{batch}")
        answer = await self.ask("get", "GET", f"/v1/batches/{batch}/results?limit=20")
        if answer and answer.status == 200:
            photos = [p["sha256"] for r in answer.json["results"] for p in r["data"]["photos"] if "sha256" in p]
            self.photos = photos or self.photos
        await self.ask("get", "GET", "/v1/batches?limit=10")
        if self.photos:
            await self.ask("get", "GET", f"/v1/photos/{self.photos[0]}")

    async def health(self):
        await self.ask("health", "GET", "/healthz", fresh=True)

    async def every(self, seconds, what):
        """Starts what() at a fixed rate, however long each takes."""
        due, tasks = time.monotonic(), set()
        while True:
            due += seconds
            await asyncio.sleep(max(0, due - time.monotonic()))
            if len(tasks) < 50:  # the rest of the rate is lost: the server stands still
                task = asyncio.create_task(what())
                tasks.add(task)
                task.add_done_callback(tasks.discard)

    async def run(self):
        work = [asyncio.create_task(self.every(*row)) for row in ((1 / BATCHES, self.post), (0.1, self.read), (0.1, self.health))]
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, sys.stdin.read)
        for task in work:
            task.cancel()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("key")
    parser.add_argument("origin", type=int)
    parser.add_argument("file")
    parser.add_argument("--photos", type=int, default=2000, help="different photos of a client (2000)")
    parser.add_argument("--clients", type=int, default=4)
    with contextlib.suppress(OSError):
        os.nice(-10)  # the measurement must not wait for the attackers' program
    asyncio.run(Honest(parser.parse_args()).run())
    os._exit(0)  # does not wait for connections


if __name__ == "__main__":
    main()
