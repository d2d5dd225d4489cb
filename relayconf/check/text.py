"""Text output: each finding as a compiler says it, with its source line, a caret, and the fix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from relayconf.check.excerpt import Excerpts
from relayconf.check.finding import SEVERITIES, Finding
from relayconf.compose.errors import printable

_COLOURS = {"error": "31", "warning": "33", "note": "36"}


def lines(
    findings: Sequence[Finding], excerpts: Excerpts, *, aside: Sequence[str], colour: bool
) -> Iterator[str]:
    """Yield the report.

    Args:
        findings: in the order of the report.
        excerpts: shows the source lines.
        aside: what else the last line says (how many are suppressed).
        colour: whether a terminal reads it.
    """
    for finding in findings:
        yield _head(finding, colour=colour)
        shown = excerpts.of(finding)
        if shown is not None:
            text, column = shown
            number = str(finding.place.line)
            yield f"{number:>6} | {text}"
            yield f"       | {' ' * column}^"
        yield f"       fix: {printable(finding.fix)}"
        yield ""
    yield summary(findings, aside)


def summary(findings: Sequence[Finding], aside: Sequence[str] = ()) -> str:
    """How many findings of each severity there are, in one line."""
    parts = []
    for severity in SEVERITIES:
        count = sum(finding.severity == severity for finding in findings)
        if count:
            parts.append(f"{count} {severity}{'s' if count > 1 else ''}")
    text = ", ".join(parts) or "no findings"
    return f"{text} ({', '.join(aside)})" if aside else text


def _head(finding: Finding, *, colour: bool) -> str:
    severity = finding.severity
    if colour:
        severity = f"\033[{_COLOURS[severity]}m{severity}\033[0m"
    about = finding.name or ""
    if finding.service is not None:
        about += f" ({finding.service})" if about else finding.service
    about = f"{printable(about)}: " if about else ""
    place = printable(str(finding.place)) or "-"
    return f"{place}: {severity}: {about}{printable(finding.message)} [{finding.code}]"
