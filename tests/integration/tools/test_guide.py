"""The guide to tools, taken at its word: its files are read, and what they declare is called."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "tools.md").read_text()
FILES = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with everything that the page takes for granted."""
    module = (
        "def add(a: int, b: int) -> int:\n    return a + b\ndef guard(request):\n    return None\n"
    )
    (tmp_path / "mytools.py").write_text(module)
    programs = tmp_path / "programs"
    programs.mkdir()
    server = programs / "some-mcp-server"
    server.write_text("#!/bin/sh\nexit 1\n")
    server.chmod(0o755)
    here = os.path.dirname(sys.executable)
    monkeypatch.setenv("PATH", os.pathsep.join([str(programs), here, os.environ["PATH"]]))
    monkeypatch.setenv("LOOKUP_TOKEN", "made-up-1")
    monkeypatch.setenv("SEARCH_TOKEN", "made-up-2")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def check(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Judge a tools file with the command."""
    (folder / "tools.toml").write_text(text)
    clean = {n: t for n, t in os.environ.items() if not n.startswith("RELAY")}
    command = [sys.executable, "-m", "relay", "tools", "--check", "--tools", "tools.toml"]
    return subprocess.run(
        command, cwd=folder, env=clean, capture_output=True, text=True, check=False
    )


def test_every_file_of_it_is_right(place: Path) -> None:
    """The tools file, the rules for HTTP and the policy have no fault."""
    tools, http, policy = FILES
    (place / "policy.toml").write_text(policy)
    (place / "internal-ca.pem").write_bytes(certificates())
    done = check(place, f"{tools}\n{http}")
    assert ("", 0) == (done.stderr, done.returncode)
    assert "tools.toml: 3 tools, and 2 MCP servers (files, search); nothing is wrong" in done.stdout


def certificates() -> bytes:
    """Return the certificates of some authorities."""
    import certifi  # noqa: PLC0415 - for this one

    return Path(certifi.where()).read_bytes()


def test_its_faults_are_told_as_it_shows(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line on the page is one that the command prints, but for where in the file it is."""
    monkeypatch.delenv("LOOKUP_TOKEN")
    (place / "policy.toml").write_text("")
    done = check(place, FILES[0].replace('timeout = "10s"', 'timeout = "1s1h"'))
    said = [re.sub(r":\d+:", ":", line) for line in done.stderr.splitlines()]
    shown = PAGE.partition("```\nrelay: ")[2].partition("```")[0].splitlines()
    for line in shown:
        wanted = re.sub(r":\d+:", ":", line.removeprefix("relay: ").removesuffix("..."))
        assert any(wanted in each for each in said), (wanted, said)


def test_what_it_declares_runs(place: Path, offer: Any) -> None:
    """The callable adds, and the command upper-cases."""
    (place / "policy.toml").write_text('default = "allow"\n')
    tools = FILES[0].partition("[tools.lookup]")[0]

    async def run() -> None:
        async with offer(tools) as session:
            assert "5" == await session.call("add", a=2, b=3)
            assert "GRUSS\n" == await session.call("shout", text="gruss")

    asyncio.run(run())
