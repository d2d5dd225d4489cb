"""What a settings file holds: texts as they are written, each with its position.

The three readers (TOML, YAML, JSON) give the same records, so that nothing after them depends on
the format. A scalar's text is the source's own (``0123``, ``1.50``, ``true``, a date); a string is
its content. Nothing is cast, and nothing in a text is evaluated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from relayconf.errors import SourceError
from relayconf.files.regular import shown_path

#: A bound on one settings file. Real ones are a few KiB; YAML is read at some 250 KiB a second.
MAX_BYTES = 256 * 1024

#: A bound on nesting, far below the interpreter's own. Settings need three levels.
MAX_DEPTH = 50

#: Why a value is no text. Each completes "NAME: ".
TABLE = "it is a table; a setting is a text, a number, true or false, or a list of these"
NESTED = "an item of the list is a list or a table; a list holds plain items"
NULL = "it is null; leave the key out to leave the setting unset"
NULL_ITEM = "an item of the list is null; a list holds plain items"


class Leaf(NamedTuple):
    """The value of one key: its text, or the texts of its items, or why it has none."""

    text: str = ""
    items: tuple[str, ...] | None = None
    fault: str | None = None


class Token(NamedTuple):
    """One key with its value. ``line`` and ``column`` count from 1 and say where the key stands."""

    key: str
    line: int
    column: int
    leaf: Leaf


class Section(NamedTuple):
    """A table at the top of a file. ``leaf`` is what it would be as the value of a setting."""

    key: str
    line: int
    column: int
    tokens: tuple[Token, ...] = ()


class Document(NamedTuple):
    """One file: the keys that stand outside of any section, and the sections, in file order."""

    tokens: tuple[Token, ...] = ()
    sections: tuple[Section, ...] = ()


class Source:
    """The text of one file, which knows its lines.

    Raises:
        SourceError: the bytes are not UTF-8, or too many.
    """

    def __init__(self, data: bytes, path: str) -> None:
        self.path = shown_path(path)
        if len(data) > MAX_BYTES:
            raise SourceError(f"the file is larger than {MAX_BYTES} bytes", origin=self.path)
        try:
            # A byte order mark is Windows' way of saying UTF-8.
            self.text = data.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode("utf-8", "replace")
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            message = f"not UTF-8: a byte 0x{error.object[error.start]:02X} that cannot stand here"
            raise SourceError(message, origin=f"{self.path}:{line}:{column}") from None
        self._starts = [0]
        at = self.text.find("\n")
        while at >= 0:
            self._starts.append(at + 1)
            at = self.text.find("\n", at + 1)

    def position(self, index: int) -> tuple[int, int]:
        """Return line and column of an index into the text, both from 1."""
        line = bisect_right(self._starts, index)
        return line, index - self._starts[line - 1] + 1

    def error(self, message: str, index: int) -> SourceError:
        """Return an error at an index into the text. The message must not quote a value."""
        line, column = self.position(index)
        return SourceError(message, origin=f"{self.path}:{line}:{column}")


#: One step of a path of keys: the key, and where it stands in the text.
Step = tuple[str, int]


class Builder:
    """Collects the first two levels of a file; what lies deeper makes its key a table."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._tokens: dict[str, Token] = {}
        self._sections: dict[str, tuple[int, dict[str, Token]]] = {}

    def table(self, path: Sequence[Step]) -> None:
        """A table stands at a path; it may be empty."""
        key, index = path[0]
        if key in self._tokens:
            return
        members = self._sections.setdefault(key, (index, {}))[1]
        if len(path) > 1:
            members.setdefault(path[1][0], self._token(path[1], Leaf(fault=TABLE)))

    def put(self, path: Sequence[Step], leaf: Leaf) -> None:
        """A value stands at a path."""
        if len(path) == 1:
            self._tokens[path[0][0]] = self._token(path[0], leaf)
            return
        self.table(path[:-1])
        if len(path) == 2 and path[0][0] in self._sections:
            self._sections[path[0][0]][1][path[1][0]] = self._token(path[1], leaf)

    def document(self) -> Document:
        """Return what was collected."""
        sections = (
            Section(key, *self._source.position(index), tuple(members.values()))
            for key, (index, members) in self._sections.items()
        )
        return Document(tuple(self._tokens.values()), tuple(sections))

    def _token(self, step: Step, leaf: Leaf) -> Token:
        key, index = step
        return Token(key, *self._source.position(index), leaf)
