"""wire.py: HTTP/1.1 on asyncio, as little as the programs of this folder need: they must cost less
than the server that they test.
"""
import asyncio
import json
import socket


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)


def head(method, target, key=None, headers=(), length=None):
    """Returns the bytes of a request's head."""
    lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return ("\r\n".join([*lines, *headers]) + "\r\n\r\n").encode()


async def read_head(reader):
    """Reads the head of an answer. Returns (status, dict of headers)."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    fields = (line.split(": ", 1) for line in lines[1:] if line)
    return int(lines[0].split(" ", 2)[1]), {name.lower(): value for name, value in fields}


async def read_answer(reader):
    status, headers = await read_head(reader)
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Answer(status, headers, body)


async def connect(port, source="127.0.0.1", receive=None):
    """Opens a connection from the address `source`. `receive`: size of the socket's receive buffer
    in bytes, for callers that read slowly. Returns (reader, writer).
    """
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        s.setblocking(False)
        # the kernel chooses the port at connect(), so that addresses don't run out of ports
        s.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24), 1)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        s.bind((source, 0))
        await asyncio.get_running_loop().sock_connect(s, ("127.0.0.1", port))
        return await asyncio.open_connection(sock=s, limit=receive or 1 << 20)
    except BaseException:
        s.close()
        raise


class Caller:
    """A connection that is kept open, and opened again when the server has closed it."""

    def __init__(self, port, key, source="127.0.0.1"):
        self.port, self.key, self.source = port, key, source
        self.reader = self.writer = None

    def close(self):
        if self.writer:
            self.writer.close()
        self.reader = self.writer = None

    async def ask(self, method, target, body=None, headers=(), timeout=30):
        """Sends a request and returns the Answer. Raises OSError or asyncio's errors."""
        try:
            return await asyncio.wait_for(self.send(method, target, body, headers), timeout)
        except BaseException:
            self.close()
            raise

    async def send(self, method, target, body, headers):
        kept = self.writer is not None
        if not kept:
            self.reader, self.writer = await connect(self.port, self.source)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None:
            headers = ["Content-Type: application/json", *headers]
        self.writer.write(head(method, target, self.key, headers, None if data is None else len(data)) + (data or b""))
        try:
            answer = await read_answer(self.reader)
        except (ConnectionError, asyncio.IncompleteReadError) as e:
            safe = method == "GET" or any(h.startswith("Idempotency-Key") for h in headers)
            if not kept or not safe or getattr(e, "partial", b""):
                raise
            # The server may close an idle connection at the moment when a request is on its way;
            # then a caller asks again on a new one (RFC 9112 9.3.1).
            self.close()
            return await self.send(method, target, body, headers)
        if answer.headers.get("connection") == "close":
            self.close()
        return answer
