"""demo_catalogue.py: the merchants of the demo, what they sell, and how their hosts behave.

Seven merchants with 40 hosts. 40 % of the photos answer within 1 s, 40 % within 5 s, 20 % take up
to 30 s, and a good share of each fails in its own way. The URL determines all random choices, so
each run has the same catalogue and the same failures.
"""
import csv
import json
import os
from collections import namedtuple
from urllib.parse import quote

STAMPS = "/usr/share/tuxpaint/stamps"
BACKGROUNDS = "/usr/share/backgrounds/mate"
MAX_FILE = 4 << 20  # bytes; larger files would make the contact sheet slow to open

FAST, MEDIUM, SLOW, ODD = "up to 1 s", "up to 5 s", "up to 30 s", "odd"
# the kinds of hosts from which the photos of a catalogue come, in turn
ORDER = (FAST, MEDIUM, FAST, MEDIUM, SLOW)

Merchant = namedtuple("Merchant", "client folders rpm concurrency hosts second")
Host = namedtuple("Host", "name kind behaviour")
Photo = namedtuple("Photo", "path title")
Item = namedtuple("Item", "id captions photos")  # captions: one for each photo, or one for all photos

# For each merchant: client id, folders of its pictures, limits, hosts of each kind (with their
# special behaviour), and whether it imports a second time.
MERCHANTS = (
    Merchant("horizon", ("backgrounds", "stamps/space", "stamps/sports", "stamps/naturalforces", "stamps/people"), 600, 16, {
        FAST: ("www fail=0.15:404", "img fail=0.15:404"),
        MEDIUM: ("gallery fail=0.15:404", "prints fail=0.12:500"),
        SLOW: ("vault fail=0.10:stall", "tape fail=0.15:404")}, True),
    Merchant("menagerie", ("stamps/animals",), 900, 24, {
        FAST: ("www fail=0.20:404,0.06:410", "img fail=0.24:404,0.06:reset", "cdn fail=0.16:404,0.10:html"),
        MEDIUM: ("photos fail=0.22:404,0.08:500", "media fail=0.20:403,0.08:cut"),
        SLOW: ("archive fail=0.20:404,0.08:stall",)}, True),
    Merchant("greengrocer", ("stamps/food", "stamps/plants"), 600, 24, {
        FAST: ("www fail=0.22:404,0.06:empty", "shop fail=0.10:404 chance=0.35:429 retry_after=1"),
        MEDIUM: ("img fail=0.22:404,0.08:reset", "farm fail=0.14:410,0.12:html", "static fail=0.30:403"),
        SLOW: ("warehouse fail=0.24:404,0.06:stallbody",)}, True),
    Merchant("homestead", ("stamps/household", "stamps/clothes", "stamps/hobbies", "stamps/medical"), 600, 16, {
        FAST: ("www fail=0.25:404", "img fail=0.16:html,0.08:500"),
        MEDIUM: ("catalogue fail=0.18:404,0.08:badchunk", "photos fail=0.15:500,0.15:404"),
        SLOW: ("attic fail=0.18:410,0.10:stallbody",)}, True),
    # One request a second: the report shows that this merchant's limit was reached.
    Merchant("festivity", ("stamps/seasonal",), 60, 8, {
        FAST: ("www fail=0.30:404", "lights fail=0.20:svg"),
        MEDIUM: ("img fail=0.28:404", "media fail=0.12:503,0.10:404"),
        SLOW: ("lapland fail=0.25:404",)}, False),
    Merchant("motorway", ("stamps/vehicles", "stamps/town", "stamps/military"), 600, 24, {
        FAST: ("www fail=0.18:404,0.08:410", "img fail=0.22:404"),
        MEDIUM: ("garage fail=0.15:404,0.10:reset", "photos fail=0.30:404", "yard fail=0.15:cut,0.10:404"),
        SLOW: ("scrapyard fail=0.22:404,0.08:stall",)}, True),
    Merchant("schoolbook", ("stamps/symbols",), 900, 32, {
        FAST: ("www fail=0.22:404", "a fail=0.18:404,0.05:html", "b fail=0.20:410,0.04:empty"),
        MEDIUM: ("c fail=0.24:404", "d fail=0.20:403,0.05:twolengths"),
        SLOW: ("library fail=0.20:404,0.06:stall",)}, True),
)
DELAYS = {FAST: "30-750", MEDIUM: "1200-3800", SLOW: "6000-20000"}

# In addition to the 40 hosts: a name that refuses photopool, and a name to which photopool refuses
# to connect.
REFUSED = "closed.homestead.example", "127.0.0.9"
INTERNAL = "intranet.motorway.example", "10.1.2.3"


def hosts():
    """Yields (Host, client) for all hosts of all merchants."""
    for m in MERCHANTS:
        for kind, lines in m.hosts.items():
            for line in lines:
                name, _, more = line.partition(" ")
                yield Host(f"{name}.{m.client}.example", kind, f"client={m.client} delay={DELAYS[kind]} {more}"), m.client


