#!/usr/bin/env python3
"""Checks that openapi.json and asyncapi.json follow .spectral.yaml, have one format, and have the
same schema wherever both define one.

tests/scenario/test_openapi.py checks that the documents describe the server.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

from lint import ROOT, read

DOCUMENTS = ("openapi.json", "asyncapi.json")
TOOL = os.path.join(ROOT, "tests", "support", "apidocs")
RULES = os.path.join(ROOT, "tests", "lint", ".spectral.yaml")


def spectral(paths):
    """Runs Spectral. Returns {path: [(line, what)]}. Checks all files in one run, because starting
    Spectral takes most of the time.
    """
    run = subprocess.run([TOOL, "lint", "--ruleset", RULES, "--format", "json", "--quiet", "--fail-severity", "hint", *paths],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    try:
        found = json.loads(run.stdout)
    except ValueError:
        found = None
    if found is None or (run.returncode and not found):
        sys.exit("tests/lint: Spectral did not run: " + (run.stderr or run.stdout).decode(errors="replace").strip())
    out = {path: [] for path in paths}
    for f in found:
        out[f["source"]].append((f["range"]["start"]["line"] + 1, f"{f['message']} ({f['code']}, at {'.'.join(map(str, f['path']))})"))
    return out


def line_of(text, pattern):
    m = re.search(pattern, text, re.M)
    return text.count("\n", 0, m.start()) + 1 if m else 1


def form(texts):
    for name, text in texts.items():
        if text != json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n":
            yield name, 1, "not formatted: write it as Python's json.dumps(document, indent=1, ensure_ascii=False) and a newline"


def shared(texts):
    """Checks that a payload has the same schema in both documents."""
    ours, theirs = (json.loads(texts[name])["components"]["schemas"] for name in DOCUMENTS)
    for name in sorted(set(ours) & set(theirs)):
        if ours[name] != theirs[name]:
            yield "asyncapi.json", line_of(texts["asyncapi.json"], rf'^   "{name}": '), f"the schema {name} differs from openapi.json's: make them equal"
    if "Result" not in ours or "Result" not in theirs:
        yield "asyncapi.json", 1, "both documents have the schema Result"


def examples(texts):
    """Checks the examples of messages in asyncapi.json, which Spectral does not check."""
    text = texts["asyncapi.json"]
    document = json.loads(text)
    asks = [(name, f"#/components/messages/{name}/{part}", example[part]) for name, m in document["components"]["messages"].items()
            for example in m["examples"] for part in ("headers", "payload") if part in example]
    lines = [{"document": "asyncapi", "content": document}] + [{"schema": "asyncapi" + schema, "value": value} for _, schema, value in asks]
    run = subprocess.run([TOOL, "validate"], input="".join(json.dumps(line) + "\n" for line in lines).encode(), stdout=subprocess.PIPE, check=True)
    for (name, schema, _), answer in zip(asks, run.stdout.decode().split("\n")[1:]):
        errors = json.loads(answer)["errors"]
        if errors:
            yield "asyncapi.json", line_of(text, rf'^   "{name}": '), f"an example of the message {name} is not as {schema} says: {errors}"


def find(texts):
    """Returns the findings of this script, without those of Spectral."""
    return [*form(texts), *shared(texts), *examples(texts)]


def broken(texts):
    """Yields copies of the documents with one mistake each, and the name of the document with the
    mistake.
    """
    def changed(name, change):
        document = json.loads(texts[name])
        change(document)
        return name, {**texts, name: json.dumps(document, indent=1, ensure_ascii=False) + "\n"}

    ours, theirs = DOCUMENTS
    yield changed(ours, lambda d: d["components"]["schemas"].pop("Problem"))
    yield changed(ours, lambda d: d["paths"]["/v1/batches/{id}"].pop("parameters"))
    yield changed(ours, lambda d: d["paths"]["/healthz"]["get"]["responses"]["200"]["content"]["application/json"]["example"].pop("status"))
    yield changed(theirs, lambda d: d["channels"].pop("results"))
    yield changed(theirs, lambda d: d["channels"]["amqp"]["bindings"]["amqp"].update({"is": "queues"}))
    yield changed(theirs, lambda d: d["components"]["schemas"]["Result"]["properties"].pop("id"))
    yield changed(theirs, lambda d: d["components"]["messages"]["resultEvent"]["examples"][0]["payload"].update(seq="124"))
    yield ours, {**texts, ours: texts[ours] + "\n"}


def main():
    texts = {name: read(name) for name in DOCUMENTS}
    found = list(find(texts))
    copies = [(n, wrong, copy) for n, (wrong, copy) in enumerate(broken(texts), 1) if not any(name == wrong for name, _, _ in find(copy))]
    with tempfile.TemporaryDirectory() as top:
        paths = {}  # mistakes that Spectral has to find: for each path, the number of the example
        for n, wrong, copy in copies:
            os.mkdir(os.path.join(top, str(n)))
            paths[os.path.join(top, str(n), wrong)] = n
            with open(os.path.join(top, str(n), wrong), "w", encoding="utf-8") as f:
                f.write(copy[wrong])
        linted = spectral([*[os.path.join(ROOT, name) for name in DOCUMENTS], *paths])
    for name in DOCUMENTS:
        found += [(name, line, what) for line, what in linted[os.path.join(ROOT, name)]]
    for name, line, what in found:
        print(f"{name}:{line}: {what}")
    if found:
        return 1
    for path, n in paths.items():
        if not linted[path]:
            print(f"tests/lint: check_apidocs.py sees nothing wrong with its own example {n}, of {os.path.basename(path)}")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
