"""The pages of scripts/apidoc that come from the C sources: commands, errors and metrics.

They read the sources, not the program, so that a lint can compare them before anything is built.
Scenarios compare them with what the program prints:
test_monitoring.py the metrics; test_docs.py the commands and the codes.
"""
import glob
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"((?:\\.|[^"\\\n])*)"', re.S)
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "'": "'"}
TEXT = r'"((?:\\.|[^"\\])*)"'

FAULTS = {"MERCHANT": "merchant", "HOST": "host", "POLICY": "policy", "PHOTOPOOL": "photopool"}

# What the labels of a metric mean. Those of round trips have OP.
TIER = "`tier`: the tier's time limit in seconds"
OP = "`op`: the operation"
SINK = "`sink`: `hub` (events), `statistics`, `amqp`, `kafka`, `webhook:NAME`"
RESOURCE = ("`resource`: descriptors for `files`, `transfers`, `callers`, `streams`; bytes in `body_bytes`, `answer_bytes`, `stream_bytes`, "
            "`replay_bytes`, `subscription_bytes`")
LABELS = {
    "photopool_batches_total": "`outcome`: `accepted`, `rejected`, `replayed` (a POST whose Idempotency-Key was used before)",
    "photopool_items_rejected_total": "`code`: the code of the item's verdict",
    "photopool_photos_total": "`outcome`: as in results; `code`: the code of a failure, else empty; " + TIER + ", or `none` without a transfer",
    "photopool_fetch_seconds": TIER,
    "photopool_in_flight": TIER,
    "photopool_open_tasks": TIER,
    "photopool_webhook_attempts_total": "`outcome`: `delivered`, `retry`, `dead` (the last try failed), `disabled` (answered 410)",
    "photopool_breakers": "`state`: `closed`, `open`, `half_open`",
    "photopool_waiting_photos": "`reason`: `queued`, `in_flight`, `limit`, `paused`, `retry`, `host`, `unserved`; see [import.md](import.md#wait-for-a-batch)",
    "photopool_handed_back_total": ("`reason`: what is lacking: `blob_store`, `disk_space`, `descriptors`, `memory`, `slot` (of the client), `tier` (room in it); "
                                   "what the host needs: `slow_host`, `host_open`, `host_full`; `stopping`: the process ends"),
    "photopool_filter_lookups_total": "`answer`: `absent`, `present`; `unknown`: the filter was not complete",
    "photopool_loop_lag_seconds": "`loop`: `main`, `fetch-1`, ...",
    "photopool_outbox_length": SINK,
    "photopool_outbox_age_seconds": SINK,
    "photopool_sink_returned_total": "`sink`: `amqp` or `kafka`",
    "photopool_http_request_seconds": "`route`: the method and the path; `status`: its class, as `2xx`",
    "photopool_build_info": "`version`",
    "photopool_resource_limit": RESOURCE,
    "photopool_resource_used": RESOURCE,
    "photopool_resource_refused_total": RESOURCE,
}
VERDICTS = {
    "missing_field": "The item lacks `id` or `photos`.",
    "bad_type": "A field has another type.",
    "unknown_field": "An item has `id`, `photos` and `meta`.",
    "bad_id": "An id has 1 to 256 bytes of UTF-8 and no control characters.",
    "duplicate_item": "An item before it in the batch has this id.",
    "too_many_photos": "More photos than `batches.max_photos_per_item`.",
    "meta_too_large": "`meta` has more than 1 KiB.",
    "bad_json": "A line of NDJSON is not correct JSON.",
}


def unescape(text):
    """Returns what a string of C stands for. Only the escapes of texts count."""
    return re.sub(r"\\(.)", lambda m: ESCAPES.get(m.group(1), m.group(0)), text)


def code(path):
    """Returns a source without comments, in which each row of adjacent strings is one string. Names
    that the source defines as strings count as strings.
    """
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = TOKEN.sub(lambda m: m.group(0) if m.group(0)[0] == '"' else " ", f.read().replace("\\\n", "\n"))
    for name, value in re.findall(r'#define (\w+)\s+("(?:[^"\\\n]|\\.|"\s+")*")\s*\n', text):
        text = re.sub(rf"(?<!#define )\b{name}\b", lambda _, v=value: v, text)
    out, end = [], 0
    for m in TOKEN.finditer(text):
        between = text[end:m.start()]
        if out and not between.strip():
            out[-1] = out[-1][:-1] + m.group(1) + '"'  # goes on with the string before
        else:
            out += [between, m.group(0)]
        end = m.end()
    return "".join(out) + text[end:]