def kinds():
    return {h.name: h.kind for h, _ in hosts()}


def title_of(path):
    """Returns the title of a picture: a stamp has a description file beside it; other pictures are
    named after their file.
    """
    try:
        with open(os.path.splitext(path)[0] + ".txt", encoding="utf-8") as f:
            title = f.readline().strip().rstrip(".")
    except (OSError, UnicodeDecodeError):
        title = ""
    return title[:80] or os.path.splitext(os.path.basename(path))[0].replace("_", " ").replace("-", " ")


def pictures(root, folder):
    """Returns the JPEG and PNG files below root/folder as Photos, sorted, with their paths below
    root.
    """
    found = []
    for at, below, names in os.walk(os.path.join(root, folder), followlinks=True):
        below.sort()
        for name in sorted(names):
            path = os.path.join(at, name)
            if name.lower().endswith((".jpg", ".jpeg", ".png")) and os.path.getsize(path) <= MAX_FILE:
                found.append(Photo(os.path.relpath(path, root), title_of(path)))
    return found


def vectors(root, folder, n):
    """Returns the paths of n SVG files: photopool does not accept this type."""
    found = []
    for at, _, names in os.walk(os.path.join(root, folder), followlinks=True):
        found += [os.path.relpath(os.path.join(at, name), root) for name in names if name.endswith(".svg")]
    return sorted(found)[:n]


class Catalogue:
    """The items of one merchant's first and second import."""

    def __init__(self, merchant, root, port):
        self.merchant, self.port = merchant, port
        self.names = {}
        for host, client in hosts():
            if client == merchant.client:
                self.names.setdefault(host.kind, []).append(host.name)
        self.turns = {kind: 0 for kind in self.names}
        items = self.listed([p for folder in merchant.folders for p in pictures(root, folder)])
        # Catalogues grow in all places: of seven items, three are only in the second import.
        first = [item for i, item in enumerate(items) if not merchant.second or i % 7 not in (1, 3, 5)]
        second = [item for i, item in enumerate(items) if merchant.second and i % 7 in (1, 3, 5)]
        self.first = first + self.oddities(root)
        # The second import also repeats items that have not changed.
        self.second = second + first[: len(first) // 6] if second else []

    def url(self, photo, n):
        kind = ORDER[n % len(ORDER)]
        names = self.names[kind]
        host = names[self.turns[kind] % len(names)]
        self.turns[kind] += 1
        moved = "?hops=1" if n % 17 == 5 else ""  # the host answers 302 first, and then the photo
        return f"http://{host}:{self.port}/files/{quote(photo.path)}{moved}"

    def listed(self, photos):
        """Makes items of one to three photos."""
        items, at = [], 0
        while at < len(photos):
            some = photos[at : at + 1 + len(items) % 3]
            urls = [self.url(p, at + i) for i, p in enumerate(some)]
            items.append(Item(f"{self.merchant.client}-{len(items) + 1}", [p.title for p in some], urls))
            at += len(some)
        return items

    def oddities(self, root):
        """Returns items with mistakes, as every real catalogue has some."""
        client, port = self.merchant.client, self.port
        www = f"www.{client}.example:{port}"
        odd = {
            "schoolbook": [("Coins as drawings", [f"http://{www}/files/{quote(v)}" for v in vectors(root, "stamps/symbols/money", 3)])],
            "homestead": [("From a host that is down", [f"http://{REFUSED[0]}:{port}/chair.jpg"]),
                          ("Over https where there is none", [f"https://{www}/lamp.jpg"])],
            "motorway": [("From the inside", [f"http://{INTERNAL[0]}:{port}/bus.jpg", f"http://[::ffff:169.254.169.254]:{port}/"]),
                         ("On a port for mail", ["http://www.motorway.example:25/van.jpg"])],
            "horizon": [("Larger than any screen", [f"http://{www}/huge.jpg?w=30000&h=20000"]),
                        ("Around in circles", [f"http://{www}/turn.jpg?hops=9"])],
            "menagerie": [("Typing errors", ["ftp://menagerie.example/cat.jpg", "http://menagerie .example/cat.jpg"])],
        }.get(client, [])
        return [Item(f"{client}-odd-{i + 1}", [caption], urls) for i, (caption, urls) in enumerate(odd)]


def write(items, path):
    """Writes the items as NDJSON, or as CSV if the path ends so: two of the formats that `photopool
    submit` reads.
    """
    with open(path, "w", encoding="utf-8", newline="") as f:
        if path.endswith(".csv"):
            rows = csv.writer(f)
            rows.writerow(("item", "url"))
            rows.writerows((item.id, url) for item in items for url in item.photos)
        else:
            for item in items:
                line = {"id": item.id, "photos": item.photos, "meta": {"captions": item.captions}}
                f.write(json.dumps(line, ensure_ascii=False) + "\n")
    return sum(len(item.photos) for item in items)
