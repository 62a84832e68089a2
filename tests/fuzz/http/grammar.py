"""grammar.py: makes HTTP messages and WebSocket frames, valid and malformed in every part. Each
request has a mark of its own, so that its answer can be recognized. Bodies contain requests: an
answer to one of those would be smuggled.
"""
import gzip
import json
import struct

from model import KEY

INSIDE = b"GET /v1/batches?zsmuggled=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + KEY + b"\r\n\r\n"
LENGTHS = [b"0", b"-1", b"+5", b"5, 5", b"0x5", b"5 ", b"", b"00", b"1e1", b"18446744073709551616", b"999999999999999999", b"9999999999999999999",
           b"2097152", b"\xb2", b"5;5", b"5\t"]
CODINGS = [b"chunked", b"Chunked", b"chunked, chunked", b"gzip, chunked", b"identity", b"xchunked", b"chunked;q=1", b"", b"chunked,", b"\x0bchunked",
           b"chunked\x00", b"chunke"]
SIZES = [b"-1", b"0x4", b"ffffffffffffffff", b"fffffffffffffff", b" 4", b"4 ", b"", b"g", b"+4", b"4\t", b"00000000000000000004", b"7fffffff", b"4_0"]
TOKENS = [b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b":", b";", b",", b"0", b"\r\n\r\n", b"\x7f", b"\xff", b"%", b"\x0b", INSIDE]
BAD_LINES = [b"X", b": x", b"X : y", b" X: y", b"\tfolded", b"X\x00: y", b"X: \x01", b"X(): y", b"", b"X: a\rb", b"X: a\nY: b", b"Host: other",
             b"Host:", b"Host: a b", b"Host: a/b", b"Content-Length: 3", b"Transfer-Encoding: chunked", b"\xe9: y"]
ODD_LINES = [b"X: y", b"Expect: 100-continue", b"Expect: 200-maybe", b"Upgrade: h2c", b"Upgrade: websocket", b"Connection: keep-alive",
             b"Connection: close", b"Connection: Upgrade", b"Connection: , ,", b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 8",
             b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"Sec-WebSocket-Key: x", b"Content-Encoding: br", b"Accept: */*", b"X: \xff\xfe",
             b"Content-Length-: 5", b"Proxy-Connection: close", b"Range: bytes=0-", b"If-None-Match: *", b"Trailer: X", b"TE: trailers"]


