"""SARIF 2.1.0, the format that code scanning services take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from relayconf.check.baseline import fingerprints
from relayconf.check.codes import MEANING
from relayconf.check.finding import Finding
from relayconf.check.suppression import Suppressed
from relayconf.problems import SEVERITY

#: The key of the fingerprint; its number changes when the way of making it does.
FINGERPRINT = "relayconfFinding/v1"

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def document(
    findings: Sequence[Finding], suppressed: Sequence[Suppressed], *, version: str
) -> dict[str, Any]:
    """Return the log of one run; suppressed findings are in it and say why.

    Args:
        findings: in the order of the report.
        suppressed: those that a comment in the source suppresses.
        version: relayconf's own.
    """
    everything = [*findings, *(one.finding for one in suppressed)]
    codes = sorted({finding.code for finding in everything})
    prints = fingerprints(everything)
    results = [
        _result(finding, codes.index(finding.code), print_)
        for finding, print_ in zip(everything, prints, strict=True)
    ]
    for result, one in zip(results[len(findings) :], suppressed, strict=True):
        result["suppressions"] = [{"kind": "inSource", "justification": one.reason}]
    driver = {
        "name": "relayconf",
        "version": version,
        "rules": [_rule(code) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "the working directory"}}},
        "results": results,
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> dict[str, Any]:
    return {
        "id": code,
        "shortDescription": {"text": MEANING[code]},
        "defaultConfiguration": {"level": SEVERITY[code]},
    }


def _result(finding: Finding, index: int, fingerprint: str) -> dict[str, Any]:
    about = f"{finding.name}: " if finding.name else ""
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": f"{about}{finding.message}; fix: {finding.fix}"},
        "partialFingerprints": {FINGERPRINT: fingerprint},
        "properties": {"name": finding.name, "service": finding.service, "fix": finding.fix},
    }
    place = finding.place
    if place.line is not None:
        region = {"startLine": place.line}
        if place.column is not None:
            region["startColumn"] = place.column
        result["locations"] = [
            {"physicalLocation": {"artifactLocation": _location(place.file), "region": region}}
        ]
    return result


def _location(file: str) -> dict[str, str]:
    uri = quote(file.encode("utf-8", "surrogatepass"))
    return {"uri": f"file://{uri}"} if file[:1] == "/" else {"uri": uri, "uriBaseId": "SRCROOT"}
