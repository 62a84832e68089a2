"""demo_run.py: the processes of the demo: the fake photo hosts, `photopool up`, and `photopool
submit` for each merchant.

Each process has its own session, so that Ctrl-C reaches only the demo, which then ends them in
order.
"""
import fcntl
import http.client
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

from demo_catalogue import INTERNAL, REFUSED, hosts

PHOTOPOOL = os.environ.get("PHOTOPOOL", "build/photopool")
ORIGIN = os.environ.get("PP_ORIGIN", "build/loadtest/origin")
START_S, STOP_S = 10, 2


class Broken(Exception):
    """The demo can't continue. The text says why, for the person who started it."""


def start(argv, **more):
    """Starts a process. Removes the variables PHOTOPOOL_... from its environment, which would
    change its configuration.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith("PHOTOPOOL")}
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True, env=env, **more)


def stop(process):
    """Sends SIGTERM, then SIGTERM again, which stops photopool at once, then SIGKILL."""
    for signo in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
        if process is None or process.poll() is not None:
            return
        process.send_signal(signo)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            pass


def tail(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return "".join(f.readlines()[-15:])


def wait_for(process, read, log, what):
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        value = read()
        if value:
            return value
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise Broken(f"{what} did not start:\n{tail(log)}")


class Origin:
    """All 40 hosts: one process that answers for any host name. It ends with the ExitStack, like
    all processes of the demo.
    """

    def __init__(self, out, work, files, stack):
        self.record, self.limits = f"{work}/record.txt", f"{work}/limits.txt"
        log, port_file, names = f"{out}/origin.log", f"{work}/port", f"{work}/hosts.txt"
        with open(names, "w", encoding="utf-8") as f:
            f.writelines(f"{host.name} {host.behaviour}\n" for host, _ in hosts())
        with open(log, "wb") as err:
            self.process = start([ORIGIN, "--listen", "127.0.0.1:0", "--port-file", port_file, "--files", files, "--hosts", names,
                                  "--record", self.record], stdout=err, stderr=err)
        stack.callback(stop, self.process)
        self.port = int(wait_for(self.process, lambda: os.path.exists(port_file) and open(port_file, encoding="ascii").read().strip(),
                                 log, "the fake photo host"))

    def check(self, merchants):
        """Returns what the hosts measured for each client: the most requests in any 60 s, and the
        most in flight.
        """
        with open(self.limits, "w", encoding="ascii") as f:
            f.writelines(f"{m.client} {m.rpm} {m.concurrency}\n" for m in merchants)
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_S)
        link.request("POST", "/_flush")
        link.getresponse().read()
        done = subprocess.run([ORIGIN, "check", self.record, "--limits", self.limits, "--json"], capture_output=True, check=False)
        return json.loads(done.stdout)


class Pool:
    """The process `photopool up`, and its API."""

    def __init__(self, out, port, listen, stack):
        self.config = f"{out}/photopool.yaml"
        pins = [f"{host.name}:{port}:127.0.0.1" for host, _ in hosts()]
        pins += [f"{name}:{port}:{address}" for name, address in (REFUSED, INTERNAL)]
        with open(self.config, "w", encoding="utf-8") as f:
            f.write("# The demo's configuration: hosts that exist on this machine only, and shorter waits.\n"
                    f"http.listen: {listen}\n"
                    "fetch.tiers: [{timeout: 1s}, {timeout: 5s}, {timeout: 30s}]  # as by default\n"
                    "fetch.allow_networks: [127.0.0.0/8]  # never do so on a server that fetches for others\n"
                    f"fetch.allow_ports: [80, 443, {port}]\n"
                    "hosts.wait: 5s  # hosts that are down stay down: the demo does not wait for them\n"
                    "retry.delays: [1s, 3s, 6s]\n"
                    "router.interval: 2s\n"
                    "fetch.resolve:\n" + "".join(f'  - "{pin}"\n' for pin in pins))
        log = f"{out}/photopool.log"
        with open(log, "wb") as err:
            self.process = start([PHOTOPOOL, "up", "--config", self.config, "--data", f"{out}/data"],
                                 stdout=subprocess.PIPE, stderr=err)
        stack.callback(stop, self.process)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.said = b""
        self.url = wait_for(self.process, self.listens, log, "photopool up")
        self.log = log

    def listens(self):
        self.said += self.process.stdout.read() or b""
        found = re.search(rb"listens on (http://\S+?),", self.said)
        return found.group(1).decode() if found else None

    def get(self, path):
        link = http.client.HTTPConnection(self.url.split("//")[1], timeout=START_S)
        try:
            link.request("GET", path)
            answer = link.getresponse()
            body = answer.read()
        except OSError as e:
            raise Broken(f"photopool does not answer ({e}):\n{tail(self.log)}") from e
        finally:
            link.close()
        if answer.status != 200:
            raise Broken(f"GET {path}: {answer.status} {body.decode(errors='replace')}")
        return body

    def list(self, path, plural):
        """Returns the rows of all pages of a list."""
        after = ""
        while True:
            page = json.loads(self.get(f"{path}{'&' if '?' in path else '?'}limit=1000{after}"))
            yield from page[plural]
            if not page["next"]:
                return
            after = f"&after={page['next']}"

    def metrics(self):
        """Returns {(name, labels as a tuple of pairs): value}."""
        found = {}
        for line in self.get("/metrics").decode().splitlines():
            m = re.fullmatch(r"photopool_(\w+)(?:\{(.*)\})? (\S+)", line)
            if m:
                found[m[1], tuple(re.findall(r'(\w+)="([^"]*)"', m[2] or ""))] = float(m[3])
        return found

    def command(self, *args):
        """Runs a photopool command against this server."""
        done = subprocess.run([PHOTOPOOL, *args, "--server", self.url], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Broken(f"photopool {' '.join(args)}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout


class Submit:
    """A process `photopool submit FILE --client ID --follow`. It gets a terminal that is as wide as
    the place for its bar. If the output of the demo is a pipe, it gets a pipe, too.
    """

    BAR, IDS, ESCAPES = re.compile(r"\r\x1b\[K([^\r\n]*)"), re.compile(r"\bb_\w+"), re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

    def __init__(self, pool, path, client, width, stack):
        argv = [PHOTOPOOL, "submit", path, "--client", client, "--follow", "--server", pool.url]
        self.text, self.bar, self.ids, self.progress = "", "", [], {}
        self.tty = bool(width)
        if self.tty:
            self.fd, slave = pty.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
            self.process = start(argv, stdout=slave, stderr=slave)
            os.close(slave)
        else:
            self.process = start(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.fd = self.process.stdout.fileno()
        stack.callback(stop, self.process)
        os.set_blocking(self.fd, False)

    def poll(self):
        """Reads the output that has arrived. Returns False once the process has ended."""
        ended = self.process.poll() is not None
        while True:
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                break
            except OSError:  # the other side of the terminal is closed
                break
            if not data:
                break
            self.text += data.decode(errors="replace")
        if self.tty:
            self.read_terminal()
        else:
            self.read_lines()
        # exit code 3: some photos failed, as the demo intends
        if ended and self.process.returncode not in (0, 3):
            raise Broken(f"photopool submit: exit {self.process.returncode}: {self.ESCAPES.sub('', self.text)[-2000:]}")
        return not ended

    def read_terminal(self):
        # The last line may be incomplete, so it stays in self.text.
        whole = self.text if self.text.endswith("\n") else self.text[: self.text.rfind("\r\x1b[K")] if "\r\x1b[K" in self.text else ""
        bars = [bar for bar in self.BAR.findall(whole) if "%" in bar]
        if bars:
            self.bar = bars[-1]
        self.ids = self.ids or self.IDS.findall(self.ESCAPES.sub("", self.text))

    def read_lines(self):
        *lines, self.text = self.text.split("\n")
        for line in lines:
            if not line.startswith("{"):
                sys.stderr.write(line + "\n")
                continue
            said = json.loads(line)
            if said["type"] == "batch":
                self.ids.append(said["batch_id"])
            elif said["type"] in ("progress", "summary"):
                self.progress = said


def free_port(wanted):
    """Returns the wanted port if it is free, otherwise 0, which means any port."""
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", wanted))
        except OSError:
            return 0
    return wanted
