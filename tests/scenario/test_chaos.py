#!/usr/bin/env python3
# scenario: build=release timeout=700 first fleet
"""Chaos runs for three minutes, with a fixed seed: a fleet under faults must lose no result,
deliver none twice and exceed no limit. loadtest/chaos/chaos.py describes the checks;
`loadtest/chaos/run` runs longer and with other seeds.
"""
import os
import sys

ROOT = os.environ.get("PP_SOURCE") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.append(os.path.join(ROOT, "loadtest", "chaos"))
os.environ["PP_SEED"] = "20261121"
from chaos import Chaos  # noqa: E402
from harness import check, scenario  # noqa: E402


def test_chaos(case):
    run = Chaos(case, seconds=180, faults_every=4, workers=3, clients=12)
    check(run.run(), "; ".join(run.errors[:5]))


if __name__ == "__main__":
    scenario(test_chaos)
