#!/usr/bin/env python3
# scenario: build=release timeout=120
"""The dashboard in a real Chromium, on a server with keys: every view, every action, text of clients
that looks like markup, a narrow window, the bytes of the first view, and the requests of an idle
page. With PP_PICTURES=FOLDER it also writes the pictures of the documentation there.
"""
import base64
import hashlib
import json
import os
import urllib.parse

from aside import set_aside
from browser import Browser
from harness import Origin, Pool, check, same, scenario, wait_until
from receiver import Receiver

KEY = "dashboard-secret"
MARKUP = "<img src=x onerror=window.hurt=1>"
FIRST_VIEW_MAX = 150 * 1024
WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", e => violations.push(e.violatedDirective + " " + e.blockedURI));
addEventListener("error", e => violations.push(String(e.message)));
addEventListener("unhandledrejection", e => violations.push(String(e.reason)));
"""


class KeyedPool(Pool):
    """A server that needs a key."""

    def __init__(self, case, origin, receiver):
        keys = [{"name": "all", "sha256": hashlib.sha256(KEY.encode()).hexdigest(), "scopes": ["submit", "read", "admin"]}]
        super().__init__(case, origin=origin, config={"auth.keys": keys, "clients.rpm": None, "retry.delays": ["100ms"]})

    def request(self, method, path, body=None, headers=None, timeout=30, source=None):
        return super().request(method, path, body, {"Authorization": "Bearer " + KEY, **(headers or {})}, timeout, source)


class Page(Browser):
    def start_at(self, url):
        self.url = url
        self.start().open("about:blank")
        self.at_start(WATCH)
        self.size(1200, 900)
        self.go(url)
        return self

    def shown(self):
        return self.value("document.body?.innerText") or ""

    def wait(self, text, where="document.body"):
        wait_until(lambda: text in (self.value(f"{where}?.innerText") or ""), 10, lambda: f"the page shows {text!r}: {self.shown()}")

    def click(self, selector):
        wait_until(lambda: self.value(f"document.querySelector({json.dumps(selector)}) !== null"), 10, lambda: f"{selector} on {self.shown()}")
        self.value(f"document.querySelector({json.dumps(selector)}).click()")

    def show(self, where, text):
        """Opens a page, and waits until it shows the text."""
        self.value(f"location.hash = {json.dumps(where)}")
        wait_until(lambda: self.value("document.getElementById('main')?.dataset.shows") == where, 10, lambda: f"{where} is shown: {self.shown()}")
        self.wait(text, "document.getElementById('main')")

    def fill(self, selector, value):
        self.value(f"document.querySelector({json.dumps(selector)}).value = {json.dumps(value)}")

    def yes(self):
        self.click("#dialog [type=submit]")

    def width(self):
        return self.value("document.documentElement.scrollWidth")


def part(text):
    return urllib.parse.quote(text, safe="")


def picture(page, name, dark=False):
    folder = os.environ.get("PP_PICTURES")
    if folder:
        page.dark(dark)
        page.picture(os.path.join(folder, f"dashboard-{name}.webp"))
        page.dark(False)


class Here:
    def __init__(self, case):
        self.case, self.receiver = case, Receiver()
        self.origin = Origin(case, hosts="good.example bytes=20000\nbad.example status=404\nslow.example delay=600000")
        self.pool = KeyedPool(case, self.origin, self.receiver).start()
        self.page = Page(case)

    def photos(self, *targets):
        return [self.origin.url(f"{host}.example", f"/{name}.jpg") for host, name in targets]

    def import_all(self):
        secret = "whsec_" + base64.b64encode(os.urandom(32)).decode()
        same(self.pool.put("/v1/webhooks/shop", {"url": self.receiver.url("/shop"), "secret": secret}).status, 201, "PUT of the webhook")
        items = [{"id": f"ad-{i}", "photos": self.photos(("good", f"{i}a"), ("good", f"{i}b"))} for i in range(30)]
        items += [{"id": f"gone-{i}", "photos": self.photos(("bad", f"{i}"), ("good", f"{i}c"))} for i in range(8)]
        items += [{"id": MARKUP, "photos": [MARKUP, "javascript:window.hurt=1"], "meta": {"title": MARKUP}}]
        self.batch = self.pool.submit("42", items)
        self.pool.wait_finished(self.batch)
        self.slow = self.pool.submit("43", [{"id": f"slow-{i}", "photos": self.photos(("slow", str(i)))} for i in range(3)])
        wait_until(lambda: self.pool.batch(self.slow)["state"] == "running", 20, "the slow batch runs")


def empty_system(here):
    """A server without batches: asks for the key, a wrong one first, and says what to do."""
    page = here.page.start_at(f"http://127.0.0.1:{here.pool.port}/")
    page.wait("This server needs a key")
    page.fill("#key", "wrong")
    page.yes()
    page.wait("The server does not know this key.")
    page.fill("#key", KEY)
    page.yes()
    page.wait("Nothing has been imported yet")
    check("curl http://" in page.shown() and "$PHOTOPOOL_KEY" in page.shown(), "a command to copy")
    size = page.value("[...performance.getEntriesByType('resource'), ...performance.getEntriesByType('navigation')].reduce((n, e) => n + e.transferSize, 0)")
    painted = wait_until(lambda: page.value("performance.getEntriesByName('first-contentful-paint')[0]?.startTime"), 10, "the first paint")
    print(f"first view: {size} bytes, painted after {painted:.0f} ms", flush=True)
    check(0 < size <= FIRST_VIEW_MAX, f"the first view has {size} bytes")


def overview(here):
    page = here.page
    here.import_all()
    page.reload()
    page.show("#/", "What waits, and why")
    page.wait(here.slow)  # the list of running batches; the key is still known
    check("needs a key" not in page.shown(), "the key is asked for once")
    wait_until(lambda: page.value("document.querySelectorAll('canvas').length") == 1, 20, "the chart")
    wait_until(lambda: page.value("document.getElementById('live').textContent") == "live", 20, "the event stream is open")
    if os.environ.get("PP_PICTURES"):
        wait_until(lambda: "failed a second" in page.value("document.getElementById('now').innerText"), 60, "the first figures")
    picture(page, "overview")


def put_back(here):
    """Batches that could not be planned are shown, planned again, and failed."""
    page, pool = here.page, here.pool
    ids = [f"b_1jd5x2k9q4m7c1t8v3z5{n}" for n in (1, 2)]
    for id_ in ids:
        set_aside(pool, id_, "44", [{"id": "late-" + id_[-1], "photos": here.photos(("good", id_))}], "planning it has failed too often")
    page.show("#/batches", here.slow)
    page.show("#/", "Batches that could not be planned")
    page.wait(ids[0])
    page.click(".fail")  # the newest is the first
    page.yes()
    pool.wait_finished(ids[1])
    same(pool.batch(ids[1])["errors"], {"internal": 1}, "the failed batch")
    wait_until(lambda: ids[1] not in page.value("document.getElementById('aside').innerText"), 10, "it is no longer set aside")
    page.click(".retry")
    pool.wait_finished(ids[0])
    same(pool.batch(ids[0])["photos"]["stored"], 1, "the batch that is planned again")
    wait_until(lambda: "could not be planned" not in page.shown(), 10, "nothing is set aside")


def batches(here):
    page = here.page
    page.show("#/batches", here.slow)
    check(here.batch in page.shown(), "both batches")
    page.show("#/batches?client=42", here.batch)
    wait_until(lambda: here.slow not in page.shown(), 10, "only the client's batches")
    page.show("#/batches?state=running", here.slow)
    wait_until(lambda: here.batch not in page.shown(), 10, "only running batches")


def batch(here):
    """The outcomes add up, a failure leads to its photos, and nothing of a client becomes markup."""
    page = here.page
    page.show(f"#/batch/{here.batch}", "http_404")
    page.wait("78 photos in all.")
    shown = [int(n) for n in page.value("[...document.querySelectorAll('.legend li')].map(li => parseInt(li.innerText))")]
    same(sum(shown), 78, f"the sum of {shown}")
    red = page.value("getComputedStyle(document.querySelector('.bar i.failed')).backgroundColor")
    check(red and red != page.value("getComputedStyle(document.querySelector('.bar i.stored')).backgroundColor"), f"failures are red: {red}")
    page.show(f"#/batch/{here.batch}?code=http_404", "bad.example")
    page.size(1000, 720)
    picture(page, "batch")
    page.size(1200, 900)
    page.show(f"#/batch/{here.batch}?show=failed", MARKUP)
    page.show(f"#/batch/{here.batch}?show=complete", "good.example")
    wait_until(lambda: page.value("[...document.querySelectorAll('img.thumb')].some(i => i.naturalWidth > 0)"), 20, "a thumbnail")
    page.show(f"#/item/42/{part(MARKUP)}", "javascript:window.hurt=1")
    page.wait(MARKUP)
    same(page.value("document.querySelectorAll('main a[href^=javascript], main img[onerror]').length"), 0, "links and images that a client made")
    page.click("#main table button")
    page.wait("fail:")  # what would happen to a URL that can't be read
    same(page.value("window.hurt ?? null"), None, "scripts of a client")


def replay_and_cancel(here):
    page, pool = here.page, here.pool
    page.show(f"#/batch/{here.batch}", "Replay failures")
    page.click("#replay")
    page.click("#dialog [value=http_404]")
    page.yes()
    page.wait("8 photos would be fetched again.")
    page.yes()
    wait_until(lambda: page.value("location.hash") not in ("", f"#/batch/{here.batch}"), 10, "the page of the new batch")
    new = page.value("location.hash").rsplit("/", 1)[1]
    wait_until(lambda: pool.batch(new)["photos"]["total"] == 16, 20, "the photos of the replay")
    page.show(f"#/batch/{here.slow}", "Cancel")
    page.click("#cancel")
    page.wait("Cancel this batch?")
    page.yes()
    wait_until(lambda: pool.batch(here.slow)["state"] == "cancelled", 20, "the batch is cancelled")
    page.wait("cancelled", "document.querySelector('#main dl')")  # by its event


def clients(here):
    page, pool = here.page, here.pool
    page.show("#/client/42", "Pause")
    page.click("#pause")
    page.wait("The client is paused.")
    same(pool.get_json("/v1/clients/42")["paused"], True, "paused")
    page.wait("Resume")
    page.click("#pause")
    page.wait("The client goes on.")
    same(pool.get_json("/v1/clients/42")["paused"], False, "paused")
    page.wait("Save")
    page.fill("[name=rpm]", "90")
    page.click("#limits [type=submit]")
    page.wait("The limits are changed.")
    stored = pool.get_json("/v1/clients/42")
    same((stored["rpm"], stored["concurrency"]), (90, 16), "the limits")
    page.fill("[name=weight]", "0")
    page.click("#limits [type=submit]")
    page.wait("weight is a number from 1", "document.getElementById('said')")
    page.show("#/clients", "42")


def hosts(here):
    page, pool = here.page, here.pool
    wait_until(lambda: pool.get_json("/v1/hosts?q=good")["hosts"], 20, "the host is known")
    page.show("#/hosts?q=good", "good.example")
    name = pool.get_json("/v1/hosts?q=good")["hosts"][0]["host"]
    page.show(f"#/host/{part(name)}", "Force open")
    for press, state in (("open", "open"), ("close", "closed")):
        page.click("#" + press)
        page.wait("minutes")
        page.yes()
        page.wait(f"The breaker is forced {state}.")
        same(pool.get_json(f"/v1/hosts/{name}")["forced"], state, "forced")
    page.click("#auto")
    page.wait("The breaker decides by itself.")
    same(pool.get_json(f"/v1/hosts/{name}")["forced"], None, "forced")


def webhooks(here):
    page, pool = here.page, here.pool
    page.show("#/webhooks", "shop")
    page.show("#/webhook/shop", "Deliveries")
    page.click("#pause")
    page.wait("The webhook is paused.")
    same(pool.get_json("/v1/webhooks/shop")["paused"], True, "paused")
    page.wait("Resume")
    page.click("#pause")
    page.wait("The webhook goes on.")
    page.click("#test")
    page.wait("The endpoint answered 204")
    wait_until(lambda: pool.get_json("/v1/webhooks/shop/deliveries?status=delivered")["deliveries"], 20, "a delivery")
    before = len(here.receiver.got("/shop"))
    page.click("#replay")
    page.wait("Replay deliveries")
    page.fill("#dialog [name=status]", "delivered")
    page.yes()
    page.wait("messages are posted again.")
    check(not page.value("document.getElementById('said').innerText").startswith("0 "), "messages are posted again")
    wait_until(lambda: len(here.receiver.got("/shop")) > before, 20, "a message comes again")


def narrow(here):
    """No view is wider than a telephone."""
    page = here.page
    page.size(390, 844, mobile=True)
    for where, text in (("#/", "What waits"), ("#/batches", here.batch), (f"#/batch/{here.batch}?show=failed", "bad"), (f"#/batch/{here.batch}?show=failed", MARKUP),
                        (f"#/item/42/{part(MARKUP)}", MARKUP), ("#/clients", "42"), ("#/client/42", "Used now"), ("#/hosts", "good.example"),
                        ("#/workers", "in flight"), ("#/webhooks", "shop"), ("#/webhook/shop", "Deliveries")):
        page.show(where, text)
        check(page.width() <= 390, f"{where} is {page.width()} px wide")
    if here.pool.get("/v1/config").status == 200:
        page.show("#/config", "clients.rpm")
        check(page.width() <= 390, f"#/config is {page.width()} px wide")
    page.show("#/batches", here.batch)
    picture(page, "narrow", dark=True)
    page.size(1200, 900)


def keyboard(here):
    """The pages are reached by Tab and Enter."""
    page = here.page
    page.show("#/workers", "in flight")
    for _ in range(10):
        page.press("Tab", 9)
        if page.value("document.activeElement.textContent") == "Batches":
            break
    same(page.value("document.activeElement.textContent"), "Batches", "a tab stop")
    page.press("Enter", 13)
    page.wait("One item")


def idle(here):
    """The overview asks most. While nothing happens, it asks at most once a second."""
    page = here.page
    page.show("#/", "Running batches")
    page.value("performance.clearResourceTimings(); performance.setResourceTimingBufferSize(10000)")
    # the moments of requests between two refreshes that no event has caused
    times = wait_until(lambda: page.value("""(() => {
        const all = performance.getEntriesByType("resource"), at = all.filter(e => e.name.includes("/v1/queue")).map(e => e.startTime);
        const i = at.findIndex((t, k) => at[k + 1] - t > 8000);
        return i < 0 ? null : [all.filter(e => e.startTime >= at[i] && e.startTime < at[i + 1]).length, at[i + 1] - at[i]];
    })()"""), 40, "the page is refreshed by itself")
    print(f"idle: {times[0]} requests in {times[1] / 1000:.1f} s", flush=True)
    check(times[0] <= times[1] / 1000, f"an idle page sends {times[0]} requests in {times[1]} ms")


def drain(here):
    """The last action: the only worker takes no more work, and so the process ends."""
    page, pool = here.page, here.pool
    page.show("#/workers", "live")
    page.click(".drain")
    page.wait("Drain this worker?")
    page.yes()
    page.wait("The worker drains.")
    same(pool.wait_exit(), 0, "exit status of the drained process")
    page.wait("the server does not answer")


def test(case):
    here = Here(case)
    for step in (empty_system, overview, put_back, batches, batch, replay_and_cancel, clients, hosts, webhooks, narrow, keyboard, idle, drain):
        step(here)
        same(here.page.value("violations"), [], f"violations of the policy, and errors, after {step.__name__}")
    here.page.kill()


if __name__ == "__main__":
    scenario(test)
