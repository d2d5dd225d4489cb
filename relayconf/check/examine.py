"""Examining: every kind of finding over one inspection, each fault once.

Where two kinds see the same fault, the one that says more about it stands: what explains a symptom
takes the symptom's place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from relayconf.check import (
    declared,
    default,
    dialect,
    envline,
    flag,
    forwarded,
    reference,
    refusal,
    scalar,
    secret,
    shadow,
    suppression,
    unit,
)
from relayconf.check.finding import Finding, in_order, place_of
from relayconf.check.inspection import Inspection
from relayconf.compose.errors import printable

_KINDS = (
    refusal.check,
    declared.check,
    declared.names_in_env_files,
    forwarded.check,
    secret.check,
    flag.check,
    default.check,
    unit.check,
    reference.check,
    shadow.check,
    scalar.check,
    envline.check,
    dialect.check,
)

_NOTHING = ("unset-variable", "self-reference", "env-file-in-interpolation", "dollar-eaten")

# Names of people's making are far shorter.
_LONGEST_NAME = 200

#: A symptom, and what explains it where it stands on the same line.
_EXPLAINED: dict[str, frozenset[str]] = {
    "blank-value": frozenset(_NOTHING),
    "unused-variable": frozenset({"near-miss", "unknown-name", "not-forwarded", "shadowed"}),
    "not-forwarded": frozenset({"shadowed"}),
    "dialect-differs": frozenset({"comment-value", "bare-last-line", "quoted-value", *_NOTHING}),
}


def examine(inspection: Inspection, *, service: str | None = None) -> list[Finding]:
    """Find everything.

    Args:
        inspection: what to look at.
        service: the one service whose containers count; findings of files count in any case.

    Returns:
        Each finding once, in the order of the files.
    """
    found = [finding for kind in _KINDS for finding in kind(inspection)]
    found.extend(suppression.check(inspection.texts))
    found.extend(_notes(inspection))
    if service is not None:
        found = [one for one in found if one.service in (None, service)]
    return settle(found)


def settle(findings: Iterable[Finding]) -> list[Finding]:
    """Each fault once, in the order of the files."""
    return sorted(_without_symptoms(_once(findings)), key=in_order)


def _notes(inspection: Inspection) -> Iterator[Finding]:
    project = inspection.project
    for note in () if project is None else project.notes:
        if note.code == "several-files":
            place, fix = place_of(note.origin), f"docker compose -f {note.origin} up"
            yield Finding("several-files", note.message, place, None, None, fix)


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """The first of those that say the same about the same place, whichever service it was."""
    kept: dict[tuple[object, ...], Finding] = {}
    for one in findings:
        kept.setdefault((one.code, one.place, one.name), one)
    return [_fit(one) for one in kept.values()]


def _fit(finding: Finding) -> Finding:
    """A finding whose texts are one line each: a name may be anything that a file can hold."""
    name = None if finding.name is None else printable(finding.name, _LONGEST_NAME)
    message, fix = printable(finding.message), printable(finding.fix)
    return finding._replace(message=message, name=name, fix=fix)


def _without_symptoms(findings: list[Finding]) -> list[Finding]:
    on_line: dict[tuple[str, int | None], set[str]] = {}
    for one in findings:
        on_line.setdefault((one.place.file, one.place.line), set()).add(one.code)
    kept = []
    for one in findings:
        codes = on_line[one.place.file, one.place.line]
        if "refused" in codes or "required-in-inactive-profile" in codes:
            explained = one.code not in ("refused", "required-in-inactive-profile")
        else:
            explained = bool(codes & _EXPLAINED.get(one.code, frozenset()))
        if not explained:
            kept.append(one)
    return kept
