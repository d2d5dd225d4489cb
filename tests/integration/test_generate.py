"""``relayconf generate`` in somebody's project: one declaration, and everything that follows it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from relayconf.compose import load

CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(("RELAY", "SHOP_", "API_"))}

SETTINGS = '''
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import SecretStr
from relayconf.declare import (
    AppliesLive, Clamp, Doc, Env, Example, Flag, Groups, LessThan, Reject, Rollout, Url, seconds,
)
from relayconf.settings import Settings


class ShopSettings(Settings, target="shop", prefix="SHOP_"):
    """A shop."""

    ttl: Annotated[
        timedelta,
        Env("SHOP_TTL_MS", legacy=("SHOP_CACHE",)),
        Clamp("100ms", "60s"),
        AppliesLive(),
        LessThan("SHOP_MAX_TTL_MS"),
        Doc("How long an answer is kept."),
    ] = seconds(3)
    max_ttl: Annotated[timedelta, Env("SHOP_MAX_TTL_MS"), Doc("The longest.")] = seconds(60)
    workers: Annotated[int, Clamp("1", "8"), Reject(), Doc("How many at once.")] = 2
    level: Annotated[Literal["debug", "info"], Doc("What is logged.")] = "info"
    origins: Annotated[tuple[str, ...], Doc("Who may ask."), Example("a,b")] = ()
    upstream: Annotated[Url | None, Doc("Who is asked."), Example("http://h:1/")] = None
    token: Annotated[SecretStr | None, Doc("The token for it.")] = None
    search: Annotated[
        Rollout,
        Groups("new"),
        Flag(kind="experiment", kill=False, owner="search", expires="2031-01-01"),
        Doc("The new search."),
    ] = "10%"
'''
PROJECT = '[tool.relayconf]\ntargets = ["shop.settings:ShopSettings", "api.schema.yaml"]\n'
API = """
x-relayconf: {version: 1, target: api, prefix: API_}
properties:
  API_PORT: {type: integer, default: 8080, description: Where it listens.}
