"""followers.py: consumers of every kind. Each is a thread that reconnects by itself; a Book
compares all that they receive.

  book = Book()
  followers = [LongPoll(book, api), Events(book, api), WebSocket(book, api), Hook(book),
               Amqp(book, case, url), Kafka(book, case, brokers)]
  for f in followers:
      f.start()
  followers[0].ids                    # ids of the results that it has received
  book.wrong                          # violations

api() returns the port of a running api. Results and events are kept as the texts that arrived,
because every delivery of a result must have the same bytes. A follower of the event stream that
receives a gap does what docs/consumers.md tells consumers to do: it reads the results of the
batches of which it has only a part.
"""
import base64
import hashlib
import hmac
import http.client
import json
import os
import random
import socket
import struct
import subprocess
import threading
import time
from collections import Counter

from fleet import SUPPORT
from harness import SLOW, Process, check, wait_until
from receiver import Receiver, Reply

DECODER = json.JSONDecoder()
SILENCE = 60  # seconds without data after which a follower reconnects; a stream sends something every 25 s
GONE = (OSError, http.client.HTTPException)


class Refused(OSError):
    """The server has answered that the client must try again later."""


class Book:
    """Compares what all sources say: a result's id must always have the same text, an event's
    number the same event.
    """

    def __init__(self):
        self.lock, self.results, self.events, self.wrong = threading.Lock(), {}, {}, []

    def note(self, table, key, text, who):
        with self.lock:
            if table.setdefault(key, text) != text:
                self.wrong.append(f"{key} of {who}: {text[:400]} and {table[key][:400]}")

    def result(self, text, who):
        result = json.loads(text)
        self.note(self.results, result["id"], text, who)
        return result

    def event(self, seq, text, who):
        self.note(self.events, seq, text, who)

    def complain(self, text):
        with self.lock:
            self.wrong.append(text)


def elements(text, name):
    """Yields the texts of the elements of the array {"name": [...]}, as our server writes it."""
    at = text.index(f'"{name}":[') + len(name) + 4
    while text[at] != "]":
        _, end = DECODER.raw_decode(text, at)
        yield text[at:end]
        at = end + (text[end] == ",")


def data_of(event):
    """Returns the text of an event's field `data`, which is its last field."""
    return event[event.index('"data":') + len('"data":'):-1]


def get(port, path, headers=None, connection=None):
    c = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=SILENCE)
    c.request("GET", path, headers=headers or {})
    answer = c.getresponse()
    if answer.status != 200:
        raise Refused(f"{answer.status} {answer.read(300).decode(errors='replace')}")
    return answer


def read_list(port, path, name):
    """Returns the texts of all rows of a list, over all of its pages."""
    after, rows = None, []
    while True:
        page = get(port, f"{path}{'&' if '?' in path else '?'}limit=1000" + (f"&after={after}" if after else "")).read().decode()
        rows += elements(page, name)
        after = json.loads(page)["next"]
        if not after:
            return rows


class Follower:
    def __init__(self, book, name):
        self.book, self.name, self.going = book, name, True
        self.ids, self.of_batch, self.repeated, self.errors, self.begun = set(), Counter(), 0, Counter(), 0

    def start(self):
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while self.going:
            try:
                self.begun += 1
                self.follow()
            except GONE as e:
                self.errors[str(e)[:60] or type(e).__name__] += 1
            except Exception as e:  # noqa: BLE001  (the waiting test reports it)
                self.book.complain(f"{self.name} gives up: {e!r}")
                return
            time.sleep(random.uniform(0.05, 0.3))

    def follow(self):
        raise NotImplementedError

    def take(self, text):
        """Records one result. Returns True if this follower has not received it before."""
        result = self.book.result(text, self.name)
        if result["id"] in self.ids:
            self.repeated += 1
            return False
        self.ids.add(result["id"])
        self.of_batch[result["data"]["batch_id"]] += 1
        return True

    def summary(self):
        return f"{self.name:9} {len(self.ids)} ids, {self.repeated} repeated, begun {self.begun} times"


