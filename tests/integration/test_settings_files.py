"""Settings and secret files as an operator uses them: files in a directory, a command, an answer.

The traps are known from other configuration libraries; each is one test here.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest
from ruamel.yaml import YAML

from relayconf import report
from relayconf.cli import main

CANARY = "hunter2canary"


def prop(kind: str, **facts: Any) -> dict[str, Any]:
    default = facts.pop("default", None)
    schema: dict[str, Any] = {"description": "x", "x-relayconf": {"type": kind, **facts}}
    return schema if default is None else {**schema, "default": default}


CONTRACT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "x-relayconf": {"version": 1, "target": "api", "prefix": "API_"},
    "type": "object",
    "properties": {
        "API_TTL_MS": prop("duration", default=3000, unit="ms", min=100, legacy=["OLD_TTL"]),
        "API_COUNT": prop("integer", default=7),
        "API_ON": prop("boolean", default=True),
        "API_USER": prop("string", default="nobody"),
        "API_CODE": prop("string"),
        "API_HOSTS": prop("list", default=[]),
        "API_PORTS": prop("list", items="integer", default=[]),
        "API_TOKEN": prop("secret"),
        "API_URL": prop("url"),
    },
}


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class Deployment:
    """A working directory with the contract of a service, and commands that are run in it."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.capsys = capsys

    def write(self, name: str, text: str | bytes) -> None:
        """Write one file."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def run(
        self, *arguments: str, env: dict[str, str] | None = None, target: str = "./api.schema.json"
    ) -> Result:
        """Run one command."""
        with self.monkeypatch.context() as patch:
            patch.chdir(self.folder)
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            code = main([*arguments, "--target", target])
        written = self.capsys.readouterr()
        return Result(code, written.out, written.err)

    def show(
        self, *arguments: str, env: dict[str, str] | None = None, target: str = "./api.schema.json"
    ) -> dict[str, Any]:
        """Run ``show --json`` and return its answer."""
        result = self.run("show", "--json", *arguments, env=env, target=target)
        assert 0 == result.returncode, result.stderr
        answer: dict[str, Any] = json.loads(result.stdout)
        return answer


@pytest.fixture
def api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Deployment:
    """Return a deployment that has no files yet, in an environment of its own."""
    monkeypatch.setattr(report, "listener", report.listener)
    for name in os.environ:
        if name.startswith(("API_", "RELAY")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("RELAYCONF_SECRETS_DIR", "secrets")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    deployment = Deployment(tmp_path, monkeypatch, capsys)
    deployment.write("api.schema.json", json.dumps(CONTRACT))
    return deployment


def setting(answer: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(s for s in answer["settings"] if s["name"] == name)
    return found


def source(answer: dict[str, Any], name: str) -> tuple[Any, str, str | None]:
    found = setting(answer, name)
    return found["value"], found["source"]["layer"], found["source"]["origin"]


class TestLayers:
    def test_whole_stack(self, api: Deployment) -> None:
        """Files, env file, secret file, environment and option: each beats the one before."""
        api.write(
            "settings.toml",
            "[default]\nAPI_TTL_MS = 1000\nAPI_COUNT = 1\nAPI_ON = false\nAPI_CODE = 'c'\n"
            "API_TOKEN = 'low'\n[prod]\nAPI_TTL_MS = 2000\n",
        )
        api.write("settings.prod.yaml", "API_COUNT: 2\n")
        api.write("a.env", "API_ON=true\nAPI_USER=env-file\nAPI_HOSTS=a\n")
        api.write("secrets/api_token", "high\n")
        answer = api.show(
            "--deployment=prod",
            "--env-file=a.env",
            "--set=API_HOSTS=c",
            env={"API_USER": "environment", "API_HOSTS": "b"},
        )
        names = [n for n in CONTRACT["properties"] if n not in ("API_PORTS", "API_URL")]
        assert {name: source(answer, name) for name in names} == {
            "API_TTL_MS": (2000, "file", "settings.toml:8:1"),
            "API_COUNT": (2, "file", "settings.prod.yaml:1:1"),
            "API_ON": (True, "env-file", "a.env:1"),
            "API_USER": ("environment", "environment", "environment"),
            "API_CODE": ("c", "file", "settings.toml:5:1"),
            "API_HOSTS": (["c"], "option", "--set"),
            "API_TOKEN": ("********", "secret-file", "secrets/api_token"),
        }
        assert [] == answer["problems"]

    def test_config_dir_and_deployment_from_the_environment(self, api: Deployment) -> None:
        """RELAYCONF_CONFIG_DIR replaces the working directory; RELAYCONF_DEPLOYMENT selects."""
        api.write("settings.toml", "API_COUNT = 1\n")
        api.write("etc/settings.eu.json", '{"API_TTL_MS": "5s"}')
        env = {"RELAYCONF_CONFIG_DIR": "etc", "RELAYCONF_DEPLOYMENT": "eu"}
        answer = api.show(env=env)
        assert (5000, "file", "etc/settings.eu.json:1:2") == source(answer, "API_TTL_MS")
        assert (7, "default", None) == source(answer, "API_COUNT")

    def test_explain_shows_every_text(self, api: Deployment) -> None:
        """The stack has each section's text with its place, the one in force first."""
        text = "default: {API_TTL_MS: 1s}\nprod:\n  API_TTL_MS: junk\n  OLD_TTL: 2s\n"
        api.write("settings.yaml", text)
        result = api.run("explain", "API_TTL_MS", "--json", "--deployment=prod")
        stack = [(c["origin"], c["raw"], c["verdict"]) for c in json.loads(result.stdout)["stack"]]
        assert stack[:3] == [
            ("settings.yaml:1:11", "1s", "in force"),
            ("settings.yaml:3:3", "junk", "invalid"),
            ("settings.yaml:4:3", "2s", "shadowed"),
        ]

    def test_strict_refuses_a_missing_secret_file(self, api: Deployment) -> None:
        """Under --strict a NAME_FILE that cannot be read stops the start, among all problems."""
        api.write("settings.json", '{"API_COUNT": 5.0}')
        env = {"API_TOKEN_FILE": "/nowhere/token"}
        result = api.run("show", "--strict", env=env)
        assert (78, "") == (result.returncode, result.stdout)
        assert "2 problems" in result.stderr
        assert "No such file or directory; API_TOKEN_FILE (environment) names it" in result.stderr


