"""Suppressions: ``# relayconf: ignore[code] reason``, on a finding's line or alone above it.

Without a reason a suppression suppresses nothing and is a finding itself, and so is one of a code
that does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from relayconf.check.codes import MEANING
from relayconf.check.finding import Finding, Place
from relayconf.check.texts import Texts
from relayconf.nearest import nearest

_COMMENT = re.compile(
    r"(?:^|\s)(#\s*relayconf:\s*ignore\b(?:\[(?P<codes>[^\]]*)\])?(?P<reason>.*))"
)
_MARK = b"relayconf:"


class Suppression(NamedTuple):
    """One comment: where it stands, the codes it names, its reason, and the line it is about."""

    place: Place
    codes: tuple[str, ...]
    reason: str
    line: int

    @property
    def counts(self) -> bool:
        """Whether it has all that it takes: a reason, and codes that exist."""
        return bool(self.codes and self.reason) and all(code in MEANING for code in self.codes)


class Suppressed(NamedTuple):
    """A finding that somebody has judged, and why it stands."""

    finding: Finding
    reason: str


def suppressions(texts: Texts) -> Iterator[Suppression]:
    """Yield every suppression of every file."""
    for file, data in texts.contents.items():
        if _MARK not in data:
            continue
        for number, line in enumerate(texts.lines(file), start=1):
            match = _COMMENT.search(line) if "relayconf:" in line else None
            if match is None:
                continue
            codes = tuple(
                code.strip() for code in (match["codes"] or "").split(",") if code.strip()
            )
            alone = not line[: match.start(1)].strip()
            place = Place(file, number, match.start(1) + 1)
            reason = match["reason"].strip().strip(":-").strip()
            yield Suppression(place, codes, reason, number + 1 if alone else number)


def check(texts: Texts) -> Iterator[Finding]:
    """Yield a finding for each suppression that does not count."""
    for one in suppressions(texts):
        wrong = [code for code in one.codes if code not in MEANING]
        codes = ", ".join(one.codes) or "code"
        if not one.codes:
            message = "it names no code, and suppresses nothing"
        elif wrong:
            near = nearest(wrong[0], MEANING)
            hint = f"; did you mean {near}?" if near else ""
            message = f"there is no code {wrong[0]}{hint}"
            codes = near or "code"
        elif not one.reason:
            message = "it gives no reason, and suppresses nothing"
        else:
            continue
        fix = f"# relayconf: ignore[{codes}] {one.reason or 'why this is right here'}"
        yield Finding("bad-suppression", message, one.place, None, None, fix)


def apply(findings: list[Finding], texts: Texts) -> tuple[list[Finding], list[Suppressed]]:
    """Part findings into those that count and those that are suppressed."""
    known: dict[tuple[str, int, str], str] = {}
    for one in suppressions(texts):
        for code in one.codes if one.counts else ():
            known[one.place.file, one.line, code] = one.reason
    counting: list[Finding] = []
    suppressed: list[Suppressed] = []
    for finding in findings:
        place = finding.place
        reason = known.get((place.file, place.line or 0, finding.code))
        if reason is None:
            counting.append(finding)
        else:
            suppressed.append(Suppressed(finding, reason))
    return counting, suppressed
