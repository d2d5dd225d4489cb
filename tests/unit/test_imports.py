"""What is not used costs nothing: which modules importing and answering load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Modules that take long to load, of the standard library and of the dependencies.
HEAVY = frozenset(
    {
        *("asyncio", "dataclasses", "difflib", "email", "importlib.metadata", "inspect", "logging"),
        *("lzma", "pathlib", "shutil", "subprocess", "tempfile", "tomllib", "unittest", "urllib"),
        *("dynaconf", "httpx", "jsonschema", "pydantic", "pydantic_settings", "rich", "ruamel"),
        *("watchfiles", "annotated_types", "typing_extensions"),
    }
)

#: Prints, as its last line, which of the modules named in argv are loaded after a program has run.
REPORT = """
import atexit, json, sys
heavy = json.loads(sys.argv[1])
before = set(sys.modules)
sys.argv = sys.argv[1:]
atexit.register(lambda: print(json.dumps([m for m in heavy if m in sys.modules.keys() - before])))
"""


def loaded(program: str, within: Path) -> list[str]:
    """Return the heavy modules that a program loads, apart from what the interpreter has."""
    clean = {n: t for n, t in os.environ.items() if not n.startswith(("RELAY", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-c", REPORT + program, json.dumps(sorted(HEAVY))],
        cwd=within,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


class TestImport:
    def test_package(self, tmp_path: Path) -> None:
        """``import relayconf`` loads nothing but itself and typing."""
        assert [] == loaded("import relayconf", tmp_path)

    @pytest.mark.parametrize(
        "name", ["Contract", "from_document", "load_installed", "Sources", "StrictError"]
    )
    def test_ground_floor_names(self, name: str, tmp_path: Path) -> None:
        """A name of the ground floor loads no dependency."""
        assert [] == loaded(f"from relayconf import {name}", tmp_path)

    def test_flags(self, tmp_path: Path) -> None:
        """Asking a flag needs no pydantic, for a service that has a contract alone."""
        assert [] == loaded("from relayconf.flags import is_on", tmp_path)

    def test_settings_class(self, tmp_path: Path) -> None:
        """A settings class loads pydantic, and neither what reads files nor what prints."""
        found = set(loaded("from relayconf import Settings, load", tmp_path))
        assert set() == found & {"dynaconf", "rich", "ruamel", "watchfiles", "httpx", "jsonschema"}


class TestCommands:
    @pytest.mark.parametrize(
        "words",
        [
            ["show", "relay", "--json"],
            ["show", "relay"],
            ["show", "relay", "--env-file", "app.env"],
            ["flags", "relay", "--json"],
            ["diff", "app.env", "app.env", "relay"],
        ],
        ids=" ".join,
    )
    def test_target_with_a_contract(self, words: list[str], tmp_path: Path) -> None:
        """A question about a target that has a contract is answered without any dependency."""
        (tmp_path / "app.env").write_text("RELAY_POLL_MS=1s\n")
        program = f"from relayconf.cli import main; assert 0 == main({words})"
        assert [] == loaded(program, tmp_path)

    def test_run(self, tmp_path: Path) -> None:
        """A command that is run does not wait for any dependency either."""
        words = ["run", "--target", "relay", "--", "/no/such/command"]
        program = f"from relayconf.cli import main; assert 127 == main({words})"
        assert [] == loaded(program, tmp_path)
