#!/usr/bin/env python3
# scenario: timeout=120
"""Events over WebSocket, with npm's ws as the client: one event per frame, resuming, pings; the
close code for each breach of the protocol (text and binary frames, fragments, no mask, reserved
bits, opcodes, lengths, close codes and reasons, floods of pings); requests that are not a
handshake; pages of other sites; the close code when the server stops.
"""
import base64
import hashlib
import signal
import struct

from harness import Pool, check, json, same, scenario, wait_until
from streams import NodeWs, Raw, finish, handshake, poll, poll_all

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
FIN = 0x80


def frame(opcode, payload=b"", first=None, mask=b"mask", length=None):
    """Returns a client's frame of up to 125 bytes. `first` and `length` replace the correct first
    byte and length.
    """
    n = bytes([(0x80 if mask else 0) | (len(payload) if length is None else length)])
    return bytes([FIN | opcode if first is None else first]) + n + (mask or b"") + bytes(b ^ mask[i % 4] if mask else b for i, b in enumerate(payload))


def close_frame(code, reason=b""):
    return frame(CLOSE, struct.pack(">H", code) + reason)


# (name, bytes that the client sends, code of the close frame that the server must answer)
BREAKS = [
    ("a text frame", frame(TEXT, b"hello"), 1008),
    ("a binary frame", frame(BINARY, b"\0"), 1008),
    ("a text frame without end", frame(TEXT, b"hel", first=TEXT), 1008),
    ("a frame of 2^63 bytes", frame(TEXT, struct.pack(">Q", 1 << 63), length=127), 1008),
    ("a continuation of nothing", frame(0, b"lo"), 1002),
    ("a frame without a mask", frame(PING, b"x", mask=None), 1002),
    ("text without a mask", frame(TEXT, b"x", mask=None), 1002),
    ("the first reserved bit", frame(PING, first=FIN | 0x40 | PING), 1002),
    ("the second", frame(PING, first=FIN | 0x20 | PING), 1002),
    ("the third", frame(PONG, first=FIN | 0x10 | PONG), 1002),
    ("an undefined data opcode", frame(3), 1002),
    ("an undefined control opcode", frame(11), 1002),
    ("a ping in fragments", frame(PING, first=PING), 1002),
    ("a ping of 126 bytes", frame(PING, struct.pack(">H", 126) + bytes(126), length=126), 1002),
    ("half a close code", frame(CLOSE, b"\3"), 1002),
    ("a close code that nobody may send", close_frame(1005), 1002),
    ("another", close_frame(1006), 1002),
    ("one below all", close_frame(999), 1002),
    ("an undefined close code", close_frame(2999), 1002),
    ("one above all", close_frame(5000), 1002),
    ("a reason that is not UTF-8", close_frame(1000, b"\xc3\x28"), 1007),
    ("a reason that is cut within a character", close_frame(1000, b"\xe2\x82"), 1007),
    ("a flood of pings", frame(PING, b"x") * 3000, 1008),
]
# (name, correct close frame of the client, code with which the server must answer)
PARTINGS = [("no code", frame(CLOSE), 1005), ("1000", close_frame(1000, "gr\u00fc\u00dfe".encode()), 1000), ("4999", close_frame(4999), 4999)]

here = None


class Here:
    def __init__(self, case):
        self.pool, self.node = Pool(case).start(), NodeWs()


def starts(case):
    global here
    here = Here(case)


def data(case):
    """Each event must be one frame with the same JSON as by long-poll; a client that reconnects
    must get the events that follow.
    """
    pool, node = here.pool, here.node
    live = node.open(pool, "key=results:42")
    finish(pool, "42", 5, {"note": "\u00fc\u2028\U0001f4f7"})
    finish(pool, "43", 2)
    due = poll_all(pool, "key=results:42", 5)
    same(live.events(5), due, "live events")
    same(node.open(pool, "key=results:42&after=0").events(5), due, "events of before")
    same(node.open(pool, f"key=results:42&after={due[2]['seq']}").events(2), due[3:], "events after the third")
    both = node.open(pool, f"key=results:42&key=results:43&key=results&after={due[0]['seq']}")
    same(both.events(6), poll_all(pool, "key=results", 7)[1:], "events of several keys, each once")
    finish(pool, "42", 1)
    same(live.events(1), both.events(1), "and then new ones")


def pings(case):
    """The server must answer a ping with the ping's data, and ignore pongs that it did not ask for."""
    ws = here.node.open(here.pool, "key=results:42")
    for text in ("", "one", "x" * 125):
        same(ws.tell("ping", data=text).until("pong")["data"], text, "a pong")
    ws.write(frame(PONG, b"unasked"))
    # Sends a frame byte by byte, then two frames in one packet.
    whole = frame(PING, b"in pieces")
    for i in range(len(whole) - 1):
        ws.write(whole[i:i + 1])
    same(ws.write(whole[-1:]).until("pong")["data"], "in pieces", "a pong")
    ws.write(frame(PING, b"first") + frame(PING, b"second"))
    got = ws.until("pong")["data"]
    same(got if got == "second" else ws.until("pong")["data"], "second", "the newest ping is answered")
    ws.tell("close", code=1000, reason="enough")
    same(ws.until("close"), {"id": ws.name, "what": "close", "code": 1000, "reason": ""}, "the close is answered with its code")


