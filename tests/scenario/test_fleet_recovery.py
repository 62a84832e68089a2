#!/usr/bin/env python3
# scenario: build=release timeout=300 first fleet
"""Workers that hold many slow photos die at random moments: other workers must claim the photos
within the lease and a second, since the clients' concurrency has room for them.
loadtest/chaos/kills.py has the fleets; `loadtest/chaos/run --recovery` kills 100 workers.
"""
import os
import sys

ROOT = os.environ.get("PP_SOURCE") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.append(os.path.join(ROOT, "loadtest", "chaos"))
from harness import same, scenario  # noqa: E402
from kills import FLEETS, kill_workers  # noqa: E402


def test_killed_workers(case):
    same(kill_workers(case, list(FLEETS), len(FLEETS) + 2, lambda text: print(text, flush=True))[1], 0, "workers whose photos waited too long")


if __name__ == "__main__":
    scenario(test_killed_workers)