class TestTraps:
    @pytest.mark.parametrize(
        ("name", "text", "value", "status"),
        [
            ("API_COUNT", "1_000", 7, "invalid"),
            ("API_COUNT", "'٣٠'", 7, "invalid"),
            ("API_COUNT", "'5.0'", 7, "invalid"),
            ("API_COUNT", "5.0", 7, "invalid"),
            ("API_COUNT", "'010'", 7, "invalid"),
            ("API_COUNT", "0o10", 7, "invalid"),
            ("API_COUNT", "9" * 5000, 7, "invalid"),
            ("API_COUNT", "true", 7, "invalid"),
            ("API_COUNT", "[5]", 7, "invalid"),
            ("API_COUNT", "' 5\\r\\n '", 7, "invalid"),
            ("API_COUNT", '" 5\\r\\n "', 5, "ok"),
            ("API_COUNT", "''", 7, "default"),
            ("API_ON", "'disabled'", True, "invalid"),
            ("API_ON", "''", True, "default"),
            ("API_ON", "'OFF'", False, "ok"),
            ("API_ON", "0", False, "ok"),
            ("API_TTL_MS", "50", 100, "clamped"),
            ("API_TTL_MS", "'1h30m'", 5400000, "ok"),
            ("API_CODE", "'0123'", "0123", "ok"),
            ("API_CODE", "1.50", "1.50", "ok"),
            ("API_CODE", "2026-11-30", "2026-11-30", "ok"),
            ("API_CODE", "07:32:00", "07:32:00", "ok"),
            ("API_CODE", "'@format {env[HOME]}'", "@format {env[HOME]}", "ok"),
            ("API_CODE", "'@jinja {{ 1 + 1 }}'", "@jinja {{ 1 + 1 }}", "ok"),
            ("API_CODE", "'@int 5'", "@int 5", "ok"),
            ("API_CODE", "'${HOME}'", "${HOME}", "ok"),
            ("API_HOSTS", "'a,,b'", [], "invalid"),
            ("API_HOSTS", "'a, b'", ["a", "b"], "ok"),
            ("API_HOSTS", '\'["a","b"]\'', ["a", "b"], "ok"),
            ("API_HOSTS", "['a', 'b']", ["a", "b"], "ok"),
            ("API_HOSTS", "['0123', 1.50, true]", ["0123", "1.50", "true"], "ok"),
            ("API_HOSTS", "['a, b', '']", ["a, b", ""], "ok"),
            ("API_PORTS", "[80, '443']", [80, 443], "ok"),
            ("API_PORTS", "[80, 4.5]", [], "invalid"),
        ],
        ids=lambda text: str(text)[:24],
    )
    def test_value(self, api: Deployment, name: str, text: str, value: Any, status: str) -> None:
        """A value in a file means what the same text means in the environment."""
        api.write("settings.toml", f"{name} = {text}\n")
        found = setting(api.show(), name)
        assert (value, status) == (found["value"], found["status"])

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("0123", "0123"),
            ("1.50", "1.50"),
            ("1e3", "1e3"),
            ("no", "no"),
            ("2026-11-30", "2026-11-30"),
            ("12:30", "12:30"),
            ("0x1F", "0x1F"),
            ("'@format {this}'", "@format {this}"),
        ],
    )
    def test_yaml_text(self, api: Deployment, text: str, value: str) -> None:
        """YAML's opinion of a plain text does not reach the setting."""
        api.write("settings.yaml", f"API_CODE: {text}\n")
        assert value == setting(api.show(), "API_CODE")["value"]

    def test_names(self, api: Deployment) -> None:
        """A slip in a key is reported with its place; a foreign key, and USER's value, are not."""
        api.write(
            "settings.toml",
            "user = 'x'\nTTL_MS = 5\napi_count = 5\nAPI__ON = false\nAPI_COUNT_MAX_MORE = 1\n"
            "database = 'pg'\n[redis]\nAPI_CODE = 'x'\n",
        )
        answer = api.show(env={"USER": "root", "TTL_MS": "9", "CODE": "x"})
        problems = [
            (p["code"], p["name"], p["suggestion"], p["origin"]) for p in answer["problems"]
        ]
        assert problems == [
            ("near-miss", "user", "API_USER", "settings.toml:1:1"),
            ("near-miss", "TTL_MS", "API_TTL_MS", "settings.toml:2:1"),
            ("near-miss", "api_count", "API_COUNT", "settings.toml:3:1"),
            ("near-miss", "API__ON", "API_ON", "settings.toml:4:1"),
            ("unknown-name", "API_COUNT_MAX_MORE", None, "settings.toml:5:1"),
        ]
        assert {"default"} == {s["source"]["layer"] for s in answer["settings"]}

    def test_two_spellings(self, api: Deployment) -> None:
        """Of two spellings only the declared one counts, whichever comes first."""
        for lines in (["api_count: 1", "API_COUNT: 2"], ["API_COUNT: 2", "api_count: 1"]):
            api.write("settings.yaml", "\n".join(lines))
            assert 2 == setting(api.show(), "API_COUNT")["value"]

    def test_blank_legacy_name(self, api: Deployment) -> None:
        """A blank name hides no other name of the same setting."""
        api.write("settings.yaml", "API_TTL_MS: ''\nOLD_TTL: 5s\n")
        assert 5000 == setting(api.show(), "API_TTL_MS")["value"]

    def test_foreign_dotenv(self, api: Deployment) -> None:
        """A .env of some other program is not read, let alone printed."""
        api.write(".env", f"TOKEN={CANARY}\nAPI_COUNT=1\n!!!\n")
        result = api.run("show")
        assert (0, "") == (result.returncode, result.stderr)
        assert CANARY not in result.stdout

    def test_byte_order_mark_and_crlf(self, api: Deployment) -> None:
        """Files saved on Windows mean the same, in every layer that has files."""
        api.write("settings.toml", b"\xef\xbb\xbfAPI_COUNT = 5\r\nAPI_USER = 'u'\r\n")
        api.write("a.env", b"\xef\xbb\xbfAPI_CODE=c\r\n")
        api.write("secrets/API_TOKEN", b"t\r\n")
        answer = api.show("--env-file=a.env")
        names = ("API_COUNT", "API_USER", "API_CODE")
        assert [5, "u", "c"] == [setting(answer, name)["value"] for name in names]
        assert [] == answer["problems"]


