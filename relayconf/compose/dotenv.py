"""Reads an env file in Docker Compose's own dialect: bytes in, assignments in file order out.

Every assignment keeps its position and its text as it stands in the file. Any bytes give entries or
one ``ComposeError``; the time is linear in the size of the file and of what its values come to,
which is bounded. Nothing is executed, nothing is read but the bytes given. No message quotes a
value. Ground floor.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Callable, Dict, List, Mapping, Match, NamedTuple, Optional, Pattern, Tuple

from relayconf.compose.errors import ComposeError
from relayconf.compose.interpolate import Reference, TemplateError, interpolate

Lookup = Callable[[str], Optional[str]]

#: Go's unicode.IsSpace, which Compose skips between statements and trims off the end of a value.
SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
# What Compose trims before a key and before a value: no line feed, no other Unicode space.
_BLANK = "\t\v\f\r \x85\xa0"

_SPACES = re.compile(f"[{SPACE}]*")
_EXPORT = re.compile(f"export(?=[\t\n\f\r ])[{_BLANK}]*")
_KEY = re.compile(f"[-A-Za-z0-9_.\\[\\]{_BLANK}]*")
_PADDING = re.compile(f"[{_BLANK}]*")
_PAIR_OR_QUOTE = {
    '"': re.compile(r'\\.|"', re.DOTALL),
    "'": re.compile(r"\\.|'", re.DOTALL),
}
_ESCAPE = re.compile(r'\\(?:[abcfnrtv$"\\]|0[0-9]{0,3})')
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL = re.compile("[0-3][0-7][0-7]")


#: A bound on what the values of one file come to, so that one that repeats itself fills no memory.
MOST_CHARACTERS = 64 * 1024 * 1024


class EnvEntry(NamedTuple):
    """One assignment of an env file.

    ``value`` is what Compose takes: quotes off, escapes and variables replaced. It is ``None`` for
    a bare key that the lookup does not have, which sets nothing. ``raw`` is the text after the
    separator as it stands in the file, without the line feed. ``line`` and ``column`` count from 1
    (columns in characters) and are where the key stands. ``form`` is ``plain``, ``single``,
    ``double``, ``bare`` (a key alone, inherited) or ``unfinished`` (a bare key on the last line
    without a line feed, which Compose reads as the value of a variable with no name).
    ``references`` are the variables that the value asked for.
    """

    name: str
    value: Optional[str]
    raw: str
    line: int
    column: int
    form: str = "plain"
    references: Tuple[Reference, ...] = ()

    @property
    def unset(self) -> Tuple[str, ...]:
        """Names of variables that became nothing because no layer has them; Compose warns."""
        return tuple(dict.fromkeys(ref.name for ref in self.references if ref.blank))


def decode(data: bytes) -> str:
    """The text of a file: UTF-8, one leading mark dropped, each wrong byte one U+FFFD.

    That is what reaches a container: Compose sends the environment as JSON, and JSON written by Go
    replaces wrong bytes one by one.
    """
    if data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return re.sub("[\udc80-\udcff]", "\ufffd", data.decode("utf-8", "surrogateescape"))


def last_values(entries: List[EnvEntry]) -> Dict[str, str]:
    """What the entries add up to: the last one of each name wins; a bare unknown key sets none."""
    return {entry.name: entry.value for entry in entries if entry.value is not None}


def parse_dotenv(
    data: bytes,
    *,
    path: str,
    lookup: Lookup,
    earlier: Optional[Mapping[str, str]] = None,
    eager: bool = False,
) -> List[EnvEntry]:
    """Parse an env file as Docker Compose v2 does.

    Args:
        data: the content of the file, any bytes.
        path: how messages and origins name the file.
        lookup: answers the variables of the layer above (the process environment, say), which wins
            in ``$NAME`` and is the only source of a bare key.
        earlier: values already read from files before this one; ``$NAME`` sees them, as it sees
            the keys above it in this file.
        eager: evaluate defaults even where they are not used, as Compose 2.40 does.

    Returns:
        Every assignment in file order, duplicates included (see ``last_values``).

    Raises:
        ComposeError: the file does not parse; its origin is ``path:line:column``.
    """
    return _Parser(decode(data), path, lookup, dict(earlier or {}), eager=eager).parse()


class _Parser:
    """One pass over one file. ``known`` grows as keys are read."""

    def __init__(
        self, text: str, path: str, lookup: Lookup, known: Dict[str, str], *, eager: bool
    ) -> None:
        self.text = text
        self.path = path
        self.lookup = lookup
        self.known = known
        self.eager = eager
        self.entries: List[EnvEntry] = []
        self.room = MOST_CHARACTERS
        self.starts = [0] + [match.end() for match in re.finditer("\n", text)]

    def parse(self) -> List[EnvEntry]:
        at = 0
        while True:
            at = _end(_SPACES, self.text, at)
            if at == len(self.text):
                return self.entries
            at = self.line_end(at) if self.text[at] == "#" else self.statement(at)

    def statement(self, start: int) -> int:
        """Read the assignment at ``start``; the index after it."""
        text = self.text
        export = _EXPORT.match(text, start)
        first = export.end() if export else start
        stop = self.key_end(first)
        if stop == len(text):
            return self.unfinished(start, first)
        key = text[first:stop].rstrip(SPACE)
        if " " in key:
            raise self.refuse("key cannot contain a space", first + key.index(" "))
        line, column = self.position(first if key else start)
        if text[stop] == "\n":
            self.add(EnvEntry(key, self.lookup(key), "", line, column, "bare"))
            return stop + 1
        after = _end(_PADDING, text, stop + 1)
        form = {'"': "double", "'": "single"}.get(text[after : after + 1], "plain")
        if form == "plain":
            end = self.line_end(after)
            value, found = self.expand(key, self.plain(after, end), after)
        else:
            end = self.closing_quote(key, after) + 1
            value, found = self.unquote(key, after, end)
        raw = text[stop + 1 : end]
        self.add(EnvEntry(key, value, raw, line, column, form, tuple(found)))
        return end

    def key_end(self, at: int) -> int:
        """The index of the ``=``, ``:`` or line feed that ends the key, or the end of the text."""
        text = self.text
        while True:
            at = _end(_KEY, text, at)
            if at == len(text) or text[at] in "=:\n":
                return at
            if not (text[at].isalpha() or text[at].isnumeric()):
                reason = f"unexpected character {text[at]!a} in a variable name"
                raise self.refuse(reason, at)
            at += 1

    def unfinished(self, start: int, first: int) -> int:
        """A key with neither separator nor line feed: Compose takes it for a value without name."""
        end = len(self.text)
        if first == end:
            raise self.refuse("zero length string: no variable name follows export", start)
        value = self.plain(first, end)
        line, column = self.position(first)
        self.add(EnvEntry("", value, self.text[first:], line, column, "unfinished"))
        return end

    def plain(self, start: int, end: int) -> str:
        """An unquoted value: up to the first `` #``, without the white space behind it."""
        comment = self.text.find(" #", start, end)
        return self.text[start : end if comment < 0 else comment].rstrip(SPACE)

    def closing_quote(self, key: str, start: int) -> int:
        """The index of the quote that ends the value whose opening quote is at ``start``."""
        quote = self.text[start]
        for match in _PAIR_OR_QUOTE[quote].finditer(self.text, start + 1):
            if match.group() == quote:
                return match.start()
        raise self.refuse(f"unterminated quoted value of {named(key)}", start)

    def unquote(self, key: str, start: int, end: int) -> Tuple[str, List[Reference]]:
        """The value between the quotes; the backslash of an escaped quote goes, in both forms."""
        quote, inner = self.text[start], self.text[start + 1 : end - 1]
        value = inner.replace("\\" + quote, quote)
        if quote == "'":
            return value, []
        if "\\" not in inner:
            return self.expand(key, value, start + 1)
        return self.expand(key, _ESCAPE.sub(_unescape, value), None, near=start)

    def expand(
        self, key: str, text: str, start: Optional[int], *, near: int = 0
    ) -> Tuple[str, List[Reference]]:
        """Replace the variables of a value.

        ``start`` is where ``text`` stands in the file as it is, so that an error can point at the
        very ``$``; ``near`` is the best place to point at where it does not.
        """
        found: List[Reference] = []
        try:
            value = interpolate(text, self.seen, eager=self.eager, references=found)
        except TemplateError as error:
            at = near if start is None else start + error.offset
            if error.kind == "required":
                raise self.refuse(
                    f"{error.reason} (needed by {named(key)})", at, error.kind
                ) from None
            reason = f"Invalid template in the value of {named(key)}: {error.reason}"
            raise self.refuse(reason, at, error.kind) from None
        self.room -= len(value)
        if self.room < 0:
            reason = f"the values so far have more than {MOST_CHARACTERS} characters"
            raise self.refuse(reason, near if start is None else start)
        return value, found

    def seen(self, name: str) -> Optional[str]:
        """What ``$NAME`` finds: the layer above, then what files and lines before this one set."""
        value = self.lookup(name)
        return self.known.get(name) if value is None else value

    def add(self, entry: EnvEntry) -> None:
        self.entries.append(entry)
        if entry.value is not None:
            self.known[entry.name] = entry.value

    def line_end(self, at: int) -> int:
        """The index of the next line feed, or the end of the text."""
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def position(self, at: int) -> Tuple[int, int]:
        """Line and column of an index, both from 1."""
        line = bisect_right(self.starts, at)
        return line, at - self.starts[line - 1] + 1

    def refuse(self, message: str, at: int, kind: str = "dotenv") -> ComposeError:
        line, column = self.position(at)
        return ComposeError(message, kind=kind, origin=f"{self.path}:{line}:{column}")


def named(key: str) -> str:
    """How a message names a variable: as it is where that is readable, else escaped."""
    return key if key and key.isprintable() else ascii(key)


def _end(pattern: Pattern[str], text: str, at: int) -> int:
    """Where a pattern that also matches nothing stops."""
    match = pattern.match(text, at)
    return at if match is None else match.end()


def _unescape(match: Match[str]) -> str:
    r"""One escape of a double-quoted value.

    ``$`` stays escaped for the interpolation that follows. ``\0`` starts an octal number of three
    more digits up to 377; anything less loses its zero, as Compose does. ``\c`` is no escape.
    """
    escape = match.group()[1:]
    if escape == "$":
        return "$$"
    if escape[0] == "0":
        digits = escape[1:]
        return chr(int(digits, 8)) if _OCTAL.fullmatch(digits) else "\\" + digits
    if escape in '"\\':
        return escape
    return _SIMPLE.get(escape, "\\" + escape)
