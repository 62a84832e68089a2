#!/usr/bin/env python3
# scenario: build=release timeout=180
"""Many subscribers. 50 of each kind that never read must cost bounded memory, delay nobody and be
able to resume; 10,000 on one key must get each event exactly once and leave no memory behind;
photopool must refuse more than events.max_subscribers with Retry-After.
"""
import json
import resource
import selectors
import socket
import struct
import threading

from harness import SLOW, Pool, Skipped, check, same, scenario, time, wait_until
from streams import Raw, finish, handshake, poll_all

SILENT = 50  # subscribers that never read, of each kind
EVENTS = 8000  # number of events, each of more than 1 KiB
GROWTH = 64 * 1024  # most growth of the server's memory, in KiB
NOTE = {"note": "x" * 900}

MANY = 10000
ADDRESSES = 50
ROUNDS = 20
CROWDS = 4  # the most crowds that come and go, one after the other


def subscribers(pool):
    return int(pool.metric("photopool_subscribers"))


class Reader(threading.Thread):
    """A thread that reads a stream of Server-Sent Events as fast as it arrives and keeps the numbers."""

    def __init__(self, pool, query):
        super().__init__(daemon=True)
        self.raw, self.seqs = Raw(pool, query, sse=True), []
        self.start()

    def run(self):
        try:
            while True:
                self.seqs.append(self.raw.event()[1])
        except (OSError, ValueError):  # the stream has ended, or the test has closed it
            pass


