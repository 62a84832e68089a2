#!/usr/bin/env python3
# scenario: build=release timeout=60
"""The command blocks of README.md and docs/ do what the pages say, as pasted.

Each page is a session of its own: an empty folder with build/photopool and the fake photo host,
where its blocks run one after the other. Only the ports are others. A block fails if a command
does, or if the API answers with a problem that the page does not show.

  ```sh     commands. If the last line starts a server, it runs until the page ends. If it ends with
            `# until Ctrl-C`, it gets one when it has printed what the page shows
  ```text   directly after commands: lines that they print, in this order; `...` leaves out the rest
            of a line, or lines
  ```json   directly after commands: what they print; otherwise an example, which must be JSON
  ```yaml   a configuration, which `photopool config` accepts
  ```js     not run

Variables live until the page ends, as in a terminal.

docs/commands.md and docs/errors.md, which are made from the sources, have what the program prints.
"""
import fcntl
import itertools
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
import urllib.request

from harness import ORIGIN, PHOTOPOOL, SLOW, Pool, Process, check, free_port, same, scenario, wait_until

SOURCE = os.environ.get("PP_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What is not run: a page and a block's first line, or None and a line of any block; and why.
NOT_RUN = {
    (None, "make"): "the program under test is built",
    (None, "scripts/build build origin"): "the photo host is built",
    ("README.md", "make demo"): "installs packages, and takes two minutes",
    ("docs/adding.md", "make            # build/photopool"): "the tests run beside this one",
    ("docs/consumers.md", "photopool webhooks test shop"): "needs an endpoint; test_webhooks.py has one",
    ("docs/operators.md", "make deb"): "packaging/try installs the package",
    ("docs/operators.md", "make image"): "packaging/image tries the image",
    ("docs/operators.md", "cp packaging/kubernetes/secret.example.yaml packaging/kubernetes/secret.yaml   # git ignores it: fill it in"):
        "needs a cluster; the lint kubernetes and test_fleet_script.py check the manifests",
    ("docs/operators.md", "sudo systemctl enable --now photopool"): "needs systemd; test_packaging.py starts the command lines of the units",
    ("docs/operators.md", "sudo systemctl enable --now photopool@worker"): "needs systemd",
    ("docs/operators.md", "photopool bench --seconds 1 --dir ."): "test_doctor.py runs it",
    ("docs/operators.md", "make fleet     # on this machine: MongoDB, Redis, 1 api, 1 ingest, 3 workers, 1 cron and deliver; until Ctrl-C"):
        "needs a MongoDB; test_fleet_script.py runs it",
    ("docs/operators.md", "photopool serve --roles api,ingest --data /var/lib/photopool --config fleet.yaml"): "needs a MongoDB",
    ("docs/speed.md", "make bench"): "takes an hour",
}
PAGES = ["README.md", *sorted(f"docs/{name}" for name in os.listdir(os.path.join(SOURCE, "docs")) if name.endswith(".md"))]
SERVER = re.compile(r"(build/)?photopool up\b")
SAME_EACH_TIME = [  # what differs from run to run, and what stands for it
    (r"\x1b\[[0-9;?]*[A-Za-z]", ""),
    (r"\bb_[0-9a-z]+", "b_ID"),
    (r"\br_[0-9a-z]+", "r_ID"),
    (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+Z)?", "DATE"),
    (r'"seq":\d+', '"seq":N'),
    (r"^DATE +\d+ ", "DATE N "),
    (r" +", " "),
]


class Block:
    def __init__(self, page, number, language, lines):
        self.page, self.number, self.language, self.lines = page, number, language, lines
        self.shown = None  # the block of output that follows

    @property
    def place(self):
        return f"{self.page}:{self.number}"

    @property
    def text(self):
        return "\n".join(self.lines)


def read(page):
    with open(os.path.join(SOURCE, page), encoding="utf-8") as f:
        return f.read().split("\n")


def blocks(page):
    """Returns the blocks of a page. A block of output that directly follows commands is their `shown`."""
    found, block, last = [], None, None
    for number, line in enumerate(read(page), 1):
        if block is None and line.startswith("```"):
            block = Block(page, number, line[3:], [])
            check(block.language in ("sh", "text", "json", "yaml", "js"), f"{block.place}: a block of the language {block.language!r}")
        elif block is not None and line == "```":
            if block.language in ("text", "json") and last and last.language == "sh" and not last.shown:
                last.shown = block
            else:
                found.append(block)
            last, block = block, None
        elif block is not None:
            block.lines.append(line)
        elif line.strip():
            last = None
    return found


def plain(text):
    """Returns the lines of an output without what differs from run to run. Of a line that was
    written over (a progress bar) the last state remains.
    """
    lines = []
    for line in text.split("\n"):
        line = line.rstrip("\r").split("\r")[-1]
        for pattern, stands in SAME_EACH_TIME:
            line = re.sub(pattern, stands, line)
        lines.append(line.strip())
    # events of several items come in any order
    return [line for dated, group in itertools.groupby(lines, lambda line: line.startswith("DATE N "))
            for line in (sorted(group) if dated else group)]


def missing(shown, printed):
    """Returns the first line of `shown` that `printed` does not have after the lines before it, or
    None. Both are lists of plain lines.
    """
    rest = iter(printed)
    for line in shown:
        if line == "...":
            continue
        head = line[:-3] if line.endswith("...") else None
        if not any(line == other or head is not None and other.startswith(head) for other in rest):
            return line
    return None


class Session(Process):
    """Runs the blocks of one page in one folder."""

    def __init__(self, case, page, ports):
        super().__init__(case, os.path.basename(page), "bash")
        self.page, self.ports = page, ports  # ports: {the port of the page: the port here}
        self.folder, self.n = case.name("session"), 0
        self.home, self.state = os.path.join(self.folder, "home"), os.path.join(self.folder, "state")
        os.makedirs(os.path.join(self.home, "build", "loadtest"))
        os.symlink(os.path.abspath(PHOTOPOOL), os.path.join(self.home, "build", "photopool"))
        os.symlink(os.path.abspath(ORIGIN), os.path.join(self.home, "build", "loadtest", "origin"))
        with open(self.state, "w", encoding="utf-8"):
            pass
        self.url = f"http://127.0.0.1:{ports['8080']}"
        self.env = {**os.environ, "HOME": self.home, "TERM": "xterm", "PHOTOPOOL_SERVER": self.url,
                    "PHOTOPOOL_HTTP_LISTEN": f"127.0.0.1:{ports['8080']}", "PHOTOPOOL_BLOBS_MIN_FREE": "0",
                    # No time limit that a slow machine could exceed: it would change the numbers of
                    # attempts.
                    "PHOTOPOOL_FETCH_TIERS": "[{timeout: 5m}, {timeout: 10m}]"}
        self.env.pop("NO_COLOR", None)
        self.shells = []  # shells that may still have processes; `has_more`: in the background
        self.failed = None

    def file(self, stem, text):
        """Writes a file of the session and returns its path. (Case.name() is not for threads.)"""
        self.n += 1
        path = os.path.join(self.folder, f"{self.n:02}-{stem}")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def here(self, text):
        return re.sub(r"\b(8080|9000)\b", lambda m: self.ports[m.group(1)], text)

    def on_page(self, text):
        for there, here in self.ports.items():
            text = re.sub(rf"\b{here}\b", there, text)
        return text

    def shell(self, commands):
        """Starts commands on a terminal. Returns the process and a function that returns its output."""
        script = self.file("block.sh", f"set -a -e -o pipefail\n. '{self.state}'\n"
                           f"trap 'pp_status=$?; export -p > {self.state}; printf \"\\n@end %s@\\n\" $pp_status' EXIT\n{commands}\n")
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        process = subprocess.Popen(["bash", script], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, cwd=self.home, env=self.env,
                                   start_new_session=True)
        os.close(slave)
        self.shells.append(process)
        parts = []

        def drain():
            while True:
                try:
                    part = os.read(master, 65536)
                except OSError:  # all processes of the block have ended
                    part = b""
                if not part:
                    return os.close(master)
                parts.append(part)
                with open(self.log, "ab") as log:
                    log.write(part)

        threading.Thread(target=drain, daemon=True).start()
        return process, lambda: b"".join(parts).decode(errors="replace")

    def run(self, block):
        lines = [line for line in block.lines if (None, line) not in NOT_RUN]
        if not lines:
            return
        process, output = self.shell(self.here("\n".join(lines)))
        process.has_more = any(line.endswith("&") for line in lines)
        if SERVER.match(lines[-1]):
            wait_until(lambda: self.ready() or process.poll() is not None, 20, f"{block.place}: the server is ready")
            check(process.poll() is None, f"{block.place}: the server has ended: {output()[-2000:]}")
            return
        if lines[-1].endswith("# until Ctrl-C"):
            shown = plain(block.shown.text)
            wait_until(lambda: missing(shown, plain(self.on_page(output()))) is None, 20, lambda: f"{block.shown.place}: {output()[-2000:]}")
            os.killpg(process.pid, signal.SIGINT)
            process.wait(20 * SLOW)
            self.shells.remove(process)
            return
        end = wait_until(lambda: re.search(r"\n@end (\d+)@", output()), 30, lambda: f"{block.place} ends: {output()[-2000:]}")
        printed = self.on_page(output()[:end.start()])
        shown = self.on_page(block.shown.text) if block.shown else ""
        same(int(end.group(1)), 0, f"{block.place}: exit status, of {printed[-2000:]}")
        check("urn:photopool:problem:" not in printed or "urn:photopool:problem:" in shown, f"{block.place}: a problem: {printed[-2000:]}")
        if shown:
            line = missing(plain(shown), plain(printed))
            check(line is None, f"{block.shown.place}: not printed: {line!r}; printed was:\n{printed[-3000:]}")
        if not process.has_more:
            process.wait(20 * SLOW)
            self.shells.remove(process)

    def ready(self):
        try:
            with urllib.request.urlopen(self.url + "/readyz", timeout=10 * SLOW) as answer:
                return answer.status == 200
        except OSError:
            return False

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=10 * SLOW) as answer:
            return json.loads(answer.read())

    def config(self, block):
        file = self.file("photopool.yaml", block.text + "\n")
        run = subprocess.run([PHOTOPOOL, "config", "--check", "--config", file], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                             env={k: v for k, v in self.env.items() if not k.startswith("PHOTOPOOL_")})
        same(run.returncode, 0, f"{block.place}: {run.stdout.decode()}")

    def play(self, before):
        began = time.monotonic()
        try:
            for block in before + blocks(self.page):
                if block.language == "sh" and (block.page, block.lines[0]) not in NOT_RUN:
                    self.run(block)
                elif block.language == "yaml":
                    self.config(block)
                elif block.language == "json":
                    json.loads(block.text)
            if self.page == "docs/operators.md":
                same(self.get("/v1/clients/42")["rpm"], 1200, "the rate of client 42, after the restore")
            print(f"{self.page}: {time.monotonic() - began:.1f} s\n", end="", flush=True)
        except Exception as e:  # pylint: disable=broad-except
            self.failed = e

    def running(self):
        return any(s.poll() is None for s in self.shells)

    def kill(self):
        """Ends all processes of the page, also those in the background."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for shell in self.shells:
                if shell.poll() is None or shell.has_more:
                    try:
                        os.killpg(shell.pid, number)
                    except ProcessLookupError:
                        pass
            end = time.monotonic() + 10
            while self.running() and time.monotonic() < end:
                time.sleep(0.02)
        for shell in self.shells:
            shell.wait()


def pages(case):
    """Plays all pages at the same time: they mostly wait."""
    start = [b for b in blocks("README.md") if b.language == "sh" and SERVER.match(b.lines[-1])]
    same(len(start), 1, "blocks of README.md that start a server")
    ports = set()
    while len(ports) < 2 * len(PAGES):
        ports.add(str(free_port()))
    sessions = [(Session(case, page, {"8080": ports.pop(), "9000": ports.pop()}), start if page in ("docs/import.md", "docs/consumers.md") else [])
                for page in PAGES]
    threads = [threading.Thread(target=session.play, args=(before,)) for session, before in sessions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for session, _ in sessions:
        session.kill()
    for session, _ in sessions:
        if session.failed:
            raise session.failed


def no_stale_reason(_case):
    """Each entry of NOT_RUN has a block or a line."""
    found = {(b.page, b.lines[0]) for page in PAGES for b in blocks(page)} | {(None, line) for page in PAGES for b in blocks(page) for line in b.lines}
    same(sorted(str(entry) for entry in NOT_RUN if entry not in found), [], "entries of NOT_RUN without a block")


def printed(*args):
    return subprocess.run([PHOTOPOOL, *args], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout


def page_of_commands(_case):
    """docs/commands.md has the help of every command, and the options that they share."""
    page = "\n".join(read("docs/commands.md"))
    names = re.findall(r"^  ([a-z]+) .*  \S", printed("--help").split("\n\nCommands that talk")[0], re.M)
    same(re.findall(r"^### photopool (\S+)", page, re.M), names, "commands of docs/commands.md")
    for name in names:
        help_text, _, shared = printed(name, "--help").split("\nParameters, with their defaults.")[0].partition("\nEvery command that talks")
        check("Every command that talks" + shared.rstrip() + "\n```\n" in page or not shared, f"docs/commands.md has not the shared options of {name}")
        if name in ("doctor", "bench"):
            help_text = help_text.partition("\n  --json   ")[0]
        check(f"### photopool {name}\n\n```text\n{help_text.strip()}\n```\n" in page, f"docs/commands.md has not the help of {name}: {help_text}")


def page_of_errors(case):
    """docs/errors.md has every code that a server lists, with the same texts."""
    pool = Pool(case)
    pool.start()
    codes = pool.get("/v1/errors").json
    pool.stop()
    rows = [line for line in read("docs/errors.md") if line.startswith("| `")]
    photos = [f"| `{c['code']}` | {c['retry']} | {c['fault']} | {c['message']} |" for c in codes["errors"]]
    same([r for r in rows if r.count("|") == 5 and not re.search(r"\| \d{3} \|", r)], photos, "codes of photos in docs/errors.md")
    requests = [(c["code"], c["status"], c["remedy"]) for c in codes["requests"]]
    found = re.findall(r"^\| `(\w+)` \| (\d{3}) \| .* \| (.*) \|$", "\n".join(rows), re.M)
    same([(code, int(status), remedy) for code, status, remedy in found], requests, "codes of requests in docs/errors.md")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background was started with Ctrl-C ignored, and so would be what it starts
    scenario(no_stale_reason, page_of_commands, page_of_errors, pages)
