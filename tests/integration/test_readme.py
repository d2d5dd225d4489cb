"""The README's blocks, run as a stranger would paste them: each as a whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def block(kind: str, holding: str) -> str:
    """Return the README's block of a kind that holds these words."""
    found = BLOCK.findall((ROOT / "README.md").read_text("utf-8"))
    (text,) = [text for name, text in found if name == kind and holding in text]
    return str(text)


def printed(folder: Path, *command: str, code: int = 0) -> str:
    """Run a command in a folder and return its stdout."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("RELAY", "PYTHON"))}
    path = os.pathsep.join([os.path.dirname(sys.executable), own.get("PATH", "")])
    done = subprocess.run(
        command,
        cwd=folder,
        env={**own, "PATH": path, "COLUMNS": "80", "RELAYCONF_STATE_DIR": str(folder / "state")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert code == done.returncode, done.stderr
    return done.stdout


class Console:
    """A block of commands and what they print."""

    def __init__(self, text: str) -> None:
        lines = text.splitlines()
        self.commands = "\n".join(line[2:] for line in lines if line.startswith("$ "))
        self.shown = "\n".join(line for line in lines if not line.startswith("$ "))


class TestReadme:
    def test_declaring_a_setting(self, tmp_path: Path) -> None:
        """The first program declares, reads and prints a setting."""
        program = block("python", "class AppSettings")
        assert "0:00:00.300000\n" == printed(tmp_path, sys.executable, "-c", program)

    def test_asking_why(self, tmp_path: Path) -> None:
        """What is said about a bad value is what the page shows."""
        console = Console(block("console", "relayconf explain"))
        shown = console.shown.removesuffix("\n...")
        assert shown in printed(tmp_path, "sh", "-c", console.commands)

    def test_checking(self, tmp_path: Path) -> None:
        """What is found in the files on the page is what the page shows."""
        (tmp_path / "compose.yaml").write_text(block("yaml", "services:"))
        console = Console(block("console", "relayconf check"))
        assert console.shown == printed(tmp_path, "sh", "-c", console.commands, code=1).rstrip("\n")

    def test_an_incident(self, tmp_path: Path) -> None:
        """Killed and restored beside a relay that serves, each command proves itself."""
        (tmp_path / "tools.toml").write_text(block("toml", "[tools.shout]"))
        serving = block("console", "relay serve").replace("$ relay tools --dir session\n", "")
        incident = Console(block("console", "relayconf kill"))
        commands = f"{Console(serving).commands}\nset -e\n{incident.commands}\nkill $!"
        said = printed(tmp_path, "sh", "-c", commands)
        assert "RELAY_LOCAL_WATCH_ENABLED (relay) killed: false (generation 1)" in said
        assert "wakes are late" in said
        assert "restored" in said

    def test_serving_and_calling(self, tmp_path: Path) -> None:
        """Tools file and commands, pasted at once, print what the page shows."""
        (tmp_path / "tools.toml").write_text(block("toml", "[tools.shout]"))
        console = Console(block("console", "relay serve"))
        said = printed(tmp_path, "sh", "-c", f"{console.commands}\nkill $!\nwait $!\ntrue")
        assert console.shown == said.rstrip("\n")

    @pytest.mark.parametrize("again", [False, True])
    def test_both_sides_in_python(self, tmp_path: Path, *, again: bool) -> None:
        """The second program serves a tool and calls it, in a new directory and an old one."""
        program = block("python", "async def main") + "import asyncio\nasyncio.run(main())\n"
        for _ in range(1 + again):
            assert "3\n" == printed(tmp_path, sys.executable, "-c", program)
