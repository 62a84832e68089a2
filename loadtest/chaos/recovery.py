"""recovery.py: how soon a fleet is itself again, measured.

  a killed worker's photos are claimed again   from its death, by the oplog (history.py), of clients that are far from their limits: others
                                               may have to wait for a permit. All that it had claimed: the last one counts
  full speed after MongoDB, Redis, wiped Redis from the moment at which the server is up until the origin gets, over RATE_S seconds,
                                               ENOUGH of the requests a second that it got in the BEFORE_S seconds before the fault

A measurement counts only if no other fault struck from BEFORE_S before it until its end, and if there was a load to speak of: see run --recovery.
"""
import threading
import time

BEFORE_S, RATE_S, ENOUGH, LEAST_RATE, PATIENCE_S = 5, 2, 0.8, 2, 60


class Recovery:
    def __init__(self, chaos):
        self.chaos, self.strikes, self.samples, self.lock = chaos, [], [], threading.Lock()
        self.found, self.kills = {}, []

    def start(self):
        threading.Thread(target=self.sample, daemon=True).start()

    def sample(self):
        while not self.chaos.over:
            try:
                self.samples.append((time.monotonic(), self.chaos.origin.stats()["requests"]))
            except OSError:
                return
            time.sleep(0.2)

    def struck(self):
        self.strikes.append(time.monotonic())

    def rate(self, begin, end):
        """Requests a second; None: not known yet."""
        inside = [s for s in self.samples if begin <= s[0] <= end + 0.5]
        if not inside or inside[-1][0] < end or end <= begin:
            return None
        (t0, n0), (t1, n1) = inside[0], inside[-1]
        return (n1 - n0) / (t1 - t0) if t1 > t0 else None

    def disturbed(self, begin, end):
        """Whether anything else struck."""
        return sum(begin - BEFORE_S <= t <= end for t in self.strikes) > 1

    def server_back(self, what, struck):
        """The server is up again; the fault was at `struck`."""
        threading.Thread(target=self.wait_full_speed, args=(what, struck, time.monotonic()), daemon=True).start()

    def wait_full_speed(self, what, struck, back):
        due = self.rate(struck - BEFORE_S, struck)
        if due is None or due < LEAST_RATE:
            return
        at = back
        while at < back + PATIENCE_S and self.chaos.posting:
            rate = self.rate(at, at + RATE_S)
            if rate is None:
                time.sleep(0.2)
            elif rate >= ENOUGH * due:
                break
            else:
                at += 0.2
        if not self.disturbed(struck, at) and self.chaos.posting:
            with self.lock:
                self.found.setdefault(f"full speed after {what}", []).append(at - back)

    def killed(self, pid):
        self.kills.append((time.monotonic(), time.time() * 1000, pid))

    def count_claims(self, history, clients):
        for at, wall, pid in self.kills:
            times = [again for client, _, again in history.claimed_again(f"-{pid}-", wall) if client in clients and again is not None]
            if times and not self.disturbed(at, at + max(times) / 1000):
                self.found.setdefault("a killed worker's photos are claimed again", []).append(max(times) / 1000)

    def rows(self):
        for what, seconds in sorted(self.found.items()):
            seconds.sort()
            yield what, {"n": len(seconds), "median_s": round(seconds[len(seconds) // 2], 2), "worst_s": round(seconds[-1], 2)}
