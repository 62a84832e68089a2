"""watch.py: what a process uses, sampled while it runs: memory, descriptors, threads, disk,
processor, and figures of /metrics.
"""
import collections
import os
import re
import threading
import time

Sample = collections.namedtuple("Sample", "at rss fds threads disk cpu lag lags used")
TICKS = os.sysconf("SC_CLK_TCK")
LAG = re.compile(r'^photopool_loop_lag_seconds\{loop="main"\} ([\d.e+-]+)', re.M)
LAGS = re.compile(r'^photopool_main_loop_lag_seconds_bucket\{le="([\d.]+|\+Inf)"\} (\d+)', re.M)
USED = re.compile(r'^photopool_resource_used\{resource="(\w+)"\} (\d+)', re.M)


def disk_of(folder):
    """Returns the bytes that the files of a folder take on the disk, photos left out."""
    total = 0
    for place, folders, files in os.walk(folder):
        if "photos" in folders:
            folders.remove("photos")
        for name in files:
            try:
                total += os.stat(os.path.join(place, name)).st_blocks * 512
            except FileNotFoundError:  # a journal that has ended
                pass
    return total


def share_of(samples, share):
    """Returns the bound in seconds within which this share of the main loop's timers fired between
    the first and the last of the samples.
    """
    known = [s.lags for s in samples if s.lags]
    counts = {bound: n - known[0][bound] for bound, n in known[-1].items()}
    return min(bound for bound, n in counts.items() if n >= share * counts[float("inf")])


def read(path):
    with open(path, encoding="ascii", errors="replace") as f:
        return f.read()


class Watch:
    """Samples a Pool every `seconds` in a thread of its own, until stop()."""

    def __init__(self, pool, key, seconds=1):
        self.pool, self.key, self.seconds = pool, key, seconds
        self.samples, self.going = [], True
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def metrics(self):
        try:
            answer = self.pool.request("GET", "/metrics", key=self.key)
            return answer.body.decode() if answer.status == 200 else ""
        except OSError:
            return ""

    def sample(self):
        place = f"/proc/{self.pool.pid}"
        stat = read(f"{place}/stat").rsplit(")", 1)[1].split()
        status = read(f"{place}/status")
        text = self.metrics()
        lag = LAG.search(text)
        return Sample(time.time(), int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024, len(os.listdir(f"{place}/fd")),
                      int(stat[17]), disk_of(self.pool.data), (int(stat[11]) + int(stat[12])) / TICKS,
                      float(lag.group(1)) if lag else None, {float(k): int(v) for k, v in LAGS.findall(text)}, {k: int(v) for k, v in USED.findall(text)})

    def run(self):
        due = time.monotonic()
        while self.going:
            try:
                self.samples.append(self.sample())
            except (FileNotFoundError, ProcessLookupError):  # the process has ended
                return
            due = max(due + self.seconds, time.monotonic())
            time.sleep(max(0, due - time.monotonic()))

    def stop(self):
        self.going = False
        self.thread.join()
        return self.samples
