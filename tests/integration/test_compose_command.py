"""``compose env`` and ``compose explain`` on real files: what they print, and what they keep."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from relayconf.cli import compose
from relayconf.compose import ComposeError
from relayconf.errors import TargetError

PROJECT = {
    "compose.yaml": (
        "services:\n"
        "  api:\n"
        "    image: img\n"
        "    env_file: api.env\n"
        "    environment:\n"
        "      LEVEL: ${LVL:-info}\n"
        "      API_TOKEN: ${TOK}\n"
        "      DATABASE_URL: postgres://u:hunter2@db/x\n"
        "      DSN_LIKE: pre-${API_SECRET}\n"
        "      GONE:\n"
        "      DB_PW: pass-hunter2\n"
        "  job:\n"
        "    image: img\n"
        "    environment: [LEVEL=job]\n"
        "  debug:\n"
        "    image: img\n"
        "    profiles: [debug]\n"
    ),
    "api.env": "LEVEL=file\nTEXT='two\nlines'\nGONE=file\nAPI_TOKEN=old-token\n",
    ".env": "TOK=new-token\nLVL=debug\nAPI_SECRET=s3cret\n",
}

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a compose command in a folder with the project; what it prints on stdout."""
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    parser = argparse.ArgumentParser(prog="relayconf")
    compose.add_parser(parser.add_subparsers())

    def command(*words: str) -> str:
        arguments = parser.parse_args(["compose", *words])
        assert arguments.run(arguments) == 0
        return capsys.readouterr().out

    return command


class TestEnv:
    def test_json(self, run: Run) -> None:
        """JSON maps each service to its variables; one that is taken out is null."""
        answer = json.loads(run("env", "--json"))
        assert ["api", "job"] == sorted(answer)
        assert answer["api"]["GONE"] is None
        assert answer["api"]["LEVEL"] == "debug"
        assert answer["api"]["API_TOKEN"] == "new-token"

    def test_text(self, run: Run) -> None:
        """Text has one line a variable, whatever is in its value."""
        expected = [
            "api:",
            "  API_TOKEN=new-token",
            "  DATABASE_URL=postgres://u:hunter2@db/x",
            "  DB_PW=pass-hunter2",
            "  DSN_LIKE=pre-s3cret",
            "  GONE  (taken out)",
            "  LEVEL=debug",
            '  TEXT="two\\nlines"',
            "",
            "job:",
            "  LEVEL=job",
        ]
        assert expected == run("env").splitlines()

    def test_one_service(self, run: Run) -> None:
        """--service narrows the answer to one service."""
        assert {"job": {"LEVEL": "job"}} == json.loads(run("env", "--service", "job", "--json"))

    def test_options(self, run: Run, tmp_path: Path) -> None:
        """Files, env files and profiles are those of the command line."""
        (tmp_path / "over.yaml").write_text("services: {job: {environment: {LEVEL: '${LVL}'}}}\n")
        (tmp_path / "prod.env").write_text("LVL=prod\n")
        words = ["-f", "compose.yaml", "-f", "over.yaml", "--env-file", "prod.env", "--json"]
        answer = json.loads(run("env", *words, "--profile", "debug"))
        assert {"LEVEL": "prod"} == answer["job"]
        assert {} == answer["debug"]

    def test_unknown_service(self, run: Run) -> None:
        """A service that does not exist is refused with the nearest one that does."""
        with pytest.raises(TargetError, match="no service apo; is it api"):
            run("env", "--service", "apo")

    def test_inactive_service(self, run: Run) -> None:
        """A service of an inactive profile is refused with what to do."""
        with pytest.raises(TargetError, match="name it with --profile"):
            run("env", "--service", "debug")

    def test_unreadable(self, run: Run) -> None:
        """A file that is not there is one refusal."""
        with pytest.raises(ComposeError, match=r"open nope\.yaml: no such file"):
            run("env", "-f", "nope.yaml")


class TestExplain:
    def test_chain(self, run: Run) -> None:
        """The winner comes first, with what it used; each loser says what it would have given."""
        expected = [
            "api: LEVEL = debug",
            "  wins   environment at compose.yaml:6:7",
            "         written as ${LVL:-info}",
            "         uses LVL from .env (.env:2:1)",
            "  loses  env_file at api.env:1:1",
            "         written as file",
            "         would give file",
        ]
        assert expected == run("explain", "LEVEL", "--service", "api").splitlines()

    def test_json(self, run: Run) -> None:
        """JSON holds each step with its layer, place, text, value and what shadows it."""
        answer = json.loads(run("explain", "GONE", "--json"))
        assert (answer["service"], answer["value"], answer["masked"]) == ("api", None, False)
        assert {
            "layer": "env_file",
            "origin": "api.env:4:1",
            "raw": "file",
            "value": "file",
            "source": None,
            "uses": [],
            "shadowed_by": "compose.yaml:10:7",
        } == answer["chain"][1]

    @pytest.mark.parametrize("name", ["API_TOKEN", "DSN_LIKE", "DATABASE_URL", "DB_PW"])
    @pytest.mark.parametrize("form", [[], ["--json"]])
    def test_masks_what_may_be_a_secret(self, run: Run, name: str, form: list[str]) -> None:
        """No token, nor what is made of a secret, nor a password in a url is printed."""
        printed = run("explain", name, *form)
        for secret in ("new-token", "old-token", "s3cret", "hunter2"):
            assert secret not in printed
        assert "compose.yaml" in printed

    def test_show_values(self, run: Run) -> None:
        """--show-values prints them all."""
        printed = run("explain", "API_TOKEN", "--show-values")
        assert "new-token" in printed
        assert "old-token" in printed

    def test_several_services(self, run: Run) -> None:
        """A variable of several services needs one to be named."""
        with pytest.raises(TargetError, match="name one with --service; LEVEL is in: api, job"):
            run("explain", "LEVEL")

    def test_unknown_name(self, run: Run) -> None:
        """A variable that no service has is refused with the nearest one."""
        with pytest.raises(TargetError, match="is it LEVEL"):
            run("explain", "LEVLE", "--service", "api")
        with pytest.raises(TargetError, match="no service has a variable"):
            run("explain", "WHATEVER")
