"""The baseline: the findings that a team has today, so that only new ones count from now on.

A finding is known by its code, file, service and name, and by which of several alike it is; lines
may move and values may change. No value is stored, and none can be guessed from what is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from relayconf.check.finding import Finding
from relayconf.contract.jsontext import NotJson, parse
from relayconf.errors import SourceError
from relayconf.layers import read_bytes

_VERSION = 1


class Baselined(NamedTuple):
    """What a baseline makes of findings: the new ones, how many are known, how many are gone."""

    new: list[Finding]
    known: int
    gone: int


def fingerprints(findings: Sequence[Finding]) -> list[str]:
    """The fingerprint of each finding: 32 hex digits, the same wherever its line moves.

    Args:
        findings: in the order of the files, so that those alike are numbered the same each time.
    """
    return [fingerprint for fingerprint, _ in _identities(findings)]


def write(path: str, findings: Sequence[Finding]) -> None:
    """Write a baseline of all of them.

    Raises:
        SourceError: the file cannot be written.
    """
    entries = [
        {
            "fingerprint": fingerprint,
            "code": finding.code,
            "file": finding.place.file,
            "service": finding.service,
            "name": finding.name,
        }
        for fingerprint, finding in _identities(findings)
    ]
    document = {"version": _VERSION, "findings": entries}
    try:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise SourceError(f"cannot write the baseline: {error.strerror}", origin=path) from None


def read(path: str) -> frozenset[str]:
    """Read the fingerprints of a baseline.

    Raises:
        SourceError: it cannot be read, or is no baseline.
    """
    try:
        document, _ = parse(read_bytes(path))
    except NotJson as error:
        at = "" if error.position is None else ":{}:{}".format(*error.position)
        raise SourceError(f"no baseline: {error}", origin=f"{path}{at}") from None
    entries = document.get("findings") if isinstance(document, dict) else None
    if not isinstance(entries, list) or document.get("version") != _VERSION:
        reason = 'no baseline; write one by "relayconf check --baseline FILE --write-baseline"'
        raise SourceError(reason, origin=path)
    found = (entry.get("fingerprint") for entry in entries if isinstance(entry, dict))
    return frozenset(text for text in found if isinstance(text, str))


def apply(findings: Sequence[Finding], known: frozenset[str]) -> Baselined:
    """Take out of findings those that a baseline knows."""
    pairs = list(_identities(findings))
    new = [finding for fingerprint, finding in pairs if fingerprint not in known]
    gone = known - {fingerprint for fingerprint, _ in pairs}
    return Baselined(new, len(findings) - len(new), len(gone))


def _identities(findings: Sequence[Finding]) -> Iterator[tuple[str, Finding]]:
    counts: dict[tuple[str, ...], int] = {}
    for finding in findings:
        identity = (
            finding.code,
            finding.place.file,
            finding.service or "",
            finding.name or "",
        )
        number = counts.get(identity, 0)
        counts[identity] = number + 1
        text = "\0".join((*identity, str(number)))
        yield hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32], finding