class TestSecrecy:
    @pytest.mark.parametrize(
        "files",
        [
            {".secrets.toml": f"API_TOKEN = '{CANARY}'\nAPI_URL = 'https://u:{CANARY}@h/'\n"},
            {".secrets.yaml": f"API_TOKEN: [{CANARY}]\nAPI_URL: {{a: {CANARY}}}\n"},
            {".secrets.json": f'{{"API_TOKEN": "{CANARY}\\u0000"}}'},
            {".secrets.toml": f"API_TOKEN = {CANARY}\n"},
            {".secrets.toml": f"API_TOKEN = '{CANARY}\n"},
            {".secrets.yaml": f"API_TOKEN: *{CANARY}\n"},
            {".secrets.yaml": f"API_TOKEN: !{CANARY}!x y\n"},
            {".secrets.yaml": f"API_TOKEN: {CANARY}\nAPI_TOKEN: {CANARY}\n"},
            {".secrets.json": f'{{"API_TOKEN": {CANARY}}}'},
            {"secrets/api_token": f"{CANARY}\0"},
            {"secrets/api_token": f"{CANARY}\n", ".secrets.toml": f"API_TOKEN = '{CANARY}'"},
            {"secrets/api_url": f"https://{CANARY}:{CANARY}@h/ x"},
        ],
    )
    def test_canary(self, api: Deployment, files: dict[str, str]) -> None:
        """A secret in a file, good or spoiled, is in no output of any command."""
        for name, text in files.items():
            api.write(name, text)
        for command in (
            ["show"],
            ["show", "--json"],
            ["show", "--strict"],
            ["explain", "API_TOKEN"],
            ["explain", "API_TOKEN", "--json"],
            ["explain", "API_URL"],
        ):
            result = api.run(*command)
            assert result.returncode in (0, 2, 78)
            assert CANARY not in result.stdout + result.stderr
            assert "Traceback" not in result.stderr