class StreamFollower(Follower):
    """Follows the keys KEYS of the event stream from its beginning."""
    KEYS = "key=results"

    def __init__(self, book, name, api):
        super().__init__(book, name)
        self.api, self.at, self.gaps, self.made_up, self.port = api, 0, [], set(), None

    def query(self):
        return f"/v1/events?{self.KEYS}&after={self.at}"

    def event(self, text):
        event = json.loads(text)
        if event["seq"] <= self.at:
            self.book.complain(f"{self.name}: {event['seq']} after {self.at}")
        self.book.event(event["seq"], text, self.name)
        self.at = event["seq"]
        if event["type"] == "photopool.item.finished":
            text = data_of(text)
            self.take(text)
            self.made_up.discard(json.loads(text)["id"])

    def gap(self, gap):
        """Reads the results that a gap stands for from their batches: they had finished before
        their events were lost.
        """
        if gap["to"] <= self.at:
            self.book.complain(f"{self.name}: gap {gap} after {self.at}")
        while self.going:
            try:
                self.make_up(self.api())
                break
            except GONE as e:
                self.errors[f"making up: {str(e)[:40]}"] += 1
                time.sleep(random.uniform(0.05, 0.3))
        self.gaps.append(gap)
        self.at = gap["to"]

    def make_up(self, port):
        for text in read_list(port, "/v1/batches", "batches"):
            batch = json.loads(text)
            if self.of_batch[batch["batch_id"]] >= batch["items"]["total"] > 0:
                continue
            for result in read_list(port, f"/v1/batches/{batch['batch_id']}/results", "results"):
                if self.take(result):
                    self.made_up.add(json.loads(result)["id"])

    def summary(self):
        return super().summary() + f", {len(self.gaps)} gaps, {len(self.made_up)} ids by reading batches alone"


class LongPoll(StreamFollower):
    def __init__(self, book, api):
        super().__init__(book, "long-poll", api)

    def follow(self):
        self.port = self.api()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SILENCE)
        while self.going:
            text = get(self.port, self.query() + "&wait=10&limit=500", connection=connection).read().decode()
            answer = json.loads(text)
            if answer["gap"] and answer["events"]:
                # The gap comes in the same answer as the events after it, so their numbers must be
                # above the gap.
                check(answer["events"][0]["seq"] > answer["gap"]["to"], f"{self.name}: events before the gap: {text[:300]}")
            if answer["gap"]:
                self.gap(answer["gap"])
            for event in elements(text, "events"):
                self.event(event)
            if answer["last"] < self.at:
                self.book.complain(f"{self.name}: last is {answer['last']} after {self.at}")
            self.at = answer["last"]


class Events(StreamFollower):
    KEYS = "key=results&key=ops"

    def __init__(self, book, api):
        super().__init__(book, "SSE", api)

    def follow(self):
        self.port = self.api()
        stream = get(self.port, self.query(), {"Accept": "text/event-stream"})
        fields = {}
        while line := stream.readline():
            if not line.endswith(b"\n"):
                break
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
                continue
            if fields.get("event") == "gap":
                self.gap(json.loads(fields["data"]))
            elif "data" in fields:
                check(int(fields["id"]) == json.loads(fields["data"])["seq"], f"{self.name}: {fields}")
                self.event(fields["data"])
            fields = {}
        raise ConnectionError("the stream has ended")


