"""Source excerpts: the line that a finding is about, with a caret, and no secret in it.

A line is shown only where it is plain what it holds: a name and its value. The value is masked
where its name is a secret's, by what is declared or by how it sounds. A line in the middle of a
longer value is never shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from relayconf.check.finding import Finding
from relayconf.check.hiding import HASH, Hiding
from relayconf.check.texts import Texts
from relayconf.compose.errors import printable
from relayconf.setting import MASK

# So many characters of a line are shown.
_LONGEST = 160

_ENV_LINE = re.compile(r"\s*(?:export\s+)?[A-Za-z_][\w.\-]{0,99}\s*(?:[=:]|\Z)|\s*#")
_YAML_LINE = re.compile(
    r"""\s*(?:-\s+)*["']?[\w.${}-]{1,99}["']?\s*(?::(?:\s|\Z)|=|\Z)|\s*#|\s*[\w-]+:\s*[\[{]"""
)
_COMMENT = re.compile(r"\s*#")
_USERINFO = re.compile(r"://[^/\s@]*@")
_SEPARATOR = re.compile(r"[=:]")
_ASSIGNED = re.compile(r"([\w.\-]+)[\"']?\s*[=:]\s*\S")


class Excerpts:
    """Shows lines of files.

    Args:
        texts: the files.
        hiding: whose values are masked.
        starts: the lines of each env file on which an assignment starts, where it was parsed.
    """

    def __init__(self, texts: Texts, hiding: Hiding, starts: Mapping[str, set[int]]) -> None:
        self.texts = texts
        self.starts = starts
        self.hiding = hiding

    def of(self, finding: Finding) -> tuple[str, int] | None:
        """The line to show and the index of the character to point at, or None for none."""
        place = finding.place
        line = self.texts.line(place)
        if line is None:
            return None
        pattern = _YAML_LINE
        if self.texts.is_env_file(place.file):
            pattern = _ENV_LINE
            if place.line not in self.starts.get(place.file, ()) and _COMMENT.match(line) is None:
                return None
        # What is cut off is not looked at either: a line may be as long as its file.
        line = line[: 2 * _LONGEST]
        if pattern.match(line) is None:
            return None
        shown = self.masked(line)
        column = min((place.column or 1) - 1, len(shown))
        if len(shown) > _LONGEST:
            shown = f"{shown[:_LONGEST]}..."
        return printable(shown.expandtabs(1)), min(column, len(shown))

    def masked(self, line: str) -> str:
        """A line without what may be a secret: all that follows the first name of one."""
        for match in _ASSIGNED.finditer(line):
            if self.hiding.value(match[1], line[match.end(1) :] if HASH.search(line) else None):
                separator = _SEPARATOR.search(line, match.end(1))
                end = len(line) if separator is None else separator.end()
                space = " " if line[end : end + 1] == " " else ""
                return f"{line[:end]}{space}{MASK}"
        return _USERINFO.sub(f"://{MASK}@", line)