class TestBadInput:
    @pytest.mark.parametrize(
        ("name", "text", "words"),
        [
            ("settings.toml", b"API_COUNT = \n", "settings.toml:1:13: not TOML"),
            ("settings.yaml", b"a: [\n", "settings.yaml:2:1: not YAML"),
            ("settings.yml", b"A: 1\nA: 2\n", "settings.yml:2:1: the key 'A' stands twice"),
            ("settings.json", b"{,}", "settings.json:1:2: not JSON"),
            (".secrets.toml", b"\xff", ".secrets.toml:1:1: not UTF-8"),
            ("settings.prod.json", b"[]", "settings.prod.json:1:1: not a JSON object"),
            (
                "settings.toml",
                b"dynaconf_include = ['settings.toml']\n",
                "settings.toml:1:1: dynaconf_include: a settings file includes no other",
            ),
        ],
    )
    def test_one_message_and_exit_2(
        self, api: Deployment, name: str, text: bytes, words: str
    ) -> None:
        """Each file that cannot be read gives one line with its place, and exit 2."""
        api.write(name, text)
        result = api.run("show", "--deployment=prod")
        assert (2, "") == (result.returncode, result.stdout)
        assert f"relayconf: {words}" in result.stderr
        assert 1 == len(result.stderr.splitlines())

    def test_pipe_in_a_file_s_place(self, api: Deployment) -> None:
        """A named pipe ends the command instead of blocking it."""
        os.mkfifo(api.folder / "settings.toml")
        result = api.run("show")
        assert 2 == result.returncode
        assert "settings.toml: cannot read the file: it is not a regular file" in result.stderr

    def test_config_dir_that_is_not_there(self, api: Deployment) -> None:
        """A directory that was named and is missing is an error."""
        result = api.run("show", env={"RELAYCONF_CONFIG_DIR": "nowhere"})
        assert 2 == result.returncode
        assert "nowhere: cannot search the directory: No such file" in result.stderr


class TestDocumentation:
    @pytest.mark.parametrize("form", ["toml", "yaml", "json"])
    def test_examples_are_right(self, api: Deployment, root: Path, form: str) -> None:
        """The examples of the guide do what it says, and an editor finds nothing in them."""
        guide = (root / "docs" / "settings-files.md").read_text("utf-8")
        (example,) = re.findall(rf"```{form}\n(.*?RELAY_POLL_MS.*?)```", guide, re.DOTALL)
        api.write(f"settings.{form}", example)
        answer = api.show("--deployment=prod", target="relay")
        values = [setting(answer, f"RELAY_{name}_MS")["value"] for name in ("POLL", "TIMEOUT")]
        assert ([200, 90_000], []) == (values, answer["problems"])
        load: dict[str, Any] = {"toml": tomllib.loads, "yaml": YAML(typ="safe").load}
        schema = json.loads((root / "schema" / "relay.schema.json").read_text("utf-8"))
        jsonschema.validate(load.get(form, json.loads)(example), schema)

    def test_schema_checks_each_section(self, root: Path) -> None:
        """An editor marks a wrong value in a section, at that value, and no key of others."""
        schema = json.loads((root / "schema" / "relay.schema.json").read_text("utf-8"))
        document = {"prod": {"RELAY_MODE": "banana", "RELAY_POLL_MS": "5x"}, "other": [{"a": 1}]}
        errors = jsonschema.Draft202012Validator(schema).iter_errors(document)
        assert {("prod", "RELAY_MODE"), ("prod", "RELAY_POLL_MS")} == {
            tuple(error.absolute_path) for error in errors
        }
