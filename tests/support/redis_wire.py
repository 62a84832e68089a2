"""redis_wire.py: a client for as much of Redis' protocol (RESP2) as tests need. It uses the
standard library only.

    from redis_wire import Redis
    redis = Redis("redis://127.0.0.1:6379")                # or Redis("127.0.0.1:6379")
    redis.run("XLEN", "ingest")                            # returns bytes, int, None or list, or
                                                           # raises RedisError
    redis.info("memory")["used_memory"]
    redis.keys()                                           # all keys, by SCAN

Use a Redis on one thread. It connects at the first command, and again after an error. It sends a
command once.
"""
import re
import socket


class RedisError(Exception):
    """The server has answered with an error."""


def address_of(url):
    m = re.fullmatch(r"(?:redis://)?(?:[^@/]*@)?([^/,?:]+):(\d+).*", url)
    if not m:
        raise ValueError(f"no redis://HOST:PORT: {url}")
    return m.group(1), int(m.group(2))


class Redis:
    def __init__(self, url, timeout=30):
        self.address, self.timeout = address_of(url), timeout
        self.socket = self.file = None

    def close(self):
        if self.socket:
            self.file.close()
            self.socket.close()
            self.socket = None

    def run(self, *words):
        """Runs one command and returns the reply. Raises OSError if there is no server."""
        try:
            if not self.socket:
                self.socket = socket.create_connection(self.address, timeout=self.timeout)
                self.file = self.socket.makefile("rb")
            raw = [w if isinstance(w, bytes) else str(w).encode() for w in words]
            self.socket.sendall(b"*%d\r\n" % len(raw) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in raw))
            return self._read()
        except (OSError, ValueError):
            self.close()
            raise

    def _read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            raise RedisError(rest.decode())
        if kind == b":":
            return int(rest)
        size = int(rest)
        if size < 0:
            return None
        if kind == b"$":
            return self.file.read(size + 2)[:-2]
        replies = []  # reads all replies, also after an error reply
        for _ in range(size):
            try:
                replies.append(self._read())
            except RedisError as e:
                replies.append(e)
        return replies

    def info(self, section="all"):
        lines = self.run("INFO", section).decode().split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def keys(self, pattern="*"):
        found, cursor = set(), b"0"
        while True:
            cursor, page = self.run("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
            found.update(page)
            if cursor == b"0":
                return sorted(found)
