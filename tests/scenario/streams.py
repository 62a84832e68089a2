"""streams.py: event subscriptions for scenarios: npm's ws, and raw sockets that can send any bytes.

  events, last, gap = poll(pool, "key=results", after=0)      # one long-poll
  ws = NodeWs().open(pool, "key=results&after=0")             # tests/support/ws_client
  ws.next("message")                                          # waits; so does ws.closed()
  sse = Raw(pool, "key=results", sse=True)                    # status, headers; event() reads one

finish() makes events: an item without photos finishes at once.
"""
import base64
import json
import os
import queue
import socket
import subprocess
import threading

from harness import SLOW, Failed, check, same

ROOT = os.environ.get("PP_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PATIENCE = 20 * SLOW  # seconds


def finish(pool, client, n=1, meta=None, headers=None):
    """Submits n items without photos, which finish at once. Returns the id of their batch."""
    answer = pool.post("/v1/batches", {"client": client, "items": [{"id": f"item-{i}", "photos": [], "meta": meta or {}} for i in range(n)]},
                       headers, compress=True)
    same(answer.status, 202, f"POST /v1/batches: {answer}")
    return answer.json["batch_id"]


def poll(pool, query, headers=None, **params):
    """Makes one long-poll. Returns (events, last number, gap or None)."""
    answer = pool.get(f"/v1/events?{query}" + "".join(f"&{k}={v}" for k, v in params.items()), headers=headers)
    same(answer.status, 200, f"{query} {params}: {answer}")
    return answer.json["events"], answer.json["last"], answer.json["gap"]


def poll_all(pool, query, n, after=0, headers=None):
    """Returns n events, read by as many long-polls as needed."""
    events = []
    while len(events) < n:
        more, after, gap = poll(pool, query, headers, after=after, wait=30, limit=1000)
        same(gap, None, "gap")
        events += more
    return events


def refusal(answer):
    return answer.status, answer.json["code"]


class Ws:
    """One WebSocket of a NodeWs process."""

    def __init__(self, node, name):
        self.node, self.name, self.got = node, name, queue.Queue()

    def tell(self, do, **more):
        self.node.tell({"id": self.name, "do": do, **more})
        return self

    def write(self, data):
        return self.tell("write", bytes=base64.b64encode(data).decode())

    def next(self, *whats):
        """Waits for the next thing that happens, except for the server's pings, and returns it. It
        must be one of `whats`.
        """
        got = {"what": "ping"}
        while got["what"] == "ping":
            try:
                got = self.got.get(timeout=PATIENCE)
            except queue.Empty:
                raise Failed(f"no {whats} within {PATIENCE} s") from None
        check(got["what"] in whats, f"{whats} expected: {got}")
        return got

    def until(self, what):
        """Waits for the next message of this kind and returns it. Skips what comes before."""
        while (got := self.next("open", "message", "pong", "error", "close"))["what"] != what:
            check(what == "close" or got["what"] not in ("close", "error"), f"{what} expected: {got}")
        return got

    def events(self, n):
        """Waits for the next n events and returns them."""
        texts = [self.next("message") for _ in range(n)]
        check(not any(t["binary"] for t in texts), "frames are of text")
        return [json.loads(t["text"]) for t in texts]

    def closed(self):
        """Waits for the close frame and returns its code."""
        return self.until("close")["code"]


class NodeWs:
    """A process of node that runs any number of WebSocket clients."""

    def __init__(self):
        self.process = subprocess.Popen([os.path.join(ROOT, "tests", "support", "ws_client")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.sockets, self.n = {}, 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            got = json.loads(line)
            self.sockets[got["id"]].got.put(got)

    def tell(self, command):
        self.process.stdin.write(json.dumps(command).encode() + b"\n")
        self.process.stdin.flush()

    def connect(self, pool, query, scheme="ws", **options):
        """Starts the handshake without waiting for its end."""
        self.n += 1
        ws = self.sockets[self.n] = Ws(self, self.n)
        return ws.tell("open", url=f"{scheme}://127.0.0.1:{pool.port}/v1/events?{query}", options=options)

    def open(self, pool, query, **options):
        ws = self.connect(pool, query, **options)
        ws.next("open")
        return ws

    def refused(self, pool, query, **options):
        """Makes a handshake that the server must refuse. Returns (status, code) of the answer."""
        got = self.connect(pool, query, **options).next("refused")
        return got["status"], json.loads(got["body"])["code"]

    def close(self):
        self.process.stdin.close()
        same(self.process.wait(PATIENCE), 0, "exit status of node")


class Raw:
    """A request over its own connection. The constructor reads the head of the answer; the methods
    read the rest as it arrives.
    """

    def __init__(self, pool, query, headers=None, sse=False, method="GET", receive=None, source=None, read=True):
        self.s = socket.socket()
        self.s.settimeout(PATIENCE)
        if receive:
            self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        if source:
            # IP_BIND_ADDRESS_NO_PORT: the kernel may use a port again for another peer
            self.s.setsockopt(socket.IPPROTO_IP, 24, 1)
            self.s.bind((source, 0))
        self.s.connect(("127.0.0.1", pool.port))
        lines = {"Host": f"127.0.0.1:{pool.port}", **({"Accept": "text/event-stream"} if sse else {}), **(headers or {})}
        self.s.sendall((f"{method} /v1/events?{query} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n").encode())
        self.file = self.s.makefile("rb")
        if read:
            self.read_head()

    def read_head(self):
        self.status = int(self.line().split()[1])
        # headers: values by name; head_lines: the names of all header lines
        self.headers, self.head_lines = {}, []
        while line := self.line():
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
            self.head_lines.append(name.lower())

    def line(self):
        line = self.file.readline().decode()
        if not line.endswith("\n"):
            raise ConnectionError(f"the stream has ended: {line!r}")
        return line.rstrip("\r\n")

    def problem(self):
        """Returns (status, code) of an error answer."""
        return self.status, json.loads(self.file.read(int(self.headers["content-length"])))["code"]

    def event(self):
        """Waits for the next event of a text/event-stream. Returns (name, id, data)."""
        fields = {}
        while True:
            name, _, value = self.line().partition(": ")
            if name:
                fields[name] = value
            elif "data" in fields:
                return fields["event"], int(fields["id"]), json.loads(fields["data"])
            elif not name:
                fields = {}

    def events(self, n):
        """Returns the data of the next n events, among which must be no gap."""
        data = []
        for _ in range(n):
            name, seq, event = self.event()
            same((name, seq), (event["type"], event["seq"]), "event and id are those of the data")
            data.append(event)
        return data

    def read_to_end(self):
        while self.file.read(1 << 16):
            pass
        self.close()

    def close(self):
        self.file.close()
        self.s.close()


def handshake(**more):
    """Returns the headers of a WebSocket handshake. A header whose value is None is left out."""
    lines = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
             "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(), **{k.replace("_", "-"): v for k, v in more.items()}}
    return {k: v for k, v in lines.items() if v is not None}
