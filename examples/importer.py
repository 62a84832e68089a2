#!/usr/bin/env python3
"""importer.py: imports a feed of items and waits for their photos, with Python's standard library
only. It reads the feed, sends it in batches, and writes the results as JSON lines to a file.

If it is killed at any moment, run it again with the same arguments: it goes on where it was. The
name of each batch (its Idempotency-Key) is a hash of what the batch contains, so a batch that is
sent twice is one batch. OUT.state has what is done, and is removed at the end.
"""
import argparse
import collections
import csv
import fcntl
import gzip
import hashlib
import http.client
import io
import itertools
import json
import os
import socket
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

EPILOG = """
The feed is a file or a URL, also compressed by gzip:
  NDJSON  {"id": "ad-1", "photos": ["https://shop.example/1.jpg"], "meta": {}}, an item per line
  CSV     a header with the columns item and url, separated by commas, semicolons or tabs, and a row
          per photo; the rows of an item follow each other

exit codes: 0 all items are complete, 3 some are rejected or not complete, 1 none is accepted or the
server refuses, 2 wrong usage or feed, 4 the server can't be reached or stays busy

examples:
  importer.py items.csv --client 42
  importer.py https://shop.example/items.ndjson.gz --client 42 --out monday.ndjson --refresh changed
  PHOTOPOOL_KEY=... importer.py items.csv --client 42 --server https://photopool.example
"""
BATCH_BYTES = 16 << 20  # of a batch; the server takes 32 MiB
WAIT = 60  # seconds for which one request waits for the end of a batch
PAUSE_MAX = 30  # seconds between two tries, unless the server asks for more
TRANSIENT = (429, 500, 502, 503, 504)


class Failed(Exception):
    """Ends the program: exit code, message, and the server's problem document if it has sent one."""


class Server:
    def __init__(self, url, retry_for):
        self.url, self.retry_for = url.rstrip("/"), retry_for

    def ask(self, method, path, body=None, headers=()):
        """Returns the answer as JSON. Repeats the request while the server is busy or unreachable,
        which is safe: a batch has an Idempotency-Key.
        """
        pause, end = 0.25, time.monotonic() + self.retry_for
        while True:
            request = urllib.request.Request(self.url + path, body, dict(headers), method=method)
            if "PHOTOPOOL_KEY" in os.environ:
                request.add_header("Authorization", "Bearer " + os.environ["PHOTOPOOL_KEY"])
            try:
                after = ""
                with urllib.request.urlopen(request, timeout=WAIT + 30) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as e:
                text = e.read().decode(errors="replace")
                problem = json.loads(text) if text.startswith("{") else {"code": "-", "detail": text[:200]}
                why = f"{problem['detail']} ({problem['code']}, HTTP {e.code})"
                if e.code not in TRANSIENT and problem["code"] != "idempotency_in_progress":
                    raise Failed(1, why, problem) from None
                after = e.headers.get("Retry-After", "")
            except (OSError, http.client.HTTPException) as e:
                why = e
            pause = max(int(after) if after.isdigit() else 0, min(2 * pause, PAUSE_MAX))
            if time.monotonic() + pause > end:
                raise Failed(4, f"{self.url}: {why}")
            print(f"{self.url}: {why}; again in {pause} s", file=sys.stderr)
            time.sleep(pause)


def read_table(text, delimiter, meta, bad):
    """Yields (number of the line, an item as a line of JSON). bad(line, why) hears of other rows."""
    rows = csv.DictReader(text, delimiter=delimiter)
    if missing := {"item", "url", *meta} - {*(rows.fieldnames or ()), ""}:
        raise Failed(2, f"the feed is neither NDJSON nor a table with the columns {' and '.join(sorted(missing))}")
    seen = set()
    for name, group in itertools.groupby(((rows.line_num, row) for row in rows), lambda x: x[1]["item"]):
        lines, group = zip(*group)
        if any(None in row or None in row.values() for row in group):
            bad(lines[0], "a row has more or fewer cells than the header")
        elif name in seen:
            bad(lines[0], f"the rows of item {name} do not follow each other")
        else:
            seen.add(name)
            photos = [row["url"] for row in group if row["url"]]
            yield lines[0], json.dumps({"id": name, "photos": photos, "meta": {k: group[0][k] for k in meta if k}}).encode()


def read_feed(path, meta, bad):
    with open(path, "rb") as f:
        feed = gzip.open(f) if f.peek(2)[:2] == b"\x1f\x8b" else f
        head = feed.peek(1 << 12).removeprefix(b"\xef\xbb\xbf").lstrip()
        if head.startswith(b"{"):
            lines = (line.removeprefix(b"\xef\xbb\xbf").strip() for line in feed)
            yield from ((number, line) for number, line in enumerate(lines, 1) if line)
        else:
            header = head.split(b"\n", 1)[0].decode(errors="replace")
            # bytes that are not UTF-8 become surrogates, for which the server rejects the item
            text = io.TextIOWrapper(feed, "utf-8-sig", errors="surrogateescape", newline="")
            yield from read_table(text, max(",;\t", key=header.count), meta, bad)


def batches(items, size):
    """Cuts the items into lists of (line, item). The same feed is always cut alike."""
    batch, n = [], 0
    for line, item in items:
        if batch and (len(batch) == size or n + len(item) > BATCH_BYTES):
            yield batch
            batch, n = [], 0
        batch.append((line, item))
        n += len(item) + 1
    if batch:
        yield batch


