"""Planted faults: each is found exactly once, where it stands, with the line that mends it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from relayconf.check.assigned import assigned
from relayconf.check.codes import MEANING
from relayconf.check.examine import examine
from relayconf.check.finding import Finding
from relayconf.check.inspection import gather
from relayconf.problems import SEVERITY

DATA: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent / "data" / "faults.json").read_text(encoding="utf-8")
)
FAULTS: list[dict[str, Any]] = DATA["faults"]

#: By this day the contract's flag has not expired; by the other one it has.
BEFORE, AFTER = date(2026, 1, 1), date(2026, 11, 30)


def ids() -> Iterator[str]:
    for number, fault in enumerate(FAULTS):
        yield f"{number}-{fault['code']}"


def findings_of(fault: dict[str, Any], folder: Path) -> list[Finding]:
    for name, text in fault["files"].items():
        (folder / name).write_text(text)
    environ = fault.get("environ", {})
    gathered = gather(
        str(folder), files=[], env_files=fault.get("env_files", ()), profiles=[], environ=environ
    )
    contracts = {}
    if fault.get("contract") and gathered.project is not None:
        path = folder / "app.schema.json"
        path.write_text(json.dumps(DATA["contract"]))
        options = [f"app={path}"]
        contracts = assigned(gathered.project, options=options, target=None, service=None)
    today = AFTER if fault["code"] == "expired-flag" else BEFORE
    return examine(gathered.inspection(contracts, environ, today))


@pytest.mark.parametrize("fault", FAULTS, ids=ids())
class TestPlantedFaults:
    def test_is_found_once(self, fault: dict[str, Any], tmp_path: Path) -> None:
        """A fault is found once, at its line and column, with the line that mends it."""
        findings = findings_of(fault, tmp_path)
        if fault["code"] == "bad-suppression":
            findings = [one for one in findings if one.code == fault["code"]]
        expected = (fault["code"], fault["at"], fault["name"], fault["fix"])
        assert [expected] == [(f.code, str(f.place), f.name, f.fix) for f in findings]

    def test_no_secret_is_told(self, fault: dict[str, Any], tmp_path: Path) -> None:
        """No message and no fix holds what may be a secret."""
        for one in findings_of(fault, tmp_path):
            assert "hunter2" not in one.message + one.fix


class TestCodes:
    def test_each_has_its_fault(self) -> None:
        """Every code is planted at least once, but for the one that is about the folder."""
        assert {"several-files"} == set(MEANING) - {fault["code"] for fault in FAULTS}

    def test_each_has_a_severity(self) -> None:
        """Every code is in the one table of codes."""
        assert set() == set(MEANING) - set(SEVERITY)
