"""GitHub annotations: one workflow command a finding, so that a pull request shows it in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from relayconf.check.finding import Finding
from relayconf.compose.errors import printable

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}

# As GitHub's own toolkit escapes them; a property ends at a comma and a command at two colons.
_IN_DATA: Mapping[int, str] = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_IN_PROPERTY: Mapping[int, str] = {**_IN_DATA, ord(":"): "%3A", ord(","): "%2C"}


def lines(findings: Sequence[Finding], *, folder: str) -> Iterator[str]:
    """Yield a command for each finding.

    Args:
        findings: in the order of the report.
        folder: where the working directory is inside the repository, empty at its root; GitHub
            counts paths from there.
    """
    for finding in findings:
        place = finding.place
        properties = {"title": f"relayconf {finding.code}"}
        if place.line is not None:
            path = f"{folder}/{place.file}" if folder and place.file[:1] != "/" else place.file
            properties = {"file": path, "line": str(place.line), **properties}
            if place.column is not None:
                properties["col"] = str(place.column)
        told = ",".join(f"{key}={_escaped(text)}" for key, text in properties.items())
        about = f"{finding.name}: " if finding.name else ""
        message = f"{printable(about + finding.message)}\nfix: {printable(finding.fix)}"
        yield f"::{_COMMANDS[finding.severity]} {told}::{message.translate(_IN_DATA)}"


def _escaped(text: str) -> str:
    return text.translate(_IN_PROPERTY)
