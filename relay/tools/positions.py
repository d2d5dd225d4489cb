"""Where things stand in a TOML text: the lines of tables and of their keys, for messages.

The standard library's reader gives values without places. This finds headers and the keys that
begin a line, as people write them; what is written in another way has its table's line, or none.
"""

from __future__ import annotations

import re

Path = tuple[str, ...]

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_KEY = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_HEADER = re.compile(rf"[ \t]*(\[\[?)[ \t]*({_KEY})[ \t]*\]")
_ASSIGNMENT = re.compile(rf"[ \t]*({_KEY})[ \t]*=")
_ANY_PART = re.compile(_PART)

#: The marks that open and close a text of several lines.
_LONG_TEXT = re.compile(r'"""|\'\'\'')


class Positions:
    """The lines of one TOML text."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Path, int] = {}
        self._read(text)

    def line(self, path: Path) -> int | None:
        """Return the line of a key, or of the nearest table around it; ``None`` where unknown."""
        for length in range(len(path), 0, -1):
            found = self._lines.get(path[:length])
            if found is not None:
                return found
        return None

    def _read(self, text: str) -> None:
        table: Path = ()
        counts: dict[Path, int] = {}
        until: str | None = None
        for number, line in enumerate(text.split("\n"), 1):
            if until is None:
                header = _HEADER.match(line)
                if header is not None:
                    table = self._enter(header, counts)
                    self._lines.setdefault(table, number)
                elif (found := _ASSIGNMENT.match(line)) is not None:
                    path = (*table, *_parts(found[1]))
                    for length in range(len(table) + 1, len(path) + 1):
                        self._lines.setdefault(path[:length], number)
            until = _state_after(line, until)

    def _enter(self, header: re.Match[str], counts: dict[Path, int]) -> Path:
        path = _parts(header[2])
        if header[1] == "[[":
            index = counts.get(path, 0)
            counts[path] = index + 1
            return (*path, str(index))
        return path


def _parts(key: str) -> Path:
    return tuple(part.strip("\"'") for part in _ANY_PART.findall(key))


def _state_after(line: str, until: str | None) -> str | None:
    """Return the mark that ends the text of several lines that is open after a line."""
    for mark in _LONG_TEXT.findall(line):
        if until is None:
            until = mark
        elif until == mark:
            until = None
    return until
