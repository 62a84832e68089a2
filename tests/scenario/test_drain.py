#!/usr/bin/env python3
# scenario: timeout=120 main
"""Signals and configuration. After SIGTERM photopool must finish the transfers in flight, hand all
others back uncounted after worker.drain, and exit with 0; a second signal must stop it at once;
SIGHUP must apply clients.rpm. With a wrong configuration it must exit with 2 and name file, line,
key and what is allowed. A service manager must hear of all this, as sd_notify(3) says.
"""
import fcntl
import os
import pty
import re
import signal
import socket
import subprocess
import termios
import threading

from harness import PHOTOPOOL, SLOW, Origin, Pool, check, outcomes, same, scenario, time, wait_until


def in_flight(origin, n):
    return lambda: origin.stats()["in_flight"] == n


def items(origin, host, n):
    return [{"id": f"{host}{i}", "photos": [origin.url(f"{host}.example", f"/{i}.jpg")]} for i in range(n)]


def hosts(origin, host, n):
    """Returns n items like items(), but each on another host: photopool sends a new host at most
    two requests until it has answered.
    """
    return [{"id": f"{host}{i}", "photos": [origin.url(f"{host}{i}.example", f"/{i}.jpg")]} for i in range(n)]


class Manager:
    """A service manager: processes that start while it is there report to it, as to systemd."""

    def __init__(self, case):
        self.heard = []  # the datagrams, without WATCHDOG=1
        self.watchdogs = 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(case.path("notify"))
        os.environ.update({"NOTIFY_SOCKET": case.path("notify"), "WATCHDOG_USEC": "500000"})
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            text = self.socket.recv(4096).decode()
            if text == "WATCHDOG=1":
                self.watchdogs += 1
            else:
                self.heard.append(text)

    def hears(self, *patterns):
        """Waits for as many datagrams, and compares them with the regular expressions."""
        wait_until(lambda: len(self.heard) >= len(patterns), 10, lambda: f"{len(patterns)} messages: {self.heard}")
        heard, self.heard = self.heard[:len(patterns)], self.heard[len(patterns):]
        check(all(re.fullmatch(p, h) for p, h in zip(patterns, heard)), f"heard {heard}, not {patterns}")

    def leave(self):
        for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC"):
            del os.environ[name]


RELOADING = r"RELOADING=1\nMONOTONIC_USEC=\d+"
READY = r"READY=1\nSTATUS=running, roles all, port \d+"
REFUSED = r"READY=1\nSTATUS=running, configuration not reloaded: .+"
STOPPING = r"STOPPING=1\nEXTEND_TIMEOUT_USEC=90000000\nSTATUS=draining: .+"


def finishes(case):
    """After SIGTERM the transfers in flight must end within worker.drain and count; no other
    transfer may start.
    """
    origin = Origin(case, hosts="*.example delay=1500 bytes=1000")
    pool = Pool(case, origin=origin, config={"clients.rpm": None, "clients.concurrency": 10, "worker.drain": "1h",
                                             "fetch.tiers": [{"timeout": "30m", "concurrency": 64}]})
    pool.start()
    batch = pool.submit("42", items(origin, "a", 30))
    wait_until(lambda: origin.stats()["max_in_flight"] == 10, 10, "10 are in flight")
    pool.signal(signal.SIGTERM)
    wait_until(lambda: "draining" in pool.text(), 10, "it drains")
    begun = origin.stats()["requests"]
    # ends long before worker.drain, which is an hour
    same(pool.wait_exit(40), 0, "exit status after SIGTERM")
    records = origin.records()
    same(len(records), begun, "requests, as many as when the drain began")
    same({r["outcome"] for r in records}, {"done"}, "how they ended")
    origin.set_hosts("*.example delay=10 bytes=1000")
    pool.start()
    check(pool.batch(batch)["photos"]["stored"] >= begun, "what ended in the drain is stored")
    results = pool.wait_finished(batch)
    same({p["attempts"] for r in results for p in r["data"]["photos"]}, {1}, "attempts")
    same(len(origin.records()), 30, "requests in all: none is fetched twice")
    pool.stop()