def breaks(case):
    for what, sent, code in BREAKS + PARTINGS:
        ws = here.node.open(here.pool, "key=results:42")
        same(ws.write(sent).closed(), code, f"code after {what}")
    # npm's ws commits the same breaches of the protocol.
    for what, options, code in (("text", {}, 1008), ("text without a mask", {"mask": False}, 1002), ("a fragment", {"fin": False}, 1008)):
        ws = here.node.open(here.pool, "key=results:42")
        same(ws.tell("send", data="hello", options=options).closed(), code, f"code after {what} of ws")


def handshakes(case):
    pool, node = here.pool, here.node
    same(node.refused(pool, "key=results", protocolVersion=8), (400, "bad_request"), "version 8")
    for what, more in (("no version", {"Sec_WebSocket_Version": None}), ("version 14", {"Sec_WebSocket_Version": "14"}),
                       ("no key", {"Sec_WebSocket_Key": None}), ("a short key", {"Sec_WebSocket_Key": "c2hvcnQ="}),
                       ("an invalid key", {"Sec_WebSocket_Key": "*" * 24})):
        raw = Raw(pool, "key=results", handshake(**more))
        same(raw.problem(), (400, "bad_request"), what)
        if "ersion" in what:
            same(raw.headers.get("sec-websocket-version"), "13", f"the supported version, after {what}")
    for query, due in (("", (400, "bad_parameter")), ("key=nobody", (400, "bad_parameter")), ("key=results&after=x", (400, "bad_cursor")),
                       (f"key=results&after={2 ** 53 - 1}", (400, "bad_cursor"))):
        same(node.refused(pool, query), due, f"a handshake for {query!r}")
    # The server keeps the bytes that follow the request in the same packet, and accepts no
    # extension.
    headers = handshake(Sec_WebSocket_Extensions="permessage-deflate; client_max_window_bits")
    raw = Raw(pool, "key=results", headers)
    due = base64.b64encode(hashlib.sha1((headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
    same((raw.status, raw.headers["sec-websocket-accept"], raw.headers.get("sec-websocket-extensions")), (101, due, None), "the handshake")
    raw.close()


def other_sites(case):
    """On a server that needs no key, a page of another site must not be able to follow, not even
    with a ticket.
    """
    pool, node = here.pool, here.node
    ticket = pool.post("/v1/tickets", {"keys": ["results"]}).json["ticket"]
    for query in ("key=results&after=0", f"ticket={ticket}&after=0"):
        for origin in ("http://evil.example", "https://evil.example", "http://127.0.0.1", "null"):
            same(node.refused(pool, query, origin=origin), (403, "forbidden"), f"a page of {origin}, {query[:6]}")
        node.open(pool, query, origin=f"http://127.0.0.1:{pool.port}").events(1)
        raw = Raw(pool, query, {"Origin": "http://evil.example"}, sse=True)
        same((raw.status, raw.headers.get("access-control-allow-origin")), (200, None), "its browser hides the answer from it")
        raw.close()


def drain(case):
    """SIGTERM must close WebSockets with code 1001, end streams and answer long-polls; then all can
    resume.
    """
    pool, node = here.pool, here.node
    node.close()
    node = NodeWs()
    wait_until(lambda: pool.metric("photopool_subscribers") == 0, 20, "all other subscribers have left")
    _, last, _ = poll(pool, "key=results")
    ws = node.open(pool, "key=results")
    sse = Raw(pool, "key=results", sse=True)
    waiting = Raw(pool, "key=results&wait=60", read=False)
    wait_until(lambda: pool.metric("photopool_subscribers") >= 3, 20, "all three are subscribed")
    finish(pool, "drained", 1)
    seen = ws.events(1)
    same(sse.events(1), seen, "the event before")
    waiting.read_head()
    waiting.close()
    waiting = Raw(pool, "key=results&wait=60", read=False)
    wait_until(lambda: pool.metric("photopool_subscribers") == 3, 20, "all three are subscribed")
    pool.signal(signal.SIGTERM)
    same(ws.closed(), 1001, "close code of a server that stops")
    sse.read_to_end()
    waiting.read_head()
    answer = json.loads(waiting.file.read(int(waiting.headers["content-length"])))
    check(waiting.status == 200 and answer["events"] == [] and answer["last"] > last, f"the answer to the waiting long-poll: {answer}")
    waiting.close()
    same(pool.wait_exit(), 0, "exit status")
    pool.start()
    ws = node.open(pool, f"key=results&after={last}")
    same(ws.events(1), seen, "it resumes")
    finish(pool, "drained-2", 1)
    same(ws.events(1)[0]["key"], ["results", "drained-2"], "and goes on")
    node.close()
    pool.stop()


if __name__ == "__main__":
    scenario(starts, data, pings, breaks, handshakes, other_sites, drain)
