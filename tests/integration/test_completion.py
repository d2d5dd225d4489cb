"""``relayconf completion``: the script in a real shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from relayconf.cli import main
from relayconf.cli.completion import script
from relayconf.cli.parser import COMMANDS, build_parser

BASH = shutil.which("bash")


def complete(line: str, folder: Path) -> list[str]:
    """Return what bash offers at the end of a line."""
    assert BASH is not None
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    program = (
        f"{script('bash', build_parser())}\n"
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}\n"
        "_relayconf_complete; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(
        [BASH, "--norc", "-c", program], cwd=folder, capture_output=True, text=True, check=True
    )
    assert "" == done.stderr
    return sorted(filter(None, done.stdout.splitlines()))


class TestBash:
    def test_commands(self, tmp_path: Path) -> None:
        """The first word is a command."""
        assert sorted(COMMANDS) == [w for w in complete("relayconf ", tmp_path) if w[0] != "-"]
        assert ["explain"] == complete("relayconf exp", tmp_path)

    def test_options(self, tmp_path: Path) -> None:
        """Behind a command come its own options."""
        assert ["--exit-code"] == complete("relayconf diff a b --ex", tmp_path)
        assert [] == complete("relayconf show --ex", tmp_path)

    def test_parts(self, tmp_path: Path) -> None:
        """A command of several parts completes them, and their options."""
        assert ["env", "explain"] == complete("relayconf compose e", tmp_path)
        assert "--service" in complete("relayconf compose env --s", tmp_path)

    def test_choices(self, tmp_path: Path) -> None:
        """A word that is one of a few is completed."""
        assert ["bash"] == complete("relayconf completion b", tmp_path)

    def test_files(self, tmp_path: Path) -> None:
        """Where a file belongs, files are offered."""
        (tmp_path / "prod.env").touch()
        assert ["prod.env"] == complete("relayconf show --env-file pr", tmp_path)

    def test_the_command_that_is_run(self, tmp_path: Path) -> None:
        """Behind -- comes any command there is."""
        assert "bash" in complete("relayconf run --target api -- bas", tmp_path)


class TestScript:
    @pytest.mark.parametrize("shell", ["bash", "zsh"])
    def test_is_printed(self, shell: str, capsys: pytest.CaptureFixture[str]) -> None:
        """The command prints the script of each shell, which registers itself."""
        assert 0 == main(["completion", shell])
        assert "complete -o filenames -F _relayconf_complete relayconf" in capsys.readouterr().out


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_help(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Every command says what it does and what it takes."""
        with pytest.raises(SystemExit) as caught:
            main([command, "--help"])
        assert 0 == caught.value.code
        assert f"usage: relayconf {command}" in capsys.readouterr().out

    def test_overview(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The overview names every command."""
        with pytest.raises(SystemExit):
            main(["--help"])
        shown = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()}
        assert set() == set(COMMANDS) - shown
