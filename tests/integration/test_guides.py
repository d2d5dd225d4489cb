"""The guides, taken at their word: files are written, programs and commands run, answers compared.

A block whose first line is a comment with a file's name is that file. Any other Python block is a
program. A console block is commands, each with the answer that it must give; ``...`` stands for
anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

GUIDES = ("calling.md", "library.md", "pydantic-settings.md")

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# ([\w.-]+)\n")


class Block(NamedTuple):
    """One example: its language, and its text."""

    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The name of the file that it is, if it is one."""
        named = _FILE.match(self.text)
        return named[1] if named else None


def blocks(path: Path) -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall(path.read_text())]


def environment() -> dict[str, str]:
    foreign = ("RELAY", "SHOP", "PYTEST", "PYTHON", "COLUMNS")
    clean = {n: t for n, t in os.environ.items() if not n.startswith(foreign)}
    own = os.path.dirname(sys.executable)
    return {**clean, "PATH": f"{own}{os.pathsep}{clean['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}


def commands(text: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with what it answers."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def matches(expected: str, answer: str) -> bool:
    pieces = [re.escape(piece.strip("\n")) for piece in expected.split("...")]
    return re.fullmatch(".*".join(pieces), answer.strip("\n"), re.DOTALL) is not None


@pytest.mark.parametrize("guide", GUIDES)
class TestGuide:
    @pytest.fixture
    def folder(self, root: Path, guide: str, tmp_path: Path) -> Path:
        """Return a folder with the files of a guide, as a reader would have written them."""
        for block in blocks(root / "docs" / guide):
            if block.file is not None:
                (tmp_path / block.file).write_text(block.text)
        return tmp_path

    def test_programs(self, root: Path, guide: str, folder: Path) -> None:
        """Every program of the guide does what it says."""
        for block in blocks(root / "docs" / guide):
            if block.language != "python":
                continue
            program = [block.file] if block.file else ["-c", block.text]
            done = subprocess.run(
                [sys.executable, "-W", "error", *program],
                cwd=folder,
                env=environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            assert 0 == done.returncode, f"{block.text}\n{done.stderr}"

    def test_commands(self, root: Path, guide: str, folder: Path) -> None:
        """Every command of the guide gives the answer that stands below it."""
        for block in blocks(root / "docs" / guide):
            exported = ""
            for command, expected in commands(block.text) if block.language == "console" else ():
                if command.startswith("export "):
                    exported += f"{command}\n"
                    continue
                done = subprocess.run(
                    ["sh", "-c", exported + command],
                    cwd=folder,
                    env=environment(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    check=False,
                )
                assert matches(expected, done.stdout), f"{command}\n{done.stdout}"

    def test_has_examples(self, root: Path, guide: str) -> None:
        """The guide still has examples that can be tried."""
        languages = {block.language for block in blocks(root / "docs" / guide)}
        assert {"python", "console"} <= languages
