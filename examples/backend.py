#!/usr/bin/env python3
"""backend.py: the part of a shop's backend that browser.html needs: it serves the page, gives it
tickets, and reads the results that the page has missed. The photopool server needs auth.keys.

    PHOTOPOOL_KEY=... python3 backend.py http://127.0.0.1:8080 8000 results:42

Then open http://127.0.0.1:8000/. A real backend first checks the visitor's session, and derives
from it the keys that the visitor may follow: everybody who has a ticket can read the events of its
keys.
"""
import http.server
import itertools
import json
import os
import sys
import urllib.request
from urllib.error import HTTPError

from consumer import results_of_batches

KEEP = 5000  # results that the page keeps
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "browser.html")


def ticket(server, keys):
    """Gets a new ticket for these keys. Returns the URL at which the ticket opens a subscription."""
    request = urllib.request.Request(f"{server}/v1/tickets", json.dumps({"keys": keys}).encode(), {"Content-Type": "application/json"})
    request.add_header("Authorization", "Bearer " + os.environ["PHOTOPOOL_KEY"])
    with urllib.request.urlopen(request, timeout=10) as answer:
        return f"{server.replace('http', 'ws', 1)}/v1/events?ticket={json.load(answer)['ticket']}"


def results(server, keys):
    """Returns the latest results. A real backend would read them from its own database."""
    latest = itertools.islice(results_of_batches(server, keys), KEEP)
    return [{"id": r["id"], "subject": r["subject"], "data": {"status": r["data"]["status"]}} for r in latest]


class Handler(http.server.BaseHTTPRequestHandler):
    server_url, keys = "", []

    def answer(self, status, content_type, body):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path != "/":
            self.answer(404, "text/plain", b"")
            return
        with open(PAGE, "rb") as f:
            self.answer(200, "text/html; charset=utf-8", f.read())

    def do_POST(self):
        asked = {"/photopool-ticket": ticket, "/photopool-results": results}.get(self.path)
        if not asked:
            self.answer(404, "text/plain", b"")
            return
        try:
            self.answer(200, "application/json", json.dumps(asked(self.server_url, self.keys)).encode())
        except HTTPError as e:
            self.answer(503, "text/plain", e.read(1000))
        except OSError as e:
            self.answer(503, "text/plain", str(e).encode())


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: backend.py SERVER PORT KEY...")
    if "PHOTOPOOL_KEY" not in os.environ:
        sys.exit("backend.py: set PHOTOPOOL_KEY to a key of the server's auth.keys: without keys, photopool lets no page of another site subscribe")
    Handler.server_url, Handler.keys = sys.argv[1].rstrip("/"), sys.argv[3:]
    with http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
