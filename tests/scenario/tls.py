"""tls.py: certificates, and a photopool that speaks TLS."""
import http.client
import json
import os
import ssl
import subprocess

from harness import SLOW, Pool, Skipped, same

HOST = "shop.example"  # of certificates that name no other host


def openssl(*args):
    try:
        subprocess.run(["openssl", *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=30)
    except FileNotFoundError:
        raise Skipped("no openssl here") from None


def certificates(case, names=f"DNS:{HOST}"):
    ca, ca_key, cert, key = (case.name(name) for name in ("ca.pem", "ca.key", "cert.pem", "cert.key"))
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl("req", "-x509", *curve, "-subj", "/CN=Scenario Authority", "-keyout", ca_key, "-out", ca)
    openssl("req", "-x509", *curve, "-subj", f"/CN={HOST}", "-addext", f"subjectAltName={names}", "-addext",
            "basicConstraints=critical,CA:FALSE", "-CA", ca, "-CAkey", ca_key, "-keyout", key, "-out", cert)
    return ca, cert, key


class TlsPool(Pool):
    """`photopool up` that speaks TLS, with a certificate of its own authority."""

    def __init__(self, case, config=None):
        self.ca, self.cert, self.key = certificates(case, "IP:127.0.0.1")
        super().__init__(case, config={"http.tls.cert": self.cert, "http.tls.key": self.key, **(config or {})})

    def connect(self, timeout=30 * SLOW):
        """Returns a new connection."""
        c = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=ssl.create_default_context(cafile=self.ca))
        c.connect()
        return c

    def ask(self, method, path, body=None, headers=None):
        """Returns (status, body, serial number of the certificate), by a new connection."""
        c = self.connect()
        serial = c.sock.getpeercert()["serialNumber"]
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        answer = r.status, r.read(), serial
        c.close()
        return answer

    def ready(self):
        return self.ask("GET", "/readyz")[0] == 200

    def finish(self):
        body = json.dumps({"client": "42", "items": [{"id": "a", "photos": []}]})
        same(self.ask("POST", "/v1/batches", body, {"Content-Type": "application/json"})[0], 202, "POST /v1/batches")

    def new_certificate(self):
        """Puts another certificate, of another authority, into the files."""
        ca, cert, key = certificates(self.case, "IP:127.0.0.1")
        os.replace(cert, self.cert)
        os.replace(key, self.key)
        self.ca = ca