class Grammar:
    def __init__(self, random, mark):
        self.r, self.base, self.n = random, mark, 0

    def mark(self):
        self.n += 1
        return f"{self.base}n{self.n}".encode()

    def one_in(self, n):
        return self.r.randrange(n) == 0

    # --- heads ---

    def target(self):
        mark = self.mark()
        return self.r.choice([b"/v1/batches?z" + mark + b"=1"] * 4 + [b"/v1/clients/c" + mark, b"/v1/batches/b" + mark, b"/healthz", b"/nothing/" + mark])

    def request_line(self, method, target):
        if self.one_in(12):
            target = self.r.choice([b"http://127.0.0.1" + target, b"http://x:80" + target, b"*", b"x:443", b"//x" + target, b"\\", target + b"#f",
                                    target + b" ", b" " + target, target + b"\xff", target[1:], b"http:/" + target, b"https://", b"", b"HTTPS://[::1]:1" + target,
                                    b"http://a@b" + target, b"http://x?" + target[1:], b"ftp://x" + target, b"http://" + target])
        if self.one_in(20):
            method = self.r.choice([b"get", b"CONNECT", b"TRACE", b"PRI", b"G\xe9T", b"", b"GET ", b"PATCH", b"OPTIONS", b"X" * 300])
        version = b"HTTP/1.1"
        if self.one_in(12):
            version = self.r.choice([b"HTTP/1.0"] * 4 + [b"HTTP/2.0", b"HTTP/1.2", b"http/1.1", b"HTTP/1.", b"HTTP/01.1", b"", b"HTTP/1.1 ", b"HTTP/1.1\t"])
        return b" ".join([method, target, version])

    def fields(self):
        lines = [b"Host: 127.0.0.1", b"Authorization: Bearer " + (KEY if not self.one_in(12) else self.r.choice([b"wrong", b"", KEY + b"x"]))]
        if self.one_in(25):
            del lines[self.r.randrange(2)]
        lines += [self.r.choice(ODD_LINES) for _ in range(self.r.randrange(4) if self.one_in(2) else 0)]
        if self.one_in(12):
            lines.insert(self.r.randrange(len(lines) + 1), self.r.choice(BAD_LINES))
        if self.one_in(60):
            lines += [b"X: y"] * self.r.choice([95, 98, 99, 100, 101, 200])
        if self.one_in(80):
            lines.append(b"X: " + b"y" * self.r.choice([4000, 16000, 16300, 17000, 70000]))
        return lines

    def join(self, lines):
        end = b"\r\n" if not self.one_in(40) else self.r.choice([b"\n", b"\r", b"\r\r\n", b"\n\r"])
        start = b"" if not self.one_in(20) else self.r.choice([b"\r\n", b"\r\n\r\n", b"\n", b" ", b"\0"])
        return start + end.join(lines) + b"\r\n\r\n"

    # --- bodies ---

    def content(self):
        return self.r.choice([
            lambda: json.dumps({"keys": ["batch:" + self.mark().decode()]}, separators=(",", ":")).encode(),
            lambda: json.dumps({"keys": ["batch:" + self.mark().decode()]}, separators=(",", ":")).encode(),
            lambda: INSIDE, lambda: b"{" * self.r.randrange(100), lambda: self.r.randbytes(self.r.choice([0, 1, 5, 300, 5000])), lambda: b""])()

    def squeeze(self, content):
        data = gzip.compress(content, 1, mtime=0)
        if self.one_in(3):
            data = self.r.choice([data[:-1], data + b"x", data + gzip.compress(b" ", mtime=0), b"x" + data, data[:self.r.randrange(len(data))], b"",
                                  data + INSIDE, self.flip(data), gzip.compress(b"\0" * 2000000, 9, mtime=0)])
        return data

    def flip(self, data):
        at = self.r.randrange(len(data)) if data else 0
        return data[:at] + bytes([self.r.randrange(256)]) + data[at + 1:]

    def chunks(self, content):
        out, at = b"", 0
        while at < len(content):
            n = self.r.choice([1, 5, 100, 4096])
            piece = content[at:at + n]
            at += n
            size = self.r.choice([b"%x", b"%X", b"000%x"]) % len(piece)
            if self.one_in(30):
                size = self.r.choice([*SIZES, b"%x" % (len(piece) + self.r.choice([-1, 1, 2, 60]) if len(piece) > 1 else 3)])
            if self.one_in(10):
                size += self.r.choice([b";a=b", b";", b';a="\r\n"', b"; \t", b";" + b"x" * 20000, b";\n", b";\0", b" ;a"])
            out += size + b"\r\n" + piece + (b"\r\n" if not self.one_in(40) else self.r.choice([b"\n", b"", b"\r", b"\n\r\n", b"x\r\n"]))
        last = b"0\r\n\r\n" if not self.one_in(6) else self.r.choice([b"00\r\n\r\n", b"0;x\r\n\r\n", b"0\r\nX: y\r\n\r\n", b"0\r\n", b"0\n\n", b"0\r\nX\r\n\r\n",
                                                                      b"0\r\nContent-Length: 5\r\n\r\n", b"", b"0\r\n \r\n", b"0\r\n\0\r\n\r\n", b"-0\r\n\r\n"])
        return out + last

    def with_body(self):
        content = self.content()
        method, target = (b"POST", b"/v1/tickets") if not self.one_in(4) else (self.r.choice([b"GET", b"POST", b"HEAD"]), self.target())
        lines = [self.request_line(method, target), *self.fields()]
        lines.append(b"Content-Type: " + (b"application/json" if not self.one_in(20) else self.r.choice([b"text/plain", b"application/json; charset=utf-8", b"x"])))
        if self.one_in(4):
            content = self.squeeze(content)
            lines.append(b"Content-Encoding: " + self.r.choice([b"gzip", b"gzip", b"GZIP", b"x-gzip", b"deflate", b"gzip, gzip"]))
        if self.one_in(2):
            lines.append(b"Transfer-Encoding: " + (b"chunked" if not self.one_in(12) else self.r.choice(CODINGS)))
            if self.one_in(25):
                lines.append(b"Content-Length: %d" % len(content))
            content = self.chunks(content)
        else:
            length = b"%d" % (len(content) + (0 if not self.one_in(15) else self.r.choice([-1, 1, -len(content), 10, 100])))
            lines.append(b"Content-Length: " + (length if not self.one_in(15) else self.r.choice(LENGTHS)))
        return self.join(lines) + content

    # --- messages ---

    def message(self):
        if self.one_in(2):
            data = self.with_body()
        else:
            data = self.join([self.request_line(self.r.choice([b"GET"] * 5 + [b"HEAD"]), self.target()), *self.fields()])
        while self.one_in(6):
            at = self.r.randrange(len(data) + 1)
            data = self.r.choice([lambda: data[:at] + self.r.choice(TOKENS) + data[at:], lambda: data[:at] + data[at + self.r.choice([1, 2, 10]):],
                                  lambda: self.flip(data), lambda: data[:at] + data[max(0, at - 20):]])()
        return data

    def last(self):
        return b"GET /v1/batches?z" + self.mark() + b"=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + KEY + b"\r\nConnection: close\r\n\r\n"

    def connection(self):
        """Returns the messages of one connection. The last one is valid, unless its end is missing."""
        messages = [*(self.message() for _ in range(self.r.choice([1, 1, 2, 4]))), self.last()]
        if self.one_in(15):
            messages[-1] = messages[-1][:self.r.randrange(len(messages[-1]))]
        return messages

    # --- WebSocket ---

    def frame(self, first, payload, masked=True, size=None):
        """Returns a frame. size: the announced length, if it is not that of the payload."""
        n = len(payload) if size is None else size
        mask = self.r.randbytes(4)
        head = bytes([first, (0x80 if masked else 0) | (n if n < 126 else 126 if n < 65536 else 127)])
        head += b"" if n < 126 else struct.pack(">H", n) if n < 65536 else struct.pack(">Q", n)
        return head + (mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload)) if masked else payload)

    def frames(self):
        """Returns frames, the last two of which are a valid ping and a valid close."""
        out = []
        for _ in range(self.r.randrange(5)):
            payload = self.r.choice([b"", self.mark(), b"x" * 125, self.r.randbytes(self.r.randrange(20))])
            odd = self.one_in(4)
            first = self.r.choice([0x89, 0x89, 0x8a]) if not odd else self.r.randrange(256)
            if odd and first & 0xf == 8 or self.one_in(20):
                code = self.r.choice([0, 999, 1000, 1001, 1004, 1005, 1006, 1011, 1015, 2999, 3000, 4999, 5000, 65535])
                first, payload = 0x88, self.r.choice([b"", b"\x03", struct.pack(">H", code), struct.pack(">H", code) + payload[:100]])
            if self.one_in(15):
                payload = b"x" * self.r.choice([126, 200, 70000])
            size = self.r.choice([None] * 20 + [126, 65536, 1 << 63, 125])
            out.append(self.frame(first, payload, not self.one_in(15), size if size is None or size != 125 or len(payload) == 125 else None))
        return [*out, self.frame(0x89, b"last" + self.mark()), self.frame(0x88, struct.pack(">H", 1000))]