def hands_back(case):
    """After worker.drain photopool must hand the transfers in flight back, and the attempt must not
    count.
    """
    origin = Origin(case, hosts="quick.example delay=300 bytes=1000\nstall*.example stall=head")
    pool = Pool(case, origin=origin, config={"clients.rpm": None, "worker.drain": "1s", "retry.attempts": 1,
                                             "fetch.tiers": [{"timeout": "30m", "concurrency": 64}]})
    pool.start()
    batch = pool.submit("42", hosts(origin, "stall", 5) + items(origin, "quick", 1))
    wait_until(lambda: origin.stats()["requests"] == 6, 10, "all have been in flight")
    start = time.monotonic()
    pool.stop()  # ends long before the transfers time out
    took = time.monotonic() - start
    check(took >= 0.9, f"drained in {took:.1f} s, worker.drain is 1s")
    origin.set_hosts("*.example delay=10 bytes=1000")
    pool.start()
    results = pool.wait_finished(batch)
    same({o for o, _ in outcomes(results).values()}, {"stored"}, "outcomes after the restart, with one attempt allowed")
    same({p["attempts"] for r in results for p in r["data"]["photos"]}, {1}, "attempts")
    check("claims of an earlier process" not in pool.text(), "a claim that was handed back counts as lost")
    same(pool.temp_files(), [], "temporary files")
    pool.stop()


def second_signal(case):
    origin = Origin(case, hosts="*.example stall=head")
    pool = Pool(case, origin=origin, config={"clients.rpm": None, "worker.drain": "1h", "fetch.tiers": [{"timeout": "30m"}]})
    pool.start()
    batch = pool.submit("42", hosts(origin, "stall", 3))
    wait_until(in_flight(origin, 3), 10, "all are in flight")
    pool.signal(signal.SIGTERM)
    wait_until(lambda: "draining" in pool.text(), 10, "it drains")
    pool.signal(signal.SIGINT)
    pool.wait_exit(10)  # must end at once, although worker.drain is an hour
    origin.set_hosts("*.example delay=10 bytes=1000")
    pool.start()
    same({o for o, _ in outcomes(pool.wait_finished(batch)).values()}, {"stored"}, "outcomes after the restart")
    pool.stop()


