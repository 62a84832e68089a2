#!/usr/bin/env python3
# scenario: build=release timeout=240
"""A blob store that fails for some seconds under load: almost full, full, without inodes, read-only,
with a file in place of a folder, and an S3 store that answers 403 or 503.

Each time the worker must stop claiming and say so: one line in the log, /readyz, a metric. It must
not download in a loop: at the origin, requests <= 1.05 x photos. When the store works again the
worker must continue by itself, and every photo must be stored.

By hand: `--seconds 120` for long outages, after which the times are checked, too; `--only NAME`.
"""
import http.server
import os
import re
import sys
import threading

from harness import Origin, Pool, Skipped, check, pause_until, same, scenario, time, wait_until
from namespace import call, fill, mount_tmpfs, own_mounts

SECONDS = float(sys.argv[sys.argv.index("--seconds") + 1]) if "--seconds" in sys.argv else 3
ONLY = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
STRICT = "--seconds" in sys.argv
PHOTOS, CLIENTS = (12000, 8) if STRICT else (2400, 8)
SIZE = "400m" if STRICT else "100m"  # of a disk, with twice the space that the photos need
MS_RDONLY, MS_REMOUNT = 1, 32


# --- stores that fail on demand ---

class Disk:
    """A tmpfs with a folder for photos."""

    resource, min_free, size = "the blob store", 0, SIZE

    def __init__(self, case, name):
        self.mount = case.path(name)
        os.mkdir(self.mount)
        mount_tmpfs(self.mount, self.size)
        self.photos = os.path.join(self.mount, "photos")
        self.url = "file:" + self.photos

    def remount(self, flags, options):
        def done():
            for _ in range(500):  # it fails while a file is open for writing
                try:
                    call("mount", b"tmpfs", self.mount.encode(), b"tmpfs", MS_REMOUNT | flags, options.encode())
                    return True
                except Skipped:
                    pass
            return False
        wait_until(done, 10, "the disk is mounted again")


