#!/usr/bin/env python3
"""bench_feeds: how fast `photopool submit` reads large feeds, and in how much memory.

  bench_feeds.py [--mib N]

It makes a feed of Yandex Market (YML), and a CSV file with a row for each photo, of N MiB each
(2048), and submits them to a made-up server that accepts every batch at once. So the figures are
those of reading, batching, compressing and sending. It prints MB of feed a second, against the 100
that are asked for, and the peak of memory, of which 64 MiB are allowed. The files are under $TMPDIR.
"""
import http.server
import os
import subprocess
import threading
import time

from fleet_bench import arguments, bench, check, print_row

PHOTOS = 4  # of each item


def url(item, k):
    return f"https://photos.shop{item % 50}.example/catalogue/{item}/{k}-large.jpg"


def offer(i):
    pictures = "".join(f"  <picture>{url(i, k)}</picture>\n" for k in range(PHOTOS))
    return (f'<offer id="{i}" available="true">\n  <url>https://shop.example/ad/{i}</url>\n  <price>{i % 1000}</price>\n'
            f"  <currencyId>RUB</currencyId>\n  <categoryId>{i % 90}</categoryId>\n{pictures}  <name>Chair {i} with arms</name>\n"
            "  <description>A chair, as good as new. Delivered within two days, in a box, with all screws.</description>\n</offer>\n")


def rows(i):
    return "".join(f'ad-{i},{url(i, k)},"Chair, number {i}, with arms",{i % 1000}.50\n' for k in range(PHOTOS))


FEEDS = {"YML": ("<yml_catalog><shop><offers>\n", offer, "</offers></shop></yml_catalog>\n"),
         "CSV": ("item,url,title,price\n", rows, "")}


def make(path, kind, size):
    begin, part, end = FEEDS[kind]
    items = 0
    with open(path, "w", encoding="utf-8") as f:
        f.write(begin)
        while f.tell() < size:
            f.write("".join(part(items + i) for i in range(1000)))
            items += 1000
        f.write(end)
    return items


class Server(http.server.BaseHTTPRequestHandler):
    """Accepts every batch."""
    protocol_version = "HTTP/1.1"
    bytes = 0

    def do_POST(self):
        left = int(self.headers["Content-Length"])
        Server.bytes += left
        while left > 0:
            left -= len(self.rfile.read(min(left, 1 << 20)))
        body = b'{"batch_id":"b_1","client":"42","accepted":1,"rejected":[],"rejected_total":0}'
        self.send_response(202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def submit(case, kind, path, port):
    """Returns (seconds, seconds of processor time, peak in MiB) of a process that submits the file."""
    begin = time.monotonic()
    with open(case.path("out"), "w+", encoding="utf-8") as out:
        process = subprocess.Popen([os.environ["PHOTOPOOL"], "submit", path, "--client", "42", "--server", f"http://127.0.0.1:{port}"],
                                   stdout=out, stderr=out)
        _, status, usage = os.wait4(process.pid, 0)
        out.seek(0)
        check(status == 0, f"{kind}: status {status}: {out.read()[-400:]}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def run(case, args):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for kind in FEEDS:
        path = case.path(f"feed.{kind.lower()}")
        items = make(path, kind, args.mib << 20)
        mb, Server.bytes = os.path.getsize(path) / 1e6, 0
        seconds, busy, peak = submit(case, kind, path, server.server_address[1])
        print_row("feeds", f"{kind} of {args.mib} MiB", mb / seconds, "MB/s", 100, "asked for", seconds=seconds, processor=busy, items=items,
                  peak_mib=peak, sent_mb=Server.bytes / 1e6)
        os.remove(path)
    server.shutdown()


def main():
    parser = arguments(__doc__)
    parser.add_argument("--mib", type=int, default=2048)
    bench(run, parser.parse_args())


if __name__ == "__main__":
    main()
