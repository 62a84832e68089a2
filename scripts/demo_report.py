"""demo_report.py: prints the final report of the demo: outcomes, codes, tiers, limits, learned
routes, and one result in full.
"""
import json
from collections import Counter, defaultdict

from demo_catalogue import FAST, MEDIUM, SLOW, kinds

OUTCOMES = ("stored", "unchanged", "skipped", "failed", "cancelled")
CODES_SHOWN = 24


def share(part, whole):
    return f"{100 * part / whole:.0f} %" if whole else "-"


class Outcome:
    """All results of both imports. An entry is a dict with client, import number, batch, item,
    caption and photo.
    """

    def __init__(self, pool, imports):
        self.sentences = {e["code"]: e for e in pool.list("/v1/errors", "errors")}
        self.entries, self.results = [], []
        for client, number, ids in imports:
            for batch in ids:
                for result in pool.list(f"/v1/batches/{batch}/results", "results"):
                    self.results.append(result)
                    data = result["data"]
                    captions = (data.get("meta") or {}).get("captions") or [data["item"]]
                    self.entries += [{"client": client, "import": number, "batch": batch, "item": data["item"],
                                      "caption": captions[min(i, len(captions) - 1)], "photo": photo}
                                     for i, photo in enumerate(data["photos"])]

    def sentence(self, code):
        """Returns the sentence for the merchant about a code. All http_4xx codes share one
        sentence, as do all http_5xx codes.
        """
        entry = self.sentences.get(code) or self.sentences.get(f"http_{code[5:6]}xx") or {}
        return entry.get("message", "")


def outcomes(screen, out):
    count = Counter(e["photo"]["outcome"] for e in out.entries)
    total = sum(count.values())
    screen.heading(f"{total} photos of {len(out.results)} items, each with its result")
    meaning = {"stored": "fetched, checked, kept", "unchanged": "sent again by the merchant: known, no request made",
               "skipped": "failed before and not due yet: no request made", "failed": "see the codes", "cancelled": ""}
    rows = [("outcome", "photos", "", "")]
    for name in OUTCOMES:
        if count[name]:
            colour = screen.bad if name == "failed" else screen.good
            rows.append((colour(name), str(count[name]), share(count[name], total), meaning[name]))
    screen.table(rows, right=(1, 2))


def codes(screen, out):
    count = Counter(e["photo"]["error"]["code"] for e in out.entries if e["photo"].get("error"))
    screen.heading("Failures by code, each with the sentence for the merchant")
    rows = [("code", "photos", "")]
    rows += [(code, str(n), out.sentence(code)) for code, n in count.most_common(CODES_SHOWN)]
    screen.table(rows, right=(1,))


def tiers(screen, pool):
    """Prints, from /metrics, in which tier photos ended, and how many transfers that took."""
    settled, transfers, seconds = defaultdict(Counter), Counter(), Counter()
    for (name, labels), value in pool.metrics().items():
        labels = dict(labels)
        if name == "photos_total":
            settled[labels["tier"]][labels["outcome"]] += int(value)
        elif name == "fetch_seconds_count":
            transfers[labels["tier"]] += int(value)
        elif name == "fetch_seconds_sum":
            seconds[labels["tier"]] += value
    screen.heading("By tier: pools of transfers with one deadline each, so that slow hosts hold up nobody")
    rows = [("tier", "transfers", "mean", "stored here", "failed here")]
    for tier in sorted(transfers, key=float):
        n = transfers[tier]
        rows.append((f"{tier} s", str(n), f"{seconds[tier] / n:.2f} s" if n else "-", str(settled[tier]["stored"]), str(settled[tier]["failed"])))
    screen.table(rows, right=(1, 2, 3, 4))


def learned(screen, pool, out):
    kind_of, attempts = kinds(), defaultdict(list)
    for e in out.entries:
        kind = kind_of.get(host_of(e["photo"]["url"]))
        if kind and e["photo"]["outcome"] == "stored":
            attempts[kind, e["import"]].append(e["photo"]["attempts"])
    routes = list(pool.list("/v1/routes", "routes"))
    tiers_found = Counter(f"{r['tier']:g} s" for r in routes)
    screen.heading(f"What was learned about {len(routes)} hosts: "
                   + ", ".join(f"{n} in the {tier} tier" for tier, n in sorted(tiers_found.items(), key=lambda i: float(i[0][:-2]))))
    rows = [("transfers for each photo stored", "first import", "second import")]
    for kind in (FAST, MEDIUM, SLOW):
        means = [sum(a) / len(a) if (a := attempts[kind, n]) else 0 for n in (1, 2)]
        rows.append((f"from hosts that need {kind}", f"{means[0]:.2f}", f"{means[1]:.2f}"))
    screen.table(rows, right=(1, 2))
    picked = [next((r for r in routes if kind_of.get(r["domain"]) == kind), None) for kind in (FAST, MEDIUM, SLOW)]
    screen.say()
    screen.table([("client", "host", "tier", "mean", "transfers seen")]
                 + [(r["client"], r["domain"], f"{r['tier']:g} s", f"{r['mean_ms'] / 1000:.2f} s", str(r["samples"])) for r in picked if r],
                 right=(2, 3, 4))


def limits(screen, origin, merchants):
    """Prints the limits as the hosts measured them, not photopool. Returns True if no host got too
    many requests.
    """
    checked = origin.check(merchants)
    by_client = {c["client"]: c for c in checked["clients"]}
    screen.heading("Limits, as measured at the hosts (redirects and retries are requests, too)")
    rows = [("client", "requests", "most in any 60 s", "allowed", "most at a time", "allowed")]
    for m in merchants:
        c = by_client.get(m.client)
        if c:
            rows.append((m.client, str(c["requests"]), str(c["worst_window"]), str(m.rpm), str(c["worst_concurrency"]), str(m.concurrency)))
    screen.table(rows, right=(1, 2, 3, 4, 5))
    over = checked["over"]
    screen.say(screen.bad("  a limit was overrun: that is a defect") if over else screen.good("  no limit was overrun"))
    return not over


def sample(screen, out):
    """Prints a result that has both a stored and a failed photo, if there is one."""
    def mixed(result):
        return len({p["outcome"] for p in result["data"]["photos"]}) > 1 and len(result["data"]["photos"]) == 2
    result = next((r for r in out.results if mixed(r)), out.results[0] if out.results else None)
    if result:
        screen.heading("One result, as consumers get it")
        for line in json.dumps(result, indent=2, ensure_ascii=False).split("\n"):
            screen.say("  " + line)


def host_of(url):
    """Returns the host of a URL as written. For an invalid URL returns the text in its place."""
    rest = url.split("://", 1)[-1].split("/", 1)[0]
    return rest if rest.startswith("[") else rest.rsplit(":", 1)[0]
