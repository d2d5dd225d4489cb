"""``relayconf init``: a draft that reads, agrees with the files it is of, and keeps secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relayconf.cli import main
from relayconf.setting import Setting
from relayconf.targets import find_contract

COMPOSE = """\
services:
  api:
    image: img
    env_file: api.env
    environment:
      API_PORT: ${API_PORT:-8080}
      API_TIMEOUT_MS: ${API_TIMEOUT_MS:-3000}
      API_INTERVAL_SECONDS: 30
      API_CACHE: 64MiB
      API_DEBUG: "0"
      API_FAST: "true"
      API_LOG_LEVEL: info
      API_UPSTREAM: http://catalogue:9000/
      API_DATABASE: postgres://me:hunter2@db/x
      API_TOKEN: hunter2
      API_RATIO: "0.5"
      API_DATA_DIR: /var/lib/api
      API_ORIGINS: a.example,b.example
      API_GREETING: Hello, you
      API_EMPTY: ""
      API_HANDED:
      dotted.name: x
  web:
    image: img
    environment: [WEB_COLOUR=red]
"""
ENV = "API_HANDED=5\n"
API_ENV = "API_FROM_FILE=7\nAPI_HASH=$$2y$$05$$abcdefghijkl\n"

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run relayconf in a folder with the project."""
    (tmp_path / "compose.yaml").write_text(COMPOSE)
    (tmp_path / ".env").write_text(ENV)
    (tmp_path / "api.env").write_text(API_ENV)
    monkeypatch.chdir(tmp_path)
    return lambda *words: main(list(words))


def drafted(path: str) -> dict[str, Setting]:
    return find_contract(path).settings


class TestDraft:
    @pytest.mark.parametrize("name", ["api.schema.json", "api.schema.yaml"])
    def test_types_and_defaults(self, run: Run, name: str) -> None:
        """Names and values tell types; a default of the compose file becomes the default."""
        assert 0 == run("init", "--service", "api", "-o", name)
        settings = drafted(f"./{name}")
        assert {
            "API_PORT": ("integer", 8080),
            "API_TIMEOUT_MS": ("duration", 3000),
            "API_INTERVAL_SECONDS": ("duration", None),
            "API_CACHE": ("size", None),
            "API_DEBUG": ("boolean", None),
            "API_FAST": ("boolean", None),
            "API_LOG_LEVEL": ("enum", None),
            "API_UPSTREAM": ("url", None),
            "API_DATABASE": ("url", None),
            "API_TOKEN": ("secret", None),
            "API_RATIO": ("number", None),
            "API_DATA_DIR": ("path", None),
            "API_ORIGINS": ("list", None),
            "API_GREETING": ("string", None),
            "API_EMPTY": ("string", None),
            "API_HANDED": ("integer", None),
            "API_FROM_FILE": ("integer", None),
            "API_HASH": ("string", None),
        } == {name: (setting.type, setting.default) for name, setting in settings.items()}
        assert "s" == settings["API_INTERVAL_SECONDS"].unit
        assert ("30", "info") == (
            settings["API_INTERVAL_SECONDS"].example,
            settings["API_LOG_LEVEL"].example,
        )

    def test_is_marked_for_review(self, run: Run) -> None:
        """Each description begins with REVIEW: and says where the variable is."""
        run("init", "--service", "api", "-o", "api.json")
        settings = drafted("./api.json")
        assert all(setting.doc.startswith("REVIEW: ") for setting in settings.values())
        assert "compose.yaml:6" in settings["API_PORT"].doc
        assert "at .env:1, compose.yaml:21" in settings["API_HANDED"].doc
        assert "at api.env:1" in settings["API_FROM_FILE"].doc

    @pytest.mark.parametrize("name", ["api.json", "api.yaml"])
    def test_holds_no_secret(self, run: Run, tmp_path: Path, name: str) -> None:
        """No value of a secret, no password of a url and no hash is in the draft."""
        run("init", "-o", name)
        text = (tmp_path / name).read_text()
        assert "hunter2" not in text
        assert "2y" not in text

    def test_agrees_with_the_project(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        """The project that a draft was made of has no invalid value under it."""
        run("init", "--service", "api", "-o", "api.json")
        capsys.readouterr()
        run("check", "--contract", "api=./api.json", "--json")
        findings: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
        wrong = {"invalid-value", "unknown-name", "near-miss", "blank-value"}
        assert [] == [f for f in findings if f["code"] in wrong]
        assert {"secret-inline"} == {f["code"] for f in findings if f["severity"] == "error"}


class TestCommand:
    def test_standard_output(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        """Without -o the draft alone is on standard output, what is left to do on the other."""
        assert 0 == run("init", "--service", "web")
        said = capsys.readouterr()
        document = json.loads(said.out)
        assert "web" == document["x-relayconf"]["target"]
        assert ["WEB_COLOUR"] == list(document["properties"])
        assert "1 setting(s) of web" in said.err

    def test_all_services(self, run: Run, tmp_path: Path) -> None:
        """Without --service the variables of all services are in one draft."""
        (tmp_path / "compose.yaml").write_text("name: shop\n" + COMPOSE)
        assert 0 == run("init", "-o", "all.json")
        contract = find_contract("./all.json")
        assert ("shop", "API_") == (contract.target, contract.prefix)
        assert {"API_PORT", "WEB_COLOUR"} <= set(contract.settings)

    def test_never_writes_over(
        self, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A file that is there is kept, unless --force is given."""
        (tmp_path / "mine.json").write_text("mine")
        assert 2 == run("init", "-o", "mine.json")
        assert "--force" in capsys.readouterr().err
        assert "mine" == (tmp_path / "mine.json").read_text()
        assert 0 == run("init", "-o", "mine.json", "--force")
        assert drafted("./mine.json")

    @pytest.mark.parametrize(
        ("words", "said", "code"),
        [
            (["--service", "wbe"], "no service 'wbe' in an active profile; is it web?", 2),
            (["-f", "nope.yaml"], "open nope.yaml: no such file", 2),
            (["-o", "nope/x.json"], "cannot write nope/x.json: No such file", 1),
        ],
        ids=["service", "file", "output"],
    )
    def test_unusable(
        self,
        run: Run,
        capsys: pytest.CaptureFixture[str],
        words: list[str],
        said: str,
        code: int,
    ) -> None:
        """What is not there is one message."""
        assert code == run("init", *words)
        assert said in capsys.readouterr().err

    def test_nothing_to_draft(
        self, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A project without variables is told so."""
        (tmp_path / "compose.yaml").write_text("services: {app: {image: img}}\n")
        assert 2 == run("init")
        assert "no service has a variable" in capsys.readouterr().err

    @pytest.mark.usefixtures("run")
    def test_a_full_disk(self) -> None:
        """A draft that cannot be written to standard output is one message and exit code 1."""
        command = [sys.executable, "-m", "relayconf", "init", "--service", "web"]
        with Path("/dev/full").open("wb") as full:
            result = subprocess.run(command, check=False, stdout=full, stderr=subprocess.PIPE)
        assert 1 == result.returncode
        assert b"relayconf: cannot write the answer: No space left on device\n" in result.stderr
        assert b"Traceback" not in result.stderr

    @pytest.mark.usefixtures("run")
    def test_no_reader(self) -> None:
        """Whoever has read enough of a draft may go away."""
        reader, writer = os.pipe()
        os.close(reader)
        command = [sys.executable, "-m", "relayconf", "init", "--service", "web"]
        result = subprocess.run(command, check=False, stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        assert (0, b"relayconf: 1 setting(s) of web, each marked REVIEW:\n") == (
            result.returncode,
            result.stderr,
        )