def sources(*folders):
    return sorted(os.path.relpath(p, ROOT) for folder in folders for p in glob.glob(os.path.join(ROOT, folder, "**", "*.[ch]"), recursive=True))


# --- commands ---

def commands():
    """Returns [(group or None, name, arguments, summary)]: the rows of commands.c."""
    table = code("cmd/photopool/commands.c").split("pp_commands[] = {")[1].split("};")[0]
    for name, rest in re.findall(rf"\{{{TEXT}, ([^}}]*)\}}", table):
        texts = re.findall(TEXT, rest)
        yield (name, None, None, None) if not texts else (None, name, *map(unescape, texts))


def helps():
    """Returns {command: its help}, and the options that all commands share."""
    found, shared = {}, None
    for path in sources("cmd/photopool"):
        for string in re.findall(TEXT, code(path)):
            string = unescape(string)
            name = re.match(r"Usage: photopool ([a-z]+)", string)
            if name and "%" not in string.split("\n")[0]:
                found.setdefault(name.group(1), string)
            elif string.startswith("\nEvery command that talks to a server"):
                shared = string
    return found, shared


def page_of_commands(wrap):
    texts, shared = helps()
    parts = ["# Commands", "<!-- Made by `scripts/apidoc commands > docs/commands.md`. The sources are the help texts. -->",
             wrap("What `photopool COMMAND --help` prints. `photopool --help` lists the commands. A package has this as a manual page, "
                  "photopool(1).")]
    listed = ["| command | |", "| --- | --- |"]
    below = []
    for group, name, _, summary in commands():
        if group:
            below.append(f"## {group}")
            continue
        listed.append(f"| [`{name}`](#photopool-{name}) | {summary} |")
        below += [f"### photopool {name}", f"```text\n{texts[name].strip()}\n```"]
    parts += ["\n".join(listed), "## Options and exit codes"]
    parts += [f"```text\n{shared.strip()}\n```",
              wrap("`doctor` and `bench` ask no server, and take the last two only. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 partly, "
                   "4 the server can't be reached. A command whose codes mean something else says so.")]
    return "\n\n".join(parts + below) + "\n"


# --- errors ---

def photo_codes():
    """Returns [(code, retry class, fault, message)]: the rows of code.h, then those of HTTP statuses."""
    rows = [row for row in re.findall(rf"X\(\w+, {TEXT},\s*(\w+),\s*(\w+),\s*{TEXT},", code("include/photopool/code.h")) if row[0]]
    text = code("lib/core/code.c")
    shared = {name: row for name, *row in
              re.findall(rf'(\w+) = \{{"http_.xx",\s*PP_(\w+),\s*PP_FAULT_(\w+),\s*\{{{TEXT}', text)}
    cases = [(f"http_{status}", *shared[name]) for statuses, name in re.findall(r"((?:case \d+:\s*)+)return &(\w+);", text)
             for status in re.findall(r"\d+", statuses)]
    rest = [("http_4xx", *shared["other_4xx"]), ("http_5xx", *shared["other_5xx"])]
    return rows + sorted(cases) + rest


def request_codes():
    """Returns [(code, status, title, remedy)]: the rows of api_code.h."""
    return re.findall(rf"X\(\w+, {TEXT}, (\d+),\s*{TEXT},\s*{TEXT}\)", code("include/photopool/api_code.h"))


def verdict_codes():
    return re.findall(TEXT, code("lib/pipeline/common/metrics.h").split("#define PP_REJECTED_CODES")[1].split("}")[0])


