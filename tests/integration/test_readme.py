"""The README as a stranger follows it: its code runs, its commands answer what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("APP_", "RELAY"))}
BIN = Path(sys.executable).parent


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def readme(root: Path) -> str:
    return (root / "README.md").read_text("utf-8")


@pytest.fixture
def folder(tmp_path: Path, readme: str) -> Path:
    """Return an empty folder with the README's tools file in it."""
    (tools,) = blocks(readme, "toml")
    (tmp_path / "tools.toml").write_text(tools)
    return tmp_path


def run(folder: Path, *command: str, env: dict[str, str] | None = None) -> str:
    state = {"RELAYCONF_STATE_DIR": str(folder / "state"), "COLUMNS": "80"}
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=folder,
        env={**CLEAN, **state, **(env or {})},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.fixture
def served(folder: Path) -> Iterator[Path]:
    """Serve ./session as the README does, until the test ends."""
    runner = subprocess.Popen(
        [str(BIN / "relay"), "serve", "--dir", "./session", "--tools", "tools.toml"],
        cwd=folder,
        env={**CLEAN, "RELAYCONF_STATE_DIR": str(folder / "state")},
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while not (folder / "session" / "relay.json").exists():
            assert runner.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield folder
    finally:
        runner.terminate()
        runner.wait()


class TestConfiguration:
    def test_the_declaration_runs(self, folder: Path, readme: str) -> None:
        """The settings class of the README reads its environment, the legacy name too."""
        (folder / "app.py").write_text(blocks(readme, "python")[0])
        assert run(folder, "python", "app.py") == "0:00:00.300000\n"
        assert run(folder, "python", "app.py", env={"POLL_INTERVAL": "1s"}) == "0:00:01\n"

    def test_the_explanation_is_what_it_prints(self, folder: Path, readme: str) -> None:
        """The printed answer of explain is the real one."""
        console = next(b for b in blocks(readme, "console") if "relayconf explain" in b)
        assigned = dict(re.findall(r"(RELAY_\w+)=(\S+)", console.partition("\n")[0]))
        printed = console.partition("explain RELAY_POLL_MS\n")[2].removesuffix("...\n")
        assert printed
        assert run(folder, "relayconf", "explain", "RELAY_POLL_MS", env=assigned).startswith(
            printed
        )
        assert "clamped" in run(folder, "relayconf", "show", "relay", env=assigned)


class TestRelay:
    def test_the_commands_answer(self, served: Path) -> None:
        """The tool that the README declares is listed, and answers a call from the shell."""
        assert "Upper-case a text." in run(served, "relay", "tools", "--dir", "./session")
        call = ("relay", "call", "shout", '{"text": "hello"}', "--dir", "./session")
        assert "HELLO\n" == run(served, *call)

    def test_both_sides_run_in_python(self, folder: Path, readme: str) -> None:
        """The program of the README serves and calls its own tool."""
        program = blocks(readme, "python")[1] + "\n\nimport asyncio\n\nasyncio.run(main())\n"
        (folder / "both.py").write_text(program)
        assert run(folder, "python", "both.py") == "3\n"
