#!/usr/bin/env python3
# scenario: timeout=60
"""/metrics is what Prometheus expects, has every metric that operators were promised, and every
metric that configs/monitoring names. promtool checks the page and the alert rules. docs/metrics.md
has the metrics and the labels that /metrics shows.
"""
import json
import os
import re
import subprocess

from harness import Origin, Pool, check, same, scenario, wait_until

ROOT = os.environ.get("PP_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MONITORING = os.path.join(ROOT, "configs", "monitoring")
PROMISED = """batches_total items_rejected_total photos_total fetch_seconds accept_to_result_seconds http_request_seconds fetch_bytes_total
in_flight open_tasks waiting_photos claims_total claim_conflicts_total limit_waits_total slots_held store_roundtrips_total coordinator_roundtrips_total
ingest_queue_length ingest_queue_age_seconds ingest_set_aside outbox_length outbox_age_seconds webhook_attempts_total breakers hosts_slowed
shared_photos_total filter_lookups_total counter_flush_seconds events_total subscribers loop_lag_seconds build_info""".split()


# What promtool says of names that operators were promised: this metric is about counters, and none.
KNOWN = ["photopool_counter_flush_seconds metric name should not include type 'counter'"]


def promtool(*args, text=None):
    run = subprocess.run(["promtool", *args], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False, timeout=60)
    said = [line for line in run.stdout.splitlines() if line not in KNOWN]
    check(run.returncode in (0, 3), f"promtool {' '.join(args)}: {run.returncode}: {run.stdout}")
    same(said if run.returncode else [], [], f"promtool {' '.join(args)}")


def families(page):
    return set(re.findall(r"^# TYPE (\S+)", page, re.MULTILINE))


def named(text):
    """Returns the families that an expression or a document names."""
    names = re.findall(r"\b((?:photopool|process)_[a-z_]+)", text)
    return {re.sub(r"_(bucket|sum|count)$", "", n) for n in names}


def samples(page, name):
    return {labels: float(value) for labels, value in re.findall(rf"^photopool_{name}(\{{.*\}})? (\S+)$", page, re.MULTILINE)}


def check_page(page):
    """docs/metrics.md has all families with their types and helps, and all labels of their samples."""
    with open(os.path.join(ROOT, "docs", "metrics.md"), encoding="utf-8") as f:
        rows = {r[0]: r[1:] for r in re.findall(r"^\| `(\w+)` \| (\w+)(?:, leader)? \| (.*) \| (.*) \|$", f.read(), re.M)}
    kinds, helps = (dict(re.findall(rf"^# {word} (\S+) (.*)", page, re.M)) for word in ("TYPE", "HELP"))
    same({name: row[:2] for name, row in rows.items()}, {name: (kinds[name], helps[name]) for name in kinds}, "metrics of docs/metrics.md")
    for name, labels in re.findall(r"^(\w+)\{(.*)\} ", page, re.M):
        name = name if name in rows else re.sub(r"_(bucket|sum|count)$", "", name)
        for label in set(re.findall(r'(\w+)="', labels)) - {"le"}:
            check(f"`{label}`" in rows[name][2], f"docs/metrics.md: {name} has no label {label}")


def test(case):
    origin = Origin(case, hosts="*.example delay=5 bytes=1000")
    pool = Pool(case, origin=origin)
    pool.start()
    items = [{"id": "a", "photos": [origin.url("a.example", "/1.jpg")]}, {"id": "b", "photos": 17}]
    pool.wait_finished(pool.post("/v1/batches", {"client": "42", "items": items}).json["batch_id"])

    def whole_page():
        page = pool.get("/metrics").body.decode()
        return page if samples(page, "accept_to_result_seconds_count")[""] == 1 and "photopool_outbox_length{" in page else None

    page = wait_until(whole_page, 40, "the item's result is counted, and the leader has measured the outbox")
    promtool("check", "metrics", text=page)
    promtool("check", "rules", os.path.join(MONITORING, "alerts.yaml"))
    check_page(page)
    found = families(page)
    same([n for n in PROMISED if f"photopool_{n}" not in found], [], "metrics that are missing")
    for name in ("alerts.yaml", "grafana.json"):
        with open(os.path.join(MONITORING, name), encoding="utf-8") as f:
            text = f.read()
        expressions = "\n".join(re.findall(r"expr: (.*)", text)) if name == "alerts.yaml" else "\n".join(t["expr"] for p in json.loads(text)["panels"] for t in p["targets"])
        check(named(expressions), f"{name} names metrics")
        same(sorted(named(expressions) - found), [], f"metrics in {name} that photopool does not have")
    same(samples(page, "items_rejected_total")['{code="bad_type"}'], 1, "items that were rejected for a type")
    same(samples(page, "http_request_seconds_count")['{route="POST /v1/batches",status="2xx"}'], 1, "batches that were posted")
    pool.stop()


if __name__ == "__main__":
    scenario(test)
