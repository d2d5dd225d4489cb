"""Every observed case of what Docker Compose gives each service, through the public entry.

Each case's files are written to an empty folder and read from there, once as the newest Compose
reads them and once as 2.40 does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relayconf.compose import ComposeError, load

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "data" / "compose.json").read_text(encoding="utf-8")
)["vectors"]


def answer(case: dict[str, Any], version: str) -> dict[str, Any]:
    """The observed answer for a version: an environment per service, or a refusal."""
    if version == "newest" and "newest" in case:
        return dict(case["newest"])
    return {key: case[key] for key in ("expect", "expect_error") if key in case}


def write_files(case: dict[str, Any], folder: Path) -> None:
    for name, text in case["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8"))


def read(case: dict[str, Any], folder: Path, version: str) -> Any:
    command = case["command"]
    return load(
        command["files"],
        command["env_files"],
        environ=command["process_env"],
        profiles=command["profiles"],
        directory=str(folder),
        version=version,
    )


@pytest.mark.parametrize("version", ["newest", "2.40"])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
class TestObservedCases:
    def test_answer(self, case: dict[str, Any], version: str, tmp_path: Path) -> None:
        """A service gets exactly what Compose gave it, or is refused for the same reason."""
        write_files(case, tmp_path)
        expected = answer(case, version)
        if "expect_error" in expected:
            with pytest.raises(ComposeError) as caught:
                read(case, tmp_path, version)
            assert expected["expect_error"] in str(caught.value)
        else:
            assert expected["expect"] == read(case, tmp_path, version).environments()


WARNING_CASES = [case for case in CASES if "unset_warnings" in case]


@pytest.mark.parametrize("case", WARNING_CASES, ids=[case["name"] for case in WARNING_CASES])
class TestObservedWarnings:
    def test_unset_variables(self, case: dict[str, Any], tmp_path: Path) -> None:
        """Each variable that became a blank string is named once."""
        write_files(case, tmp_path)
        notes = read(case, tmp_path, "newest").notes
        assert case["unset_warnings"] == [note.name for note in notes if note.code == "unset"]
