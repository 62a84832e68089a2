"""demo_screen.py: what the demo prints while it runs. On a terminal it repaints one line for each
merchant; into a pipe it prints a line from time to time.
"""
import re
import shutil
import sys

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    def __init__(self, colour):
        self.tty = sys.stdout.isatty()
        self.colour = self.tty and colour
        self.painted = 0

    @property
    def width(self):
        return min(shutil.get_terminal_size((100, 24)).columns, 120) if self.tty else 100

    def style(self, code, text):
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def bold(self, text):
        return self.style("1", text)

    def dim(self, text):
        return self.style("2", text)

    def good(self, text):
        return self.style("32", text)

    def bad(self, text):
        return self.style("31", text)

    def fit(self, line):
        """Cuts a line to the width of the terminal. Escape sequences do not count."""
        room, out, at = self.width - 1, [], 0
        for m in [*ESCAPES.finditer(line), None]:
            text = line[at : m.start() if m else len(line)]
            out.append(text[:room])
            room = max(0, room - len(text))
            if m:
                out.append(m[0])
                at = m.end()
        return "".join(out)

    def say(self, text=""):
        """Prints a line that stays."""
        self.painted = 0
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def paint(self, lines):
        """Prints lines that the next paint() overwrites."""
        up = f"\x1b[{self.painted}A" if self.painted else ""
        sys.stdout.write(up + "".join(f"\r\x1b[K{self.fit(line)}\n" for line in lines))
        sys.stdout.flush()
        self.painted = len(lines)

    def heading(self, text):
        self.say()
        self.say(self.bold(text))

    def table(self, rows, right=()):
        """Prints rows of texts; the first row is the head. `right` has the indexes of columns with
        numbers. The last column is cut to fit.
        """
        widths = [max(len(ESCAPES.sub("", row[i])) for row in rows) for i in range(len(rows[0]))]
        for n, row in enumerate(rows):
            cells = []
            for i, cell in enumerate(row):
                pad = " " * (widths[i] - len(ESCAPES.sub("", cell)))
                cells.append(pad + cell if i in right else cell + pad)
            line = self.fit("  " + "  ".join(cells).rstrip()) if self.tty else ("  " + "  ".join(cells)).rstrip()
            self.say(self.dim(ESCAPES.sub("", line)) if n == 0 else line)
