#!/usr/bin/env python3
# scenario: build=release timeout=60
"""scripts/site makes a site without broken links, of which no page loads anything from another
host. It finds both faults in a site that has them.
"""
import os
import re
import runpy
import shutil
import subprocess

from harness import Skipped, check, same, scenario

ROOT = os.environ.get("PP_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts", "site")
FAULTS = {
    '<a href="gone.html">x</a>': "docs/operators.html: gone.html does not exist",
    '<a href="import.html#gone">x</a>': "docs/operators.html: import.html#gone: the page has no such anchor",
    '<script src="https://cdn.example/x.js"></script>': "docs/operators.html: loads https://cdn.example/x.js from another host",
    '<link rel="stylesheet" href="//fonts.example/x.css">': "docs/operators.html: loads //fonts.example/x.css from another host",
    "<style>@import url(https://fonts.example/x.css)</style>": "docs/operators.html: loads https://fonts.example/x.css from another host",
}


def test(case):
    if not shutil.which("mkdocs"):
        raise Skipped("no mkdocs here: scripts/setup site installs it")
    site = os.path.abspath(case.name("site"))
    run = subprocess.run([SCRIPT, site], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=False)
    same(run.returncode, 0, f"scripts/site: {run.stdout}")
    page = os.path.join(site, "docs", "operators.html")
    with open(page, encoding="utf-8") as f:
        text = f.read()
    check(re.search(r'href="(\.\./)?docs/metrics.html"|href="metrics.html"', text), "operators.html leads to metrics.html")
    findings = runpy.run_path(SCRIPT)["findings"]
    for fault, finding in FAULTS.items():
        with open(page, "w", encoding="utf-8") as f:
            f.write(text.replace("</body>", fault + "</body>"))
        same(list(findings(site)), [finding], fault)


if __name__ == "__main__":
    scenario(test)