class Low(Disk):
    """There is less free space than blobs.min_free, which by default is 5 % of a small disk."""

    words, resource, min_free, size = "MiB are free in", "the disk", None, "800m"

    def fail(self):
        s = os.statvfs(self.mount)
        with open(os.path.join(self.mount, "ballast"), "wb") as f:
            os.posix_fallocate(f.fileno(), 0, s.f_bavail * s.f_frsize - s.f_blocks * s.f_frsize // 25)

    def heal(self):
        os.remove(os.path.join(self.mount, "ballast"))


class Full(Disk):
    words = "no space left on device"

    def fail(self):
        fill(os.path.join(self.mount, "ballast"))

    def heal(self):
        os.remove(os.path.join(self.mount, "ballast"))


class NoInodes(Disk):
    words = "no space left on device"

    def used(self):
        s = os.statvfs(self.mount)
        return s.f_files - s.f_ffree

    def fail(self):
        self.remount(0, f"nr_inodes={self.used() + 8}")

    def heal(self):
        self.remount(0, "nr_inodes=1000000")


class ReadOnly(Disk):
    words = "read-only file system"

    def fail(self):
        self.remount(MS_RDONLY, "")

    def heal(self):
        self.remount(0, "")


class Broken(Disk):
    """A file is in place of the folder of all objects."""

    words = "not a directory"

    def fail(self):
        os.rename(os.path.join(self.photos, "sha256"), os.path.join(self.photos, "away"))
        with open(os.path.join(self.photos, "sha256"), "wb"):
            pass

    def heal(self):
        os.remove(os.path.join(self.photos, "sha256"))
        os.rename(os.path.join(self.photos, "away"), os.path.join(self.photos, "sha256"))


class Server(http.server.ThreadingHTTPServer):
    """A small S3 store in memory. While `refusal` is set, it answers each request with that status."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects, self.refusal = {}, None
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        key, objects = self.path.split("?")[0], self.server.objects
        if self.server.refusal:
            code = {403: "AccessDenied", 503: "SlowDown"}[self.server.refusal]
            self.answer(self.server.refusal, f"<Error><Code>{code}</Code><Message>as told</Message></Error>".encode())
        elif self.command == "PUT":
            if self.headers.get("If-None-Match") == "*" and key in objects:
                self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            objects[key] = body
            self.answer(200)
        elif "?" in self.path:
            self.answer(200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
        elif key not in objects:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif self.command == "DELETE":
            del objects[key]
            self.answer(204)
        else:
            self.answer(200, objects[key])

    do_PUT = do_GET = do_HEAD = do_DELETE = handle_any


class Bucket:
    resource, min_free = "the blob store", 0

    def __init__(self, status):
        self.server, self.status = Server(), status
        self.words = f"the store answers {status}"
        self.url = f"s3://photos?endpoint=http://127.0.0.1:{self.server.server_port}&region=eu-central-1"
        os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")

    def fail(self):
        self.server.refusal = self.status

    def heal(self):
        self.server.refusal = None


# --- one outage ---

def await_signs(pool, store, failed_at):
    """Waits until the log, /readyz and the metric say that the store fails. Returns the seconds."""
    def worker():
        return pool.get("/readyz").json["roles"]["worker"]

    reason = wait_until(lambda: worker().get("reason"), 2, "/readyz says that the worker is not ready")
    check(store.words in reason and reason.startswith(store.resource + ": "), f"reason of /readyz: {reason}")
    same(pool.get("/readyz").status, 503, "status of /readyz")
    same(pool.metric("photopool_blob_store_up"), float(store.resource == "the disk"), "blob_store_up")
    wait_until(lambda: "fetching is paused" in pool.text(), 2, "a line in the log")
    return time.monotonic() - failed_at, reason


def outage(case, name, store):
    origin = Origin(case, hosts="*.example delay=50-150 bytes=20000")
    config = {"clients.rpm": None, "clients.concurrency": 8, "blobs.url": store.url, "keep.threads": 8, "blobs.fsync": "off"}
    if store.min_free is not None:
        config["blobs.min_free"] = store.min_free
    pool = Pool(case, origin=origin, config=config).start()
    each = PHOTOS // CLIENTS
    batches = [pool.submit(str(c), [{"id": f"{c}-{i}", "photos": [origin.url(f"h{c}.example", f"/{name}/{c}/{i}.jpg")]} for i in range(each)])
               for c in range(CLIENTS)]

    def stored():
        return sum(pool.batch(b)["photos"]["stored"] for b in batches)

    wait_until(lambda: stored() > PHOTOS / 10, 30, "photos are being stored")
    if STRICT:
        before, began = stored(), time.monotonic()
        pause_until(began + 1)
        speed = (stored() - before) / (time.monotonic() - began)

    store.fail()
    failed_at = time.monotonic()
    noticed, reason = await_signs(pool, store, failed_at)
    asked = len(origin.records())
    pause_until(failed_at + SECONDS)
    asked_more, open_photos = len(origin.records()) - asked, PHOTOS - stored()
    check(open_photos > 0, "photos are open during the outage")

    store.heal()
    healed_at = time.monotonic()
    wait_until(lambda: pool.get("/readyz").status == 200, 5, "/readyz after the outage")
    well = time.monotonic() - healed_at
    if STRICT:
        pause_until(healed_at + 5)
        at, then = stored(), time.monotonic()
        pause_until(then + 1)
        again = (stored() - at) / (time.monotonic() - then)
    for b in batches:
        results = pool.wait_finished(b, 60)
        same({p["outcome"] for r in results for p in r["data"]["photos"]}, {"stored"}, f"outcomes of {name}")
    requests, log = len(origin.records()), pool.text()
    print(f"{name}: {reason!r}; noticed in {noticed:.2f} s, {asked_more} requests in the other {SECONDS - noticed:.0f} s, ready {well:.1f} s after;"
          + (f" {speed:.0f} photos/s before, {again:.0f} from 5 s after;" if STRICT else "")
          + f" {requests} requests for {PHOTOS} photos, {pool.metric('photopool_fetch_thrown_away_bytes_total'):.0f} bytes thrown away,"
          f" handed back {pool.metric('photopool_handed_back_total'):.0f}", flush=True)
    check(requests <= 1.05 * PHOTOS, f"{requests} requests for {PHOTOS} photos")
    lines = len(re.findall("fetching is paused", log))
    check(1 <= lines <= 1 + SECONDS / 60, f"{lines} lines in the log during the outage")
    same(len(re.findall("fetching continues", log)), 1, "lines in the log after the outage")
    same(pool.metric("photopool_blob_store_up"), 1.0, "blob_store_up")
    if STRICT:
        check(noticed <= 2, f"noticed after {noticed:.2f} s")
        check(again >= 0.7 * speed or stored() == PHOTOS, f"{again:.0f} photos/s 5 s after the outage, {speed:.0f} before")
    pool.stop()
    origin.stop()


def fast_writer(case):
    """Photos come so fast that a small disk would be full before its free space is measured again. Only
    the transfers in flight may use some of blobs.min_free."""
    at_a_time, size, photos, reserve = 4, 400_000, 165, 20 << 20
    store = Disk(case, "fast")
    store.remount(0, "size=60m")
    origin = Origin(case, hosts=f"*.example delay=0 bytes={size}")
    pool = Pool(case, origin=origin, config={"clients.rpm": None, "clients.concurrency": at_a_time, "blobs.url": store.url,
                                             "blobs.fsync": "off", "blobs.min_free": "20MiB"}).start()
    batch = pool.submit("1", [{"id": str(i), "photos": [origin.url("h.example", f"/fast/{i}.jpg")]} for i in range(photos)])
    wait_until(lambda: "MiB are free in" in str(pool.get("/readyz").json["roles"]["worker"].get("reason")), 30, "the disk is low")
    wait_until(lambda: pool.metric("photopool_in_flight") == 0, 10, "no transfer is in flight")
    s = os.statvfs(store.mount)
    free = s.f_bavail * s.f_frsize
    print(f"fast writer: {free} bytes are free, {reserve} are the reserve", flush=True)
    check(free >= reserve - (at_a_time + 1) * (size + 8192), f"{free} bytes are free, {reserve} are the reserve")
    check("blobs.min_free is lowered" not in pool.text(), "a reserve that is set holds")
    store.remount(0, "size=400m")
    same({p["outcome"] for r in pool.wait_finished(batch, 60) for p in r["data"]["photos"]}, {"stored"}, "outcomes of the fast writer")
    pool.stop()
    origin.stop()


def test_disks(case):
    kinds = [k for k in (Low, Full, NoInodes, ReadOnly, Broken) if ONLY in ("", k.__name__)]
    try:
        own_mounts()
    except Skipped as e:
        print(f"left out, disks: {e}", flush=True)
        return
    for kind in kinds:
        outage(case, kind.__name__, kind(case, kind.__name__))
    if ONLY in ("", "fast"):
        fast_writer(case)


def test_buckets(case):
    for status in (403, 503):
        if ONLY in ("", f"S3-{status}"):
            outage(case, f"S3-{status}", Bucket(status))


if __name__ == "__main__":
    scenario(test_disks, test_buckets)
