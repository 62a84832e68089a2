"""model.py: what photopool owes for the bytes of one connection, read strictly from RFC 9112 and the
limits in http_head.h and http_body.h. It shares no code with the server, so that both are unlikely
to make the same mistake.

expect(data) returns the answers that are due, in order, and how the connection ends:

  close   the server closes after the last answer, and reads no further request
  more    a request is incomplete: when the caller ends its side, one more answer is due
  idle    everything was answered: when the caller ends its side, the server closes
  unsure  the last request is valid, but the model does not know whether it has a bad query or path
  unsure more
          the same, and the request's body is incomplete: the server may wait until the caller ends
          its side
"""
import re
import zlib

HEAD_MAX, FIELDS_MAX, BODY_MAX, EXTRA_MAX = 16 << 10, 100, 1 << 20, 16 << 10
KEY = b"fuzzer"
BAD_BYTE = re.compile(rb"\r(?=[^\n])|(?<!\r)\n|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
REQUEST_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([!-\"$-~]+) HTTP/1\.([01])")
ABSOLUTE = re.compile(rb"(?i:https?)://[!$%&'()*+,\-.0-9:;=A-Z\[\]_a-z~]+([/?].*|)")
TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
HOST = re.compile(rb"[!$%&'()*+,\-.0-9:;=A-Z\[\]_a-z~]*")
WS_KEY = re.compile(rb"[A-Za-z0-9+/]{22}==")
# paths of the API that the model does not know
OTHER_PATH = re.compile(rb"/$|/(metrics|readyz|openapi|asyncapi)|/v1/(batches|items|photos|clients|routes|workers|hosts|breakers|events|webhooks|explain|queue|errors)\b")
ONCE = {b"host", b"content-length", b"transfer-encoding", b"content-encoding", b"content-type", b"authorization", b"idempotency-key",
        b"range", b"if-range", b"last-event-id", b"sec-websocket-key", b"sec-websocket-version"}
REFUSED = range(400, 500)
ANY = range(200, 500)


UNKNOWN = b""  # an echo: the request's mark may be anything


class Bad(Exception):
    """The message is refused, and the connection closes."""


class More(Exception):
    """The message is incomplete."""


class Due:
    """An answer that is due. echo: bytes that its body must have. counts: photopool_http_requests_total
    counts the request.
    """

    def __init__(self, statuses, echo=None, counts=False, without_body=False, interim=False):
        self.statuses, self.echo, self.counts, self.without_body, self.interim = statuses, echo, counts, without_body, interim

    def __repr__(self):
        s = self.statuses
        return f"{s.start}..{s.stop - 1}" + (f" with {self.echo.decode()}" if self.echo else "") + (" without a body" if self.without_body else "")


class Head:
    def __init__(self):
        self.method, self.target, self.version, self.fields = b"", b"", 1, {}
        self.tokens = {b"connection": set(), b"upgrade": set()}
        self.chunked, self.length = False, 0

    def get(self, name):
        return self.fields.get(name)

    @property
    def has_body(self):
        return self.chunked or self.length > 0

    @property
    def keeps(self):
        tokens = self.tokens[b"connection"]
        return b"close" not in tokens and (self.version == 1 or b"keep-alive" in tokens)


def find_head(data, at):
    """Returns the offset behind the head that begins at `at`."""
    window = data[at:at + HEAD_MAX]
    bad, end = BAD_BYTE.search(window), window.find(b"\r\n\r\n")
    if end >= 0 and (not bad or bad.start() >= end + 4):
        return at + end + 4
    if bad or len(window) == HEAD_MAX:
        raise Bad
    raise More


def read_fields(head, lines):
    if len(lines) > FIELDS_MAX:
        raise Bad
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not TOKEN.fullmatch(name):
            raise Bad
        name, value = name.lower(), value.strip(b" \t")
        if name in head.tokens:
            head.tokens[name].update(t.lower() for t in re.split(rb"[, \t]+", value))
        elif name in head.fields:
            if name in ONCE:
                raise Bad
        else:
            head.fields[name] = value


def check_framing(head):
    coding, length = head.get(b"transfer-encoding"), head.get(b"content-length")
    if coding is not None:
        if length is not None or head.version == 0 or coding.lower() != b"chunked":
            raise Bad
        head.chunked = True
    elif length is not None:
        if not re.fullmatch(rb"[0-9]{1,18}", length):
            raise Bad
        head.length = int(length)


def check_fields(head):
    host = head.get(b"host")
    if host is None and head.version == 1 or host is not None and not HOST.fullmatch(host):
        raise Bad
    check_framing(head)
    if head.method == b"GET" and head.version == 1 and b"upgrade" in head.tokens[b"connection"] and b"websocket" in head.tokens[b"upgrade"]:
        if head.get(b"sec-websocket-version") != b"13" or not WS_KEY.fullmatch(head.get(b"sec-websocket-key") or b""):
            raise Bad


def read_head(text):
    """Returns (Head, is it valid)."""
    head = Head()
    lines = (text[2:] if text.startswith(b"\r\n") else text).split(b"\r\n")[:-2]
    method, space, _ = (lines[0] if lines else b"").partition(b" ")
    if space and TOKEN.fullmatch(method):
        head.method = method
    try:
        m = REQUEST_LINE.fullmatch(lines[0]) if lines else None
        if not m:
            raise Bad
        head.target, head.version = m.group(2), int(m.group(3))
        if head.target[:1] != b"/":
            form = ABSOLUTE.fullmatch(head.target)
            if not form:
                raise Bad
            head.target = form.group(1) if form.group(1)[:1] == b"/" else b"/" + form.group(1)
        read_fields(head, lines[1:])
        check_fields(head)
    except Bad:
        return head, False
    return head, True


# --- bodies ---

def gunzip(data, whole):
    """Decodes members of gzip. whole: all of the body has arrived."""
    out, z = b"", None
    while data:
        z = zlib.decompressobj(31)
        try:
            out += z.decompress(data, BODY_MAX + 1)
        except zlib.error:
            raise Bad from None
        if len(out) > BODY_MAX:
            raise Bad
        data = z.unused_data
    if whole and not (z and z.eof):
        raise Bad
    return out


def unchunk(data, at):
    """Returns (content so far, offset behind the body, or None if it is incomplete, is it valid so far)."""
    content, extra = b"", 0
    size_line, trailer = re.compile(rb"([0-9A-Fa-f]{1,15})(;[^\x00-\x08\x0a-\x1f\x7f]*)?\r\n"), re.compile(rb"([^\x00-\x08\x0a-\x1f\x7f]*)\r\n")
    while True:
        m = size_line.match(data, at)
        if not m:
            return content, None, could_be(rb"[0-9A-Fa-f]{1,15}(;[^\x00-\x08\x0a-\x1f\x7f]*)?\r?|", data[at:], extra)
        extra += len(m.group(2) or b"")
        at, size = m.end(), int(m.group(1), 16)
        if extra > EXTRA_MAX or size > BODY_MAX - len(content):
            return content, None, False
        if size == 0:
            break
        content += data[at:at + size]
        at += size
        if data[at:at + 2] != b"\r\n":
            return content, None, data[at:at + 2] in (b"", b"\r")
        at += 2
    while True:
        m = trailer.match(data, at)
        if not m:
            return content, None, could_be(rb"[^\x00-\x08\x0a-\x1f\x7f]*\r?", data[at:], extra)
        extra += len(m.group(0)) - 1
        at = m.end()
        if extra > EXTRA_MAX:
            return content, None, False
        if not m.group(1):
            return content, at, True


def could_be(pattern, rest, extra):
    return len(rest) + extra <= EXTRA_MAX and re.fullmatch(pattern, rest) is not None


def read_body(head, data, at):
    """Returns (content, offset behind the body)."""
    coding = (head.get(b"content-encoding") or b"").lower()
    if not head.chunked and head.get(b"content-length") is None:
        return b"", at
    if coding not in (b"", b"identity", b"gzip", b"x-gzip"):
        raise Bad
    if head.chunked:
        content, end, valid = unchunk(data, at)
    else:
        if head.length > BODY_MAX:
            raise Bad
        content, end, valid = data[at:at + head.length], at + head.length, True
        if end > len(data):
            end = None
    if coding.endswith(b"gzip"):
        content = gunzip(content, end is not None)
    if not valid:
        raise Bad
    if end is None:
        raise More
    return content, end


# --- what the API answers ---

def judge(head):
    """Returns (at, statuses, echo) of a valid head. at: "head" if the API refuses the request before
    its body, "body" if it answers after the body, else "unsure".
    """
    path, _, query = head.target.partition(b"?")
    keyed = re.fullmatch(rb"(?i:bearer) +" + KEY, head.get(b"authorization") or b"") is not None
    get = head.method in (b"GET", b"HEAD")
    unknown = re.fullmatch(rb"(z[a-z0-9]+)=1", query)
    if query and not unknown:
        return "unsure", ANY, None
    if path == b"/healthz":
        return ("body", range(200, 201), None) if get and not query else ("head", REFUSED, None)
    known = path in (b"/v1/batches", b"/v1/tickets") or re.fullmatch(rb"/v1/(clients|batches)/[a-z0-9]+", path)
    if not known:
        return ("unsure" if OTHER_PATH.match(path) else "head"), ANY, None
    if not keyed:
        return "head", REFUSED, None
    if path == b"/v1/batches":
        return ("head", REFUSED, unknown.group(1) if get or head.method == b"POST" else None) if unknown else ("unsure", ANY, None)
    if query:
        return "head", REFUSED, None
    if path == b"/v1/tickets":
        media = (head.get(b"content-type") or b"").lower()
        if head.method != b"POST" or not media.startswith(b"application/json"):
            return "head", REFUSED, None
        return ("body" if re.fullmatch(rb"application/json(; charset=utf-8)?", media) else "unsure"), ANY, None
    if head.method in (b"PUT", b"DELETE", b"PATCH"):
        return "unsure", ANY, None
    if not get:
        return "head", REFUSED, None
    name = path.rsplit(b"/", 1)[1]
    return "body", (range(404, 405) if path.startswith(b"/v1/b") else range(200, 201)), name


def expect(data):
    """Returns ([Due], end) for the bytes of a connection."""
    due, at = [], 0
    while at < len(data):
        try:
            end = find_head(data, at)
        except Bad:
            return [*due, Due(REFUSED)], "close"
        except More:
            return [*due, Due(REFUSED)], "more"
        head, valid = read_head(data[at:end])
        without_body = head.method == b"HEAD"
        if not valid:
            return [*due, Due(REFUSED, without_body=without_body)], "close"
        level, statuses, echo = judge(head)
        answer = Due(statuses, None if without_body else echo, True, without_body, head.get(b"expect") is not None)
        if level == "unsure":
            answer.echo = UNKNOWN
            try:
                read_body(head, data, end)
            except Bad:
                pass
            except More:
                return [*due, answer], "unsure more"
            return [*due, answer], "unsure"
        if level == "body":
            try:
                content, end = read_body(head, data, end)
            except (Bad, More) as e:
                return [*due, Due(REFUSED, None, False, without_body, True)], "close" if isinstance(e, Bad) else "more"
            m = re.fullmatch(rb'\{"keys":\["batch:([a-z0-9]+)"\]\}', content)
            if m and head.target == b"/v1/tickets":
                answer.statuses, answer.echo = range(201, 202), b"ticket of " + m.group(1)
        due.append(answer)
        if not head.keeps or level == "head" and head.has_body:
            return due, "close"
        at = end
    return due, "idle"
