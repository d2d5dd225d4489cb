"""Reads a TOML settings file: bytes in, texts with positions out, or one error.

``tomllib`` decides what is TOML; the walk after it finds where each key stands and how its value is
spelled, which ``tomllib`` does not keep. Any bytes give a document or one ``SourceError``.
"""

from __future__ import annotations

import re
import tomllib

from relayconf.errors import SourceError
from relayconf.files.tokens import (
    MAX_DEPTH,
    NESTED,
    Builder,
    Document,
    Leaf,
    Source,
    Step,
)

_GAP = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE_KEY = re.compile(r"[^\s.=\]\"'#\[{},]+")
_BASIC = re.compile(r'"(?:\\.|[^"\\])*"')
_MULTILINE = re.compile(r'"""(?:\\.|[^\\])*?"""', re.DOTALL)
# A date and a time may stand apart; otherwise a bare value ends where white space begins.
_BARE_VALUE = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:[^\s,\]}#]*|[^\s,\]}#]+")
# tomllib's memory grows with the square of a key's parts.
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){50}""")
# tomllib makes a number of every integer, and Python refuses those of more than 4300 digits. What
# a setting thinks of so many is for its grammar to say.
_LONG_INTEGER = re.compile(r"([0-9]{100})[0-9]{900,}")
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)\Z")
# tomllib says in four ways what is one mistake, and leaves open what to do about others.
_TWICE = "a key or a table stands twice, or is both a value and a table"
_CLEARER = {
    "Cannot declare": _TWICE,
    "Cannot overwrite": _TWICE,
    "Cannot redefine": _TWICE,
    "Cannot mutate": _TWICE,
    "Duplicate inline": _TWICE,
    "Invalid value": "not TOML: no value that TOML knows; a text needs quotes",
    "Expected newline or end": "not TOML: something follows the value; a text needs quotes, and "
    "a number has no leading zero",
    "Illegal character '\\n'": "not TOML: the line ends before the quotes are closed",
}

_TABLES = "it is a list of tables; a list holds plain items"


def read(data: bytes, *, path: str) -> Document:
    """Read a TOML settings file.

    Raises:
        SourceError: it is too large, not UTF-8, not TOML, or repeats a key.
    """
    source = Source(data, path)
    long_key = _LONG_KEY.search(source.text)
    if long_key:
        raise source.error("a key of more than 50 parts", long_key.start())
    try:
        tomllib.loads(_LONG_INTEGER.sub(r"\1", source.text))
        return _Walk(source).read()
    except RecursionError:
        message = f"it nests deeper than {MAX_DEPTH} levels"
        raise source.error(message, _deepest(source.text)) from None
    except ValueError as error:
        raise _explained(error, source) from None


def _explained(error: ValueError, source: Source) -> SourceError:
    message = str(error)
    place = _PLACE.search(message)
    reason = message[: place.start()] if place else message
    clearer = (text for start, text in _CLEARER.items() if reason.startswith(start))
    reason = next(clearer, f"not TOML: {reason[:1].lower()}{reason[1:]}")
    if place is None or place[1] is None:
        return source.error(reason, len(source.text))
    return SourceError(reason, origin=f"{source.path}:{place[1]}:{place[2]}")


def _deepest(text: str) -> int:
    """Return where brackets first nest too deep, counted without regard to strings."""
    depth = 0
    for match in re.finditer(r"[\[{\]}]", text):
        depth += 1 if match.group() in "[{" else -1
        if depth > MAX_DEPTH:
            return match.start()
    return 0


class _Walk:
    """One pass over a text that is TOML. Methods take the index to read at, return the next."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.builder = Builder(source)

    def read(self) -> Document:
        header: list[Step] = []
        at = self.gap(0)
        while at < len(self.text):
            if self.text[at] == "[":
                header, at = self.header(at)
            else:
                at = self.pair(at, header, 1)
            at = self.gap(at)
        return self.builder.document()

    def header(self, at: int) -> tuple[list[Step], int]:
        """Read ``[a.b]`` or ``[[a.b]]``."""
        many = self.text.startswith("[[", at)
        path, at = self.key(self.space(at + (2 if many else 1)))
        if many:
            self.builder.put(path, Leaf(fault=_TABLES))
        else:
            self.builder.table(path)
        return path, at + (2 if many else 1)

    def pair(self, at: int, path: list[Step] | None, depth: int) -> int:
        """Read ``a.b = value``; without a path it is skipped."""
        key, at = self.key(at)
        return self.value(self.space(at + 1), None if path is None else [*path, *key], depth)

    def key(self, at: int) -> tuple[list[Step], int]:
        """Read a dotted key up to what follows it."""
        steps: list[Step] = []
        while True:
            begin = at
            if self.text[at] in "\"'":
                at = self.string(at)
                steps.append((self.content(begin, at), begin))
            else:
                at = self.end(_BARE_KEY, at)
                steps.append((self.text[begin:at], begin))
            at = self.space(at)
            if self.text[at] != ".":
                return steps, at
            at = self.space(at + 1)

    def value(self, at: int, path: list[Step] | None, depth: int) -> int:
        """Read a value into the document."""
        if self.text[at] == "{":
            return self.inline(at, path, depth)
        leaf, at = self.leaf(at, depth)
        if path is not None:
            self.builder.put(path, leaf)
        return at

    def leaf(self, at: int, depth: int) -> tuple[Leaf, int]:
        """Read a list or a scalar."""
        if self.text[at] == "[":
            return self.array(at, depth)
        begin = at
        if self.text[at] in "\"'":
            at = self.string(at)
            return Leaf(self.content(begin, at)), at
        at = self.end(_BARE_VALUE, at)
        return Leaf(self.text[begin:at]), at

    def array(self, at: int, depth: int) -> tuple[Leaf, int]:
        self.guard(at, depth)
        items: list[str] = []
        nested = False
        at = self.gap(at + 1)
        while self.text[at] != "]":
            if self.text[at] in "[{":
                at, nested = self.value(at, None, depth + 1), True
            else:
                leaf, at = self.leaf(at, depth)
                items.append(leaf.text)
            at = self.separator(at)
        return (Leaf(fault=NESTED) if nested else Leaf(items=tuple(items))), at + 1

    def inline(self, at: int, path: list[Step] | None, depth: int) -> int:
        """Read an inline table, which is a section where it stands at the top."""
        self.guard(at, depth)
        if path is not None:
            self.builder.table(path)
        at = self.gap(at + 1)
        while self.text[at] != "}":
            at = self.separator(self.pair(at, path, depth + 1))
        return at + 1

    def string(self, at: int) -> int:
        """Return the index behind a string of any of the four forms."""
        quote = self.text[at]
        triple = quote * 3
        if not self.text.startswith(triple, at):
            return self.end(_BASIC, at) if quote == '"' else self.text.index("'", at + 1) + 1
        at = self.end(_MULTILINE, at) if quote == '"' else self.text.index(triple, at + 3) + 3
        # One or two quotes may stand before the three that close.
        return at + (2 if self.text.startswith(quote * 2, at) else self.text.startswith(quote, at))

    def content(self, begin: int, end: int) -> str:
        return str(tomllib.loads(f"v = {self.text[begin:end]}")["v"])

    def separator(self, at: int) -> int:
        at = self.gap(at)
        return self.gap(at + 1) if self.text[at] == "," else at

    def gap(self, at: int) -> int:
        """Skip white space, line ends and comments."""
        return self.end(_GAP, at)

    def space(self, at: int) -> int:
        return self.end(_SPACE, at)

    def end(self, pattern: re.Pattern[str], at: int) -> int:
        match = pattern.match(self.text, at)
        if match is None:
            raise self.source.error("not TOML that this reader knows", at)
        return match.end()

    def guard(self, at: int, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self.source.error(f"it nests deeper than {MAX_DEPTH} levels", at)
