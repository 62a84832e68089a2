#!/usr/bin/env python3
# scenario: timeout=90 main
"""photopool fetches over https, from a host that speaks only HTTP/2 (nghttpd) and whose certificate
authority fetch.ca_file names: photos must be stored, over few connections. Without the authority
every photo must fail with tls_failed; if the file has no certificate, `photopool up` must not
start.
"""
import os
import re
import socket
import struct
import subprocess
import zlib

from harness import PHOTOPOOL, SLOW, Pool, Process, Skipped, check, free_port, outcomes, same, scenario, wait_until

HOST = "shop.example"


def png(n):
    """Returns a different picture of one pixel for each n."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(bytes([0, n, n, n]))) + chunk(b"IEND", b""))


def openssl(*args):
    try:
        subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=30)
    except FileNotFoundError:
        raise Skipped("no openssl here") from None


def certificates(case):
    ca, ca_key, cert, key = (case.path(name) for name in ("ca.pem", "ca.key", "cert.pem", "cert.key"))
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl("req", "-x509", *curve, "-subj", "/CN=Scenario Authority", "-keyout", ca_key, "-out", ca)
    openssl("req", "-x509", *curve, "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}", "-addext",
            "basicConstraints=critical,CA:FALSE", "-CA", ca, "-CAkey", ca_key, "-keyout", key, "-out", cert)
    return ca, cert, key


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


scenario(the_authority_counts, a_file_without_certificates)
