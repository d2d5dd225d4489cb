"""Traps that other configuration libraries have fallen into, each tried from outside.

One service, a plain class, is asked two ways: by ``relayconf show`` and by the program itself. Both
must give the right answer, and so the same.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from relayconf.cli import main

APP = """
from datetime import date
from typing import Annotated
from pydantic import AliasChoices, BaseModel, Field, SecretStr
from pydantic_settings import SettingsConfigDict
from relayconf import Settings
from relayconf.declare import Env


class Database(BaseModel):
    host: str = "localhost"
    port: int = 5432
    timeout: int = 30


class AppSettings(Settings, target="app"):
    model_config = SettingsConfigDict(
        env_prefix="APP_", env_nested_delimiter="__", env_file=".env", hide_input_in_errors=False
    )
    debug: bool = False
    on: bool = True
    port: int = 8000
    ratio: float = 0.5
    name: str = "default"
    user: str = "nobody"
    code: str = "0000"
    day: date = date(2026, 1, 1)
    hosts: list[str] = ["localhost"]
    url: str = Field(default="none", validation_alias=AliasChoices("DATABASE_URL", "DB_URL"))
    token: SecretStr | None = None
    db: Database = Database()


class NeedsBoth(Settings, target="needs", prefix="NEED_"):
    token: SecretStr
    sibling: int
"""


class App(NamedTuple):
    """The service in its folder, and the two ways to ask it."""

    folder: Path
    cls: type[BaseModel]

    def show(self, env: dict[str, str]) -> dict[str, Any]:
        """Return what the command answers."""
        out = io.StringIO()
        with environment(env), contextlib.redirect_stdout(out):
            assert 0 == main(["show", "traps:AppSettings", "--json"])
        answer: dict[str, Any] = json.loads(out.getvalue())
        return answer

    def value(self, name: str, env: dict[str, str]) -> Any:
        """Return a value as the program has it; ``show`` must say the same."""
        with environment(env):
            value: Any = self.cls().model_dump(mode="json")
        for part in name.split("."):
            value = value[part]
        variable = "DATABASE_URL" if name == "url" else f"APP_{name.upper().replace('.', '__')}"
        shown = next(s for s in self.show(env)["settings"] if s["name"] == variable)
        assert shown["value"] == value
        return value

    def codes(self, env: dict[str, str]) -> list[tuple[str, str]]:
        """Return what is reported."""
        return [(p["code"], p["name"]) for p in self.show(env)["problems"]]

    def run(self, program: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a program of its own beside the service."""
        inherited = {n: os.environ[n] for n in ("PATH", "HOME") if n in os.environ}
        return subprocess.run(
            [sys.executable, "-c", program],
            cwd=self.folder,
            env={**inherited, "PYTHONPATH": str(self.folder), **env},
            capture_output=True,
            text=True,
            check=False,
        )


