#!/usr/bin/env python3
# scenario: timeout=120 main
"""openapi.json and asyncapi.json must describe the server exactly. The test calls every operation
with valid and with invalid input, and checks each answer against the document: status, type,
headers, body, problem code. It also checks that the schema allows each input that the server
accepts. It checks a stream of Server-Sent Events, a WebSocket and the deliveries of a webhook
against asyncapi.json. A field that a schema does not describe is a failure, too.

An operation or answer that the test never meets (except UNSEEN) is a failure. So is a route of the
server's table that the document lacks, and a route of the document that the table lacks. npm's ajv
validates (tests/support/apidocs).
"""
import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import queue
import re
import socket
import struct
import subprocess
import threading
import time
import urllib.parse

from aside import set_aside
from harness import SLOW, Origin, Pool, check, free_port, same, scenario, wait_until

ROOT = os.environ.get("PP_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JSON, NDJSON, PROBLEM, CLOUDEVENT = "application/json", "application/x-ndjson", "application/problem+json", "application/cloudevents+json"
# Statuses that a test can't cause at will: they come from races, from many requests at once, or
# from faults of photopool.
UNSEEN = {"409", "429", "500", "503"}
KEYS = {"all": ["submit", "read", "admin"], "reader": ["read"], "submitter": ["submit"], "bound": ["submit", "read", "admin"]}
SECRETS = ["whsec_" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2)]
HOSTS = """
gone.example    delay=5 status=404
stall.example   stall=head
*.example       delay=5 bytes=600-2000
"""


def template(path):
    return re.compile("^" + re.sub(r"\\\{\w+\\\}", "([^/]+)", re.escape(path)) + "$")


