"""recovery.py: measures how soon a fleet recovers from a fault.

  a killed worker's photos wait again
      from its death until its claims are released, read from the oplog (history.py)
  a killed worker's photos are claimed again
      from its death until another worker claims them; only for clients without a rate and with
      several requests a slot, since photos of other clients may have to wait for their limit
  full speed after MongoDB, Redis, wiped Redis
      from the moment when the server is up until the origin gets, over RATE_S seconds, the share
      ENOUGH of the earlier requests a second: those in the BEFORE_S seconds before the fault, or
      in the run so far if these were fewer, because the clients post no more than that

The next fault ends a measurement. A measurement does not count if another fault happened less than
BEFORE_S seconds before. run --recovery makes one fault at a time.
"""
import threading
import time

BEFORE_S, RATE_S, ENOUGH, LEAST_RATE, ROOM = 10, 2, 0.8, 2, 4


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
        """Returns the requests a second between two times, or None if the samples do not reach that
        far yet.
        """
        inside = [s for s in self.samples if begin <= s[0] <= end + 0.5]
        if not inside or inside[-1][0] < end or end <= begin:
            return None
        (t0, n0), (t1, n1) = inside[0], inside[-1]
        return (n1 - n0) / (t1 - t0) if t1 > t0 else None

    def alone(self, struck):
        """Returns True if no other fault happened in the BEFORE_S seconds before this one."""
        return not any(struck - BEFORE_S <= t < struck - 0.5 for t in self.strikes)

    def next_strike(self, since):
        return min((t for t in self.strikes if t > since), default=float("inf"))

    def note(self, what, seconds):
        with self.lock:
            self.found.setdefault(what, []).append(seconds)

    def server_back(self, what, struck):
        """Notes that the server is up again after the fault that happened at the time `struck`."""
        threading.Thread(target=self.wait_full_speed, args=(what, struck, time.monotonic()), daemon=True).start()

    def wait_full_speed(self, what, struck, back):
        rates, at = [self.rate(struck - BEFORE_S, struck), self.rate(self.samples[0][0], struck)], back
        if None in rates or min(rates) < LEAST_RATE or not self.alone(struck):
            return
        due = min(rates)
        while self.chaos.posting and at < self.next_strike(back):
            rate = self.rate(at, at + RATE_S)
            if rate is not None and rate >= ENOUGH * due:
                break
            if rate is None:
                time.sleep(0.2)
            else:
                at += 0.2
        self.chaos.say(f"         full speed {at - back:.1f} s after {what}: {due:.0f} requests a second before")
        self.note(f"full speed after {what}", at - back)

    def killed(self, pid):
        self.kills.append((time.monotonic(), time.time() * 1000, pid))

    def count_claims(self, history, limits):
        for at, wall, pid in self.kills:
            if not self.alone(at):
                continue
            for client, waiting, again in history.claimed_again(f"-{pid}-", wall):
                if at + waiting / 1000 < self.next_strike(at + 0.5):
                    self.note("a killed worker's photos wait again", waiting / 1000)
                rpm, concurrency = limits[client]
                if rpm is None and concurrency > ROOM and again is not None and at + again / 1000 < self.next_strike(at + 0.5):
                    self.note("a killed worker's photos are claimed again", again / 1000)

    def rows(self):
        for what, seconds in sorted(self.found.items()):
            seconds.sort()
            yield what, {"n": len(seconds), "median_s": round(seconds[len(seconds) // 2], 2), "worst_s": round(seconds[-1], 2)}