@contextlib.contextmanager
def environment(env: dict[str, str]) -> Iterator[None]:
    """Make these the only variables, in this order."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(env)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("traps")
    (folder / "traps.py").write_text(APP)
    sys.path.insert(0, str(folder))
    yield App(folder, importlib.import_module("traps").AppSettings)
    sys.path.remove(str(folder))


class TestBlanks:
    @pytest.mark.parametrize("blank", ["", " ", "\t\r"])
    def test_boolean(self, app: App, blank: str) -> None:
        """A blank variable neither turns a boolean on nor off."""
        assert False is app.value("debug", {"APP_DEBUG": blank})
        assert True is app.value("on", {"APP_ON": blank})

    def test_default(self, app: App) -> None:
        """A blank variable does not hide a default."""
        assert 8000 == app.value("port", {"APP_PORT": ""})
        assert "default" == app.value("name", {"APP_NAME": ""})

    def test_alias(self, app: App) -> None:
        """A blank alias does not hide the one that is set."""
        assert "old" == app.value("url", {"DATABASE_URL": " ", "DB_URL": "old"})


class TestNumbers:
    @pytest.mark.parametrize(
        "text", ["1_000", "٣٠", "\uff15", "²", "010", "08", "5.0", "0x10", "1e3", "9" * 5000]
    )
    def test_not_an_integer(self, app: App, text: str) -> None:
        """A text that only some programs take for an integer leaves the default, and is said."""
        assert 8000 == app.value("port", {"APP_PORT": text})
        assert [("invalid-value", "APP_PORT")] == app.codes({"APP_PORT": text})

    def test_long_number_is_not_repeated(self, app: App) -> None:
        """Five thousand digits are counted in a message, not shown."""
        message = app.show({"APP_PORT": "9" * 5000})["problems"][0]["message"]
        assert "<5000 characters>" in message
        assert len(message) < 200

    @pytest.mark.parametrize("text", [" 9000", "9000\r", "\t9000\n"])
    def test_white_space(self, app: App, text: str) -> None:
        """White space around a number, as a CRLF file leaves it, does not count and is noted."""
        assert 9000 == app.value("port", {"APP_PORT": text})
        assert [("whitespace", "APP_PORT")] == app.codes({"APP_PORT": text})


class TestTexts:
    @pytest.mark.parametrize("text", ["disabled", "enabled", "nope", "2", "None"])
    def test_word_that_is_no_boolean(self, app: App, text: str) -> None:
        """A word that is no boolean is not true for being a word."""
        assert False is app.value("debug", {"APP_DEBUG": text})

    @pytest.mark.parametrize(
        "text",
        [
            *("@format {env[SECRET]}", "@int 5", "@jinja {{ env.SECRET }}", "${SECRET}", "$SECRET"),
            *("%(SECRET)s", "{SECRET}", "{{ SECRET }}", "`id`", "!!python/object:os.system x"),
        ],
    )
    def test_template(self, app: App, text: str) -> None:
        """A text that looks like a template is the text."""
        assert text == app.value("name", {"APP_NAME": text, "SECRET": "canary"})

    @pytest.mark.parametrize("text", ["0123", "1.50", "1e3", "true", "null", "2026-01-01", "[1]"])
    def test_text_that_looks_like_something_else(self, app: App, text: str) -> None:
        """A text keeps its zeros, and never becomes a number, a date or a list."""
        assert text == app.value("code", {"APP_CODE": text})

    def test_date(self, app: App) -> None:
        """A field that is a date reads one."""
        assert "2027-03-01" == app.value("day", {"APP_DAY": "2027-03-01"})

    @pytest.mark.parametrize("text", ["a,b", "a, b", '["a","b"]', '[ "a" , "b" ]'])
    def test_list(self, app: App, text: str) -> None:
        """A list is written with commas, with or without spaces, or as JSON."""
        assert ["a", "b"] == app.value("hosts", {"APP_HOSTS": text})

    @pytest.mark.parametrize("text", ["a,,b", "a,", ",", '["a"', "[1]"])
    def test_list_with_a_hole(self, app: App, text: str) -> None:
        """A list with an empty or a wrong item is refused as a whole, never shortened."""
        assert ["localhost"] == app.value("hosts", {"APP_HOSTS": text})
        assert [("invalid-value", "APP_HOSTS")] == app.codes({"APP_HOSTS": text})


class TestNames:
    def test_single_separator(self, app: App) -> None:
        """One underscore where the delimiter is two sets nothing, and the right name is said."""
        problem = app.show({"APP_DB_PORT": "1"})["problems"][0]
        assert ("near-miss", "APP_DB__PORT") == (problem["code"], problem["suggestion"])
        assert 5432 == app.value("db.port", {"APP_DB_PORT": "1"})

    @pytest.mark.parametrize(
        "name",
        ["APP_PORT__MORE", "APP_PORT_MORE", "APP_PORTS", "APP_DB__PORT__X", "APP_DB__PORTS"],
    )
    def test_one_more_segment(self, app: App, name: str) -> None:
        """A variable whose name goes on behind a field's name is not that field."""
        env = {name: "1"}
        assert (8000, 5432) == (app.value("port", env), app.value("db.port", env))
        assert [name] == [found for _, found in app.codes(env)]

    def test_siblings(self, app: App) -> None:
        """Setting one field of a nested model leaves the others."""
        env = {"APP_DB__PORT": "1"}
        parts = ("db.host", "db.port", "db.timeout")
        assert ["localhost", 1, 30] == [app.value(part, env) for part in parts]

    def test_user(self, app: App) -> None:
        """The login's USER is not the field user."""
        assert "nobody" == app.value("user", {"USER": "root"})
        assert [] == app.codes({"USER": "root", "PORT": "1", "DEBUG": "1", "NAME": "x"})

    def test_order_of_the_environment(self, app: App) -> None:
        """Which of two spellings wins does not depend on their order."""
        spellings = [("APP_PORT", "1"), ("app_port", "2"), ("App_Port", "3")]
        orders = (spellings, spellings[::-1])
        assert [1, 1] == [app.value("port", dict(order)) for order in orders]
        names = [("DATABASE_URL", "new"), ("DB_URL", "old")]
        assert ["new", "new"] == [app.value("url", dict(o)) for o in (names, names[::-1])]


class TestForeignFiles:
    @pytest.mark.parametrize(
        "text",
        ["FOREIGN_TOKEN=canary\n", "canary\x00\xff", "A='canary\n", "canary is no assignment\n"],
    )
    def test_env_file_in_the_working_directory(
        self, app: App, text: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A .env of somebody else is not read: it neither stops the program nor is it printed."""
        (app.folder / ".env").write_bytes(text.encode("latin-1"))
        with contextlib.chdir(app.folder):
            assert 8000 == app.value("port", {})
        assert "canary" not in "".join(capsys.readouterr())


class TestSecrets:
    @pytest.mark.parametrize("sibling", [{}, {"NEED_SIBLING": "junk"}], ids=["missing", "invalid"])
    @pytest.mark.parametrize("use", ["relayconf.load(NeedsBoth)", "NeedsBoth()"])
    def test_missing_sibling(self, app: App, use: str, sibling: dict[str, str]) -> None:
        """A secret is not printed because another value is missing or wrong."""
        program = f"import relayconf; from traps import NeedsBoth; {use}"
        done = app.run(program, env={"NEED_TOKEN": "canary", **sibling})
        assert 1 == done.returncode
        assert "canary" not in done.stdout + done.stderr
        assert "sibling" in done.stderr.lower()