class Import:
    """What is done of an import. It is in OUT.state, which is always whole: a crash leaves the old
    file or the new one.
    """

    def __init__(self, server, args):
        self.server, self.args, self.path = server, args, args.out + ".state"
        self.out = open(args.out, "ab")  # open until the end of the program
        try:
            fcntl.flock(self.out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Failed(2, f"another importer writes {args.out}") from None
        # batches: Idempotency-Key -> {id, rejected, after: cursor of the next page, end: the batch}
        self.state = {"server": server.url, "client": args.client, "batches": {}, "written": 0}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as f:
                found = json.load(f)
            if (found["server"], found["client"]) != (server.url, args.client) or found["written"] > os.path.getsize(args.out):
                raise Failed(2, f"{self.path} belongs to another import: client {found['client']} at {found['server']}")
            self.state = found
        self.out.truncate(self.state["written"])  # removes a page that was not written whole
        self.batches, self.unreadable = self.state["batches"], 0

    def save(self):
        with open(self.path + ".new", "w", encoding="utf-8") as f:
            json.dump(self.state, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(self.path + ".new", self.path)

    def bad(self, line, why):
        self.unreadable += 1
        print(f"line {line}: unreadable: {why}", file=sys.stderr)

    def send(self, batch):
        query = urllib.parse.urlencode({k: v for k, v in vars(self.args).items() if k in ("client", "refresh", "label") and v})
        body = b"\n".join(item for _, item in batch) + b"\n"
        key = hashlib.sha256("\n".join([query, self.args.run, ""]).encode() + body).hexdigest()
        if key in self.batches:
            return
        try:
            answer = self.server.ask("POST", f"/v1/batches?{query}", body, {"Content-Type": "application/x-ndjson", "Idempotency-Key": key})
        except Failed as e:
            if len(e.args) < 3 or e.args[2]["code"] != "all_rejected":
                raise
            answer = {"batch_id": None, **e.args[2]}
        for r in answer["rejected"]:
            print(f"line {batch[r['index']][0]}: {r.get('id')}: {r['code']}: {r['detail']}", file=sys.stderr)
        self.batches[key] = {"id": answer["batch_id"], "rejected": len(answer["rejected"]), "after": "", "end": None}
        self.save()

    def collect(self, batch):
        """Waits for the end of a batch and writes its results."""
        end = {"state": "accepted"}
        while end["state"] not in ("finished", "cancelled") or end["items"]["open"]:
            end = self.server.ask("GET", f"/v1/batches/{batch['id']}?wait={WAIT}")
        while batch["after"] is not None:
            after = f"&after={urllib.parse.quote(batch['after'])}" if batch["after"] else ""
            page = self.server.ask("GET", f"/v1/batches/{batch['id']}/results?limit=500{after}")
            self.out.write(b"".join(json.dumps(r).encode() + b"\n" for r in page["results"]))
            self.out.flush()
            os.fsync(self.out.fileno())
            batch["after"], self.state["written"] = page["next"], os.fstat(self.out.fileno()).st_size
            self.save()
        batch["end"] = end
        self.save()

    def run(self):
        for batch in batches(read_feed(self.args.path, self.args.meta.split(","), self.bad), self.args.batch_size):
            self.send(batch)
        for batch in self.batches.values():
            if batch["id"] and not batch["end"]:
                self.collect(batch)
        code = self.summary()
        if os.path.exists(self.path):
            os.remove(self.path)
        return code

    def summary(self):
        """Prints what has become of the items and photos. Returns the exit code."""
        done = [b["end"] for b in self.batches.values() if b["end"]]
        rejected = self.unreadable + sum(b["rejected"] for b in self.batches.values())
        for part in ("items", "photos", "errors"):
            counts = sum((collections.Counter(end[part]) for end in done), collections.Counter())
            words = [f"{n} {name}" for name, n in counts.items() if name not in ("total", "rejected")]
            print(f"{part + ':':8}{', '.join(words) or 'none'}")
        print(f"{rejected} items rejected, {len(done)} batches, results in {self.args.out}")
        whole = all(end["items"]["complete"] == end["items"]["total"] for end in done)
        return 1 if not done else 0 if whole and not rejected else 3


def main():
    p = argparse.ArgumentParser(description=__doc__, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("feed", help="file or URL")
    p.add_argument("--client", required=True, help="whose items these are")
    p.add_argument("--server", metavar="URL", default=os.environ.get("PHOTOPOOL_SERVER", "http://127.0.0.1:8080"))
    p.add_argument("--out", default="results.ndjson", help="file for the results (default: %(default)s)")
    p.add_argument("--refresh", choices=("known", "changed", "always"), help="what to do about photos that are stored already")
    p.add_argument("--meta", default="", metavar="COLUMNS", help="columns of a CSV that go into the item's meta, such as price,title")
    p.add_argument("--label", help="a name for the batches, which `photopool status` shows")
    p.add_argument("--run", default="", help="for a day the server answers the same feed with the same batches, unless RUN differs")
    p.add_argument("--batch-size", type=int, default=1000, metavar="N", help="items in a batch (default: %(default)s)")
    p.add_argument("--retry-for", type=float, default=120, metavar="S", help="seconds for which a request is repeated (default: %(default)s)")
    args = p.parse_args()
    try:
        socket.setdefaulttimeout(WAIT + 30)
        # urlretrieve() fails if the connection ends early: half a feed must not look like a feed
        args.path = urllib.request.urlretrieve(args.feed)[0] if "://" in args.feed else args.feed
        return Import(Server(args.server, args.retry_for), args).run()
    except Failed as e:
        print(f"importer: {e.args[1]}", file=sys.stderr)
        return e.args[0]
    except (OSError, EOFError, csv.Error, ValueError) as e:
        print(f"importer: {args.feed}: {e}", file=sys.stderr)
        return 2
    finally:
        urllib.request.urlcleanup()


if __name__ == "__main__":
    sys.exit(main())