class WebSocket(StreamFollower):
    """Follows events over a WebSocket. closes: (port, code) of every close frame received."""
    KEYS = "key=results&key=batch"

    def __init__(self, book, api):
        super().__init__(book, "WebSocket", api)
        self.closes, self.open, self.socket, self.file = [], False, None, None

    def follow(self):
        self.port = self.api()
        with socket.create_connection(("127.0.0.1", self.port), timeout=SILENCE) as self.socket:
            self.file = self.socket.makefile("rb")
            self.shake_hands()
            self.open = True
            try:
                message = b""
                while (frame := self.frame()) is not None:
                    final, op, data = frame
                    if op == 9:
                        self.send(10, data)
                    elif op in (0, 1):
                        message += data
                        if final:
                            self.message(message.decode())
                            message = b""
            finally:
                self.open = False

    def shake_hands(self):
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(f"GET {self.query()} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.file.readline()
            if not line:
                raise ConnectionError("no handshake")
            head += line
        if not head.startswith(b"HTTP/1.1 101 "):
            raise Refused(head[9:60].decode(errors="replace"))
        due = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest())
        check(due in head, f"{self.name}: {head}")

    def exactly(self, n):
        data = self.file.read(n)
        if len(data) < n:
            raise ConnectionError("the stream has ended")
        return data

    def frame(self):
        """Reads a frame. Returns (final, opcode, payload), or None after a close frame."""
        first, length = self.exactly(2)
        check(length < 128 and not first & 0x70, f"{self.name}: a frame begins with {first:02x} {length:02x}")
        if length == 126:
            length, = struct.unpack(">H", self.exactly(2))
        elif length == 127:
            length, = struct.unpack(">Q", self.exactly(8))
        data = self.exactly(length)
        if first & 15 == 8:
            self.closes.append((self.port, struct.unpack(">H", data[:2])[0] if len(data) >= 2 else None))
            self.send(8, data[:2])
            return None
        return first >> 7, first & 15, data

    def send(self, op, data):
        mask = os.urandom(4)
        self.socket.sendall(bytes([0x80 | op, 0x80 | len(data)]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def message(self, text):
        if text.startswith('{"gap":'):
            self.gap(json.loads(text)["gap"])
        else:
            self.event(text)

    def summary(self):
        return super().summary() + f", closed with {dict(Counter(code for _, code in self.closes))}"


class Hook(Follower):
    """An endpoint of webhooks. `settings` is the body of the PUT that creates the webhook."""

    def __init__(self, book):
        super().__init__(book, "webhook")
        self.secret = os.urandom(32)
        self.lock = threading.Lock()
        hook = self

        class Taking(Receiver):
            def take(self, path, headers, body):
                hook.delivery(headers, body.decode())
                return Reply(204)

        self.receiver = Taking()
        self.port = self.receiver.port
        self.settings = {"url": self.receiver.url("/results"), "secret": "whsec_" + base64.b64encode(self.secret).decode()}

    def start(self):
        self.begun = 1

    def delivery(self, headers, text):
        with self.lock:
            self.take(text)
        name = headers.get("webhook-id")
        signed = f"{name}.{headers.get('webhook-timestamp')}.{text}".encode()
        due = "v1," + base64.b64encode(hmac.digest(self.secret, signed, "sha256")).decode()
        if name != json.loads(text)["id"] or headers.get("webhook-signature") != due:
            self.book.complain(f"headers {headers} of {text[:300]}")


class Lines(Follower):
    """Follows through a program that prints one message per line."""

    def __init__(self, book, case, name, command):
        super().__init__(book, name)
        self.command, self.process, self.ready = command, Process(case, name.lower() + "-lines", command[0]), False

    def follow(self):
        self.process.spawn(self.command[1:], stdout=subprocess.PIPE)
        for line in self.process.process.stdout:
            if not line.endswith(b"\n"):
                break
            if line == b"ready\n":
                self.ready = True
                continue
            self.line(line[:-1].decode())
        self.process.wait_exit(10)

    def line(self, text):
        raise NotImplementedError


class Amqp(Lines):
    def __init__(self, book, case, url, exchange="photopool"):
        super().__init__(book, case, "AMQP", [os.path.join(SUPPORT, "amqp_lines"), url, exchange, "results"])

    def wait_ready(self):
        """Waits until the queue is bound: the broker returns messages that arrive before."""
        wait_until(lambda: self.ready, 10 * SLOW, lambda: f"the queue is bound: {self.process.text()[-500:]}")

    def line(self, text):
        name, _, text = text.partition("\t")
        self.take(text)
        if name != json.loads(text)["id"]:
            self.book.complain(f"message id {name} of {text[:300]}")


class Kafka(Lines):
    def __init__(self, book, case, brokers, topic="photopool.results"):
        super().__init__(book, case, "Kafka", ["kcat", "-C", "-b", brokers, "-t", topic, "-o", "beginning", "-u", "-q", "-E", "-f", "%k\t%s\n",
                                               "-X", "reconnect.backoff.max.ms=500"])

    def line(self, text):
        key, _, text = text.partition("\t")
        self.take(text)
        if key != json.loads(text)["data"]["client"]:
            self.book.complain(f"key {key} of {text[:300]}")
