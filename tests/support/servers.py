"""servers.py: what tests/support/mongod, rabbitmq and redis share: server processes, and a
supervisor of them that runs in the foreground.

Supervisor.run() starts the servers, prints their URL, and runs until SIGTERM, SIGINT, the end of
its parent, the end of its standard input (--until-eof) or the end of COMMAND. While it runs,
DIR/servers.json has the URL, and the name, port, pid and folder of each server. The supervisor
takes requests on a TCP port of 127.0.0.1, one per line (ask()): kill, start, restart, spawn, stop,
cont, end, wipe, each with a server's number, and quit. It has one thread, so a request is done
when it is answered. The servers end with the supervisor, even if it is killed (PR_SET_PDEATHSIG).
"""
import contextlib
import ctypes
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def die_with_parent():
    """For preexec_fn: the kernel kills the process when the thread that started it ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    """Returns a free port outside the range that the kernel uses for outgoing connections."""
    for _ in range(1000):
        port = random.SystemRandom().randrange(15000, 30000)
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port
    raise OSError("no free port")


def new_lines(path, offset):
    """Returns (the text written to a file since `offset`, the new offset)."""
    try:
        with open(path, "rb") as f:
            f.seek(offset)
            text = f.read()
    except OSError:
        return b"", offset
    return text, offset + len(text)


class StartError(Exception):
    """A server did not start; the text gives the reason."""


class Server:
    """One server process. command(port) returns [program, arguments...]. answers(port, folder)
    returns whether this server is up; it must notice if another program's server has taken the
    port.
    """

    def __init__(self, name, folder, command, answers, port=None, env=None):
        self.name, self.dir, self.command, self.answers, self.env = name, folder, command, answers, env
        self.fixed, self.port, self.process = port is not None, port or free_port(), None
        self.log = os.path.join(folder, name + ".log")
        os.makedirs(folder, exist_ok=True)

    @property
    def pid(self):
        return self.process.pid if self.running() else None

    def running(self):
        return self.process is not None and self.process.poll() is None

    def log_tail(self, lines=15):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return "".join(f.readlines()[-lines:])

    def spawn(self):
        """Starts the process without waiting until the server answers."""
        if not self.running():
            with open(self.log, "ab") as log:
                self.process = subprocess.Popen(self.command(self.port), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                env=self.env, start_new_session=True, preexec_fn=die_with_parent)

    def wait_up(self, timeout):
        end = time.monotonic() + timeout
        while not self.answers(self.port, self.dir):
            if not self.running():
                raise StartError(f"{self.name} ended with {self.process.returncode}; its log {self.log} ends with:\n{self.log_tail()}")
            if time.monotonic() > end:
                raise StartError(f"{self.name} is not up after {timeout} s; its log {self.log} ends with:\n{self.log_tail()}")
            time.sleep(0.02)

    def start(self, timeout=120):
        """Starts the process and waits until the server answers. Until the first success, chooses
        another port if the port is taken.
        """
        for left in reversed(range(5)):
            self.spawn()
            try:
                self.wait_up(timeout)
                self.fixed = True  # clients know the port from now on, so it must not change
                return
            except StartError:
                if self.fixed or self.running() or not left:
                    raise
                self.port = free_port()

    def kill(self):
        """Kills the process (kill -9), even if it is stopped."""
        if self.running():
            self.process.kill()
            self.process.wait()

    def signal(self, number):
        if not self.running():
            raise StartError(f"{self.name} is not running")
        self.process.send_signal(number)

    def wait_end(self, timeout):
        """Waits until the process has ended, and kills it after the timeout. Returns False if it
        was killed.
        """
        try:
            self.process.wait(timeout)
            return True
        except subprocess.TimeoutExpired:
            self.kill()
            return False


def memory():
    """Returns a folder in memory for temporary data, if it has enough room. Then tests do not wait
    for a disk, and killed servers still find their data. Returns None otherwise: use $TMPDIR, or
    /tmp.
    """
    try:
        room = os.statvfs("/dev/shm")
    except OSError:
        return None
    plenty = room.f_bavail * room.f_frsize >= 6 << 30 and os.access("/dev/shm", os.W_OK)
    return "/dev/shm" if plenty and not os.environ.get("TMPDIR") else None


class Supervisor:
    """Runs the servers of one folder. A subclass defines how its servers become ready, and how they
    end.
    """

    variable = "URL"  # name of the variable with the URL in COMMAND's environment
    what = "servers"

    def __init__(self, folder):
        self.throw_away = folder is None
        self.quick = self.throw_away  # kills the servers (kill -9) at the end instead of shutting them down
        self.dir = os.path.abspath(folder) if folder else tempfile.mkdtemp(prefix=f"photopool-{self.what}-", dir=memory())
        os.makedirs(self.dir, exist_ok=True)
        self.servers = []
        self.listener = None
        self.command = None

    # --- for subclasses ---

    def url(self):
        raise NotImplementedError

    def make_ready(self, first):
        """Called when all servers have started (`first` is True), or when one server has started again."""

    def end_one(self, server):
        """Asks a server to shut down cleanly; it may still run when this returns."""
        server.process.terminate()

    def wipe_one(self, server):
        """Deletes the data of a stopped server."""
        raise NotImplementedError

    def has_crashed(self, server):
        """Returns True if the log of a running server shows that it will never answer again. Called
        again and again.
        """
        return False

    def after_end(self):
        """Called when all servers have ended."""

    # --- requests ---

    def handle(self, line):
        """Carries out a request. Returns (answer, whether it is the last request); the answer is
        "ok" or an error text.
        """
        word, _, rest = line.strip().partition(" ")
        if word == "quit":
            return "ok", True
        requests = {"kill": lambda s: s.kill(), "start": self.start_one, "restart": lambda s: (s.kill(), self.start_one(s)),
                    "spawn": lambda s: s.spawn(), "stop": lambda s: s.signal(signal.SIGSTOP), "cont": lambda s: s.signal(signal.SIGCONT),
                    "end": self.end_and_wait, "wipe": self.wipe}
        try:
            requests[word](self.servers[int(rest or 0)])
            self.write_state()
            return "ok", False
        except (KeyError, IndexError, ValueError):
            return f"no such request: {line.strip()}", False
        except (StartError, OSError, TimeoutError) as e:
            self.write_state()
            return " ".join(str(e).split()), False

    def start_one(self, server):
        server.start()
        self.make_ready(False)

    def end_and_wait(self, server):
        if server.running():
            server.process.send_signal(signal.SIGCONT)
            self.end_one(server)
            server.wait_end(20)

    def wipe(self, server):
        server.kill()
        self.wipe_one(server)

    def write_state(self):
        state = {"url": self.url(), "supervisor": os.getpid(), "control": self.listener.getsockname()[1],
                 "servers": [{"name": s.name, "port": s.port, "pid": s.pid, "dir": s.dir, "log": s.log} for s in self.servers]}
        path = os.path.join(self.dir, "servers.json")
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump(state, f, indent=1)
        os.replace(path + ".new", path)

    # --- the loop ---

    def run(self, command=(), until_eof=False, quick=False):
        """Starts the servers, runs until the end, and returns the exit status."""
        self.quick = self.quick or quick
        parent = os.getppid()
        wake, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        ended = []
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda n, frame: ended.append(n))
        signal.signal(signal.SIGCHLD, lambda n, frame: None)
        status = 0
        try:
            with socket.create_server(("127.0.0.1", 0)) as self.listener:
                for server in self.servers:
                    server.spawn()
                for server in self.servers:
                    server.start()
                self.make_ready(True)
                self.write_state()
                if command:
                    env = {**os.environ, f"{self.variable}_URL": self.url(), f"{self.variable}_DIR": self.dir}
                    self.command = subprocess.Popen(command, env=env, preexec_fn=die_with_parent)
                else:
                    print(self.url(), flush=True)
                status = self.watch(wake, ended, parent, until_eof and not command)
        except (StartError, OSError, TimeoutError) as e:
            print(f"{os.path.basename(sys.argv[0])}: {e}", file=sys.stderr)
            status = 1
        finally:
            self.close()
        return status

    def watch(self, wake, ended, parent, until_eof):
        inputs = [self.listener, wake] + ([sys.stdin] if until_eof else [])
        while not ended and os.getppid() == parent:
            if self.command and self.command.poll() is not None:
                code = self.command.returncode
                return code if code >= 0 else 128 - code
            ready, _, _ = select.select(inputs, [], [], 0.25)
            if wake in ready:
                os.read(wake, 4096)
            self.end_crashed()
            if sys.stdin in ready and not os.read(0, 4096):
                return 0
            if self.listener in ready and self.answer():
                return 0
        if self.command and self.command.poll() is None:
            self.command.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.command.wait(30)
        return 130 if ended and self.command else 0

    def end_crashed(self):
        """Kills crashed servers, so that clients that wait for an answer notice at once, and may
        start the server again.
        """
        for server in self.servers:
            if server.running() and self.has_crashed(server):
                server.kill()
                print(f"{os.path.basename(sys.argv[0])}: {server.name} has crashed, see {server.log}", file=sys.stderr, flush=True)
                self.write_state()

    def answer(self):
        """Handles one connection with one request. Returns True if it was the last request."""
        connection, _ = self.listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.settimeout(5)
            text, last = self.handle(connection.makefile().readline())
            connection.sendall(text.encode() + b"\n")
            return last
        return False

    def close(self):
        if self.command and self.command.poll() is None:
            self.command.kill()
        running = [s for s in self.servers if s.running()]
        for server in running:
            if self.quick:
                server.kill()
                continue
            with contextlib.suppress(OSError):
                server.process.send_signal(signal.SIGCONT)
                self.end_one(server)
        for server in running:
            server.wait_end(20)
        self.after_end()
        if self.throw_away:
            shutil.rmtree(self.dir, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.dir, "servers.json"))


def add_options(parser):
    """Adds the arguments that the scripts mongod, rabbitmq and redis share."""
    parser.add_argument("--dir", help="for data and logs; default: a temporary folder, deleted at the end")
    parser.add_argument("--until-eof", action="store_true", help="ends with its standard input, too")
    parser.add_argument("--quick", action="store_true", help="kills the servers at its end instead of shutting them down")
    parser.add_argument("request", nargs="*")


def state_of(folder):
    with open(os.path.join(folder, "servers.json"), encoding="utf-8") as f:
        return json.load(f)


def ask(folder, request, timeout=180):
    """Sends a request to the supervisor of a folder. Raises StartError with the answer, unless the
    answer is "ok".
    """
    try:
        with socket.create_connection(("127.0.0.1", state_of(folder)["control"]), timeout=timeout) as s:
            s.sendall(request.encode() + b"\n")
            text = s.makefile().readline().strip()
    except OSError as e:
        raise StartError(f"nothing is run in {folder}: {e}") from None
    if text != "ok":
        raise StartError(text or "it ended")


def kept_number(folder, name, value=None):
    """Returns the number in a file of a server's folder, such as its port, or None if there is no
    file. If a value is given, writes it to the file first.
    """
    path = os.path.join(folder, name)
    if value is not None:
        os.makedirs(folder, exist_ok=True)
        with open(path, "w", encoding="ascii") as f:
            f.write(str(value))
        return value
    try:
        with open(path, encoding="ascii") as f:
            return int(f.read())
    except (OSError, ValueError):
        return None


def split_command(argv):
    """Returns (arguments before "--", arguments after "--")."""
    at = argv.index("--") if "--" in argv else len(argv)
    return argv[:at], argv[at + 1:]