def page_of_errors(wrap):
    parts = ["# Codes of failures", "<!-- Made by `scripts/apidoc errors > docs/errors.md`. The sources are code.h and api_code.h. -->",
             wrap("A server lists the same with `photopool errors` and `GET /v1/errors`; with `Accept-Language: ru`, the sentences are in Russian."),
             "## Photos",
             wrap("`error.code` of a photo in a result. `fault` says who can correct it; the message is the sentence for the merchant."),
             "| `retry` | photopool |\n| --- | --- |\n"
             "| `final` | does not ask again in this import |\n"
             "| `retry` | asks again after a random growing delay, `retry.attempts` transfers in all |\n"
             "| `promote` | asks again at once in the next tier; in the last tier it is final |\n"
             "| `wait` | asks again when the host permits (`Retry-After`) |"]
    lines = ["| code | retry | fault | message |", "| --- | --- | --- | --- |"]
    lines += [f"| `{name}` | {retry.lower()} | {FAULTS[fault]} | {unescape(message)} |" for name, retry, fault, message in photo_codes()]
    parts += ["\n".join(lines),
              wrap("`http_4xx` and `http_5xx` stand for all statuses that have no row. A result names the status itself, such as `http_418`; "
                   "filters and replays also take the two classes."),
              "## Items", wrap("`code` of an item that a batch's answer lists in `rejected`; `detail` says what is wrong. `photopool submit` also "
                               "lists rows that it can't read, as `unreadable`."),
              "| code | meaning |\n| --- | --- |\n" + "\n".join(f"| `{name}` | {VERDICTS[name]} |" for name in verdict_codes()),
              "## Requests", wrap("`code` of a problem document (RFC 9457).")]
    lines = ["| code | status | title | what to do |", "| --- | --- | --- | --- |"]
    lines += [f"| `{name}` | {status} | {unescape(title)} | {unescape(remedy)} |" for name, status, title, remedy in request_codes()]
    return "\n\n".join([*parts, "\n".join(lines)]) + "\n"


# --- metrics ---

def metrics():
    """Returns {name: (type, whether only a leader shows it, help)}: every form in which the sources
    write a family. test_monitoring.py fails if the program has others.
    """
    found = {}
    for path in sources("lib"):
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            if not re.search(r"_total\"|# HELP|family\(", f.read()):
                continue
        text = code(path)
        for function in re.split(r"\n}\n", text):
            leader = "if (!m->leads)\n        return;\n    family" in function
            for name, help_text, kind in re.findall(r"# HELP ((?:photopool|process)_\w+) (.*?)\\n# TYPE \1 (\w+)\\n", function):
                found[name] = (kind, False, help_text)
            rows = [(name, kind, text) for name, kind, text in re.findall(rf"family\((?:out|call), {TEXT}, {TEXT},\s*{TEXT}\)", function)]
            rows += re.findall(rf"\{{{TEXT}, \"(counter|gauge)\", {TEXT}", function)
            rows += [(name, "counter", text) for name, text in re.findall(rf"\{{\"(\w+_total)\", {TEXT},\s*\w+", function)]
            prefix = "process_" if "# HELP process_%s" in function else "photopool_"
            for name, kind, help_text in rows:
                found[prefix + name] = (kind, leader, help_text)
            for condition, name, help_text in re.findall(rf"(m->leads\)\s*)?write_by_tier\(out, {TEXT}, {TEXT}", function):
                found["photopool_" + name] = ("gauge", bool(condition), help_text)
        for name, kind, help_text in re.findall(rf"X\(\w+, {TEXT}, PP_(COUNTER|GAUGE|LEADER_GAUGE\w*),\s*{TEXT}\)", text):
            found["photopool_" + name] = (kind.split("_")[-1].replace("MS", "GAUGE").lower(), kind.startswith("LEADER"), help_text)
    return found


def labels_of(name):
    return LABELS.get(name, OP if name.endswith("_roundtrips_total") else "")


def page_of_metrics(wrap):
    shown = metrics()
    gone = sorted(set(LABELS) - set(shown))
    if gone:
        raise SystemExit(f"scripts/apidoc_source.py: LABELS has metrics that photopool does not have: {gone}")
    parts = ["# Metrics", "<!-- Made by `scripts/apidoc metrics > docs/metrics.md`. The sources are those of /metrics. -->",
             wrap("What `GET /metrics` shows, for Prometheus. [operators.md](operators.md#what-to-watch) says which to watch, and has alert "
                  "rules and a dashboard."),
             wrap("A counter begins at 0 when the process starts. Every process shows its own values. Only the leader of the cron processes "
                  "shows those with \"leader\", so that a fleet shows them once; `photopool up` is its own leader. A sample with labels "
                  "may be absent as long as nothing was counted."),
             "| metric | type | meaning | labels |\n| --- | --- | --- | --- |\n" +
             "\n".join(f"| `{name}` | {kind}{', leader' if leader else ''} | {unescape(text)} | {labels_of(name)} |"
                       for name, (kind, leader, text) in sorted(shown.items()))]
    return "\n\n".join(parts) + "\n"