"""
FILES = [
    "docs/reference/api.md",
    "docs/reference/shop.md",
    "schema/api.compose.yaml",
    "schema/api.env.example",
    "schema/api.schema.json",
    "schema/shop.compose.yaml",
    "schema/shop.env.example",
    "schema/shop.schema.json",
    "schema/vectors.json",
]

Run = Callable[..., subprocess.CompletedProcess[str]]


def make_project(folder: Path) -> Path:
    """Make a project with a settings class and a contract by hand."""
    (folder / "shop").mkdir()
    (folder / "shop" / "__init__.py").write_text("")
    (folder / "shop" / "settings.py").write_text(SETTINGS)
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "api.schema.yaml").write_text(API)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the folder of a project in which nothing is generated yet."""
    return make_project(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a project in which everything is generated; not to be changed."""
    folder = make_project(tmp_path_factory.mktemp("finished"))
    generate(folder)
    return folder


@pytest.fixture(scope="module")
def document(finished: Path) -> dict[str, Any]:
    """Return the generated contract of the shop."""
    text = (finished / "schema" / "shop.schema.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


def relayconf(
    project: Path, *arguments: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    own = {**CLEAN, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    command = [sys.executable, "-m", "relayconf", *arguments]
    return subprocess.run(
        command, cwd=project, env=own, capture_output=True, text=True, check=False
    )


def generate(project: Path, *arguments: str, env: dict[str, str] | None = None) -> list[str]:
    """Generate, and return the paths that were written."""
    done = relayconf(project, "generate", *arguments, env=env)
    assert (0, "") == (done.returncode, done.stderr)
    return [line.removeprefix("wrote ") for line in done.stdout.splitlines()]


def generated(project: Path) -> dict[str, bytes]:
    paths = [p for folder in ("schema", "docs") for p in (project / folder).rglob("*")]
    return {str(p.relative_to(project)): p.read_bytes() for p in sorted(paths) if p.is_file()}


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


class TestGenerate:
    def test_writes_every_file_once(self, project: Path) -> None:
        """One command writes all that repeats the declarations, and nothing when all is there."""
        assert FILES == sorted(generate(project))
        assert FILES == sorted(generated(project))
        assert [] == generate(project)
        done = relayconf(project, "generate", "--check")
        assert (0, "", "") == (done.returncode, done.stdout, done.stderr)

    def test_a_touched_declaration_changes_all_of_them(self, project: Path) -> None:
        """A new setting is in the contract, both examples, the page and the vectors at once."""
        generate(project)
        before = generated(project)
        edit(
            project / "shop" / "settings.py",
            "    level:",
            "    speed: Annotated[float, Doc('X.')] = 1.5\n    level:",
        )
        done = relayconf(project, "generate", "--check")
        assert 1 == done.returncode
        assert "run 'relayconf generate'" in done.stderr
        for path in ("schema.json", "env.example", "compose.yaml"):
            assert f"--- schema/shop.{path}\n+++ schema/shop.{path} (generated)" in done.stdout
        assert re.search(r"^\+#SHOP_SPEED=1\.5$", done.stdout, re.MULTILINE)
        assert before == generated(project)
        touched = [path for path in FILES if "shop" in path] + ["schema/vectors.json"]
        assert sorted(touched) == sorted(generate(project))
        assert 0 == relayconf(project, "generate", "--check").returncode
        assert b"SHOP_SPEED" in generated(project)["schema/vectors.json"]

    def test_a_touched_file_is_drift(self, project: Path) -> None:
        """An edit by hand, or a file that is gone, is found and put right."""
        generate(project)
        whole = generated(project)
        for path, data in whole.items():
            (project / path).write_bytes(data + b"x\n")
        done = relayconf(project, "generate", "--check")
        heads = sorted(re.findall(r"^--- (.*)$", done.stdout, re.MULTILINE))
        assert (1, FILES) == (done.returncode, heads)
        assert len(FILES) == done.stdout.splitlines().count("-x")
        for path in FILES[::2]:
            (project / path).unlink()
        done = relayconf(project, "generate", "--check")
        gone = sorted(re.findall(r"^(.*): missing$", done.stdout, re.MULTILINE))
        assert (1, FILES[::2]) == (done.returncode, gone)
        assert FILES == sorted(generate(project))
        assert whole == generated(project)

    def test_the_same_bytes_everywhere(self, project: Path) -> None:
        """No hash seed, locale, time zone or terminal changes a byte."""
        generate(project)
        first = generated(project)
        for env in (
            {"PYTHONHASHSEED": "1", "LC_ALL": "C", "COLUMNS": "40"},
            {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "PYTHONUTF8": "1", "SHOP_TTL_MS": "9"},
        ):
            done = relayconf(project, "generate", "--check", env=env)
            assert (0, "") == (done.returncode, done.stdout)
        assert first == generated(project)

    def test_one_target_leaves_the_others_alone(self, project: Path) -> None:
        """With --target its files are written, and the vectors stay those of all targets."""
        generate(project)
        whole = generated(project)
        for path in generated(project):
            (project / path).unlink()
        written = generate(project, "--target", "api.schema.yaml")
        assert [path for path in FILES if "shop" not in path] == sorted(written)
        assert whole["schema/vectors.json"] == generated(project)["schema/vectors.json"]

    def test_an_unlisted_target_does_not_touch_the_vectors(self, project: Path) -> None:
        """Vectors that a project publishes are not replaced by those of a stranger."""
        (project / "other.json").write_text(
            json.dumps(
                {
                    "x-relayconf": {"version": 1, "target": "other"},
                    "properties": {"X": {}},
                }
            )
        )
        written = generate(project, "--target", "other.json")
        assert "schema/other.schema.json" in written
        assert "schema/vectors.json" not in written

    def test_a_hand_written_source_is_never_overwritten(self, project: Path) -> None:
        """A contract that stands where its copy would be stays as somebody wrote it."""
        source = project / "schema" / "mine.schema.json"
        source.parent.mkdir()
        text = '{"x-relayconf": {"version": 1, "target": "mine"},\n "properties": {"A": {}}}'
        source.write_text(text)
        written = generate(project, "--target", "schema/mine.schema.json")
        assert "schema/mine.schema.json" not in written
        assert "schema/mine.env.example" in written
        assert text == source.read_text()
        check = ("generate", "--check", "--target", "schema/mine.schema.json")
        assert 0 == relayconf(project, *check).returncode

    def test_drift_names_the_command_that_mends_it(self, project: Path) -> None:
        """The last line of a check may be copied, also where one target was checked."""
        words = ("generate", "--check", "--target", "api.schema.yaml")
        said = relayconf(project, *words).stderr
        assert "stale; run 'relayconf generate --target api.schema.yaml'" in said


class TestBadInput:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (None, "name one by --target"),
            ("", "name one by --target"),
            ("tool = 5", "name one by --target"),
            ("[tool.relayconf]\ntargets = 5", "must be a list of texts"),
            ("[tool.relayconf]\ntargets = [5]", "must be a list of texts"),
            ("[tool.relayconf", "pyproject.toml: "),
            (f"a = {'[' * 5000}", "pyproject.toml: it nests too deep"),
            ("[tool.relayconf]\ntargets = ['no.such:Thing']", "cannot import 'no.such'"),
            ("[tool.relayconf]\ntargets = ['missing.yaml']", "missing.yaml: "),
            ("[tool.relayconf]\ntargets = ['api.schema.yaml', './api.schema.yaml']", "two targets"),
        ],
    )
    def test_one_line_and_exit_2(self, project: Path, text: str | None, words: str) -> None:
        """A project that lists nothing usable gets one line that says what to do."""
        (project / "pyproject.toml").unlink()
        if text is not None:
            (project / "pyproject.toml").write_text(text)
        done = relayconf(project, "generate")
        assert (2, "") == (done.returncode, done.stdout)
        assert words in done.stderr
        assert 1 == len(done.stderr.splitlines())

    def test_a_pipe_is_not_waited_for(self, project: Path) -> None:
        """A pipe in the place of what is read or written is named, and nothing hangs."""
        (project / "schema").mkdir()
        os.mkfifo(project / "schema" / "shop.schema.json")
        check = relayconf(project, "generate", "--check")
        assert (1, True) == (check.returncode, "schema/shop.schema.json: missing" in check.stdout)
        write = relayconf(project, "generate")
        assert (1, True) == (write.returncode, "cannot write schema/shop" in write.stderr)
        (project / "pyproject.toml").unlink()
        os.mkfifo(project / "pyproject.toml")
        assert 2 == relayconf(project, "generate").returncode

    def test_a_place_that_cannot_be_written(self, project: Path) -> None:
        """A file in the way of a folder is named, and the exit code is 1."""
        (project / "schema").write_text("")
        done = relayconf(project, "generate")
        assert (1, True) == (done.returncode, "cannot write schema/" in done.stderr)
        assert 1 == len(done.stderr.splitlines())


class TestSchema:
    @pytest.fixture
    def validator(self, document: dict[str, Any]) -> Any:
        """Return a validator for the shop's settings files."""
        jsonschema.Draft202012Validator.check_schema(document)
        return jsonschema.Draft202012Validator(document)

    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"SHOP_TTL_MS": 250, "SHOP_LEVEL": "debug", "SHOP_SEARCH": True},
            {"SHOP_TTL_MS": "1m30s", "SHOP_LEVEL": "DEBUG", "SHOP_SEARCH": "12.5%"},
            {"SHOP_TTL_MS": " 5s\r\n", "SHOP_ORIGINS": ["a", "b"], "SHOP_TOKEN": "x"},
            {"SHOP_TTL_MS": "", "SHOP_ORIGINS": "a, b", "SHOP_UPSTREAM": "http://u:p@h"},
            {"SHOP_TTL_MS": 999_999_999},
            {"default": {"SHOP_TTL_MS": 1}, "prod": {"SHOP_TTL_MS": "2s"}},
            {"OTHER_X": {"deep": 1}, "OTHER_Y": 5, "$schema": "x"},
        ],
    )
    def test_right_documents_pass(self, validator: Any, given: Any) -> None:
        """A settings file that works is not complained of, other services' keys included."""
        assert [] == [error.message for error in validator.iter_errors(given)]

    @pytest.mark.parametrize(
        "given",
        [
            5,
            {"SHOP_TTL_MS": "5 seconds"},
            {"SHOP_TTL_MS": 1.5},
            {"SHOP_TTL_MS": True},
            {"SHOP_TTL_MS": "1_000"},
            {"SHOP_LEVEL": "loud"},
            {"SHOP_SEARCH": "101%"},
            {"SHOP_SEARCH": "maybe"},
            {"SHOP_UPSTREAM": "example.com"},
            {"SHOP_TOKEN": " "},
            {"SHOP_ORIGINS": [{"a": 1}]},
            {"SHOP_ORIGINS": [None]},
            {"SHOP_WORKERS": 9},
            {"prod": {"SHOP_TTL_MS": "soon"}},
        ],
    )
    def test_wrong_documents_do_not(self, validator: Any, given: Any) -> None:
        """An editor marks what would not be used as it is written."""
        assert not validator.is_valid(given)

    def test_a_settings_file_that_passes_resolves(self, project: Path, validator: Any) -> None:
        """What the schema takes, relayconf takes as well."""
        given = {"SHOP_TTL_MS": "2s", "SHOP_LEVEL": "DEBUG", "SHOP_ORIGINS": ["x"]}
        assert validator.is_valid(given)
        (project / "settings.json").write_text(json.dumps({"$schema": "x", "default": given}))
        done = relayconf(project, "show", "shop.settings:ShopSettings", "--json")
        answer = json.loads(done.stdout)
        values = {s["name"]: s["value"] for s in answer["settings"]}
        assert [] == answer["problems"]
        assert (2000, "debug", ["x"]) == (
            values["SHOP_TTL_MS"],
            values["SHOP_LEVEL"],
            values["SHOP_ORIGINS"],
        )


