#!/usr/bin/env python3
"""scripts/demo_picture.py PICTURE.svg: runs scripts/demo on a terminal and draws its output: an SVG
that plays the run, faster.

The frames are the real screen at moments of the run. A viewer without animation shows the frame at
half time.
"""
import fcntl
import html
import json
import os
import pty
import re
import struct
import sys
import termios
import time

COLUMNS, ROWS = 100, 31
CELL, LINE, MARGIN, TOP = 8.43, 18, 16, 44  # pixels, for a monospace font of 14 px
FRAMES, FRAME_S, PAGE_S = 28, 0.55, 5.0
COLOURS = {"31": "#e5786d", "32": "#8ec07c", "33": "#e0af68", "2": "#7d828c", "1": "#ffffff", "": "#d5d8de"}
PART = re.compile(r"\x1b\[(\d*)([A-Za-z])|[\r\n]|[^\x1b\r\n]+")


def record(argv):
    """Runs argv on a terminal. Returns its output as (seconds, text)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color")
        os.environ.pop("NO_COLOR", None)
        os.execvp(argv[0], argv)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    began, parts, rest = time.monotonic(), [], b""
    while True:
        try:
            data = rest + os.read(fd, 65536)
        except OSError:
            break
        whole = data.rfind(b"\n") + 1
        rest = data[whole:]
        if whole:
            parts.append((time.monotonic() - began, data[:whole].decode(errors="replace")))
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit("scripts/demo_picture.py: the demo failed:\n" + "".join(text for _, text in parts[-20:]))
    return parts


class Terminal:
    """The part of a terminal that the demo needs. It keeps all lines, as lists of (character, style)."""

    def __init__(self):
        self.lines, self.row, self.column, self.style = [[]], 0, 0, ""

    def write(self, text):
        for m in PART.finditer(text):
            if m[2] == "m":
                self.style = "" if m[1] in ("", "0") else m[1]
            elif m[2] == "K":
                del self.lines[self.row][self.column :]
            elif m[2] == "A":
                self.row = max(0, self.row - int(m[1] or 1))
            elif m[0] == "\r":
                self.column = 0
            elif m[0] == "\n":
                self.row += 1
                self.column = 0
                while self.row >= len(self.lines):
                    self.lines.append([])
            elif not m[2]:
                self.put(m[0])

    def put(self, text):
        while text:
            if self.column >= COLUMNS:
                self.write("\r\n")
            some, text = text[: COLUMNS - self.column], text[COLUMNS - self.column :]
            line = self.lines[self.row]
            line += [(" ", "")] * (self.column - len(line))
            line[self.column : self.column + len(some)] = [(c, self.style) for c in some]
            self.column += len(some)

    def text(self, row):
        return "".join(c for c, _ in self.lines[row])

    def view(self, top=None):
        end = len(self.lines) - (not self.lines[-1])
        top = max(0, end - ROWS) if top is None else top
        return [list(line) for line in self.lines[top : min(end, top + ROWS)]]


def runs(line):
    """Returns (column, text, style) for each run of characters of one style. A bar is a separate run."""
    found, at = [], 0
    while at < len(line):
        end = at + 1
        while end < len(line) and line[end][1] == line[at][1] and (line[end][0] in "█░") == (line[at][0] in "█░"):
            end += 1
        found.append((at, "".join(c for c, _ in line[at:end]), line[at][1]))
        at = end
    return [run for run in found if run[1].strip()]


def draw(lines):
    out = []
    for row, line in enumerate(lines):
        y = TOP + (row + 1) * LINE
        for column, text, style in runs(line):
            skip = len(text) - len(text.lstrip(" "))
            column, text = column + skip, text.strip(" ")
            x, width = MARGIN + column * CELL, len(text) * CELL
            if text[0] in "█░":
                fill = COLOURS[style] if text[0] == "█" else "#3a3f47"
                out.append(f'<rect x="{x:.1f}" y="{y - 12}" width="{width:.1f}" height="13" fill="{fill}"/>')
            else:
                bold = ' font-weight="bold"' if style == "1" else ""
                out.append(f'<text x="{x:.1f}" y="{y}" textLength="{width:.1f}" fill="{COLOURS[style]}"{bold}>{html.escape(text)}</text>')
    return "".join(out)


def frames(parts):
    """Returns the frames as (lines, seconds shown), and the index of the frame for viewers without
    animation.
    """
    terminal, found = Terminal(), []
    painting = [t for t, text in parts if "\x1b[" in text and "A\r" in text]
    step = (painting[-1] - painting[0]) / FRAMES
    due = painting[0]
    for t, text in parts:
        terminal.write(text)
        if painting[0] <= t <= painting[-1] and t >= due:
            found.append((terminal.view(), FRAME_S))
            due += step
    middle = len(found) // 2
    # After the run come pages of the summary. Each begins with a heading.
    headings = [i for i in range(len(terminal.lines)) if i and not terminal.lines[i - 1] and terminal.lines[i][:1] and terminal.lines[i][0][1] == "1"]
    headings.append(len(terminal.lines))
    top = headings[0]
    for now, then in zip(headings, headings[1:]):
        if then - top > ROWS:
            found.append((terminal.view(top)[: now - top if now > top else ROWS], PAGE_S))
            top = now
    found.append((terminal.view(top if len(terminal.lines) - top > ROWS // 2 else None), PAGE_S))
    return found, middle


def svg(shown, still):
    total = sum(seconds for _, seconds in shown)
    width, height = COLUMNS * CELL + 2 * MARGIN, TOP + ROWS * LINE + MARGIN
    style, body, at = [], [], 0.0
    for i, (lines, seconds) in enumerate(shown):
        first, last = 100 * at / total, 100 * (at + seconds) / total
        before = "0%{visibility:hidden}" if i else ""
        after = f"{last:.3f}%{{visibility:hidden}}" if i + 1 < len(shown) else ""
        style.append(f"@keyframes k{i}{{{before}{first:.3f}%{{visibility:visible}}{after}}}#f{i}{{animation-name:k{i}}}")
        hidden = "" if i == still else ' visibility="hidden"'
        body.append(f'<g id="f{i}" class="f"{hidden}>{draw(lines)}</g>')
        at += seconds
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}" '
            'font-family="ui-monospace,\'DejaVu Sans Mono\',Menlo,Consolas,monospace" font-size="14">'
            f"<title>make demo</title><style>text{{white-space:pre}}@media (prefers-reduced-motion:no-preference)"
            f"{{.f{{animation:{total:.2f}s step-end infinite}}{''.join(style)}}}</style>"
            f'<rect width="100%" height="100%" rx="8" fill="#1d2026"/><g fill="#4a4f58"><circle cx="22" cy="22" r="6"/>'
            '<circle cx="42" cy="22" r="6"/><circle cx="62" cy="22" r="6"/></g>'
            '<text x="90" y="27" fill="#7d828c">$ make demo</text>' + "".join(body) + "</svg>\n")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: scripts/demo_picture.py PICTURE.svg [RECORDING.json]")
    recording = sys.argv[2] if len(sys.argv) == 3 else None
    if recording and os.path.exists(recording):
        with open(recording, encoding="utf-8") as f:
            parts = json.load(f)
    else:
        parts = record([os.path.join(os.path.dirname(os.path.abspath(__file__)), "demo")])
        if recording:
            with open(recording, "w", encoding="utf-8") as f:
                json.dump(parts, f)
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write(svg(*frames(parts)))


if __name__ == "__main__":
    main()