def by_command(case):
    """`photopool drain` must act like SIGTERM: the transfers in flight end, then the process."""
    origin = Origin(case, hosts="*.example delay=1000 bytes=1000")
    pool = Pool(case, origin=origin, config={"clients.rpm": None, "fetch.tiers": [{"timeout": "30s"}]})
    pool.start()
    batch = pool.submit("42", hosts(origin, "a", 3))
    wait_until(lambda: origin.stats()["requests"] == 3, 10, "all are in flight")
    run = subprocess.run([PHOTOPOOL, "drain", "--server", f"http://127.0.0.1:{pool.port}"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, check=False, timeout=20 * SLOW)
    same((run.returncode, run.stderr), (0, b""), "photopool drain")
    same(pool.wait_exit(20), 0, "exit status after the drain")
    same([r["outcome"] for r in origin.records()], ["done"] * 3, "how the requests ended")
    pool.start()
    same({o for o, _ in outcomes(pool.wait_finished(batch)).values()}, {"stored"}, "outcomes")
    same(len(origin.records()), 3, "requests in all")
    pool.stop()


def reload(case):
    """SIGHUP raises clients.rpm while a client waits for a permit: the client must continue."""
    origin = Origin(case, hosts="*.example delay=5 bytes=1000")
    pool = Pool(case, origin=origin, config={"clients.rpm": 20})
    manager = Manager(case)
    pool.start()
    manager.hears(READY)
    wait_until(lambda: manager.watchdogs >= 2, 10, "it reports that its loop runs")
    batch = pool.submit("42", items(origin, "a", 60))
    wait_until(lambda: pool.batch(batch)["photos"]["stored"] == 20, 20, "a minute's worth is stored")
    pool.config.update({"clients.rpm": 50, "worker.lease": "20s"})
    pool.write_config()
    pool.signal(signal.SIGHUP)
    wait_until(lambda: "configuration reloaded" in pool.text(), 10, "the log says that the configuration was reloaded")
    manager.hears(RELOADING, READY)
    same(re.findall(r"only after a restart parameter=(\S+)", pool.text()), ["worker.lease"], "parameters that need a restart")
    same(re.findall(r"in force now parameter=(.+)", pool.text()), ["clients.rpm from=20 to=50"], "parameters that have changed")
    wait_until(lambda: pool.batch(batch)["photos"]["stored"] == 50, 20, lambda: f"the new limit is used: {pool.batch(batch)['photos']}")
    same(len(origin.records()), 50, "requests")
    pool.set_client("43", rpm=10)
    other = pool.submit("43", items(origin, "b", 25))
    wait_until(lambda: pool.batch(other)["photos"]["stored"] == 10, 20, "its own limit is used")
    pool.set_client("43", rpm=15)
    wait_until(lambda: pool.batch(other)["photos"]["stored"] == 15, 20, "PUT /v1/clients/43 raises the limit")
    with open(pool.config_file, "w", encoding="utf-8") as f:
        f.write("clients:\n  rpm: many\n")
    pool.signal(signal.SIGHUP)
    wait_until(lambda: "not reloaded" in pool.text(), 10, "a bad file is refused")
    manager.hears(RELOADING, REFUSED)
    pool.signal(signal.SIGHUP)  # the log says the same error once a minute at most
    manager.hears(RELOADING, REFUSED)
    check(pool.ready(), "it keeps its configuration")
    with open(pool.config_file, "w", encoding="utf-8"):
        pass
    pool.signal(signal.SIGHUP)
    wait_until(lambda: "is empty" in pool.text(), 10, "an empty file is refused")
    manager.hears(RELOADING, REFUSED)
    same(pool.text().count("not reloaded"), 2, "lines about reloads that were refused")
    pool.config["clients.rpm"] = None
    pool.write_config()
    pool.signal(signal.SIGHUP)
    pool.wait_finished(batch, 20)
    same(pool.batch(other)["photos"]["stored"], 15, "photos of the client with a limit of its own")
    manager.hears(RELOADING, READY)
    pool.stop()
    manager.hears(STOPPING)
    manager.leave()


def closed_terminal(case):
    """A process that was started in a terminal must end when the terminal is closed; a SIGHUP before
    that reloads the configuration.
    """
    ours, its = pty.openpty()
    with open(case.path("terminal.log"), "w+", encoding="utf-8") as log:
        process = subprocess.Popen([PHOTOPOOL, "up", "--data", case.path("terminal"), "--set", "http.listen=127.0.0.1:0"], stdin=its, stdout=log, stderr=log,
                                   start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(its)

        def said(text):
            log.seek(0)
            return text in log.read()

        try:
            wait_until(lambda: said("photopool listens on"), 20, "it listens")
            process.send_signal(signal.SIGHUP)
            wait_until(lambda: said("configuration"), 20, "SIGHUP reloads while the terminal is there")
            check(not said("draining"), "it goes on")
            os.close(ours)
            same(process.wait(timeout=20 * SLOW), 0, "exit status after the terminal was closed")
            check(said("draining") and said("stopped"), "it drained")
        finally:
            process.kill()


BAD = [  # (file, line of the mistake, key, text that the message must contain)
    ("clients:\n  rpm: many\n", 2, "clients.rpm", "1M"),
    ("clients:\n  rmp: 3\n", 2, "clients.rmp", "clients.rpm"),
    ("http:\n  listen: 127.0.0.1:0\nworker:\n  lease: 1s\n", 4, "worker.lease", "10m"),
    ("worker:\n  drain: 30 parsecs\n", 2, "worker.drain", "250ms"),
    ("fetch:\n  tiers: [{timeout: 5s}, {timeout: 1s}]\n", 2, "fetch.tiers", "grow"),
    ("nothing:\n  here: 1\n", 1, "nothing", ""),
    ("clients: [\n", None, "", ""),
    ("http:\n  listen: 0.0.0.0:0\n", None, "auth.keys", ""),
]


def bad_configuration(case):
    for n, (text, line, key, allowed) in enumerate(BAD):
        name = case.path(f"bad{n}.yaml")
        with open(name, "w", encoding="utf-8") as f:
            f.write(text)
        run = subprocess.run([PHOTOPOOL, "up", "--data", case.path("unused"), "--config", name], stderr=subprocess.PIPE,
                             stdout=subprocess.PIPE, check=False, timeout=20 * SLOW)
        said = run.stderr.decode()
        same(run.returncode, 2, f"exit status for {text!r}, which said {said!r}")
        check(name in said or line is None, f"{said!r} does not name the file")
        check(line is None or re.search(rf"\b{line}\b", said.replace(name, "")), f"{said!r} does not name line {line}")
        check(key in said and allowed in said, f"{said!r} does not name {key!r} and {allowed!r}")
    run = subprocess.run([PHOTOPOOL, "up", "--config", case.path("none.yaml")], stderr=subprocess.PIPE, check=False, timeout=20 * SLOW)
    same(run.returncode, 2, "exit status for a file that is not there")
    run = subprocess.run([PHOTOPOOL, "up", "--set", "clients.rpm=0"], stderr=subprocess.PIPE, check=False, timeout=20 * SLOW)
    check(run.returncode == 2 and b"clients.rpm" in run.stderr, f"--set clients.rpm=0: {run.stderr}")


if __name__ == "__main__":
    scenario(finishes, hands_back, second_signal, by_command, reload, closed_terminal, bad_configuration)
