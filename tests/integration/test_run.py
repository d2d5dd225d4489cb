"""``relayconf run``: what the command gets, and that it is the command that runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CONTRACT: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "x-relayconf": {"version": 1, "target": "api", "prefix": "API_"},
    "type": "object",
    "properties": {
        "API_TTL": {"default": 60, "x-relayconf": {"type": "duration", "unit": "s"}},
        "API_WAIT_MS": {
            "x-relayconf": {"type": "duration", "legacy": ["OLD_WAIT"], "max": 60000},
        },
        "API_LIMIT": {"x-relayconf": {"type": "size"}},
        "API_FAST": {"default": True, "x-relayconf": {"type": "boolean"}},
        "API_SHARE": {"x-relayconf": {"type": "rollout"}},
        "API_MODE": {"enum": ["auto", "off"], "default": "auto"},
        "API_HOSTS": {"x-relayconf": {"type": "list"}},
        "API_NAME": {"type": "string"},
        "API_NOTE": {"x-relayconf": {"type": "string", "allow_blank": True}},
        "API_TOKEN": {"x-relayconf": {"type": "secret"}},
    },
}

#: Prints the environment as JSON: names and texts, bytes that are not UTF-8 escaped.
PRINT = "import json, os; print(json.dumps(dict(os.environ)))"


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    path = tmp_path / "api.schema.json"
    path.write_text(json.dumps(CONTRACT))
    return path


def clean(env: dict[str, str]) -> dict[str, str]:
    return {**{n: os.environ[n] for n in ("PATH", "HOME") if n in os.environ}, **env}


def run(
    contract: Path, *words: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "relayconf", "run", "--target", str(contract), *words]
    return subprocess.run(
        command,
        env=clean(env or {}),
        cwd=contract.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def exported(contract: Path, *options: str, env: dict[str, str] | None = None) -> dict[str, str]:
    done = run(contract, *options, "--", sys.executable, "-c", PRINT, env=env)
    assert 0 == done.returncode, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return {name: text for name, text in found.items() if name.startswith(("API_", "OLD_"))}


class TestExport:
    @pytest.mark.parametrize(
        ("name", "text", "canonical"),
        [
            ("API_TTL", "2m", "120"),
            ("API_TTL", "1500ms", "1500ms"),
            ("API_LIMIT", "4KiB", "4096"),
            ("API_FAST", "OFF", "false"),
            ("API_FAST", "1", "true"),
            ("API_SHARE", "25.50%", "25.5%"),
            ("API_SHARE", "yes", "true"),
            ("API_MODE", "OFF", "off"),
            ("API_HOSTS", "a, b", "a,b"),
            ("API_HOSTS", '["a,b"]', '["a,b"]'),
            ("API_NAME", " $HOME 'x' ä\n", " $HOME 'x' ä\n"),
            ("API_NOTE", "", ""),
            ("API_TOKEN", " s3cret= ", " s3cret= "),
        ],
    )
    def test_canonical_text(self, contract: Path, name: str, text: str, canonical: str) -> None:
        """A value arrives in the one text that every program reads alike."""
        assert {name: canonical} == exported(contract, env={name: text})

    def test_legacy_names(self, contract: Path) -> None:
        """A program that reads the old name gets the value too, by whichever it was set."""
        both = {"API_WAIT_MS": "2000", "OLD_WAIT": "2000"}
        assert both == exported(contract, env={"OLD_WAIT": "2s"})
        assert both == exported(contract, env={"API_WAIT_MS": "2s", "OLD_WAIT": "9s"})

    def test_unset_stays_unset(self, contract: Path) -> None:
        """A setting that nobody sets is not exported, so that the program's own default stands."""
        assert {} == exported(contract)

    @pytest.mark.parametrize("text", ["", " ", "junk", "-"])
    def test_what_is_not_used_does_not_arrive(self, contract: Path, text: str) -> None:
        """A blank or an invalid text of the environment never reaches the program."""
        assert {} == exported(
            contract, env={"API_WAIT_MS": text, "OLD_WAIT": text, "API_TTL": text}
        )

    def test_moved_to_the_bound(self, contract: Path) -> None:
        """A value out of range arrives as the bound."""
        assert "60000" == exported(contract, env={"API_WAIT_MS": "2h"})["API_WAIT_MS"]

    def test_every_layer(self, contract: Path, tmp_path: Path) -> None:
        """What a file or an option says arrives, and an option beats the environment."""
        (tmp_path / "api.env").write_text("API_NAME=file\nAPI_MODE=off\n")
        env = {"API_MODE": "auto", "API_LIMIT": "1"}
        found = exported(contract, "--env-file", "api.env", "--set", "API_LIMIT=2", env=env)
        assert {"API_NAME": "file", "API_MODE": "auto", "API_LIMIT": "2"} == found

    def test_secret_file(self, contract: Path, tmp_path: Path) -> None:
        """A secret from a file arrives by itself: images refuse to be given it both ways."""
        (tmp_path / "token").write_text("s3cret\n")
        found = exported(contract, env={"API_TOKEN_FILE": str(tmp_path / "token")})
        assert {"API_TOKEN": "s3cret"} == found

    def test_foreign_variables(self, contract: Path) -> None:
        """Every other variable arrives as it was, byte for byte."""
        code = "import os; print(os.environb[b'FOREIGN'], os.environb[b'API_OTHER'])"
        environ = {os.fsencode(n): os.fsencode(t) for n, t in clean({"API_OTHER": ""}).items()}
        command = [sys.executable, "-m", "relayconf", "run", "--target", str(contract)]
        done = subprocess.run(
            [*command, "--", sys.executable, "-c", code],
            env={**environ, b"FOREIGN": b"\xff\n="},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "b'\\xff\\n=' b''" == done.stdout.strip()

    @pytest.mark.parametrize("locale", [{}, {"LC_CTYPE": "C.UTF-8"}, {"LC_ALL": "C"}])
    def test_nothing_is_added(self, contract: Path, locale: dict[str, str]) -> None:
        """The command finds no variable that relayconf, or its Python, has set for itself."""
        done = run(contract, "--", "env", env=locale)
        assert sorted(clean(locale)) == sorted(line.split("=")[0] for line in done.stdout.split())


class TestCommand:
    def test_exit_code(self, contract: Path) -> None:
        """The exit code is the command's."""
        assert 7 == run(contract, "--", "sh", "-c", "exit 7").returncode

    def test_arguments(self, contract: Path) -> None:
        """The arguments arrive as they were written, another ``--`` among them."""
        words = ["-x", "--", "--target", "a b", ""]
        done = run(contract, "--", sys.executable, "-c", "import sys; print(sys.argv[1:])", *words)
        assert str(words) == done.stdout.strip()

    def test_streams(self, contract: Path) -> None:
        """The streams are the command's; every problem is said once, on stderr."""
        command = [sys.executable, "-m", "relayconf", "run", "--target", str(contract), "--", "cat"]
        env = clean({"API_TTL": "junk", "API_TLL": "1"})
        done = subprocess.run(
            command, env=env, input="hello", capture_output=True, text=True, check=False
        )
        assert "hello" == done.stdout
        assert 2 == len(done.stderr.splitlines())
        assert "'junk' is not a valid duration" in done.stderr
        assert "the nearest is API_TTL" in done.stderr

    def test_problems_as_json(self, contract: Path) -> None:
        """With --json a program that reads stderr gets the problems as one document."""
        done = run(contract, "--json", "--", "true", env={"API_TTL": "junk"})
        assert ["invalid-value"] == [p["code"] for p in json.loads(done.stderr)["problems"]]

    def test_is_the_same_process(self, contract: Path) -> None:
        """The command takes the place of relayconf, and gets the signals that are sent to it."""
        code = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
        command = [sys.executable, "-m", "relayconf", "run", "--target", str(contract)]
        with subprocess.Popen(
            [*command, "--", sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.pid == int(process.stdout.readline())
            process.send_signal(signal.SIGTERM)
        assert -signal.SIGTERM == process.returncode

    def test_signals_are_not_ignored(self, contract: Path) -> None:
        """A command that writes to a closed pipe dies of it, as under any shell."""
        done = run(contract, "--", "sh", "-c", "kill -PIPE $$; echo survived")
        assert (-signal.SIGPIPE, "") == (done.returncode, done.stdout)

    @pytest.mark.parametrize(
        ("words", "code", "said"),
        [
            (["no-such-command"], 127, "cannot run 'no-such-command'"),
            (["/no/such/command"], 127, "cannot run '/no/such/command'"),
            ([""], 127, "cannot run ''"),
            (["/"], 126, "cannot run '/'"),
            (["./script"], 126, "cannot run './script'"),
            (["./noexec"], 126, "cannot run './noexec'"),
            (["./orphan"], 127, "its interpreter"),
            ([], 2, "CMD"),
        ],
    )
    def test_that_cannot_run(
        self, contract: Path, tmp_path: Path, words: list[str], code: int, said: str
    ) -> None:
        """A command that cannot be run gives one message, and the exit code that a shell gives."""
        (tmp_path / "script").write_bytes(b"\0\1\2")
        (tmp_path / "script").chmod(0o755)
        (tmp_path / "noexec").write_text("#!/bin/sh\n")
        (tmp_path / "orphan").write_text("#!/no/such/interpreter\n")
        (tmp_path / "orphan").chmod(0o755)
        done = run(contract, "--", *words)
        assert (code, "") == (done.returncode, done.stdout)
        assert said in done.stderr
        assert "Traceback" not in done.stderr


class TestStrict:
    @pytest.mark.parametrize("how", ["option", "variable"])
    def test_refuses(self, contract: Path, tmp_path: Path, how: str) -> None:
        """Strict mode lists every problem and starts nothing."""
        env = {"API_TTL": "junk", "API_WAIT_MS": "2h"}
        words = ["--strict"] if how == "option" else []
        if how == "variable":
            env["RELAYCONF_STRICT"] = "1"
        done = run(contract, *words, "--", "touch", str(tmp_path / "started"), env=env)
        assert 78 == done.returncode
        assert "2 problems" in done.stderr
        assert not (tmp_path / "started").exists()

    def test_starts_where_all_is_right(self, contract: Path) -> None:
        """Strict mode starts a command whose settings are right, whatever else is unknown."""
        done = run(contract, "--strict", "--", "true", env={"API_TTL": "5", "API_OTHER": "1"})
        assert 0 == done.returncode
