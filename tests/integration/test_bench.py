"""``relay bench``: it runs from wherever it is installed, and writes what it found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it in a folder of its own."""
    own = {n: t for n, t in os.environ.items() if not n.startswith(("RELAY", "AGENTA"))}
    return subprocess.run(
        [sys.executable, "-m", "relay", "bench", *arguments],
        cwd=folder,
        env=own,
        capture_output=True,
        text=True,
        check=False,
    )


class TestBench:
    def test_figures_as_json_and_as_a_picture(self, tmp_path: Path) -> None:
        """A part's figures stand beside the floor's, in JSON and in a picture."""
        done = bench(
            tmp_path, "roundtrip", "--scale", "0.05", "--json", "a.json", "--plot", "a.svg"
        )
        assert 0 == done.returncode, done.stderr
        results = json.loads((tmp_path / "a.json").read_text())
        assert {"floor", "relay", "ratio"} == results["roundtrip"]["closed"]["p50_ms"].keys()
        assert results["roundtrip"]["think"]["scans_per_call"] >= 0
        assert "roundtrip closed p50_ms" in done.stdout
        picture = ET.parse(tmp_path / "a.svg")  # noqa: S314 - it is this project's own
        texts = [element.text for element in picture.iter()]
        assert "roundtrip think runner_cpu_ms" in texts

    def test_json_alone(self, tmp_path: Path) -> None:
        """``--json -`` leaves nothing else on stdout."""
        done = bench(tmp_path, "starts", "--scale", "0.05", "--json", "-")
        assert 0 == done.returncode, done.stderr
        assert "relay call" in json.loads(done.stdout)["starts"]

    @pytest.mark.parametrize("arguments", [("nothing",), ("--scale", "0"), ("--plot", "no/a.svg")])
    def test_wrong_usage(self, tmp_path: Path, arguments: tuple[str, ...]) -> None:
        """A part that is none, a scale that is none, a file that cannot be written: one line."""
        part = () if arguments == ("nothing",) else ("starts",)
        done = bench(tmp_path, *part, *arguments)
        assert 2 == done.returncode
        assert done.stderr.splitlines()[-1].startswith("relay: ")