def never_read(case):
    pool = Pool(case, config={"clients.rpm": None}).start()
    finish(pool, "42", EVENTS // 4, NOTE)  # allocates the memory for making events before the measurement
    start = poll_all(pool, "key=results", EVENTS // 4)[-1]["seq"]
    silent = []
    for n in range(SILENT):
        for headers in ({"Accept": "text/event-stream"}, handshake()):
            silent.append(Raw(pool, "key=results", headers, receive=2048, source=f"127.0.0.{2 + n % 5}", read=False))
    readers = [Reader(pool, "key=results"), Reader(pool, "key=results:42")]
    wait_until(lambda: subscribers(pool) == 2 * SILENT + 2, 20, lambda: f"subscribers: {subscribers(pool)}")
    before = most = pool.memory_kb("VmRSS")
    for _ in range(EVENTS // 500):
        finish(pool, "42", 500, NOTE)
        most = max(most, pool.memory_kb("VmRSS"))

    def all_there():
        nonlocal most
        most = max(most, pool.memory_kb("VmRSS"))
        return all(len(r.seqs) >= EVENTS for r in readers)
    wait_until(all_there, 60, lambda: f"events of the readers: {[len(r.seqs) for r in readers]}")
    due = [e["seq"] for e in poll_all(pool, "key=results", EVENTS, after=start)]
    for r in readers:
        check(r.seqs == due, f"a reader got {len(r.seqs)} numbers, {r.seqs[:1]} to {r.seqs[-1:]}: due are {len(due)}, {due[:1]} to {due[-1:]}")
    print(f"{2 * SILENT} silent subscribers, {EVENTS} events: {before} KiB before, {most} KiB at most; {subscribers(pool)} subscribers left", flush=True)
    check(most - before < GROWTH, f"{before} KiB before, {most} KiB at most")
    # A silent subscriber starts to read. It must get its events, or, if the server has closed its
    # connection, resume after the last event that it read.
    for raw in silent[:2]:
        raw.close()
    sse = silent[2]
    got = []
    try:
        sse.read_head()
        got = [e["seq"] for e in sse.events(5)]
    except OSError:  # on a slow machine the server has closed the connection already
        print("the silent one was cut off", flush=True)
    same(got, due[:len(got)], "events that waited for a silent subscriber")
    sse.close()
    again = Raw(pool, f"key=results&after={got[-1] if got else start}", sse=True)
    check([e["seq"] for e in again.events(EVENTS - len(got))] == due[len(got):], "it resumes")
    again.close()
    for raw in silent[3:] + [r.raw for r in readers]:
        raw.s.shutdown(socket.SHUT_RDWR)
        raw.s.close()
    wait_until(lambda: subscribers(pool) == 0, 20, lambda: f"subscribers: {subscribers(pool)}")
    pool.stop()


class Crowd:
    """Many subscribers of one key by Server-Sent Events, all read by the caller's thread."""

    def __init__(self, pool, n):
        self.selector = selectors.DefaultSelector()
        self.left, self.ids = {}, {}
        request = f"GET /v1/events?key=results:42 HTTP/1.1\r\nHost: 127.0.0.1:{pool.port}\r\nAccept: text/event-stream\r\n\r\n".encode()
        for i in range(n):
            s = socket.socket()
            # IP_BIND_ADDRESS_NO_PORT: the kernel may use a port again for another peer
            s.setsockopt(socket.IPPROTO_IP, 24, 1)
            s.settimeout(20 * SLOW)
            s.bind((f"127.0.0.{2 + i % ADDRESSES}", 0))
            s.connect(("127.0.0.1", pool.port))
            s.sendall(request)
            s.setblocking(False)
            self.selector.register(s, selectors.EVENT_READ)
            self.left[s], self.ids[s] = b"", []

    def read(self, seconds):
        for key, _ in self.selector.select(seconds):
            data = key.fileobj.recv(1 << 18)
            check(data, "a subscriber was cut off")
            *lines, self.left[key.fileobj] = (self.left[key.fileobj] + data).split(b"\n")
            self.ids[key.fileobj] += [int(line[4:]) for line in lines if line.startswith(b"id: ")]

    def wait(self, condition, timeout, what):
        end = time.monotonic() + timeout * SLOW
        while not condition():
            check(time.monotonic() < end, f"not within {timeout * SLOW} s: {what}")
            self.read(0.5)

    def close(self):
        for s in self.ids:
            s.close()
        self.selector.close()


def ten_thousand(case):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    n = min(MANY, hard - 1000)
    if n < 100:
        raise Skipped(f"at most {hard} open files are permitted")
    pool = Pool(case).start()
    finish(pool, "42", 1)
    poll_all(pool, "key=results", 1)
    empty = pool.memory_kb("VmRSS")
    # A crowd uses the memory that the allocator has kept of earlier ones, but not all of it: how
    # much depends on chance. What a crowd leaves behind for good makes each of them cost more.
    after = []
    while len(after) < 2 or len(after) < CROWDS and after[-1] > max(after[:-1]) * 1.1 + 2048:
        crowd = Crowd(pool, n)
        wait_until(lambda: subscribers(pool) == n, 60, lambda: f"subscribers: {subscribers(pool)}")
        full = pool.memory_kb("VmRSS")
        before = poll_all(pool, "key=results", 1 + 2 * ROUNDS * len(after))[-1]["seq"]
        for i in range(ROUNDS):
            finish(pool, "43" if i % 2 else "44", 1)  # nobody in the crowd follows these clients
            finish(pool, "42", 1)
        due = [e["seq"] for e in poll_all(pool, "key=results:42", ROUNDS, after=before)]
        crowd.wait(lambda: all(len(got) >= ROUNDS for got in crowd.ids.values()), 60, "all subscribers have all events")
        crowd.read(0)
        wrong = [got for got in crowd.ids.values() if got != due]
        check(not wrong, f"{len(wrong)} have other numbers than {due}: {wrong[:1]}")
        crowd.close()
        wait_until(lambda: subscribers(pool) == 0, 60, lambda: f"subscribers: {subscribers(pool)}")
        after.append(pool.memory_kb("VmRSS"))
        print(f"{n} subscribers: {empty} KiB before, {full} KiB with them, {after[-1]} KiB after", flush=True)
    check(after[-1] <= max(after[:-1]) * 1.1 + 2048, f"KiB after each crowd of {n}: {after}")
    pool.stop()


def gone(case):
    """The caller of a long-poll hangs up: the long-poll must no longer count as a subscriber, nor
    against the caller's address. A caller that only shuts down its sending side must get an
    answer.
    """
    pool = Pool(case).start()
    finish(pool, "42", 3)
    due = poll_all(pool, "key=results", 3)
    for n in (0, 1):  # 0: closes with FIN; 1: closes with RST
        polls = [Raw(pool, "key=results:43&wait=60", read=False) for _ in range(100)]
        wait_until(lambda: subscribers(pool) == 100, 20, lambda: f"subscribers: {subscribers(pool)}")
        for raw in polls:
            raw.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", n, 0))
            raw.close()
        wait_until(lambda: subscribers(pool) == 0, 5, lambda: f"subscribers: {subscribers(pool)}")
    for query, events in (("key=results&after=0&wait=60", due), ("key=results:43&wait=60", [])):
        raw = Raw(pool, query, read=False)
        raw.s.shutdown(socket.SHUT_WR)
        raw.read_head()
        answer = json.loads(raw.file.read(int(raw.headers["content-length"])))
        check(answer["events"] == events and answer["last"] >= due[-1]["seq"], f"{query}, after the caller's FIN: {answer}")
        raw.close()
    pool.stop()


def too_many(case):
    """events.max_subscribers is reached by streams: one more must be refused, and accepted once one
    has left. A long-poll gives its place to a newcomer: it is answered with an empty page.
    """
    pool = Pool(case, config={"events.max_subscribers": 4}).start()
    opened = [Raw(pool, "key=results", handshake() if i == 1 else {}, sse=i != 1) for i in range(4)]
    wait_until(lambda: subscribers(pool) == 4, 20, lambda: f"subscribers: {subscribers(pool)}")
    for headers in ({}, {"Accept": "text/event-stream"}, handshake()):
        raw = Raw(pool, "key=results", headers)
        times = raw.head_lines.count("retry-after")
        same((raw.problem(), times), ((503, "overloaded"), 1), f"one too many, {headers}, and number of Retry-After headers")
        check(1 <= int(raw.headers["retry-after"]) <= 60, f"Retry-After: {raw.headers}")
        raw.close()
    same(pool.get("/v1/batches").status, 200, "all other requests work")
    opened.pop().close()
    wait_until(lambda: subscribers(pool) == 3, 20, lambda: f"subscribers: {subscribers(pool)}")
    waiting = Raw(pool, "key=results&wait=60", read=False)
    wait_until(lambda: subscribers(pool) == 4, 20, lambda: f"subscribers: {subscribers(pool)}")
    again = Raw(pool, "key=results", sse=True)
    same(again.status, 200, "a stream gets the place of the long-poll")
    waiting.read_head()
    same((waiting.status, json.loads(waiting.file.read(int(waiting.headers["content-length"])))["events"]), (200, []), "the long-poll's answer")
    finish(pool, "42", 1)
    same(again.events(1), opened[0].events(1), "a late subscriber gets the same as the others")
    for raw in [waiting, again, *opened]:
        raw.close()
    pool.stop()


if __name__ == "__main__":
    scenario(gone, too_many, never_read, ten_thousand)
