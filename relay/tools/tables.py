"""Tables of a file by hand, read key by key: every fault of every table is noted, none raised.

A fault says the file, the line, whose table it is, what is wrong and what to do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from relay.tools.positions import Path, Positions
from relayconf.nearest import nearest
from relayconf.setting import Setting
from relayconf.values import Invalid, parse

#: Where the problems of other files stand among those of lines: after them.
_LAST = sys.maxsize

_DURATION = Setting("duration", "duration", unit="ms")


class Faults:
    """What is wrong with one file."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self._found: list[tuple[int, str]] = []
        self._positions = Positions(text)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def problems(self) -> list[str]:
        """What is wrong, in the order of the lines."""
        return [text for _, text in sorted(self._found, key=lambda found: found[0])]

    def add(self, path: Path, message: str) -> None:
        """Note a fault of what a path leads to."""
        line = self._positions.line(path)
        where = self.file if line is None else f"{self.file}:{line}"
        self._found.extend((line or 0, f"{where}: {each}") for each in message.split("\n"))

    def extend(self, problems: Iterable[str]) -> None:
        """Take in what is wrong with another file, which this one names."""
        self._found.extend((_LAST, problem) for problem in problems)


class Table:
    """One table. ``title`` is what messages call it.

    Each way of reading a key gives ``None``, or something empty, where it is missing or wrong.
    """

    def __init__(self, data: Mapping[str, Any], path: Path, faults: Faults, title: str) -> None:
        self.data = data
        self.path = path
        self.title = title
        self._faults = faults
        self._before = len(faults)

    def __contains__(self, key: str) -> bool:
        return key in self.data

    @property
    def is_right(self) -> bool:
        """Whether nothing was found wrong since this table was begun."""
        return len(self._faults) == self._before

    def fault(self, message: str, key: str | None = None) -> None:
        """Note a fault of the table, or of one of its keys."""
        path = self.path if key is None else (*self.path, key)
        self._faults.add(path, f"{self.title}: {message}")

    def inner(self, key: str, data: Mapping[str, Any]) -> Table:
        """Return the table under a key, which has this one's title."""
        return Table(data, (*self.path, key), self._faults, f"{self.title}: {key}")

    def below(self, key: str, name: str, data: object, *, title: str) -> Table | None:
        """Return a table two keys down, with a title of its own; note where it is none."""
        path = (*self.path, key, name)
        if not isinstance(data, Mapping):
            self._faults.add(path, f"{title}: it is not a table; write [{key}.{name}]")
            return None
        return Table(data, path, self._faults, title)

    def only(self, known: Iterable[str]) -> None:
        """Note every key that is not among these."""
        names = sorted(known)
        for key in self.data:
            if key not in names:
                near = nearest(key, names)
                hint = f"did you mean {near}?" if near else f"it takes {', '.join(names)}"
                self.fault(f"{key[:60]!r} is not known here; {hint}", key)

    def text(self, key: str) -> str | None:
        """Return a text."""
        value = self.data.get(key)
        if value is None or isinstance(value, str):
            return value
        self.fault(f"{key} is not a text", key)
        return None

    def flag(self, key: str) -> bool | None:
        """Return true or false."""
        value = self.data.get(key)
        if value is None or isinstance(value, bool):
            return value
        self.fault(f"{key} is true or false", key)
        return None

    def whole(self, key: str, *, least: int) -> int | None:
        """Return a whole number of at least ``least``."""
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.fault(f"{key} is a whole number from {least} on", key)
            return None
        return value

    def seconds(self, key: str) -> float | None:
        """Return a duration in seconds; a bare number in it is milliseconds."""
        given = self.data.get(key)
        if given is None:
            return None
        if isinstance(given, bool) or not isinstance(given, str | int):
            self.fault(f'{key} is a duration such as "10s"', key)
            return None
        parsed = parse(_DURATION, str(given))
        if isinstance(parsed, Invalid):
            self.fault(f"{key}: {parsed.reason}", key)
        elif not isinstance(parsed.value, int) or parsed.value <= 0:
            self.fault(f"{key}: it is not above zero", key)
        else:
            return parsed.value / 1000
        return None

    def table(self, key: str, what: str) -> Mapping[str, Any] | None:
        """Return a table; ``what`` says what it holds."""
        value = self.data.get(key)
        if value is None or isinstance(value, Mapping):
            return value
        self.fault(f"{key} is not a table; it is {what}", key)
        return None

    def words(self, key: str) -> list[str]:
        """Return a list of texts."""
        words = self.data.get(key)
        if words is None:
            return []
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            self.fault(f'{key} is not a list of texts; write {key} = ["first", "second"]', key)
            return []
        if any("\0" in word for word in words):
            self.fault(f"{key} holds a null character", key)
        return list(words)

    def texts(self, key: str) -> dict[str, str]:
        """Return a table of texts."""
        found = self.table(key, "names with texts") or {}
        wrong = [name for name, value in found.items() if not isinstance(value, str)]
        for name in wrong:
            self.fault(f"{key}: {name} is not a text", key)
        return {} if wrong else dict(found)
