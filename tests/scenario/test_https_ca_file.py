#!/usr/bin/env python3
# scenario: timeout=180 main
"""photopool fetches over https, from a host that speaks only HTTP/2 (nghttpd) and whose certificate
authority fetch.ca_file names: photos must be stored, over few connections. Without the authority
every photo must fail with tls_failed; if the file has no certificate, `photopool up` must not
start.

The listener speaks TLS, too: requests, the command line and a WebSocket; SIGHUP must give new
connections a new certificate, and keep the old one if the new one can't be used. A scanner (sslscan) must find TLS
1.2 and up only, without renegotiation or a weak suite. And it must listen on a unix socket.
"""
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import zlib

from harness import PHOTOPOOL, SLOW, Pool, Process, Skipped, check, free_port, outcomes, same, scenario, wait_until
from streams import NodeWs
from tls import HOST, TlsPool, certificates


def png(n):
    """Returns a different picture of one pixel for each n."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(bytes([0, n, n, n]))) + chunk(b"IEND", b""))


class Nghttpd(Process):
    def __init__(self, case, cert, key, n):
        super().__init__(case, "nghttpd", "nghttpd")
        self.port = free_port()
        docs = case.path("docs")
        os.mkdir(docs)
        for i in range(n):
            with open(os.path.join(docs, f"{i}.png"), "wb") as f:
                f.write(png(i))
        self.said = case.path("nghttpd.out")
        with open(self.said, "wb") as out:
            try:
                self.spawn(["-v", "-a", "127.0.0.1", "-d", docs, str(self.port), key, cert], stdout=out)
            except FileNotFoundError:
                raise Skipped("no nghttpd here") from None
        wait_until(self.listens, 10, "nghttpd listens")

    def listens(self):
        check(self.running(), "nghttpd has ended")
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def requests(self):
        """Returns, for each request, the number of its connection."""
        with open(self.said, encoding="utf-8", errors="replace") as f:
            return re.findall(r"^\[id=(\d+)\].* recv HEADERS frame", f.read(), re.M)


def pool_for(case, server, **config):
    return Pool(case, config={"fetch.allow_networks": ["127.0.0.0/8"], "fetch.allow_ports": [server.port],
                              "fetch.resolve": [f"{HOST}:{server.port}:127.0.0.1"], "clients.rpm": None,
                              "retry.attempts": 2, "retry.delays": ["10ms"],
                              **{name.replace("_", ".", 1): value for name, value in config.items()}})


def the_authority_counts(case):
    ca, cert, key = certificates(case)
    server = Nghttpd(case, cert, key, 40)
    items = [{"id": f"ad-{i}", "photos": [f"https://{HOST}:{server.port}/{i}.png"]} for i in range(40)]
    pool = pool_for(case, server, fetch_ca_file=ca)
    pool.start()
    results = pool.wait_finished(pool.submit("42", items))
    same((len(results), set(outcomes(results).values())), (40, {("stored", None)}), "outcomes with the authority")
    pool.stop()
    wait_until(lambda: len(server.requests()) == 40, 5, "the log of nghttpd has all requests")
    connections = len(set(server.requests()))
    check(connections <= 16, f"{connections} connections for 40 photos")

    stranger = pool_for(case, server)
    stranger.start()
    results = stranger.wait_finished(stranger.submit("42", items[:3]))
    same(set(outcomes(results).values()), {("failed", "tls_failed")}, "outcomes without it")
    stranger.stop()
    same(len(server.requests()), 40, "requests after that")
    server.kill()


def a_file_without_certificates(case):
    for name, text, due in (("none.pem", None, "can't be read: No such file or directory"),
                            ("empty.pem", "nothing\n", "has no certificate in PEM form")):
        path = case.path(name)
        if text:
            with open(path, "w", encoding="ascii") as f:
                f.write(text)
        run = subprocess.run([PHOTOPOOL, "up", "--data", case.name("data"), "--set", "http.listen=127.0.0.1:0", "--set",
                              f"fetch.ca_file={path}"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, check=False, timeout=30 * SLOW)
        same(run.returncode, 1, "exit status")
        same(run.stderr.decode().splitlines()[-1], f"photopool: fetch.ca_file {path} {due}", "the error text")


# --- the listener ---


def command(*args, status=0, said="", text=b"", **env):
    """Runs a subcommand, which must exit with `status` and say `said`."""
    run = subprocess.run([PHOTOPOOL, *args], input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                         timeout=30 * SLOW, env={**os.environ, **env})
    check(run.returncode == status and said in run.stdout.decode(), f"{args} exits with {run.returncode}: {run.stdout!r}")
    return run.stdout.decode()


def the_listener_speaks_tls(case):
    pool = TlsPool(case).start()
    url, node = f"https://127.0.0.1:{pool.port}", NodeWs()
    with open(pool.ca, encoding="ascii") as f:
        ws = node.open(pool, "key=results:42", scheme="wss", ca=f.read())
    command("submit", "-", "--client", "42", "--server", url, "--ca-file", pool.ca, text=b'{"id":"b","photos":[]}\n')
    same(ws.events(1)[0]["data"]["data"]["item"], "b", "the event by WebSocket")
    command("status", PHOTOPOOL_SERVER=url, PHOTOPOOL_CA_FILE=pool.ca)
    command("status", "--server", url, status=4, said="certificate")
    command("status", "--server", url, "--ca-file", case.path("none"), status=2, said="can't be read")

    old = pool.ask("GET", "/healthz")[2]
    pool.new_certificate()
    pool.signal(signal.SIGHUP)
    wait_until(lambda: "configuration reloaded" in pool.text(), 10, "the reload")
    new = pool.ask("GET", "/healthz")[2]
    check(new != old, "new connections get the new certificate")
    pool.finish()
    same(ws.events(1)[0]["data"]["data"]["item"], "a", "an event by the connection from before")

    with open(pool.cert, "w", encoding="ascii") as f:
        f.write("half of it\n")
    pool.signal(signal.SIGHUP)
    due = f"http.tls.cert {pool.cert} has no certificate in PEM form"
    wait_until(lambda: [line for line in pool.text().splitlines() if "ERROR" in line.upper() and due in line], 10, "the error")
    same(pool.ask("GET", "/healthz")[2], new, "the certificate after that")
    pool.stop()
    same(ws.closed(), 1001, "the close code at the end")
    node.close()
    command("up", "--data", case.name("data"), "--config", pool.config_file, status=1, said=f"photopool: {due}")
    command("up", "--set", f"http.tls.key={pool.key}", status=2, said="http.tls.key: is set, but http.tls.cert is not")


def a_scanner_finds_no_weakness(case):
    pool = TlsPool(case).start()
    try:
        run = subprocess.run(["sslscan", "--no-colour", "--no-check-certificate", "--connect-timeout=30", f"127.0.0.1:{pool.port}"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=60 * SLOW)
    except FileNotFoundError:
        raise Skipped("no sslscan here") from None
    said = run.stdout.decode()
    for due in (*(f"{name} +disabled" for name in ("SSLv2", "SSLv3", r"TLSv1\.0", r"TLSv1\.1")), *(rf"TLSv1\.{n} +enabled" for n in (2, 3)),
                "Session renegotiation not supported",
                *(rf"TLSv1\.{n} not vulnerable to heartbleed" for n in (2, 3))):
        check(re.search(due, said), f"sslscan says `{due}`: {said}")
    suites = re.findall(r"^(?:Preferred|Accepted) +(\S+) +(\d+) bits +(\S+)", said, re.MULTILINE)
    check({version for version, _, _ in suites} == {"TLSv1.2", "TLSv1.3"}, f"suites of both versions: {said}")
    for version, bits, name in suites:
        check(int(bits) >= 128 and re.search("GCM|CHACHA20|CCM", name), f"{version} {name}, {bits} bits: a suite that is not weak")
        check(version == "TLSv1.3" or name.startswith("ECDHE"), f"{name}: a suite with forward secrecy")
    pool.stop()


def the_listener_is_a_unix_socket(case):
    path = case.path("socket")
    pool = Pool(case, config={"http.listen": f"unix:{path}"})
    pool.spawn_up()
    same(pool.process.stdout.readline().decode(), f"photopool listens on unix:{path}, data in {pool.data}\n", "what it says")
    pool.process.stdout.close()
    same(stat.S_IMODE(os.stat(path).st_mode), 0o660, "mode of the file")
    command("submit", "-", "--client", "42", "--server", f"unix:{path}", text=b'{"id":"b","photos":[]}\n')
    command("up", "--data", case.name("data"), "--set", f"http.listen=unix:{path}", status=1,
            said=f"photopool: http.listen unix:{path}: a server listens there")
    pool.kill()
    check(os.path.exists(path), "kill -9 leaves the file")
    command("status", "--server", f"unix:{path}", status=4, said=f"can't reach unix:{path}: Connection refused")
    pool.spawn_up()
    pool.process.stdout.readline()
    pool.process.stdout.close()
    command("status", PHOTOPOOL_SERVER=f"unix:{path}")
    pool.stop()
    check(not os.path.exists(path), "the file is gone after the end")


scenario(the_authority_counts, a_file_without_certificates, the_listener_speaks_tls, a_scanner_finds_no_weakness, the_listener_is_a_unix_socket)
