"""The standard streams of ``relayconf``: full, closed, without a reader, or of a small encoding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relayconf import report
from relayconf.cli import main

COMMAND = [sys.executable, "-m", "relayconf"]
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("RELAY", "AGENTA_", "PYTHON"))}
CONTRACT: dict[str, Any] = {
    "x-relayconf": {"version": 1, "target": "cafe", "prefix": "CAFE_"},
    "properties": {
        "CAFE_NAME": {"type": "string", "default": "Café \N{HOT BEVERAGE}"},
        "CAFE_SEATS": {"type": "integer", "default": 4, "description": "\x1b[31mHow many."},
    },
}
COMMANDS = pytest.mark.parametrize(
    "words",
    ["show cafe.json", "show cafe.json --json", "explain CAFE_NAME --target cafe.json", "--help"],
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "cafe.json").write_text(json.dumps(CONTRACT), "utf-8")
    return tmp_path


def run(place: Path, words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    options = {"stdout": subprocess.PIPE, "env": CLEAN, **options}
    command = [*options.pop("before", []), *COMMAND, *words.split()]
    return subprocess.run(command, cwd=place, check=False, stderr=subprocess.PIPE, **options)


class TestStdout:
    @COMMANDS
    def test_a_full_disk_is_one_message(self, place: Path, words: str) -> None:
        """An answer that cannot be written is one line and exit 1, never a traceback."""
        with Path("/dev/full").open("wb") as full:
            result = run(place, words, stdout=full)
        expected = b"relayconf: cannot write the answer: No space left on device\n"
        assert (1, expected) == (result.returncode, result.stderr)

    @COMMANDS
    def test_a_reader_that_has_gone_is_silence(self, place: Path, words: str) -> None:
        """Nobody reads the answer, nobody is told, and the exit code is the command's."""
        reader, writer = os.pipe()
        os.close(reader)
        result = run(place, words, stdout=writer)
        os.close(writer)
        assert (0, b"") == (result.returncode, result.stderr)

    def test_findings_are_counted_without_a_reader(self, place: Path) -> None:
        """The exit code of drift is the same whether somebody reads what has drifted or not."""
        reader, writer = os.pipe()
        os.close(reader)
        result = run(place, "generate --check --target cafe.json", stdout=writer)
        os.close(writer)
        assert 1 == result.returncode

    @COMMANDS
    @pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
    def test_a_closed_stream_changes_nothing(self, place: Path, words: str, closed: str) -> None:
        """Started without stdin, stdout or stderr, as some supervisors do, a command works."""
        result = run(place, words, before=["sh", "-c", f'exec "$@" {closed}', "sh"])
        assert 0 == result.returncode, result.stderr
        assert b"Traceback" not in result.stderr

    @COMMANDS
    @pytest.mark.parametrize("encoding", ["ascii", "latin-1", "ascii:strict"])
    def test_a_small_encoding_escapes(self, place: Path, words: str, encoding: str) -> None:
        """A terminal that knows ASCII alone gets an answer, in which JSON stays JSON."""
        result = run(place, words, env={**CLEAN, "PYTHONIOENCODING": encoding})
        assert (0, b"") == (result.returncode, result.stderr)
        if words.endswith("--json"):
            name = json.loads(result.stdout)["settings"][0]
            assert "Café \N{HOT BEVERAGE}" == name["value"]

    def test_a_name_that_is_no_text(self, place: Path) -> None:
        """A file whose name is not UTF-8 is read, and named by its bytes."""
        path = os.fsencode(place) + b"/\xff.env"
        with open(path, "wb") as file:
            file.write(b"CAFE_SEATS=5\n")
        result = run(place, "show cafe.json --env-file=\udcff.env")
        assert (0, b"") == (result.returncode, result.stderr)
        assert b"\\udcff.env:1" in result.stdout


class TestTerminal:
    @pytest.mark.parametrize(
        "words",
        ["explain CAFE_\x1b[31m --target cafe.json", "explain CAFE_SEATS --target cafe.json"],
    )
    def test_nothing_drives_the_terminal(self, place: Path, words: str) -> None:
        """A control character in a name or in a contract is shown, and not sent."""
        result = run(place, words)
        assert b"\x1b" not in result.stdout + result.stderr
        assert b"\\x1b[31m" in result.stdout + result.stderr

    def test_a_long_name_is_counted(self, place: Path) -> None:
        """A name of a hundred thousand characters does not fill the screen."""
        result = run(place, f"explain {'x' * 100_000} --target cafe.json")
        assert 2 == result.returncode
        assert b"<100000 characters>" in result.stderr
        assert len(result.stderr) < 400


class TestWithin:
    def test_the_log_is_left_as_it_was(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A program that runs a command goes on to have its warnings in its own log."""
        said: list[str] = []
        monkeypatch.setattr(report, "listener", said.append)
        assert 2 == main(["show", "nobody"])
        report.warn("afterwards")
        assert ["afterwards"] == said