class TestFragments:
    @pytest.fixture
    def files(self, project: Path, finished: Path) -> list[str]:
        """Return the compose files of a project that uses each fragment on one service."""
        shutil.copytree(finished / "schema", project / "schema")
        (project / "compose.yaml").write_text(
            "services:\n"
            "  one: {image: x, extends: {file: schema/shop.compose.yaml, service: shop-pass}}\n"
            "  two:\n"
            "    image: x\n"
            "    extends: {file: schema/shop.compose.yaml, service: shop-file}\n"
        )
        return [str(project / "compose.yaml")]

    def test_pass_hands_on_what_is_set(self, files: list[str]) -> None:
        """What the shell sets reaches the container, and nothing else has a value there."""
        project = load(files=files, environ={"SHOP_TTL_MS": "7s", "SHOP_OTHER": "1"})
        got = project.environments()
        assert {"SHOP_TTL_MS": "7s"} == {k: v for k, v in got["one"].items() if v is not None}
        assert {} == got["two"]

    def test_pass_names_every_setting(self, files: list[str], document: dict[str, Any]) -> None:
        """No setting is left behind, and no default is repeated."""
        values = load(files=files, environ={}).environments()["one"]
        assert dict.fromkeys(document["properties"]) == values

    def test_pass_takes_an_env_file_for_compose(self, project: Path, files: list[str]) -> None:
        """What --env-file says reaches the container as well."""
        (project / "prod.env").write_text("SHOP_LEVEL=debug\n")
        got = load(files=files, env_files=[str(project / "prod.env")], environ={}).environments()
        assert "debug" == got["one"]["SHOP_LEVEL"]

    def test_file_hands_on_what_the_file_sets(self, project: Path, files: list[str]) -> None:
        """What the env file beside compose.yaml says reaches the container; the shell does not."""
        (project / "shop.env").write_text("SHOP_TTL_MS=9s\n")
        got = load(files=files, environ={"SHOP_TTL_MS": "1s", "SHOP_LEVEL": "debug"}).environments()
        assert {"SHOP_TTL_MS": "9s"} == got["two"]


