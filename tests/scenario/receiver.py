"""receiver.py: an endpoint of webhooks that answers as the test tells it, and npm's
standardwebhooks, which verifies what the endpoint received.

  receiver = Receiver()
  receiver.answers["/shop"] = [500, Reply(204)]       # to the first and to all later deliveries
  receiver.url("/shop")
  receiver.got("/shop")                               # [Delivery(id, headers, body)]
"""
import base64
import http.server
import json
import os
import socket
import socketserver
import subprocess
import threading
from collections import namedtuple

from harness import SLOW, Failed, check

Delivery = namedtuple("Delivery", "id headers body")
SUPPORT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support")
CHUNK = b"x" * 65536
ENDLESS = 1 << 30  # bytes: more than all buffers between server and client can hold


class Reply:
    """How the receiver answers a delivery. hang: it sends nothing until the peer gives up. stuck:
    it sends only the head of the answer until the peer gives up. held: it sends nothing until
    release(). endless: it sends a body that never ends; `sent` counts the bytes.
    """

    def __init__(self, status=204, headers=None, hang=False, stuck=False, held=False, endless=False):
        self.status, self.headers, self.hang, self.stuck, self.endless, self.sent, self.broken = status, headers or {}, hang, stuck, endless, 0, False
        self.go = threading.Event()
        if not held:
            self.go.set()

    def release(self):
        self.go.set()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        reply = self.server.receiver.take(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        if reply.hang:
            self.rfile.read(1)  # waits until the peer closes the connection
            self.close_connection = True
            return
        reply.go.wait()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.endless:
            self.send_header("Content-Length", str(ENDLESS))
            self.end_headers()
            self.go_on(reply)
        elif reply.stuck:
            self.send_header("Content-Length", "3")
            self.end_headers()
            self.rfile.read(1)
            self.close_connection = True
        else:
            if reply.status != 204:
                self.send_header("Content-Length", "0")
            self.end_headers()

    def do_GET(self):
        self.server.receiver.take(self.path, {}, b"")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def go_on(self, reply):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(CHUNK))
        try:
            while reply.sent < ENDLESS:
                self.wfile.write(CHUNK)
                reply.sent += len(CHUNK)
        except OSError:
            reply.broken = True
        self.close_connection = True

    def log_message(self, format, *args):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # the peer was killed


class Receiver:
    def __init__(self):
        self.lock, self.deliveries, self.answers = threading.Lock(), {}, {}
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.receiver = self
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path, host="127.0.0.1"):
        return f"http://{host}:{self.port}{path}"

    def take(self, path, headers, body):
        with self.lock:
            self.deliveries.setdefault(path, []).append(Delivery(headers.get("webhook-id"), headers, body))
            todo = self.answers.get(path, [])
            reply = (todo.pop(0) if len(todo) > 1 else todo[0]) if isinstance(todo, list) and todo else todo or 204
        return reply if isinstance(reply, Reply) else Reply(reply)

    def got(self, path):
        with self.lock:
            return list(self.deliveries.get(path, []))

    def ids(self, path):
        return [d.id for d in self.got(path)]


class Judge:
    """Asks npm's standardwebhooks whether the signature of a delivery is valid."""

    def __init__(self, case):
        self.process = subprocess.Popen([os.path.join(SUPPORT, "webhook_verify")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        case.children.append(self)

    def verdict(self, delivery, secret, body=None, headers=None):
        line = {"secret": secret, "headers": {**delivery.headers, **(headers or {})},
                "body": base64.b64encode(delivery.body if body is None else body).decode()}
        timer = threading.Timer(60 * SLOW, self.process.kill)  # npm may have to download the package first
        timer.start()
        try:
            self.process.stdin.write(json.dumps(line).encode() + b"\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except OSError as e:
            raise Failed(f"tests/support/webhook_verify: {e}") from None
        finally:
            timer.cancel()
        check(answer, "tests/support/webhook_verify has ended")
        return json.loads(answer)

    def good(self, delivery, secret, **changed):
        answer = self.verdict(delivery, secret, **changed)
        return answer["ok"] and answer["id"] == delivery.id

    # These methods make the case end the process, as it ends a Process.
    def kill(self):
        self.process.kill()
        self.process.wait()

    def check_health(self):
        pass

    def show_log(self):
        pass
