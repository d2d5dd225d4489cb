"""The JSON report: every finding with all that is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relayconf.check.baseline import fingerprints
from relayconf.check.finding import SEVERITIES, Finding
from relayconf.check.suppression import Suppressed


def document(
    findings: Sequence[Finding], suppressed: Sequence[Suppressed], *, baselined: int
) -> dict[str, Any]:
    """Return the report.

    Args:
        findings: those that count, in the order of the files.
        suppressed: those that a comment suppresses.
        baselined: how many the baseline knows.
    """
    prints = fingerprints(findings)
    counts = {each: sum(f.severity == each for f in findings) for each in SEVERITIES}
    return {
        "version": 1,
        "findings": [
            {**one_document(finding), "fingerprint": fingerprint}
            for finding, fingerprint in zip(findings, prints, strict=True)
        ],
        "suppressed": [{**one_document(one.finding), "reason": one.reason} for one in suppressed],
        "baselined": baselined,
        "counts": counts,
    }


def one_document(finding: Finding) -> dict[str, Any]:
    """Return one finding."""
    return {
        "file": finding.place.file or None,
        "line": finding.place.line,
        "column": finding.place.column,
        "name": finding.name,
        "service": finding.service,
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "fix": finding.fix,
    }