class TestEnvExample:
    @pytest.fixture
    def text(self, finished: Path) -> str:
        """Return the example env file of the shop."""
        return (finished / "schema" / "shop.env.example").read_text()

    def test_every_entry_is_commented_out(self, text: str, document: dict[str, Any]) -> None:
        """A copy changes nothing, and names every setting once."""
        assert [] == [line for line in text.splitlines() if line and not line.startswith("#")]
        entries = re.findall(r"^#([A-Z_]+)=", text, re.MULTILINE)
        assert sorted(document["properties"]) == sorted(entries)
        assert "\n#SHOP_TOKEN=\n" in text

    def test_uncommented_it_shows_the_defaults(self, project: Path, text: str) -> None:
        """Whoever uncomments everything has changed nothing but what had no default."""
        (project / "all.env").write_text(re.sub(r"^#(?=[A-Z_]+=)", "", text, flags=re.MULTILINE))
        show = ("show", "shop.settings:ShopSettings", "--env-file", "all.env", "--json")
        answer = json.loads(relayconf(project, *show).stdout)
        problems = [(p["code"], p["name"]) for p in answer["problems"]]
        assert [("blank-secret", "SHOP_TOKEN")] == problems
        changed = {s["name"]: s["value"] for s in answer["settings"] if s["value"] != s["default"]}
        assert {"SHOP_ORIGINS": ["a", "b"], "SHOP_UPSTREAM": "http://h:1/"} == changed


class TestReference:
    def test_says_all_of_a_setting(self, finished: Path) -> None:
        """Each variable has a heading, and under it what a person asks for."""
        page = (finished / "docs" / "reference" / "shop.md").read_text()
        sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
        ttl = sections["SHOP_TTL_MS"]
        for words in (
            "How long an answer is kept.",
            "* **Range**: 100ms to 1m; a value outside counts as the nearest bound",
            "* **Rule**: below [`SHOP_MAX_TTL_MS`](#shop_max_ttl_ms); where it is not, this one",
            "* **Default**: `3s`",
            "* **Unit of a bare number**: ms",
            "* **Applies**: live, in a running process",
            "* **Legacy name**: `SHOP_CACHE`",
            "SHOP_TTL_MS=3000",
        ):
            assert words in ttl
        assert "* **Range**: 1 to 8; a value outside is refused" in sections["SHOP_WORKERS"]
        for words in (
            "* **Groups**: `@new`",
            "* **Flag**: experiment, owned by search",
            "* **Expires**: 2031-01-01 is its last day",
            "* **When killed**: false",
        ):
            assert words in sections["SHOP_SEARCH"]
        for name in ("SHOP_TOKEN", "SHOP_UPSTREAM"):
            assert f"* **As a file**: `{name}_FILE` names it" in sections[name]
        assert "SHOP_TOKEN=" not in sections["SHOP_TOKEN"]
