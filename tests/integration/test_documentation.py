"""The commands in the documentation, run as a reader would: what a page shows is what happens.

A block ``console`` holds commands and what they print; a block that is named after its language is
a file (```` ```yaml app.yaml ````). Run as a program, this module writes what the commands print
into the pages anew.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "docs/check.md",
    "docs/contracts.md",
    "docs/examples/api/README.md",
    "docs/examples/ledger/README.md",
)

CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"^```[a-z]+ (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

#: What a machine that runs tests need not have, and what depends on the day.
ELSEWHERE = re.compile(r"\b(docker|node|openssl|mkdir|flags)\b|\./mailer|prod\.env mailer")


def environment() -> dict[str, str]:
    """The reader's: no setting of ours, a terminal of 100 columns, the command on PATH."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("RELAY", "PYTHON"))}
    path = os.pathsep.join([os.path.dirname(sys.executable), own.get("PATH", "")])
    return {**own, "PATH": path, "COLUMNS": "100"}


def folder_of(page: Path, place: Path) -> Path:
    """A copy of the page's folder, or where it has files in it, a folder of these."""
    files = FILE.findall(page.read_text("utf-8"))
    if not files:
        return Path(shutil.copytree(page.parent, place / page.parent.name))
    for name, text in files:
        (place / name).write_text(text, "utf-8")
    return place


def rerun(block: str, folder: Path) -> str:
    """The block with what its commands print now."""
    lines: list[str] = []
    code = 0
    for command in (line[2:] for line in block.splitlines() if line.startswith("$ ")):
        lines.append(f"$ {command}")
        if ELSEWHERE.search(command):
            continue
        done = subprocess.run(
            ["sh", "-c", f"(exit {code}); {command}"],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        code = done.returncode
        lines.extend(done.stdout.splitlines())
    return "\n".join([*lines, ""])


def renewed(page: Path, place: Path) -> str:
    """The page with what its commands print now."""
    folder = folder_of(page, place)
    return CONSOLE.sub(
        lambda match: f"```console\n{rerun(match[1], folder)}```", page.read_text("utf-8")
    )


def links(page: Path) -> Iterator[str]:
    """The paths that a page leads to, outside of code."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", prose):
        if "://" not in target:
            yield target


class TestPages:
    @pytest.mark.parametrize("name", PAGES)
    def test_commands_print_what_the_page_shows(self, name: str, tmp_path: Path) -> None:
        """Whoever follows a page sees what it says."""
        page = ROOT / name
        assert page.read_text("utf-8") == renewed(page, tmp_path)

    @pytest.mark.parametrize("name", ["README.md", *PAGES])
    def test_links_lead_somewhere(self, name: str) -> None:
        """No link of a page leads nowhere."""
        page = ROOT / name
        assert [] == [link for link in links(page) if not (page.parent / link).exists()]

    def test_the_architecture_has_every_room(self) -> None:
        """Each package within the two packages is in the table of rooms."""
        table = (ROOT / "docs/architecture.md").read_text("utf-8").partition("## The rooms")[2]
        rooms = set(re.findall(r"`(?:relay/|relayconf/)?(\w+)/`", table))
        inits = [
            path for top in ("relay", "relayconf") for path in (ROOT / top).glob("*/__init__.py")
        ]
        assert set() == {path.parent.name for path in inits} - rooms

    def test_the_first_page_leads_to_every_other(self) -> None:
        """Who begins at the README finds each guide from there."""
        guides = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
        assert set() == guides - set(links(ROOT / "README.md"))


if __name__ == "__main__":
    for written in PAGES:
        with tempfile.TemporaryDirectory() as scratch:
            text = renewed(ROOT / written, Path(scratch))
        (ROOT / written).write_text(text, "utf-8")
