"""demo_sheet.py: writes the contact sheet: one HTML file that shows, for each merchant, the stored
photos, and the failed photos with the reason.

The sheet shows photos from photopool's own folder, by relative paths.
"""
import html
import os
from collections import Counter
from urllib.parse import quote

from demo_report import OUTCOMES, host_of

STYLE = """
:root { color-scheme: light dark; --page: #f6f5f2; --card: #fff; --mat: #eceae4; --line: #dedbd3; --text: #23211d; --soft: #76716a;
  --good: #2e7d4f; --bad: #b3402f; --hold: #8a6d1f; --grey: #e9e7e2; }
@media (prefers-color-scheme: dark) { :root { --page: #181715; --card: #22211e; --mat: #2d2b27; --line: #3a3833; --text: #ece9e2;
  --soft: #9a958b; --good: #6cc08e; --bad: #e2806f; --hold: #d0b054; --grey: #292824; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 14px/1.4 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1400px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 24px; margin: 0 0 4px; } h1 + p { margin: 0 0 18px; color: var(--soft); }
.totals { display: flex; flex-wrap: wrap; gap: 10px; margin: 0 0 12px; }
.totals div { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 8px 16px; }
.totals b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; } .totals span { color: var(--soft); }
.codes { color: var(--soft); margin: 0 0 6px; } .codes a { color: inherit; } .codes b { color: var(--bad); font-weight: 600; }
label { color: var(--soft); cursor: pointer; user-select: none; }
section { margin-top: 30px; }
h2 { font-size: 17px; margin: 0 0 10px; padding-bottom: 6px; border-bottom: 1px solid var(--line); position: sticky; top: 0;
  background: var(--page); z-index: 1; padding-top: 8px; }
h2 small { font-weight: normal; color: var(--soft); font-size: 13px; margin-left: 10px; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(180px, 1fr)); gap: 10px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 8px; overflow: hidden; display: flex;
  flex-direction: column; }
figure a, figure .why { height: 126px; background: var(--mat); display: flex; align-items: center; justify-content: center; }
img { max-width: 100%; max-height: 126px; object-fit: contain; padding: 8px; } img.wide { width: 100%; height: 126px; object-fit: cover; padding: 0; }
.why { background: var(--grey) !important; flex-direction: column; padding: 8px 10px; text-align: center; color: var(--soft);
  font-size: 12px; line-height: 1.3; }
.why b { color: var(--bad); font: 600 13px ui-monospace, "DejaVu Sans Mono", monospace; margin-bottom: 5px; }
.skipped .why b, .cancelled .why b { color: var(--hold); }
figcaption { padding: 7px 9px 8px; font-size: 12px; }
figcaption b { display: block; font-weight: 600; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
figcaption i { display: block; font-size: 11.5px; letter-spacing: -0.1px; font-style: normal; color: var(--soft); white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
figcaption em { font-style: normal; color: var(--good); } .failed em { color: var(--bad); } .unchanged em, .skipped em { color: var(--hold); }
body:has(#hide:checked) .failed { display: none; }
"""
WIDE = 640  # a photo of at least this width, in pixels, fills its frame


def esc(text):
    return html.escape(str(text), quote=True)


def size(n):
    return f"{n / 1048576:.1f} MB" if n >= 1048576 else f"{max(1, round(n / 1024))} KB"


def seconds(ms):
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms} ms"


def facts(photo):
    """Returns the small print of a photo's card."""
    tries = f", {photo['attempts']} tries" if photo.get("attempts", 0) > 1 else ""
    if photo["outcome"] == "stored":
        return f"<em>stored</em> in {seconds(photo.get('ms', 0))}{tries}"
    return f"<em>{esc(photo['outcome'])}</em>{tries}"


def card(entry, photos, sentence):
    photo, host = entry["photo"], host_of(entry["photo"]["url"])
    if photo.get("object"):
        path = quote(f"{photos}/{photo['object']}")
        wide = ' class="wide"' if photo["width"] >= WIDE else ""
        what = f"<i>{photo['width']}×{photo['height']}, {size(photo['bytes'])}</i>"
        top = f'<a href="{path}"><img{wide} loading="lazy" alt="" src="{path}"></a>'
    else:
        error = photo.get("error") or {}
        code = error.get("code", photo["outcome"])
        what = ""
        top = f'<div class="why" title="{esc(error.get("detail", ""))}"><b>{esc(code)}</b>{esc(sentence(code))}</div>'
    return (f'<figure class="{esc(photo["outcome"])}" title="{esc(photo["url"])}">{top}<figcaption><b>{esc(entry["caption"])}</b>'
            f'<i>{esc(host)}</i><i>{facts(photo)}</i>{what}</figcaption></figure>')


def section(client, entries, photos, sentence):
    count = Counter(e["photo"]["outcome"] for e in entries)
    head = ", ".join(f"{count[o]} {o}" for o in OUTCOMES if count[o])
    cards = "\n".join(card(e, photos, sentence) for e in entries)
    return f'<section id="{esc(client)}"><h2>{esc(client)}<small>{head}</small></h2><div class="grid">\n{cards}\n</div></section>'


def write(path, out, took_s, data):
    """Writes the sheet to `path`. `data` is the data directory of the server. The demo
    imports its catalogue twice; the sheet shows each photo once.
    """
    photos = os.path.relpath(f"{data}/photos", os.path.dirname(path))
    count = Counter(e["photo"]["outcome"] for e in out.entries)
    codes = Counter(e["photo"]["error"]["code"] for e in out.entries if e["photo"].get("error"))
    bytes_kept = sum({e["photo"]["sha256"]: e["photo"]["bytes"] for e in out.entries if e["photo"].get("sha256")}.values())
    boxes = [(len(out.entries), "photos asked for")] + [(count[o], o) for o in OUTCOMES if count[o]] + [(size(bytes_kept), "kept")]
    totals = "".join(f"<div><b>{n}</b><span>{esc(what)}</span></div>" for n, what in boxes)
    failures = ", ".join(f"<b>{esc(code)}</b>&nbsp;{n}" for code, n in codes.most_common())
    shown = {}  # entries by client
    for e in out.entries:
        if e["photo"]["outcome"] != "unchanged":
            shown.setdefault(e["client"], []).append(e)
    links = " · ".join(f'<a href="#{esc(client)}">{esc(client)}</a>' for client in shown)
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
                f"<title>photopool: contact sheet</title><style>{STYLE}</style></head><body><main>\n"
                f"<h1>photopool: contact sheet</h1><p>Fetched from 40 hosts in {took_s:.0f} s: 40 % of the photos answer within 1 s, 40 % "
                f"within 5 s, 20 % take up to 30 s, and a good share fail.</p>\n"
                f'<div class="totals">{totals}</div><p class="codes">Failed: {failures}</p>\n'
                f'<p class="codes">{links}</p><label><input type="checkbox" id="hide"> hide failures</label>\n')
        f.write("\n".join(section(client, entries, photos, out.sentence) for client, entries in shown.items()))
        f.write("\n</main></body></html>\n")
