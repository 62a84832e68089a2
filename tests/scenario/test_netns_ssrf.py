#!/usr/bin/env python3
# scenario: timeout=120 main
"""The production address policy, in a network namespace where every address exists and answers.
Photos on public addresses must be stored; every spelling of a forbidden address must get its code,
and photopool must not even try to connect. A watcher sees each SYN that leaves.

The test has its own name server: some names have good and bad addresses, some change their answer
between two questions.
"""
import socket

from harness import Origin, Pool, check, outcomes, same, scenario, wait_until
from namespace import Names, Watch, bind_file, own_mounts, own_network, settle

PUBLIC, PUBLIC6 = "93.184.216.34", "2606:2800:220:1::1"

DENIED_HOSTS = """
127.0.0.1 127.1 127.0.1 0x7f000001 0x7F.1 2130706433 0177.0.0.1 017700000001 127.0.0.1. 0x7f.0x0.0x0.0x1 127.000.000.001 0177.1
0.0.0.0 0 0.1.2.3 10.0.0.1 10.255.255.255 0xa.1 167772161 172.16.0.1 172.31.255.255 192.168.0.1 192.168.65535 169.254.169.254
0xa9fea9fe 2852039166 100.64.0.1 100.127.255.255 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 192.0.2.1 198.51.100.1 203.0.113.1
198.18.0.1 198.19.255.255 192.0.0.1
[::1] [0:0:0:0:0:0:0:1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [::127.0.0.1] [::ffff:0:127.0.0.1] [::ffff:10.0.0.1]
[64:ff9b::127.0.0.1] [64:ff9b::a9fe:a9fe] [64:ff9b:1::7f00:1] [2002:7f00:1::] [2002:a00:1::1] [2001:0:4136:e378:8000:63bf:80ff:fffe]
[2606:2800:220:1:0:5efe:7f00:1] [fe80::5efe:127.0.0.1] [fc00::1] [fd00::1] [fd12:3456:789a::1] [fe80::1] [febf::1] [fec0::1] [ff02::1]
[2001:db8::1] [100::1]
localhost LOCALHOST a.localhost private.example private6.example metadata.example mapped.example all-bad.example
""".split()

BAD = [  # (URL, permitted error codes)
    ("http://①②⑦.⓪.⓪.①/", "denied_address bad_url"), ("http://127。0。0。1/", "denied_address bad_url"),
    ("http://１２７.0.0.1/", "denied_address bad_url"), ("http://ⓛocalhost/", "denied_address bad_url"),
    ("http://user:pw@good.example/", "bad_url"), ("http://good.example@127.0.0.1/", "bad_url"), ("http://@127.0.0.1/", "bad_url"),
    ("http://good.example\\@127.0.0.1/", "bad_url"), ("http:\\\\127.0.0.1\\", "bad_url"), ("http://good.example\\.evil/", "bad_url"),
    ("file:///etc/passwd", "denied_scheme"), ("FILE:///etc/passwd", "denied_scheme"), ("ftp://good.example/1.jpg", "denied_scheme"),
    ("gopher://127.0.0.1:70/_x", "denied_scheme"), ("dict://127.0.0.1:11211/stats", "denied_scheme"),
    ("data:image/png;base64,AAAA", "denied_scheme"), ("ws://good.example/", "denied_scheme"), ("javascript:alert(1)", "denied_scheme"),
    ("good.example/1.jpg", "bad_url"), ("//good.example/1.jpg", "bad_url"), ("", "bad_url"), ("http://", "bad_url"),
    ("http:///1.jpg", "bad_url"),
    ("http://good.example /", "bad_url"), ("http://good .example/", "bad_url"), ("http://good.example/a\tb.jpg", "bad_url"),
    ("http://good_one.пример/", "bad_url"), ("http://good.example＠127.0.0.1/", "bad_url"), ("http://☃.example/", "bad_url"),
    ("http://good.example/\r\nX-Evil: 1", "bad_url"), ("http://good.example/\u0001", "bad_url"), ("http://good%00.example/", "bad_url"),
    ("http://good.example%00.127.0.0.1/", "bad_url"), ("http://good.example:0/", "bad_url denied_port"),
    ("http://good.example:65536/", "bad_url"), ("http://good.example:80a/", "bad_url"), ("http://good.example:-1/", "bad_url"),
    ("http://good.example:4294967376/", "bad_url"), ("http://[::1/", "bad_url"), ("http://::1/", "bad_url"),
    ("http://[::1%25lo]/", "bad_url"),
    ("http://[fe80::1%25eth0]/", "bad_url"), ("http://good.example:22/", "denied_port"), ("http://good.example:25/", "denied_port"),
    ("http://good.example:6379/", "denied_port"), ("http://good.example:27017/", "denied_port"),
    ("http://good.example:8080/", "denied_port"),
    ("http://good.example:53/", "denied_port"), ("http://" + "a" * 64 + ".example/", "bad_url"),
    ("http://" + "a." * 127 + "example/", "bad_url"),
    ("http://good.example/" + "x" * 8192, "bad_url"),
]

