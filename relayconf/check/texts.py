"""The files behind the findings, line by line: what is shown, and where suppressions stand.

Lines are counted as the reader that gave the position counts them: an env file ends a line at LF
only, YAML also at CR, NEL, LS and PS.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from relayconf.check.finding import Place

_YAML_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


class Texts:
    """The contents of files by the name that messages use.

    Args:
        contents: every file that was read.
        env_files: the names of those among them that are env files; the others are YAML.
    """

    def __init__(self, contents: Mapping[str, bytes], env_files: Iterable[str] = ()) -> None:
        self.contents = dict(contents)
        self.env_files = frozenset(env_files)
        self._lines: dict[str, list[str]] = {}

    def lines(self, file: str) -> list[str]:
        """The lines of a file without their ends; none of a file that was not read."""
        if file not in self._lines:
            text = self.contents.get(file, b"").decode("utf-8-sig", "replace")
            split = text.split("\n") if self.is_env_file(file) else _YAML_BREAK.split(text)
            self._lines[file] = split
        return self._lines[file]

    def line(self, place: Place) -> str | None:
        """The line that a place is on, or None where it is not in a file that was read."""
        if place.line is None or place.file not in self.contents:
            return None
        lines = self.lines(place.file)
        return lines[place.line - 1] if 0 < place.line <= len(lines) else None

    def is_env_file(self, file: str) -> bool:
        """Whether a file is an env file."""
        return file in self.env_files

    def after(self, place: Place) -> str:
        """What stands at a place, up to the end of its line."""
        line = self.line(place)
        return "" if line is None else line[(place.column or 1) - 1 :]

    def find(self, place: Place, pattern: re.Pattern[str], rows: int = 1) -> Place:
        """The first match at or after a place within some rows; the place itself if there is none.

        Args:
            place: where to start.
            pattern: what to look for in each line.
            rows: how many lines to look at.
        """
        if place.line is None:
            return place
        for row in range(place.line, place.line + rows):
            line = self.line(Place(place.file, row)) or ""
            match = pattern.search(line, (place.column or 1) - 1 if row == place.line else 0)
            if match is not None:
                return Place(place.file, row, match.start() + 1)
        return place

    def __iter__(self) -> Iterator[str]:
        return iter(self.contents)
