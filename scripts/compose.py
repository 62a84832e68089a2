"""compose.py: reads docker/compose.yaml, because Python's library has no YAML. It understands only
the part of YAML that the file uses: block mappings and lists, one-line flow mappings and lists,
quoted and plain scalars (all read as texts), anchors and `<<: *name`. It refuses anything else and
names the line.
"""
import os
import re

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docker", "compose.yaml")


class ComposeError(Exception):
    pass


class Reader:
    def __init__(self, text):
        self.lines, self.at, self.anchors = [], 0, {}
        for number, line in enumerate(text.split("\n"), 1):
            bare = self.without_comment(line)
            if "\t" in bare:
                raise ComposeError(f"line {number}: a tab")
            if bare.strip():
                self.lines.append((number, len(bare) - len(bare.lstrip()), bare.strip()))

    @staticmethod
    def without_comment(line):
        m = re.match(r"""((?:"(?:\\.|[^"])*"|'[^']*'|[^"'#]|(?<=\S)#)*?)(?:(?:^|\s)#.*)?$""", line)
        if not m:
            raise ComposeError(f"not understood: {line}")
        return m.group(1).rstrip()

    def block(self, indent):
        """Reads the mapping or list that begins at the current line."""
        is_list = self.lines[self.at][2].startswith("- ")
        result = [] if is_list else {}
        merged = {}
        while self.at < len(self.lines) and self.lines[self.at][1] == indent:
            number, _, text = self.lines[self.at]
            if text.startswith("- ") != is_list:
                raise ComposeError(f"line {number}: a list and a mapping mixed")
            self.at += 1
            if is_list:
                result.append(self.value(text[2:].strip(), number))
                continue
            m = re.fullmatch(r"(<<|[A-Za-z_][\w.-]*):(?: +(.*))?", text)
            if not m or m.group(1) in result:
                raise ComposeError(f"line {number}: no `name: value`, or twice: {text}")
            name, rest = m.group(1), m.group(2) or ""
            if name == "<<":
                merged = self.value(rest, number)
                continue
            anchor = re.fullmatch(r"&(\w+)", rest)
            if rest and not anchor:
                result[name] = self.value(rest, number)
            elif self.at < len(self.lines) and self.lines[self.at][1] > indent:
                result[name] = self.block(self.lines[self.at][1])
            else:
                raise ComposeError(f"line {number}: {name} has no value")
            if anchor:
                self.anchors[anchor.group(1)] = result[name]
        if self.at < len(self.lines) and self.lines[self.at][1] > indent:
            raise ComposeError(f"line {self.lines[self.at][0]}: too far to the right")
        return result if is_list else {**merged, **result}

    def value(self, text, number):
        """Reads a value that stands in one line: a scalar, [a, b], {a: b} or *anchor."""
        if text.startswith("*"):
            if text[1:] not in self.anchors:
                raise ComposeError(f"line {number}: no anchor {text}")
            return self.anchors[text[1:]]
        value, rest = self.flow(text, number)
        if rest:
            raise ComposeError(f"line {number}: not understood: {rest}")
        return value

    def flow(self, text, number):
        """Reads a scalar, list or mapping at the start of the text. Returns (value, the text after
        it).
        """
        if text[:1] in ("[", "{"):
            close, is_list = ("]", True) if text[0] == "[" else ("}", False)
            result, rest = [] if is_list else {}, text[1:].lstrip()
            while not rest.startswith(close):
                if not is_list:
                    m = re.match(r"([\w.-]+):\s+", rest)
                    if not m:
                        raise ComposeError(f"line {number}: no `name: value` in {text}")
                    name, rest = m.group(1), rest[m.end():]
                value, rest = self.flow(rest, number)
                if is_list:
                    result.append(value)
                else:
                    result[name] = value
                rest = rest.lstrip()
                if rest.startswith(","):
                    rest = rest[1:].lstrip()
                elif not rest.startswith(close):
                    raise ComposeError(f"line {number}: {close} is missing in {text}")
            return result, rest[1:].lstrip()
        m = re.match(r'"([^"\\]*)"|\'([^\']*)\'', text)
        if m:
            return m.group(1) if m.group(1) is not None else m.group(2), text[m.end():].lstrip()
        m = re.match(r"[^\s,\[\]{}&*!|>'\"%@`:](?:[^,\[\]{}:]|:(?=\S))*", text)
        if not m:
            raise ComposeError(f"line {number}: not understood: {text}")
        return m.group(0).strip(), text[m.end():].lstrip()


def parse(text):
    reader = Reader(text)
    result = reader.block(0)
    if reader.at < len(reader.lines):
        raise ComposeError(f"line {reader.lines[reader.at][0]}: not understood")
    return result


def services(path=FILE):
    with open(path, encoding="utf-8") as f:
        return parse(f.read())["services"]


def ours(path=FILE):
    """Returns [(name, how many, arguments, environment)] of the services that run photopool."""
    return [(name, int(s.get("deploy", {}).get("replicas", 1)), s["command"], s["environment"])
            for name, s in services(path).items() if s["image"] == "photopool"]