class Validator:
    """Validates values against JSON Schemas, by a process of tests/support/apidocs."""

    def __init__(self):
        self.process = subprocess.Popen([os.path.join(ROOT, "tests", "support", "apidocs"), "validate"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lock = threading.Lock()

    def ask(self, **what):
        with self.lock:
            self.process.stdin.write(json.dumps(what).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        check(line, "the validator has ended")
        return json.loads(line)

    def add(self, name, document):
        same(self.ask(document=name, content=document), {}, name)

    def errors(self, schema, value):
        """Returns what is wrong with the value, or None. An unusable schema fails the test."""
        errors = self.ask(schema=schema, value=value)["errors"]
        check(not errors or not re.match(r"\w*Error: ", errors), f"{schema}: {errors}")
        return errors

    def fits(self, schema, value, what):
        errors = self.errors(schema, value)
        check(not errors, f"{what} is not as {schema} says: {errors}\n{json.dumps(value)[:1000]}")


def closed(node):
    """Returns the document with all schemas closed to fields that they do not name, so that the
    test notices undescribed fields.
    """
    if isinstance(node, list):
        return [closed(n) for n in node]
    if not isinstance(node, dict):
        return node
    out = {k: closed(v) for k, v in node.items()}
    if node.get("type") == "object" and "properties" in node:
        out.setdefault("additionalProperties", False)
    return out


def pointer(*parts):
    return "#" + "".join("/" + urllib.parse.quote(p.replace("~", "~0").replace("/", "~1"), safe="~") for p in parts)


class Api:
    """Sends requests by operationId and checks each against openapi.json."""

    def __init__(self, pool, validator, document):
        self.pool, self.validator, self.document = pool, validator, document
        self.ops = {}  # operationId: (path, method, operation)
        self.seen = set()  # (operationId, status)
        for path, item in document["paths"].items():
            for method, op in item.items():
                if method != "parameters":
                    check(op["operationId"] not in self.ops, f"two operations {op['operationId']}")
                    self.ops[op["operationId"]] = path, method, op

    def resolve(self, node):
        """Follows a $ref. Returns (target, its path in the document), or (node, None) if the node
        has no $ref.
        """
        if "$ref" in node:
            parts = node["$ref"].split("/")[1:]
            for key in parts:
                self.last = self.document if key == parts[0] else self.last
                self.last = self.last[key]
            return self.last, tuple(parts)
        return node, None

    def parameters(self, id_):
        path, _, op = self.ops[id_]
        where = ("paths", path, "parameters"), ("paths", path, self.ops[id_][1], "parameters")
        return {(p["in"], p["name"]): (p, pointer(*base, str(i))) for base, list_ in zip(where, (self.document["paths"][path].get("parameters", []), op.get("parameters", [])))
                for i, p in enumerate(list_)}

    def check_parameters(self, id_, query, headers, refused):
        """Checks that the document describes all parameters that are sent, and allows their values
        unless the server must refuse them.
        """
        known = self.parameters(id_)
        sent = {}
        for where, pairs in (("query", query), ("header", headers)):
            for name, value in pairs:
                if name == "Accept":  # OpenAPI describes it by the types of the answers
                    continue
                p = known.get((where, name))
                check(p or refused, f"{id_}: there is no parameter {name} in the document")
                if not p:
                    return
                kind = p[0]["schema"].get("type")
                if kind == "integer" and re.fullmatch(r"-?\d+", str(value)):
                    value = int(value)
                sent.setdefault((where, name), []).append(value)
        for key, (p, at) in known.items():
            values = sent.get(key)
            if values is None:
                check(refused or key[0] == "path" or not p.get("required"), f"{id_}: {key[1]} is required")
            elif not refused:
                self.validator.fits("openapi" + at + "/schema", values if p["schema"].get("type") == "array" else values[0], f"{id_}: parameter {key[1]}")

    def check_body(self, id_, body, ctype, refused):
        path, method, op = self.ops[id_]
        if body is None:
            check(refused or not op.get("requestBody", {}).get("required"), f"{id_}: a body is required")
        elif ctype == JSON:
            check("requestBody" in op, f"{id_}: no body is described")
            schema = "openapi" + pointer("paths", path, method, "requestBody", "content", JSON, "schema")
            errors = self.validator.errors(schema, body)
            if refused == "form":
                check(errors, f"{id_}: the server does not take what the document allows: {json.dumps(body)[:300]}")
            elif not refused:
                check(not errors, f"{id_}: the server takes what the document does not allow: {errors}: {json.dumps(body)[:300]}")
        elif not refused:
            check(ctype in op["requestBody"]["content"], f"{id_}: the document has no {ctype} for its body")
            for line in body.split("\n"):
                if line:
                    self.validator.fits("openapi#/components/schemas/Item", json.loads(line), f"{id_}: a line")

    def check_answer(self, id_, status, headers, body):
        path, method, op = self.ops[id_]
        self.seen.add((id_, str(status)))
        what = f"{id_}: {status} {body[:300]!r}"
        check(str(status) in op["responses"], f"{what}: the status is not in the document")
        response, at = self.resolve(op["responses"][str(status)])
        base = at or ("paths", path, method, "responses", str(status))
        for name, h in response.get("headers", {}).items():
            value = headers.get(name)
            check(value or name == "Idempotency-Replayed", f"{what}: there is no {name}")
            if value:
                self.validator.fits("openapi" + pointer(*base, "headers", name, "schema"), value, f"{id_}: {name}")
        content = response.get("content")
        ctype = (headers.get("Content-Type") or "").split(";")[0]
        if not content:
            check(not body and not ctype, f"{what}: the document has no body")
            return None
        media = next((m for m in content if re.fullmatch(re.escape(m).replace(r"\*", "[^/]+"), ctype)), None)
        check(media, f"{what}: the type {ctype!r} is none of {list(content)}")
        if ctype not in (JSON, PROBLEM):
            return body
        value = json.loads(body)
        self.validator.fits("openapi" + pointer(*base, "content", media, "schema"), value, f"{id_}: the answer {status}")
        if ctype == PROBLEM:
            same(value["status"], status, f"{id_}: status of the problem")
            check(value["code"] in content[media]["examples"], f"{what}: the code has no example in the document")
        return value

    def __call__(self, id_, *args, due=200, query=(), headers=(), body=None, raw=None, ctype=JSON, key="all", code=None, refused=None, encoding=None):
        """Sends a request, checks it and the answer against the document, and returns the content
        of the answer. refused: "form" if the document forbids the body, too; True if the document
        can't express why the server refuses.
        """
        path, method, _ = self.ops[id_]
        refused = refused or (due >= 400 and due not in (401, 403, 404))
        query, headers = list(query), list(headers)
        self.check_parameters(id_, query, headers, refused)
        self.check_body(id_, raw if raw is not None else body, ctype if raw is None or ctype == NDJSON else None, refused)
        for value in args:
            path = re.sub(r"\{\w+\}", urllib.parse.quote(value, safe=""), path, count=1)
        data = raw.encode() if isinstance(raw, str) else raw if raw is not None else json.dumps(body).encode() if body is not None else None
        send = dict(headers)
        if data is not None:
            send["Content-Type"] = ctype
        if encoding:
            send["Content-Encoding"] = encoding
        if key:
            send["Authorization"] = f"Bearer {key}"
        r = self.pool.request(method.upper(), path + ("?" + urllib.parse.urlencode(query) if query else ""), data, send)
        same(r.status, due, f"{id_} {path} {query}: {r}")
        value = self.check_answer(id_, r.status, r.headers, r.body)
        if code:
            same(value["code"], code, f"{id_} {path} {query}")
        self.headers = r.headers
        return value


# --- the server's table of routes ---

def table():
    """Returns [(METHOD, path with {}, scope, flags, query parameters)] of all routes in
    lib/api/endpoints.h.
    """
    with open(os.path.join(ROOT, "lib", "api", "endpoints.h"), encoding="utf-8") as f:
        text = f.read()
    rows = re.findall(r'^ +X\((\w+), "([^"]+)", (\w+), ([\w |]+), (PP_PAGE ?)?(?:"([^"]*)")?,[\s\\]+\w+\)', text, re.M)
    same(len(rows), len(re.findall(r'^ +X\(\w+, "/', text, re.M)), "rows of the table that were understood")
    return [(method, path, scope, set(flags.split(" | ")), (("limit after " if page else "") + params).replace("*", "").split())
            for method, path, scope, flags, page, params in rows]


def routes(api):
    rows = table()
    described = {(method.upper(), re.sub(r"\{\w+\}", "{}", path)): id_ for id_, (path, method, _) in api.ops.items()}
    same(sorted(described), sorted(row[:2] for row in rows), "operations of openapi.json, and rows of endpoints.h")
    for method, path, scope, flags, params in rows:
        id_ = described[method, path]
        op = api.ops[id_][2]
        names = sorted(name for where, name in api.parameters(id_) if where == "query")
        same(names, sorted(params), f"{id_}: query parameters")
        same(op.get("security") == [], "PP_PUBLIC" in flags, f"{id_}: public")
        same("bound to a client." in op["description"], "PP_UNBOUND" in flags and "PP_METRICS" not in flags, f"{id_}: says that it is not for bound keys")
        if scope != "ANY":
            check(f"eeds a key with the scope `{scope.lower()}`" in op["description"], f"{id_}: says that it needs {scope}")


# --- refusals that all operations share ---

def example_request(api, id_, url):
    """Returns the path arguments, query and body that an operation's examples in the document have."""
    path, _, op = api.ops[id_]
    args = [api.parameters(id_)["path", name][0]["example"] for name in re.findall(r"\{(\w+)\}", path)]
    query = [(p["name"], p["example"]) for (where, _), (p, _) in api.parameters(id_).items() if where == "query" and "example" in p and p.get("required")]
    if id_ == "events":
        query = [("key", "results:42")]
    if id_ == "getCounters":
        query = [("key", "view:42:ad-1")]
    body = op.get("requestBody", {}).get("content", {}).get(JSON, {}).get("example")
    if id_ == "putWebhook":  # the server checks the URL before everything else
        body = {**body, "url": url}
    return args, query, body


def refusals(api, url):
    for id_, (path, _, op) in api.ops.items():
        args, query, body = example_request(api, id_, url)
        more = {"query": query, "body": body}
        api(id_, *args, **{**more, "query": [*query, ("colour", "red")]}, due=400, code="bad_parameter")
        api(id_, *args, **more, headers=[("X-Long", "x" * 70000)], due=431, code="header_too_large")
        if op.get("security") != []:
            api(id_, *args, **more, due=401, key=None, code="unauthorized")
            api(id_, *args, **more, due=401, key="nobody", code="unauthorized")
        if "403" in op["responses"]:
            wrong = "reader" if "scope `read`" not in op["description"] else "submitter"
            api(id_, *args, **more, due=403, key=wrong, code="forbidden")
        if "bound to a client." in op["description"]:
            api(id_, *args, **more, due=403, key="bound", code="forbidden")
        if "requestBody" in op:
            large = b" " * ({"postBatch": 1 << 20, "postCounters": 1 << 18}.get(id_, 1 << 16) + 1)
            api(id_, *args, raw=large, due=413, code="body_too_large")
            api(id_, *args, raw="x=1", ctype="application/x-www-form-urlencoded", due=415, code="unsupported_media_type")
            api(id_, *args, raw="{", due=400, code="bad_json")
            api(id_, *args, raw="{}", encoding="gzip", due=400, code="bad_encoding")
            api(id_, *args, body={**body, "colour": "red"}, due=400, code="unknown_field", refused="form")
            api(id_, *args, body=[], due=400, code="bad_type", refused="form")
        if ("query", "after") in api.parameters(id_):
            api(id_, *args, **{**more, "query": [*query, ("after", "x")]}, due=400, code="bad_cursor")
            for limit in ("0", "1001", "x"):
                api(id_, *args, **{**more, "query": [*query, ("limit", limit)]}, due=400, code="bad_parameter")


# --- batches and their results ---

def batches(r):
    api = r.api
    meta = {"sku": "A-7", "n": [1, None, 2.5]}
    items = [{"id": "ad-1", "photos": [r.url("a"), r.url("gone"), r.url("a")], "meta": meta}, {"id": "ad/2", "photos": []}]
    bad = {"id": "ad-3", "photos": [17]}
    once = [("Idempotency-Key", "import-1")]
    api("postBatch", body={"client": "42", "items": [*items, bad]}, headers=once, due=202, refused=True)
    check("Idempotency-Replayed" not in api.headers, "the first answer")
    again = api("postBatch", body={"client": "42", "items": [*items, bad]}, headers=once, due=202, refused=True)
    same((again["accepted"], [v["code"] for v in again["rejected"]]), (2, ["bad_type"]), "verdicts")
    same((api.headers["Idempotency-Replayed"], api.headers["Location"]), ("true", f"/v1/batches/{again['batch_id']}"), "headers of a repeated answer")
    api("postBatch", body={"client": "42", "items": items}, headers=once, due=422, code="idempotency_mismatch")
    api("postBatch", body={"client": "42", "items": [bad]}, due=422, code="all_rejected", refused="form")
    api("postBatch", body={"client": "42", "items": items, "refresh": "often"}, due=422, code="bad_value", refused="form")
    api("postBatch", body={"client": "42", "items": [{"id": str(n), "photos": []} for n in range(101)]}, due=422, code="too_many_items")
    api("postBatch", body={"client": "4 2", "items": items}, due=400, code="bad_client", refused="form")
    api("postBatch", body={"client": "42"}, due=400, code="missing_field", refused="form")
    api("postBatch", body={"client": "42", "items": items}, headers=[("Idempotency-Key", "a b")], due=400, code="bad_idempotency_key")
    api("postBatch", body={"client": "43", "items": items}, due=404, code="not_found", key="bound")
    r.finished(again["batch_id"])
    lines = "".join(json.dumps(i) + "\n" for i in [{"id": "ad-4", "photos": [r.url("gone"), r.url("b")]}])
    api("postBatch", raw=lines, ctype=NDJSON, due=400, code="bad_parameter")
    second = api("postBatch", raw=lines, ctype=NDJSON, query=[("client", "42"), ("refresh", "always")], due=202)["batch_id"]
    r.finished(second)
    api("getBatch", again["batch_id"])
    api("getBatch", again["batch_id"], key="bound")
    api("getBatch", r.nobody["id"], due=404, code="not_found")
    api("getBatch", r.nobody["id"], query=[("wait", 60)], due=404, code="not_found")
    api("getBatch", again["batch_id"], query=[("wait", 61)], due=400, code="bad_parameter")
    named = [("client", "42"), ("label", "monday"), ("max_age", "30d")]
    third = api("postBatch", raw=lines, ctype=NDJSON, query=named, due=202)["batch_id"]
    wait_until(lambda: api("getBatch", third, query=[("wait", 10)])["state"] == "finished", 60, "a call that waits for the batch")
    same([b["batch_id"] for b in api("listBatches", query=[("label", "monday")])["batches"]], [third], "batches by label")
    api("listBatches", query=[("label", "a\n")], due=400, code="bad_parameter")
    api("postBatch", body={"client": "42", "items": items, "label": ""}, due=422, code="bad_value", refused="form")
    page = api("listBatches", query=[("client", "42"), ("state", "finished"), ("limit", 1)])
    check(page["next"], "a second page")
    api("listBatches", query=[("client", "42"), ("state", "finished"), ("limit", 1), ("after", page["next"])])
    api("listBatches", query=[("after", page["next"])], due=400, code="bad_cursor")
    api("listBatches", query=[("client", "4 2")], due=400, code="bad_client")
    api("listBatches", query=[("client", "43")], key="bound", due=404)
    found = api("listResults", again["batch_id"])["results"]
    same(sorted(x["data"]["item"] for x in found), ["ad-1", "ad/2"], "items")
    same(next(x for x in found if x["data"]["item"] == "ad-1")["data"]["meta"], meta, "meta")
    same(len(api("listResults", again["batch_id"], query=[("status", "partial"), ("code", "http_404"), ("limit", 1)])["results"]), 1, "partial ones")
    api("listResults", again["batch_id"], query=[("status", "open")], due=400, code="bad_parameter")
    api("listResults", r.nobody["id"], due=404)
    same([v["code"] for v in api("listRejected", again["batch_id"])["rejected"]], ["bad_type"], "rejected items")
    api("listRejected", r.nobody["id"], due=404)
    same(api("getItem", "42", "ad/2")["data"]["status"], "complete", "an item without photos")
    api("getItem", "42", "ad/2", key="bound")
    api("getItem", "42", "nobody", due=404)
    listed = api("listItems", query=[("client", "42"), ("limit", 2)])
    same([x["data"]["item"] for x in listed["items"]], ["ad-1", "ad-4"], "items of a client")
    same([x["data"]["item"] for x in api("listItems", query=[("client", "42"), ("limit", 2), ("after", listed["next"])])["items"]], ["ad/2"], "the next page")
    same(len(api("listItems", query=[("client", "42"), ("status", "partial"), ("code", "http_404"), ("q", "ad-")])["items"]), 2, "partial ones")
    api("listItems", query=[("client", "42"), ("status", "over")], due=400, code="bad_parameter")
    api("listItems", query=[("client", "43")], key="bound", due=404)
    again_once = [("Idempotency-Key", "refresh-1")]
    fresh = api("refreshItem", "42", "ad/2", headers=again_once, due=202)["batch_id"]
    same(api("refreshItem", "42", "ad/2", headers=again_once, due=202)["batch_id"], fresh, "the same refresh")
    api("refreshItem", "42", "ad-1", headers=again_once, due=422, code="idempotency_mismatch")
    api("refreshItem", "42", "ad/2", headers=[("Idempotency-Key", "a b")], due=400, code="bad_idempotency_key")
    api("refreshItem", "42", "nobody", due=404)
    r.finished(fresh)
    same(api("getItem", "42", "ad/2")["data"]["batch_id"], fresh, "the refreshed item")
    api("replayBatch", again["batch_id"], body={"codes": ["http_404"], "domains": ["gone.example"], "dry_run": True})
    new = api("replayBatch", again["batch_id"], headers=[("Idempotency-Key", "replay-1")], due=202)["batch_id"]
    api("replayBatch", again["batch_id"], body={"codes": ["http_999"]}, due=422, code="bad_value", refused=True)
    api("replayBatch", again["batch_id"], body={"codes": "http_404"}, due=400, code="bad_type", refused="form")
    api("replayBatch", again["batch_id"], headers=[("Idempotency-Key", "x" * 256)], due=400, code="bad_idempotency_key")
    api("replayBatch", r.nobody["id"], due=404)
    r.finished(new)
    return again["batch_id"], found


def open_items(r):
    """Checks answers about items that are being fetched, wait, or are superseded or cancelled."""
    api = r.api
    batch = api("postBatch", body={"client": "44", "items": [{"id": "slow", "photos": [r.url("stall"), r.url("c")]}, {"id": "old", "photos": [r.url("stall", "/2")]}]}, due=202)["batch_id"]
    wait_until(lambda: api("getBatch", batch)["photos"]["stored"] == 1, 20, "the photos that do not stall are stored")
    wait_until(lambda: any(p.get("state") == "claimed" for p in api("getItem", "44", "slow")["photos"]), 20, "a photo is being fetched")
    api("explain", query=[("client", "44"), ("url", r.url("stall"))])
    same([x["status"] for x in api("listItems", query=[("client", "44"), ("status", "open")])["items"]], ["open", "open"], "open items")
    api("getQueue")
    api("listWorkers")
    newer = api("postBatch", body={"client": "44", "items": [{"id": "old", "photos": [r.url("d")]}]}, due=202)["batch_id"]
    r.finished(newer)
    api("cancelBatch", batch)
    r.finished(batch)
    same(sorted(x["data"]["status"] for x in api("listResults", batch)["results"]), ["cancelled", "superseded"], "how they ended")
    same(api("cancelBatch", batch)["state"], "cancelled", "once more")
    api("cancelBatch", r.nobody["id"], due=404)
    api("putClient", "45", body={"paused": True})
    waits = api("postBatch", body={"client": "45", "items": [{"id": "w", "photos": [r.url("w")]}]}, due=202)["batch_id"]
    wait_until(lambda: api("getBatch", waits)["state"] == "running", 20, "the batch is planned")
    same(api("getItem", "45", "w")["photos"][0]["state"], "waiting", "a photo of a paused client")
    same(api("explain", query=[("client", "45"), ("url", r.url("w"))])["would"], "wait", "what would happen to it")
    api("deleteItem", "45", "w", due=409, code="item_open")
    api("deleteItem", "44", "old", due=409, code="undelivered")  # the webhook that is paused waits for it
    api("deleteItem", "44", "old", query=[("force", "yes")], due=400, code="bad_parameter")
    api("deleteItem", "44", "old", query=[("force", "true")], due=404, key="bound")
    same(api("deleteItem", "44", "old", query=[("force", "true")])["revisions"], 2, "revisions deleted")
    api("deleteItem", "44", "old", due=404)
    api("getItem", "44", "old", due=404)
    same([x["data"]["item"] for x in api("listResults", batch)["results"]], ["slow"], "results that stay")
    same(api("getBatch", batch)["items"]["superseded"], 1, "the counts stay")


def photos(r, found):
    api = r.api
    kept = next(p for x in found for p in x["data"]["photos"] if p["outcome"] == "stored")
    body = api("getPhoto", kept["sha256"])
    same(hashlib.sha256(body).hexdigest(), kept["sha256"], "hash")
    same(api("getPhoto", kept["sha256"], headers=[("Range", "bytes=1-3")], due=206), body[1:4], "a range")
    same(api("getPhoto", kept["sha256"], headers=[("Range", "bytes=1-3"), ("If-Range", '"other"')]), body, "a range of another version")
    api("getPhoto", kept["sha256"], headers=[("If-None-Match", api.headers["ETag"])], due=304)
    api("getPhoto", kept["sha256"], headers=[("Range", f"bytes={len(body)}-")], due=416, code="range_not_satisfiable")
    api("getPhoto", "0" * 64, due=404)


# --- counters ---

def counters(r):
    api = r.api
    once = [("Idempotency-Key", "count-1")]
    body = {"increments": [{"key": "view:42:ad-1", "n": 3}, {"key": "b"}, {"key": "b"}]}
    due = [{"key": "view:42:ad-1", "value": 3}, {"key": "b", "value": 1}, {"key": "b", "value": 2}]
    for replayed in (None, "true"):
        same(api("postCounters", body=body, headers=once)["counters"], due, "sums")
        same(api.headers.get("Idempotency-Replayed"), replayed, "Idempotency-Replayed")
    api("postCounters", body={"increments": [{"key": "b"}]}, headers=once, due=422, code="idempotency_mismatch")
    api("postCounters", body={"increments": [{"key": "b"}]}, headers=[("Idempotency-Key", "a b")], due=400, code="bad_idempotency_key")
    for bad in ({"key": "a b"}, {"key": "b", "n": 0}, {"key": "b", "n": 1000001}):
        api("postCounters", body={"increments": [{"key": "c"}, bad]}, due=422, code="bad_value", refused="form")
    for bad in ("b", {"n": 1}, {"key": "b", "n": 1.5}):
        api("postCounters", body={"increments": [bad]}, due=400, code="bad_type", refused="form")
    api("postCounters", body={"increments": [{"key": "b", "by": 1}]}, due=400, code="unknown_field", refused="form")
    api("postCounters", body={"increments": []}, due=422, code="bad_value", refused="form")
    api("postCounters", body={"increments": [{"key": "x" * 128}] * 1001}, due=422, code="bad_value", refused="form")
    api("postCounters", body={}, due=400, code="missing_field", refused="form")
    api("postCounters", body={"increments": [{"key": "b"}]}, key="bound", due=404)
    same(api("postCounters", body={"increments": [{"key": "view:42:ad-1"}]}, key="bound")["counters"][0]["value"], 4, "of the client")
    sums = api("getCounters", query=[("key", "b"), ("key", "none"), ("key", "view:42:ad-1"), ("key", "c")])["counters"]
    same([c["value"] for c in sums], [2, 0, 4, 0], "sums")
    api("getCounters", query=[("key", "a b")], due=400, code="bad_parameter")
    api("getCounters", query=[("key", "b")], key="bound", due=404)
    many = [f"m{n}" for n in range(1000)]
    same(len(api("getCounters", query=[("key", key) for key in many])["counters"]), 1000, "many keys")
    day = api("getCounterDays", "view:42:ad-1")["days"]
    same(sum(d["n"] for d in day), 4, "days")
    same(api("getCounterDays", "view:42:ad-1", query=[("from", day[0]["day"]), ("to", day[0]["day"])])["days"], day[:1], "one day")
    same(api("getCounterDays", "view:42:ad-1", query=[("to", "2026-01-31")])["days"], [], "earlier days")
    for bad in ([("from", "2026-02-30")], [("from", "2026-02-02"), ("to", "2026-02-01")], [("from", "2020-01-01")]):
        api("getCounterDays", "b", query=bad, due=400, code="bad_parameter", refused=True)
    api("getCounterDays", "b", key="bound", due=404)
    api("deleteCounter", "b", key="bound", due=404)
    for _ in range(2):
        api("deleteCounter", "b", due=204)
    same(api("getCounters", query=[("key", "b")])["counters"][0]["value"], 0, "a deleted one")


# --- operators ---

def operators(r):
    api = r.api
    settings = {"rpm": None, "concurrency": 16, "weight": 2, "paused": False, "headers": {"User-Agent": "shop-import/1"}}
    shown = {"client": "42", **settings, "headers": {"User-Agent": "set"}, "defaults": []}
    same(api("putClient", "42", body=settings), shown, "settings")
    old = api.headers["ETag"]
    api("putClient", "42", body=api("getClient", "42"), headers=[("If-Match", old)])
    api("putClient", "42", body=settings, headers=[("If-Match", old)], due=412, code="precondition_failed")
    api("patchClient", "42", body={"rpm": 9}, headers=[("If-Match", old)], due=412, code="precondition_failed")
    same(api("patchClient", "42", body={"paused": True})["weight"], 2, "a setting that PATCH does not name")
    same(api("patchClient", "42", body={"paused": False, "reset": ["weight"]})["defaults"], ["weight"], "a setting that PATCH resets")
    api("patchClient", "42", body={"rpm": 0}, due=422, code="bad_value", refused="form")
    api("patchClient", "42", body={"rmp": 1}, due=400, code="unknown_field", refused="form")
    api("patchClient", "43", body={"rpm": 1}, due=404, key="bound")
    api("putClient", "42", body={"rpm": 0}, due=422, code="bad_value", refused="form")
    api("putClient", "4 2", body={"rpm": 1}, due=400, code="bad_client")
    api("putClient", "43", body={"rpm": 1}, due=404, key="bound")
    api("getClient", "4 2", due=400, code="bad_client")
    api("getClient", "43", due=404, key="bound")
    api("putClient", "43", body={})
    same(api("listClients", query=[("q", "4"), ("paused", "true")])["clients"][0]["client"], "45", "a paused client")
    page = api("listClients", query=[("limit", 1)])
    api("listClients", query=[("limit", 1), ("after", page["next"])])
    page = api("listConfig", query=[("limit", 3)])
    names = {p["name"]: p["value"] for p in api("listConfig", query=[("after", page["next"]), ("limit", 1000)])["parameters"]}
    same(names["retry.attempts"], 1, "a parameter in force")
    api("listConfig", key="bound", due=403)
    for host, would in (("a", "known"), ("gone", "skip"), ("never", "fetch"), ("nope:1", "fail")):
        url = f"http://{host}/" if ":" in host else r.url(host)
        same(api("explain", query=[("client", "42"), ("url", url)])["would"], would, url)
    api("explain", query=[("client", "42")], due=400, code="bad_parameter")
    for host, status in (("a", 200), ("gone", 404)):
        photo = api("findPhoto", query=[("client", "42"), ("url", r.url(host))])
        attempt = photo["attempts"][-1]
        same((attempt["http_status"], attempt["code"]), (status, None if status == 200 else "http_404"), f"the last attempt of {host}")
        check(attempt["address"] and bool(photo["known"]) == (status == 200), f"what is known of {host}: {photo}")
    api("findPhoto", query=[("client", "42"), ("url", r.url("never"))], due=404)
    api("findPhoto", query=[("client", "42"), ("url", "x:")], due=400, code="bad_parameter")
    api("findPhoto", query=[("client", "43"), ("url", "x")], key="bound", due=404)
    api("explain", query=[("client", "43"), ("url", "x")], key="bound", due=404)
    wait_until(lambda: api("listRoutes")["routes"], 30, "a route is learned")
    api("listRoutes", query=[("client", "42"), ("domain", "a.example"), ("limit", 1)])
    api("listRoutes", query=[("client", "43")], key="bound", due=404)
    check(api("deleteLadder", query=[("client", "42"), ("domain", "gone.example")])["photos"] >= 0, "photos")
    api("deleteLadder", query=[("client", "43")], key="bound", due=404)
    page = api("listErrors", query=[("limit", 5)], key="submitter")
    api("listErrors", query=[("after", page["next"])])
    same([x["code"] for x in page["requests"]], api.document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"], "codes of problems")
    for id_ in ("healthz", "readyz", "openapi", "asyncapi", "dashboard"):
        api(id_, key=None)
    for id_, path in (("dashboard", []), ("dashboardFile", ["main.js"]), ("dashboardFolder", ["pages", "hosts.js"])):
        api(id_, *path, key=None)
        api(id_, *path, key=None, headers=[("If-None-Match", api.headers["ETag"])], due=304)
    api("dashboardFile", "none.js", key=None, due=404)
    api("dashboardFolder", "pages", "none.js", key=None, due=404)
    api("metrics")
    for path, item in api.document["paths"].items():
        got = r.pool.request("OPTIONS", re.sub(r"\{\w+\}", "x", path))
        allow = {m.upper() for m in item if m != "parameters"}
        same((got.status, got.json["code"]), (405, "method_not_allowed"), f"OPTIONS {path}")
        same(set(got.headers["Allow"].split(", ")), allow | ({"HEAD"} if "GET" in allow else set()), f"{path}: Allow")


def hosts(r):
    """Checks photo hosts, and the breaker of one that nothing else fetches from."""
    api = r.api
    wait_until(lambda: {"a.example", "gone.example"} <= {h["host"] for h in api("listHosts")["hosts"]}, 30, "the hosts are known")
    wait_until(lambda: api("getHost", "gone.example")["errors"].get("absent"), 30, "the answers of a host are counted")
    for query in ([("state", "closed")], [("q", "gone")], [("sort", "errors")], [("sort", "requests")], [("sort", "latency")]):
        check(api("listHosts", query=query)["hosts"], f"hosts by {query}")
    page = api("listHosts", query=[("sort", "requests"), ("limit", 1)])
    api("listHosts", query=[("sort", "requests"), ("limit", 1), ("after", page["next"])])
    api("listHosts", query=[("after", page["next"])], due=400, code="bad_cursor")
    api("listHosts", query=[("state", "broken")], due=400, code="bad_parameter")
    api("getHost", "nobody.example", due=404)
    api("setBreaker", "a b", body={"action": "open"}, due=422, code="bad_value", refused=True)
    api("setBreaker", "b.example", body={"action": "opn"}, due=422, code="bad_value", refused="form")
    api("setBreaker", "b.example", body={}, due=400, code="missing_field", refused="form")
    api("setBreaker", "b.example", body={"action": "open", "for_seconds": "1"}, due=400, code="bad_type", refused="form")
    same(api("setBreaker", "Waits.Example", body={"action": "open", "for_seconds": 3600})["state"], "open", "a breaker that is forced open")
    same([h["host"] for h in api("listBreakers")["breakers"]], ["waits.example"], "hosts that are forced")
    answer = api("explain", query=[("client", "42"), ("url", r.url("waits"))])
    same((answer["verdict"], answer["host"]["reason"]), ("wait", "operator"), "a photo of a host whose breaker is open")
    api("setBreaker", "waits.example", body={"action": "close"})
    same(api("setBreaker", "waits.example", body={"action": "auto"})["forced"], None, "a breaker that decides again")
    opened = wait_until(lambda: [e for e in api("events", query=[("key", "ops"), ("after", 0), ("limit", 1000)])["events"] if e["type"] == "photopool.host.opened"], 20,
                        "an event says so")
    r.messages.event(opened[0])
    same(opened[0]["data"]["host"], "waits.example", "the host of the event")


def put_back(r):
    """Three batches could not be planned: one is planned again, two are failed, of which one is damaged."""
    api = r.api
    ids = [r.nobody["id"][:-1] + c for c in "123"]
    for n, id_ in enumerate(ids):
        items = [{"id": f"aside-{n}-{i}", "photos": [r.url("a"), r.url("gone")]} for i in range(2)]
        set_aside(r.pool, id_, "46", items, "the entry is damaged" if n == 2 else "planning it has failed too often", cut=3 if n == 2 else 0)
    page = api("listSetAside", query=[("limit", 1)])
    same(page["set_aside"][0]["error"], "the entry is damaged", "why the newest batch is set aside")
    rest = api("listSetAside", query=[("limit", 5), ("after", page["next"])])["set_aside"]
    same([(e["id"], e["items"], e["photos"], e["deliveries"]) for e in rest], [(ids[1], 2, 4, 21), (ids[0], 2, 4, 21)], "the others")
    wait_until(lambda: api("getQueue")["ingest"]["set_aside"] == 3, 20, "the queue counts them")
    same(api("getBatch", ids[0])["state"], "accepted", "a batch that is set aside")
    api("putBack", ids[0], body={}, due=400, code="missing_field", refused="form")
    api("putBack", ids[0], body={"action": "drop"}, due=422, code="bad_value", refused="form")
    api("putBack", ids[0], body={"action": 1}, due=400, code="bad_type", refused="form")
    api("putBack", r.nobody["id"], body={"action": "retry"}, due=404, code="not_found")
    for id_, action in zip(ids, ("retry", "fail", "fail")):
        same(api("putBack", id_, body={"action": action}, due=202)["action"], action, "what was done")
    for id_, outcomes, n in zip(ids, (["stored", "failed"], ["failed", "failed"], ["failed", "failed"]), (2, 2, 1)):
        r.finished(id_)
        results = sorted(api("listResults", id_)["results"], key=lambda x: x["data"]["item"])
        same([x["data"]["item"] for x in results], [f"aside-{ids.index(id_)}-{i}" for i in range(n)], "items of the batch")
        for x in results:
            same([p["outcome"] for p in x["data"]["photos"]], outcomes, "outcomes of an item")
            codes = [p["error"]["code"] for p in x["data"]["photos"] if "error" in p]
            same(codes, ["http_404"] if id_ == ids[0] else ["internal"] * 2, "codes of an item")
    api("putBack", ids[0], body={"action": "retry"}, due=404, code="not_found")
    same(api("listSetAside")["set_aside"], [], "nothing is set aside")


def drain(r):
    """Drains the worker. Runs last, because the worker then ends."""
    worker = r.api("listWorkers")["workers"][0]["id"]
    r.api("drainWorker", body={"worker": "nobody"}, due=404)
    r.api("drainWorker", body={}, due=400, code="missing_field", refused="form")
    r.api("drainWorker", body={"worker": 17}, due=400, code="bad_type", refused="form")
    r.api("drainWorker", body={"worker": worker}, due=202)


# --- events ---

class Messages:
    """Checks messages against asyncapi.json."""

    def __init__(self, validator, document):
        self.validator, self.document, self.seen = validator, document, set()

    def one_of(self, channel, payload, headers=None):
        """Checks that exactly one message type of the channel matches. Returns its name."""
        names = list(self.document["channels"][channel]["messages"])
        fits = [n for n in names if not self.validator.errors(f"asyncapi#/components/messages/{n}/payload", payload)]
        same(len(fits), 1, f"messages of {channel} that this is: {json.dumps(payload)[:1000]}: " +
             "; ".join(str(self.validator.errors(f"asyncapi#/components/messages/{n}/payload", payload)) for n in names))
        if headers is not None:
            self.validator.fits(f"asyncapi#/components/messages/{fits[0]}/headers", headers, f"headers of {fits[0]}")
        self.seen.add((channel, fits[0]))
        return fits[0]

    def event(self, event):
        """Checks an event against the channel that its key belongs to."""
        key = ":".join(event["key"])
        stream = {name: c["address"] for name, c in self.document["channels"].items() if {"name": "stream"} in c["tags"]}
        channels = [name for name, address in stream.items() if re.fullmatch(re.sub(r"\{\w+\}", "[^:]+", address), key)]
        same(len(channels), 1, f"channels of {key}")
        return self.one_of(channels[0], event)


class Sse(threading.Thread):
    """Follows events by Server-Sent Events: puts (id, event, data) into the queue `got`."""

    def __init__(self, pool, query, headers):
        super().__init__(daemon=True)
        self.got = queue.Queue()
        self.c = http.client.HTTPConnection("127.0.0.1", pool.port, timeout=60 * SLOW)
        self.c.request("GET", "/v1/events?" + urllib.parse.urlencode(query), headers={"Accept": "text/event-stream", **headers})
        self.answer = self.c.getresponse()
        self.start()

    def run(self):
        fields = {}
        for raw in self.answer:
            line = raw.decode().rstrip("\n")
            if line.startswith(":"):
                continue
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                self.got.put((fields["id"], fields["event"], json.loads(fields["data"])))
                fields = {}
        self.got.put(None)


class WebSocket(threading.Thread):
    """Follows events by WebSocket (RFC 6455): puts the values of text frames into the queue `got`."""

    def __init__(self, pool, query):
        super().__init__(daemon=True)
        self.got = queue.Queue()
        self.s = socket.create_connection(("127.0.0.1", pool.port), timeout=60 * SLOW)
        nonce = base64.b64encode(os.urandom(16)).decode()
        self.s.sendall((f"GET /v1/events?{urllib.parse.urlencode(query)} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {nonce}\r\n\r\n").encode())
        self.f = self.s.makefile("rb")
        self.status = int(self.f.readline().split()[1])
        self.headers = http.client.parse_headers(self.f)
        accept = base64.b64encode(hashlib.sha1((nonce + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        same(self.headers["Sec-WebSocket-Accept"], accept, "Sec-WebSocket-Accept")
        self.start()

    def run(self):
        while head := self.f.read(2):
            n = head[1] & 127
            if n > 125:
                n = struct.unpack(">H" if n == 126 else ">Q", self.f.read(2 if n == 126 else 8))[0]
            body = self.f.read(n)
            if head[0] & 15 == 1:
                self.got.put(json.loads(body))
            elif head[0] & 15 == 9:
                mask = os.urandom(4)
                self.s.sendall(bytes([0x8a, 0x80 | n]) + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(body)))
        self.got.put(None)


def follow(r):
    """Opens a stream of each kind before anything happens. The WebSocket uses a ticket instead of a
    key.
    """
    api = r.api
    keys = ["results", "batch", "ops"]
    ticket = api("postTicket", body={"keys": keys}, due=201)["ticket"]
    ws = WebSocket(r.pool, {"ticket": ticket, "after": 0})
    check(not api.check_answer("events", ws.status, ws.headers, b""), "the handshake")
    sse = Sse(r.pool, [("key", k) for k in keys] + [("after", "0")], {"Authorization": "Bearer all"})
    api.check_answer("events", sse.answer.status, sse.answer.headers, b"...")
    return sse, ws


def streams(r, sse, ws):
    """Checks that both streams have the same events, and that the document describes all of them."""
    by_sse, by_ws = [], []
    finished = lambda got: {"photopool.batch.finished", "photopool.item.finished"} <= {e["type"] for e in got}
    while not finished(by_sse):
        id_, name, event = sse.got.get(timeout=60 * SLOW)
        same((id_, name), (str(event["seq"]), event["type"]), "id and event are those of the data")
        r.messages.event(event)
        by_sse.append(event)
    while len(by_ws) < len(by_sse):
        by_ws.append(ws.got.get(timeout=60 * SLOW))
        r.messages.event(by_ws[-1])
    same(by_ws, by_sse, "events over WebSocket and Server-Sent Events")
    seqs = [e["seq"] for e in by_sse]
    same(seqs, sorted(set(seqs)), "numbers grow")
    return by_sse


def statistics(r):
    """Checks the statistics of days against the results of a client whose items have all finished."""
    api = r.api
    batch = api("postBatch", body={"client": "stats", "items": [{"id": f"s{n}", "photos": [r.url("a"), r.url("gone")]} for n in range(3)]}, due=202)["batch_id"]
    r.finished(batch)
    wait_until(lambda: api("getClientStats", "stats")["total"]["items"] == 3, 30, "the results are in the statistics")
    answer = api("getClientStats", "stats")
    photos = [p for result in api("listResults", batch)["results"] for p in result["data"]["photos"]]
    for outcome in ("stored", "unchanged", "skipped", "failed", "cancelled"):
        same(answer["total"][outcome], sum(p["outcome"] == outcome for p in photos), f"photos that are {outcome}")
    same(answer["total"]["requests"], sum(p["attempts"] for p in photos), "requests")
    same((answer["total"]["batches"], answer["total"]["errors"]), (1, {"http_404": sum("error" in p for p in photos)}), "batches and errors")
    same(sum(d["items"] for d in answer["days"]), 3, "items of the days")
    check(api("getStats")["total"]["items"] >= 3, "items of all clients")
    check("batches" not in api("getHostStats", "GONE.example")["total"], "a host has no batches")
    check(api("getHostStats", "gone.example")["total"]["errors"]["http_404"] >= 1, "errors of a host")
    same(api("getHostStats", "nobody.example")["days"], [], "a host that is unknown")
    range_ = [("from", "2020-01-01"), ("to", "2020-02-01")]
    for id_, args in (("getStats", []), ("getClientStats", ["stats"]), ("getHostStats", ["gone.example"])):
        same(api(id_, *args, query=range_)["days"], [], f"{id_}: days without items")
        head = api(id_, *args, headers=[("Accept", "text/csv")]).decode().split("\r\n")
        same((head[0].split(",")[0], head[0].split(",")[-1], head[-1]), ("day", "errors", ""), f"{id_}: CSV")
        same({line.count(",") for line in head[:-1]}, {head[0].count(",")}, f"{id_}: columns of the CSV")
        for query in ([("from", "2020-02-30")], [("to", "yesterday")], [("from", "2020-02-02"), ("to", "2020-02-01")], [("from", "2019-01-01"), ("to", "2020-02-05")]):
            api(id_, *args, query=query, due=400, code="bad_parameter")
    api("getClientStats", "4 2", due=400, code="bad_client")
    api("getClientStats", "43", due=404, key="bound")
    api("getHostStats", "a b", due=404)


def events(r, known):
    api = r.api
    ask = [("key", "results:42"), ("key", "batch")]
    page = api("events", query=[*ask, ("after", 0), ("limit", 2), ("wait", 1)])
    same(page["events"], [e for e in known if e["key"][0] == "batch" or e["key"] == ["results", "42"]][:2], "the first two by long-poll")
    same(page["last"], page["events"][-1]["seq"], "last")
    same(api("events", query=ask)["events"], [], "from now on")
    same(api("events", query=[*ask, ("after", 0), ("limit", 1)], headers=[("Last-Event-ID", str(page["last"]))])["events"][0]["seq"] > page["last"], True, "Last-Event-ID wins")
    for event in api("events", query=[("key", "ops"), ("after", 0)])["events"]:
        r.messages.event(event)
    api("events", due=400, code="bad_parameter")
    for key in ("nobody", "results:", "results:4 2", ":".join(["results"] * 9), "results:" + "x" * 250):
        api("events", query=[("key", key)], due=400, code="bad_parameter")
        api("postTicket", body={"keys": [key]}, due=400, code="bad_parameter", refused="form")
    api("events", query=[("key", f"results:{n}") for n in range(64)])
    api("events", query=[("key", f"results:{n}") for n in range(65)], due=400, code="bad_parameter")
    for name, value in (("wait", "61"), ("wait", "x"), ("limit", "0")):
        api("events", query=[*ask, (name, value)], due=400, code="bad_parameter")
    for after in ("x", "-1", str(2 ** 53), str(2 ** 53 - 1)):
        api("events", query=[*ask, ("after", after)], due=400, code="bad_cursor")
    api("events", query=[("key", "ops")], key="reader", due=403)
    api("events", query=[("key", "results:43")], key="bound", due=404)
    same({tuple(e["key"]) for e in api("events", query=[("key", "results"), ("after", 0)], key="bound")["events"]}, {("results", "42")}, "results of a bound key")
    ticket = api("postTicket", body={"keys": ["results:42"]}, key="bound", due=201)["ticket"]
    same(len(api("events", query=[("ticket", ticket), ("after", 0), ("limit", 1)], key=None)["events"]), 1, "by ticket")
    api("events", query=[("ticket", ticket), ("key", "results:42")], key=None, due=400, code="bad_parameter")
    api("events", query=[("ticket", ticket[:-1])], key=None, due=401, code="unauthorized")
    api("postTicket", body={"keys": ["ops"]}, key="reader", due=403)
    api("postTicket", body={"keys": ["results:43"]}, key="bound", due=404)
    api("postTicket", body={"keys": []}, due=400, code="bad_type", refused="form")
    api("postTicket", body={"keys": [17]}, due=400, code="bad_type", refused="form")
    api("postTicket", body={}, due=400, code="missing_field", refused="form")


def gaps(case, r):
    """Checks the answers about events that the cleaner has removed, on another server: it needs no
    keys, has a small log, and takes at most two subscribers.
    """
    pool = Pool(case, config={"events.max_bytes": "1MiB", "events.max_subscribers": 2})
    pool.start()
    api = Api(pool, r.validator, r.api.document)
    meta = {"m": "x" * 1000}
    ask = [("key", "results"), ("after", 0), ("limit", 1)]

    def restarted():
        """Returns the gap after a restart, because a running server still serves the events in its
        memory.
        """
        pool.stop()
        pool.start()
        return wait_until(lambda: (page := api("events", query=ask, key=None))["last"] > 0 and [page], 20, "events are there")[0]["gap"]

    api("postBatch", body={"client": "42", "items": [{"id": str(n), "photos": [], "meta": meta} for n in range(2000)]}, due=202, key=None)
    wait_until(lambda: api("events", query=[("key", "ops"), ("after", 0)], key=None)["last"] >= 2000, 60, "all of them are numbered")
    gap = wait_until(restarted, 60, "the cleaner removes events")
    same(gap["from"], 1, "a gap from the beginning")
    sse = Sse(pool, {"key": "results", "after": 0}, {})
    ws = WebSocket(pool, {"key": "results", "after": 0})
    id_, name, payload = sse.got.get(timeout=60 * SLOW)
    same((id_, name, r.messages.one_of("results", payload)), (str(payload["to"]), "gap", "gapEvent"), "the first of Server-Sent Events")
    same(int(sse.got.get(timeout=60 * SLOW)[0]), payload["to"] + 1, "the second")
    frame = ws.got.get(timeout=60 * SLOW)
    same(r.messages.one_of("results", frame), "gapFrame", "the first frame")
    same(ws.got.get(timeout=60 * SLOW)["seq"], frame["gap"]["to"] + 1, "the second")
    api("events", query=[("key", "results")], key=None, due=503, code="overloaded")
    pool.stop()
    r.api.seen |= api.seen


# --- webhooks ---

class Receiver:
    """Receives webhooks: puts (headers, body) into the queue `got`, and answers with `status`."""

    def __init__(self, port):
        self.got, self.status = queue.Queue(), 204
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.put(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(receiver.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, messages, secrets):
        """Checks the next message and its signature, and returns its payload."""
        headers, body = self.got.get(timeout=60 * SLOW)
        ours = {k: v for k, v in headers.items() if k.startswith("webhook-") or k == "content-type"}
        payload = json.loads(body)
        messages.one_of("webhook", payload, ours)
        same(headers["webhook-id"], payload["id"], "webhook-id")
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        due = ["v1," + base64.b64encode(hmac.new(base64.b64decode(s[6:]), signed, hashlib.sha256).digest()).decode() for s in secrets]
        same(headers["webhook-signature"].split(" "), due, "webhook-signature")
        return payload


def put_webhooks(r):
    api = r.api
    first = {"url": r.receiver.url, "clients": ["42"], "secret": SECRETS[0]}
    api("putWebhook", "shop", body={"url": r.receiver.url}, due=400, code="missing_field", refused=True)
    api("putWebhook", "shop", body={"secret": SECRETS[0]}, due=400, code="missing_field", refused="form")
    for field, value in (("url", 17), ("clients", "42"), ("secret", None), ("paused", "no")):
        api("putWebhook", "shop", body={**first, field: value}, due=400, code="bad_type", refused="form")
    for field, value in (("clients", ["4 2"]), ("secret", "sesame")):
        api("putWebhook", "shop", body={**first, field: value}, due=422, code="bad_value", refused="form")
    for field, value in (("url", "ftp://shop.example/"), ("url", "http://10.0.0.1/"), ("secret", "whsec_" + "A" * 8)):
        api("putWebhook", "shop", body={**first, field: value}, due=422, code="bad_value")
    api("putWebhook", "s.op", body=first, due=404)
    same(api("putWebhook", "shop", body=first, due=201)["clients"], ["42"], "a new webhook")
    for id_, more in (("getWebhook", {}), ("deleteWebhook", {"due": 404}), ("testWebhook", {"due": 404}), ("listDeliveries", {"due": 404}), ("replayWebhook", {"due": 404})):
        api(id_, "shop" if not more else "nobody", **more)
    api("getWebhook", "nobody", due=404)
    same(api("testWebhook", "shop")["delivered"], True, "a test")
    same(r.receiver.take(r.messages, SECRETS[:1])["type"], "photopool.webhook.test", "what was sent")
    rotated = api("putWebhook", "shop", body={**first, "secret": SECRETS[1]}, due=200)
    check(rotated["old_secret_until"], "the old secret signs, too")
    r.receiver.status = 500
    same(api("testWebhook", "shop")["http_status"], 500, "a test that fails")
    r.receiver.status = 204
    r.receiver.take(r.messages, [SECRETS[1], SECRETS[0]])
    api("putWebhook", "all", body={"url": f"http://127.0.0.1:{r.closed_port}/", "clients": None, "secret": SECRETS[0], "paused": True}, due=201)
    same(api("testWebhook", "all")["http_status"], None, "nobody is there")
    page = api("listWebhooks", query=[("limit", 1)])
    api("listWebhooks", query=[("limit", 1), ("after", page["next"])])


def deliveries(r, known):
    api = r.api
    due = {e["data"]["id"]: e["data"] for e in known if e["key"] == ["results", "42"]}
    got = {}
    while set(got) < set(due):
        payload = r.receiver.take(r.messages, [SECRETS[1], SECRETS[0]])
        got[payload["id"]] = payload
    for id_, data in due.items():
        same(got[id_], data, "a result by webhook, and by stream")
    wait_until(lambda: len(api("listDeliveries", "shop", query=[("status", "delivered")])["deliveries"]) >= len(due), 20, "the deliveries are listed")
    page = api("listDeliveries", "shop", query=[("limit", 1)])
    check(page["next"], "a second page")
    api("listDeliveries", "shop", query=[("limit", 1), ("after", page["next"])])
    api("listDeliveries", "shop", query=[("status", "late")], due=400, code="bad_parameter")
    for body, refused in (({"from": "yesterday"}, "form"), ({"status": "late"}, "form"), ({"to": "2026-11-20T10:00:00+01:00"}, True)):
        api("replayWebhook", "shop", body=body, due=422, code="bad_value", refused=refused)
    api("replayWebhook", "shop", body={"from": 17}, due=400, code="bad_type", refused="form")
    n = api("replayWebhook", "shop", body={"from": "2020-01-01T00:00:00Z", "to": "2120-01-01T00:00:00.000Z", "status": "delivered"}, due=202)["messages"]
    check(n >= len(due), f"{n} messages again, of {len(due)}")
    for _ in range(n):
        again = r.receiver.take(r.messages, [SECRETS[1], SECRETS[0]])
        same(again, got.get(again["id"], again), "the same under the same id")
    listed = lambda status: api("listDeliveries", "shop", query=[("status", status)])["deliveries"]
    wait_until(lambda: not listed("pending"), 20, "nothing is pending")
    api("replayWebhook", "all", due=202)
    r.receiver.status = 500
    n = api("replayWebhook", "shop", due=202)["messages"]
    wait_until(lambda: sum(d["http_status"] == 500 for d in listed("pending")) == n, 20, lambda: f"{n} are tried again later: {listed('pending')}")
    r.receiver.status = 410
    api("replayWebhook", "shop", due=202)
    wait_until(lambda: api("getWebhook", "shop")["disabled"], 20, "410 disables")
    api("deleteWebhook", "shop", query=[("force", "true")], due=204)  # its cursor may be saved a little later
    api("getWebhook", "shop", due=404)


# --- the whole test ---

class Run:
    def __init__(self, case):
        self.origin = Origin(case, hosts=HOSTS)
        self.receiver = Receiver(free_port())
        self.closed_port = free_port()
        self.pool = Pool(case, origin=self.origin, config={
            "clients.rpm": None, "retry.attempts": 1, "fetch.tiers": [{"timeout": "1m", "concurrency": 64}], "router.interval": "1s", "router.min_samples": 1,
            "http.max_body": "1MiB", "http.max_items": 100, "http.metrics_public": False,
            "auth.keys": [{"name": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), "scopes": scopes, **({"client": "42"} if name == "bound" else {})}
                          for name, scopes in KEYS.items()]})
        self.pool.config["fetch.allow_ports"] += [self.closed_port, 80]
        self.pool.start()
        self.validator = Validator()
        document, messages = (self.document(name) for name in ("openapi.json", "asyncapi.json"))
        self.nobody = {"id": document["paths"]["/v1/batches/{id}"]["parameters"][0]["example"]}
        self.validator.add("openapi", closed(document))
        self.validator.add("asyncapi", closed(messages))
        self.api = Api(self.pool, self.validator, document)
        self.messages = Messages(self.validator, messages)

    def document(self, name):
        served = self.pool.get(f"/{name}").body
        with open(os.path.join(ROOT, name), "rb") as f:
            check(served == f.read(), f"/{name} is not the file")
        return json.loads(served)

    def url(self, host, target="/1.jpg"):
        return self.origin.url(host + ".example", target)

    def finished(self, batch):
        wait_until(lambda: self.api("getBatch", batch)["state"] in ("finished", "cancelled"), 60, f"{batch} has finished")


def test(case):
    r = Run(case)
    routes(r.api)
    refusals(r.api, r.receiver.url)
    put_webhooks(r)
    sse, ws = follow(r)
    batch, found = batches(r)
    known = streams(r, sse, ws)
    open_items(r)
    photos(r, found)
    counters(r)
    operators(r)
    hosts(r)
    statistics(r)
    events(r, known)
    deliveries(r, known)
    put_back(r)
    drain(r)
    gaps(case, r)
    due = {(id_, status) for id_, (_, _, op) in r.api.ops.items() for status in op["responses"] if status not in UNSEEN}
    same(sorted(due - r.api.seen), [], "answers of the document that never came")
    same({(c, m) for c, m in r.messages.seen if c != "webhook"}, {("resultsOfClient", "resultEvent"), ("batch", "batchEvent"), ("ops", "acceptedEvent"), ("ops", "clientEvent"), ("ops", "hostEvent"), ("results", "gapEvent"), ("results", "gapFrame")}, "messages of streams")
    same({m for c, m in r.messages.seen if c == "webhook"}, {"webhookResult", "webhookTest"}, "messages of the webhook")


if __name__ == "__main__":
    scenario(test)
