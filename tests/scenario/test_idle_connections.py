#!/usr/bin/env python3
# scenario: timeout=180
"""10,000 idle and 1,000 slow connections must not stop a POST: neither from many addresses that
each have room, nor from a single address, which holds more connections than it may and also sends
the POSTs. The timeouts of the connections are very long, so no POST can have waited for one to
expire. With the default timeouts photopool must close connections that send nothing after 10 s,
and slow ones after http.body_timeout.
"""
import resource
import select
import socket
import threading

from harness import POLL, SANITIZED, SLOW, Origin, Pool, Skipped, check, http, json, same, scenario, time, wait_until

IDLE = 10000
SLOW_ONES = 1000
MOST = 256 + 8  # connections of one address, and the places that are kept for supervisors
HEAD = b"POST /v1/batches HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"


def connect(port, address):
    s = socket.socket()
    # IP_BIND_ADDRESS_NO_PORT: the kernel may use a port again for another peer
    s.setsockopt(socket.IPPROTO_IP, 24, 1)
    s.settimeout(10 * SLOW)
    s.bind((address, 0))
    s.connect(("127.0.0.1", port))
    s.setblocking(False)
    return s


class Crowd:
    """Many connections that do little: a thread sends one byte a second on each slow connection."""

    def __init__(self, port, addresses, share=1):
        """Opens the share 1/`share` of IDLE and SLOW_ONES connections."""
        self.idle, self.slow, self.failed, self.stop = [], [], 0, False
        for n in range((IDLE + SLOW_ONES) // share):
            try:
                s = connect(port, addresses[n % len(addresses)])
            except OSError:
                self.failed += 1
                continue
            (self.slow if n % (IDLE // SLOW_ONES + 1) == 0 else self.idle).append(s)
        for n, s in enumerate(self.slow):
            self.send(s, HEAD if n % 2 else HEAD + b'\r\n{"client": "')
        self.thread = threading.Thread(target=self.drip, daemon=True)
        self.thread.start()

    @staticmethod
    def send(s, data):
        try:
            s.send(data)
        except OSError:
            pass  # the server may have closed the connection

    def drip(self):
        due = time.monotonic()
        while not self.stop:
            if time.monotonic() >= due:
                due += 1
                for s in self.slow:
                    self.send(s, b"x")
            time.sleep(POLL)

    def open(self):
        """Returns how many idle and how many slow connections the server has not closed."""
        def alive(sockets):
            poll = select.poll()
            for s in sockets:
                poll.register(s, select.POLLIN | select.POLLHUP)
            return len(sockets) - len(poll.poll(0))
        return alive(self.idle), alive(self.slow)

    def close(self):
        self.stop = True
        self.thread.join()
        for s in self.idle + self.slow:
            s.close()


def post(pool, origin, name, address):
    """Sends a POST over a new connection; it must be accepted."""
    c = http.client.HTTPConnection("127.0.0.1", pool.port, timeout=20 * SLOW, source_address=(address, 0))
    body = {"client": "42", "items": [{"id": name, "photos": [origin.url("a.example", f"/{name}.jpg")]}]}
    c.request("POST", "/v1/batches", json.dumps(body), {"Content-Type": "application/json"})
    answer = c.getresponse()
    text = answer.read()
    same(answer.status, 202, f"POST beside the crowd: {text}")
    c.close()


def crowd_and_posts(case, name, addresses, poster):
    origin = Origin(case, hosts="*.example delay=5 bytes=600")
    pool = Pool(case, origin=origin, config={"clients.rpm": None, "http.header_timeout": "10m", "http.body_timeout": "1h"}).start()
    crowd = Crowd(pool.port, addresses)
    for n in range(20):
        post(pool, origin, f"{name}{n}", poster)
    opened = crowd.open()
    memory = pool.memory_kb("VmRSS") // 1024
    print(f"{name}: {opened[0]} idle and {opened[1]} slow connections open ({crowd.failed} refused), {memory} MiB", flush=True)
    check(memory < 200 * (4 if SANITIZED else 1), f"{memory} MiB with all these connections")
    wait_until(lambda: pool.metric("photopool_photos_total") == 20, 20, "the photos are stored")
    return pool, crowd, opened


def many_addresses(case):
    pool, crowd, opened = crowd_and_posts(case, "many", [f"127.0.1.{n}" for n in range(1, 61)], "127.0.0.1")
    check(opened[0] >= IDLE * 0.95, f"{opened[0]} of {IDLE} idle connections were left open")
    check(opened[1] >= SLOW_ONES * 0.95, f"{opened[1]} of {SLOW_ONES} slow connections were left open")
    crowd.close()
    pool.stop()


def one_address(case):
    pool, crowd, _ = crowd_and_posts(case, "one", ["127.0.0.1"], "127.0.0.1")
    wait_until(lambda: sum(crowd.open()) <= MOST, 5, lambda: f"connections of one address are bounded: {crowd.open()}")
    crowd.close()
    pool.stop()


def they_are_cut(case):
    pool = Pool(case, config={"http.body_timeout": "3s"}).start()
    crowd = Crowd(pool.port, ["127.0.0.2"], share=50)
    wait_until(lambda: crowd.open() == (0, 0), 15, lambda: f"the server closes the connections: {crowd.open()}")
    crowd.close()
    pool.stop()


def test_idle_connections(case):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < IDLE + SLOW_ONES + 1500:
        raise Skipped(f"at most {hard} open files are permitted, {IDLE + SLOW_ONES + 1500} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    many_addresses(case)
    one_address(case)
    they_are_cut(case)


if __name__ == "__main__":
    scenario(test_idle_connections)
