"""Env files that are no files, that repeat themselves, or that hold a ``$`` by chance."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CLEAN = {k: v for k, v in os.environ.items() if not k.startswith("RELAY")}
CONTRACT = {
    "x-relayconf": {"version": 1, "target": "app", "prefix": "APP_"},
    "properties": {
        "APP_NAME": {"type": "string"},
        "APP_TOKEN": {"type": "string", "writeOnly": True},
    },
}


def show(folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    (folder / "app.json").write_text(json.dumps(CONTRACT), "utf-8")
    command = [sys.executable, "-m", "relayconf", "show", "app.json", "--env-file", path]
    return subprocess.run(
        command, cwd=folder, env=CLEAN, capture_output=True, text=True, check=False
    )


class TestNoFile:
    @pytest.mark.parametrize("written", [b"", b"APP_NAME=half"])
    def test_a_pipe_is_refused(self, tmp_path: Path, written: bytes) -> None:
        """A pipe is never waited for, nor is what has been written so far taken for the whole."""
        os.mkfifo(tmp_path / "pipe.env")
        keep = os.open(tmp_path / "pipe.env", os.O_RDWR)
        os.write(keep, written)
        result = show(tmp_path, "pipe.env")
        os.close(keep)
        expected = "cannot read the file: it is a pipe; write its content to a file"
        assert (2, f"relayconf: pipe.env: {expected}\n") == (result.returncode, result.stderr)

    def test_a_pipe_without_a_writer_is_refused(self, tmp_path: Path) -> None:
        """A pipe that nobody writes to is no empty file."""
        os.mkfifo(tmp_path / "pipe.env")
        assert 2 == show(tmp_path, "pipe.env").returncode

    def test_no_file_at_all(self, tmp_path: Path) -> None:
        """``/dev/null`` is an env file that sets nothing."""
        assert 0 == show(tmp_path, os.devnull).returncode


class TestSize:
    @pytest.mark.parametrize("last", ["", "".join(f"B{n}=$A3\n" for n in range(100))])
    def test_a_file_that_repeats_itself_is_refused(self, tmp_path: Path, last: str) -> None:
        """A few lines that each repeat the one above ten times fill no memory: one message."""
        lines = [f"A0={'x' * 1000}"]
        lines += [f"A{n + 1}={f'${{A{n}}}' * 10}" for n in range(3 if last else 9)]
        (tmp_path / "bomb.env").write_text("\n".join(lines) + f"\n{last}", "utf-8")
        result = show(tmp_path, "bomb.env")
        assert 2 == result.returncode
        assert "characters" in result.stderr
        assert len(result.stderr) < 300


class TestDollars:
    @pytest.mark.parametrize(
        "password", ["pa${cana ry", "pa${canary", "pa${canary:-", "pa${canary/x}"]
    )
    def test_a_password_with_a_dollar_is_not_quoted(self, tmp_path: Path, password: str) -> None:
        """The message about a ``$`` that starts nothing names place and rule alone."""
        (tmp_path / "prod.env").write_text(f"APP_TOKEN={password}\n", "utf-8")
        result = show(tmp_path, "prod.env")
        assert 2 == result.returncode
        assert "prod.env:1:13: Invalid template in the value of APP_TOKEN" in result.stderr
        assert "cana" not in result.stderr
