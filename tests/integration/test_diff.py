"""``relayconf diff``: two deployments, compared by what is in force in each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relayconf.cli import main

CONTRACT: dict[str, Any] = {
    "x-relayconf": {"version": 1, "target": "api", "prefix": "API_"},
    "type": "object",
    "properties": {
        "API_WAIT_MS": {"default": 1000, "x-relayconf": {"type": "duration", "max": 60000}},
        "API_MODE": {"enum": ["auto", "off"], "default": "auto"},
        "API_TOKEN": {"x-relayconf": {"type": "secret"}},
        "API_URL": {"x-relayconf": {"type": "url"}},
    },
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RELAYCONF_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "api.json").write_text(json.dumps(CONTRACT))
    return tmp_path


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.env").write_text(text)


def diff(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert code == main(["diff", *words, "--target", "./api.json", "--json"])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def text(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert 0 == main(["diff", *words, "--target", "./api.json"])
    return capsys.readouterr().out


class TestEnvFiles:
    def test_document(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Each difference has both values, where each comes from, and how it got there."""
        write(folder, staging="API_WAIT_MS=2s\nAPI_MODE=OFF\n", prod="\nAPI_WAIT_MS=9h\n")
        answer = diff(capsys, "staging.env", "prod.env")
        assert ["target", "a", "b", "differences", "problems"] == list(answer)
        assert {"name": "staging.env", "kind": "env-file"} == answer["a"]
        wait, mode = answer["differences"]
        assert wait == {
            "name": "API_WAIT_MS",
            "type": "duration",
            "masked": False,
            "a": {
                "value": 2000,
                "source": {"layer": "env-file", "origin": "staging.env:1"},
                "status": "ok",
            },
            "b": {
                "value": 60000,
                "source": {"layer": "env-file", "origin": "prod.env:2"},
                "status": "clamped",
            },
        }
        assert ("API_MODE", "off", "auto") == (mode["name"], mode["a"]["value"], mode["b"]["value"])
        assert ["clamped-value"] == [p["code"] for p in answer["problems"]["b"]]

    def test_values_count_not_texts(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Two spellings of one value, or a value and a default that it equals, do not differ."""
        write(folder, a="API_WAIT_MS=2s\nAPI_MODE=AUTO\n", b="API_WAIT_MS=2000\n")
        assert [] == diff(capsys, "a.env", "b.env")["differences"]
        assert "have the same value for all 4 settings" in text(capsys, "a.env", "b.env")

    def test_own_environment_is_left_out(
        self,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """What is set in the shell of whoever compares hides no difference."""
        monkeypatch.setenv("API_WAIT_MS", "5s")
        monkeypatch.setenv("API_MODE", "off")
        monkeypatch.setenv("OTHER", "3s")
        write(folder, a="API_WAIT_MS=${OTHER}\n", b="API_WAIT_MS=${API_MODE:-4s}\n")
        (found,) = diff(capsys, "a.env", "b.env")["differences"]
        assert (3000, 4000) == (found["a"]["value"], found["b"]["value"])

    def test_common_file_and_options(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A file that both share lies below each, and an option above both."""
        write(folder, base="API_WAIT_MS=1s\nAPI_MODE=off\n", a="API_WAIT_MS=2s\n", b="")
        words = ["a.env", "b.env", "--env-file", "base.env"]
        (found,) = diff(capsys, *words)["differences"]
        assert (2000, 1000) == (found["a"]["value"], found["b"]["value"])
        assert [] == diff(capsys, *words, "--set", "API_WAIT_MS=3s")["differences"]

    def test_secrets(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Secrets are said to differ, and a password in a url too, without either being shown."""
        write(folder, a="API_TOKEN=one\nAPI_URL=https://u:one@h\n")
        write(folder, b="API_TOKEN=two\nAPI_URL=https://u:two@h\n", c="")
        found = diff(capsys, "a.env", "b.env")["differences"]
        assert [("API_TOKEN", True), ("API_URL", True)] == [(d["name"], d["masked"]) for d in found]
        assert "********" == found[0]["a"]["value"] == found[0]["b"]["value"]
        assert "******** differs, masked (env-file a.env:1)" in text(capsys, "a.env", "b.env")
        unset = diff(capsys, "a.env", "c.env")["differences"][0]
        assert (False, "********", None) == (
            unset["masked"],
            unset["a"]["value"],
            unset["b"]["value"],
        )
        assert [] == diff(capsys, "a.env", "a.env")["differences"]

    def test_text(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """For a person there is one line for each difference, and a count."""
        write(folder, a="API_WAIT_MS=2s\n", b="API_TOKNE=1\n")
        problem = (
            "  warning: API_TOKNE: api has no setting of that name; the nearest is API_TOKEN "
            "(from b.env:1); try API_TOKEN [near-miss]"
        )
        assert text(capsys, "a.env", "b.env").splitlines() == [
            "NAME         a.env                  b.env",
            "API_WAIT_MS  2s (env-file a.env:1)  1s (default)",
            "",
            "1 of 4 settings differ",
            "",
            "b.env: 1 problem(s):",
            problem,
        ]


class TestDeployments:
    def test_sections_and_files(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The names of deployments select sections and files of settings."""
        (folder / "settings.toml").write_text(
            '[default]\nAPI_MODE = "off"\n[staging]\nAPI_WAIT_MS = "2s"\n'
        )
        (folder / "settings.prod.toml").write_text('[default]\nAPI_WAIT_MS = "3s"\n')
        answer = diff(capsys, "staging", "prod")
        assert ["deployment", "deployment"] == [answer[side]["kind"] for side in ("a", "b")]
        (found,) = answer["differences"]
        assert (2000, 3000) == (found["a"]["value"], found["b"]["value"])
        assert "settings.toml:4:1" in found["a"]["source"]["origin"]

    def test_a_deployment_against_a_file(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A deployment can be held against an env file, which lies above the common settings."""
        (folder / "settings.toml").write_text('[default]\nAPI_MODE = "off"\n')
        (folder / "settings.prod.toml").write_text('[default]\nAPI_WAIT_MS = "3s"\n')
        write(folder, a="API_WAIT_MS=2s\n")
        (found,) = diff(capsys, "prod", "./a.env")["differences"]
        assert (3000, 2000) == (found["a"]["value"], found["b"]["value"])

    def test_unknown_deployment(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A deployment that no file knows is said, since it is probably a slip."""
        (folder / "settings.toml").write_text('[default]\nAPI_MODE = "off"\n[prod]\n')
        assert 0 == main(["diff", "prdo", "prod", "--target", "./api.json"])
        assert "has a section or a name for deployment 'prdo'" in capsys.readouterr().err


class TestExit:
    def test_differences_are_the_answer(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Differences are exit 0; with --exit-code they are 1."""
        write(folder, a="API_WAIT_MS=2s\n", b="")
        diff(capsys, "a.env", "b.env")
        diff(capsys, "a.env", "b.env", "--exit-code", code=1)
        diff(capsys, "a.env", "a.env", "--exit-code")

    def test_strict(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Strict refuses where a value of either side would not be used as it is written."""
        write(folder, a="API_WAIT_MS=2s\n", b="API_WAIT_MS=junk\n")
        assert 78 == main(["diff", "a.env", "b.env", "--target", "./api.json", "--strict"])
        assert "b.env:1" in capsys.readouterr().err

    @pytest.mark.parametrize("word", ["missing.env", "./missing", "no such deployment"])
    def test_unusable(self, word: str, capsys: pytest.CaptureFixture[str]) -> None:
        """A file that is not there, or a name that none can have, is one message and exit 2."""
        assert 2 == main(["diff", word, "prod", "--target", "./api.json"])
        assert 1 == len(capsys.readouterr().err.splitlines())
