"""Findings: one thing that is wrong, where it stands, and the one line that mends it.

A finding holds no value of a secret: not in its message, not in its fix.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from relayconf.problems import SEVERITY

#: From the gravest to the mildest; ``--fail-on`` takes one of them.
SEVERITIES = ("error", "warning", "note")

_POSITION = re.compile(r"(?P<file>.*?)(?::(?P<line>[0-9]+))?(?::(?P<column>[0-9]+))?\Z", re.DOTALL)


class Place(NamedTuple):
    """Where something stands: the file as messages name it, line and column from 1.

    ``line`` and ``column`` are None where only the file is known; ``file`` is then perhaps no file
    but ``environment`` or ``--set``.
    """

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in self if part is not None)


class Finding(NamedTuple):
    """One thing that is wrong.

    ``code`` is a key of ``SEVERITY``; ``name`` the variable it is about and ``service`` the service
    whose container it concerns, each None where there is no such one. ``fix`` is one line to paste.
    """

    code: str
    message: str
    place: Place
    name: str | None
    service: str | None
    fix: str

    @property
    def severity(self) -> str:
        """``error``, ``warning`` or ``note``."""
        return SEVERITY[self.code]


def place_of(origin: str | None) -> Place:
    """Read ``file:line:column``, or as much of it as is there."""
    match = _POSITION.match(origin or "")
    if match is None:
        return Place(origin or "")
    line, column = match["line"], match["column"]
    return Place(match["file"], int(line) if line else None, int(column) if column else None)


def in_order(finding: Finding) -> tuple[str, int, int, int, str, str]:
    """Sort key: as one reads the files, then the gravest first, then by name and code."""
    place, gravity = finding.place, SEVERITIES.index(finding.severity)
    where = (place.file, place.line or 0, place.column or 0)
    return (*where, gravity, finding.name or "", finding.code)