READ = [  # URLs that are read as a browser reads them
    " http://good.example/read.jpg\r\n", "HTTP://GOOD.example:80/%72ead.jpg#x", "http://good.example./x/../read%2ejpg",
    "http://пример.example/моя фотография.jpg?ф", "http://xn--e1afmkfd.example:80/%d0%bc%D0%BE%D1%8F%20фотография.jpg?%d1%84",
]

WHY = {  # URL: detail of its error
    "http:\\\\good.example\\1.jpg": "a backslash at character 6", "good.example/1.jpg": "no http:// or https:// at the start",
    " http://ф.example:0/": "a port that is no number from 1 to 65535 at character 19",
    "http://user:pw@good.example/": "user and password are not supported",
    "http://good .example/": "a space in the host name at character 12",
}

GOOD_HOSTS = "good.example GOOD.example. good6.example both.example mixed.example mixed6.example good.example:80".split()

REDIRECTS = {  # host: (Location that it answers, permitted error codes)
    "r1": ("http://127.0.0.1/", "redirect_denied"), "r2": ("http://0x7f.1/x.jpg", "redirect_denied"),
    "r3": ("http://[::1]/", "redirect_denied"), "r4": ("http://169.254.169.254/latest/meta-data/", "redirect_denied"),
    "r5": ("http://private.example/", "redirect_denied"), "r6": ("http://localhost/", "redirect_denied"),
    "r7": ("file:///etc/passwd", "redirect_denied"), "r8": ("gopher://127.0.0.1/", "redirect_denied"),
    "r9": ("http://good.example:22/", "redirect_denied"), "r10": ("//127.0.0.1/x", "redirect_denied"),
    "r11": ("http://[::ffff:10.0.0.1]/", "redirect_denied"), "r12": ("http://user:pw@127.0.0.1/", "redirect_denied bad_response"),
    "r15": ("http://xn--e1afmkfd.example/", ""), "r16": ("http://пример.example/ф", ""),
    "r13": ("http://r13.example/x", "redirect_limit"), "r14": ("http://good.example/%0dX-Evil:%201", "bad_response"),
}


def addresses(name, n):
    """Returns the name server's answer to the n-th question, or None if the name does not exist."""
    host = name.removesuffix(".example")
    fixed = {"good": [PUBLIC], "xn--e1afmkfd": [PUBLIC], "good6": [PUBLIC6], "both": [PUBLIC, PUBLIC6], "private": ["10.1.2.3"], "private6": ["fd00::7"],
             "metadata": ["169.254.169.254"], "mapped": ["::ffff:127.0.0.1"], "all-bad": ["127.0.0.1", "10.0.0.1", "::1", "fe80::1"],
             "mixed": ["127.0.0.1", PUBLIC, "10.0.0.1", "::1"], "mixed6": ["127.0.0.1", "::1", "fc00::1", PUBLIC6],
             "localhost": ["127.0.0.1", "::1"], "a.localhost": ["127.0.0.1"]}
    if host in fixed:
        return fixed[host]
    if host.startswith("rebind"):
        return [PUBLIC] if n == 1 else ["127.0.0.1", "::1"]
    if host.startswith("turn"):  # alternates between a forbidden and a public address
        return ["10.9.9.9"] if n % 2 else [PUBLIC]
    return [PUBLIC] if host in REDIRECTS else None


def escape(location):
    return location if "%" in location else location.replace(" ", "%20")


def codes(results):
    return {item: code for (item, _), (outcome, code) in outcomes(results).items()}


def spellings(pool):
    urls = [(f"http://{host}/", "denied_address") for host in DENIED_HOSTS] + BAD
    batch = pool.submit("42", [{"id": f"u{n}", "photos": [url]} for n, (url, _) in enumerate(urls)])
    got = codes(pool.wait_finished(batch, 40))
    wrong = [(url[:80], got[f"u{n}"], due) for n, (url, due) in enumerate(urls) if got[f"u{n}"] not in due.split()]
    same(wrong, [], "URLs with another code (URL, got, due)")
    print(f"{len(urls)} URLs refused", flush=True)


def read_as_a_browser_does(pool):
    """Spellings of one URL are one photo, results echo what was sent, and bad_url says what is wrong."""
    results = pool.wait_finished(pool.submit("43", [{"id": f"s{n}", "photos": [url]} for n, url in enumerate(READ)]), 40)
    echoed = {r["data"]["item"]: r["data"]["photos"][0]["url"] for r in results}
    same(echoed, {f"s{n}": url for n, url in enumerate(READ)}, "the URLs in the results")
    same({o for o, _ in outcomes(results).values()} - {"stored", "unchanged"}, set(), "how they end")
    results = pool.wait_finished(pool.submit("43", [{"id": "again", "photos": ["http://good.example/read.jpg", READ[-1]]}]), 40)
    same({o for o, _ in outcomes(results).values()}, {"unchanged"}, "other spellings of known photos")
    results = pool.wait_finished(pool.submit("43", [{"id": "why", "photos": list(WHY)}]), 40)
    got = {p["url"]: p["error"]["detail"] for p in results[0]["data"]["photos"]}
    same(got, WHY, "what is wrong with the URLs")


def good_ones(pool):
    urls = [f"http://{host}/{n}.jpg" for host in (*GOOD_HOSTS, PUBLIC, f"[{PUBLIC6}]") for n in range(3)]
    results = pool.wait_finished(pool.submit("42", [{"id": f"g{n}", "photos": [url]} for n, url in enumerate(urls)]), 40)
    wrong = [(urls[int(item[1:])], o) for (item, _), o in outcomes(results).items() if o[0] not in ("stored", "unchanged")]
    same(wrong, [], "photos of public addresses")
    none = pool.wait_finished(pool.submit("42", [{"id": "none", "photos": ["http://nobody.example/"]}]), 40)
    same(codes(none), {"none": "dns_not_found"}, "a name that does not exist")


def rebinding(pool, names):
    """A name's answer changes between two questions: each connection must go to an address that was
    checked.
    """
    items = [{"id": f"{kind}{n}", "photos": [f"http://{kind}{n}.example/{p}.jpg" for p in range(4)]}
             for kind in ("rebind", "turn") for n in range(8)]
    for run in range(3):
        results = pool.wait_finished(pool.submit("42", [{**i, "id": f"{i['id']}-{run}"} for i in items], refresh="always"), 40)
        ends = set(outcomes(results).values())
        same(ends - {("stored", None), ("unchanged", None), ("failed", "denied_address")}, set(), "how they end")
    check(any(n > 1 for (name, _), n in names.asked.items() if name.startswith("rebind")), "no name was resolved twice")


def redirects(pool):
    batch = pool.submit("42", [{"id": host, "photos": [f"http://{host}.example/x"]} for host in REDIRECTS])
    got = codes(pool.wait_finished(batch, 40))
    wrong = [(REDIRECTS[h][0], got[h], REDIRECTS[h][1]) for h in REDIRECTS
             if got[h] not in (REDIRECTS[h][1].split() or [None])]
    same(wrong, [], "redirects with another code (Location, got, due)")


def test_netns_ssrf(case):
    own_mounts()
    own_network([PUBLIC, PUBLIC6])
    resolv = case.path("resolv.conf")
    with open(resolv, "w", encoding="ascii") as f:
        f.write("nameserver 127.0.0.1\noptions timeout:1 attempts:2\n")
    bind_file(resolv, "/etc/resolv.conf")
    names = Names(addresses)
    hosts = [f"{h}.example location={escape(to)}" for h, (to, _) in REDIRECTS.items()]
    origin = Origin(case, hosts="\n".join(hosts + ["* delay=5 bytes=600-2000"]), listen=(f"{PUBLIC}:80", f"[{PUBLIC6}]:80"))
    pool = Pool(case, config={"clients.rpm": None, "retry.attempts": 1, "fetch.dns_ttl_max": "0d"}).start()
    watch = Watch()
    probe = socket.socket()
    probe.connect_ex(("10.77.77.77", 80))
    wait_until(lambda: ("10.77.77.77", 80) in watch.seen, 5, "the watcher sees a connection to any address")
    probe.close()
    watch.seen.clear()
    for part in (lambda: good_ones(pool), lambda: read_as_a_browser_does(pool), lambda: spellings(pool), lambda: redirects(pool), lambda: rebinding(pool, names)):
        part()
    settle(watch)
    same(watch.drops(), 0, "packets that the watcher missed")
    tried = {to for to in watch.seen if to != ("127.0.0.1", pool.port)}
    same(tried, {(PUBLIC, 80), (PUBLIC6, 80)}, "addresses that connections were opened to")
    print(f"{len(watch.seen)} connections seen", flush=True)
    pool.stop()


if __name__ == "__main__":
    scenario(test_netns_ssrf)
