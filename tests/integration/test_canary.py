"""A canary in every secret, and a walk along every way out: it must not be heard on any of them.

The service has a secret by itself, one in a nested model, one in a list and one in a document, and
passwords in urls. What is printed, logged, raised or shown of it is searched for the canary.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

import relayconf
from relayconf import flags, testing
from relayconf.cli import main
from relayconf.layers import Sources, collect
from relayconf.live import snapshot as live
from relayconf.process import read_process
from relayconf.resolve import resolve

CANARY = "kanari3nvogel"

APP = '''
import json
from typing import Annotated
from pydantic import BaseModel, Field, HttpUrl, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict
from relayconf import Settings
from relayconf.declare import Flag, Kind, Url


class Database(BaseModel):
    user: str = "app"
    password: SecretStr | None = None


class AppSettings(Settings, target="app"):
    model_config = SettingsConfigDict(
        env_prefix="APP_", env_nested_delimiter="__", hide_input_in_errors=False
    )
    port: int = 8000
    token: SecretStr | None = None
    tokens: list[SecretStr] = []
    keys: dict[str, SecretStr] = {}
    url: Url | None = None
    plain: Annotated[str, Kind("url")] = "https://example.com"
    link: HttpUrl = HttpUrl("https://example.com")
    urls: list[HttpUrl] = []
    db: Database = Database()
    strict: str = "ok"
    fast: Annotated[
        bool, Flag(kind="release", kill=False, owner="app", expires="2026-01-01")
    ] = True

    @model_validator(mode="after")
    def refuse(self):
        if self.strict == "quote":
            token = self.token.get_secret_value()
            raise ValueError(f"refused: {token!r} {token!a} {json.dumps(token)}")
        if self.strict == "refuse":
            raise ValueError(f"refused: {self.token.get_secret_value()} {self.url} {self.plain}")
        return self

    @field_validator("token")
    @classmethod
    def check(cls, token):
        if token and token.get_secret_value().endswith("bad"):
            raise ValueError(f"refused: {token.get_secret_value()}")
        return token


class Whole(Settings, target="whole"):
    """The nested model as one document, as without a delimiter."""

    model_config = SettingsConfigDict(env_prefix="APP_")
    db: Database = Database()
    needed: int
'''

URL = f"https://user:{CANARY}@example.com/x"
SECRETS = {
    "APP_TOKEN": CANARY,
    "APP_TOKENS": f"{CANARY},{CANARY}2",
    "APP_KEYS": f'{{"a": "{CANARY}"}}',
    "APP_URL": URL,
    "APP_PLAIN": URL,
    "APP_LINK": URL,
    "APP_URLS": f"{URL},{URL}",
    "APP_DB__PASSWORD": CANARY,
}

#: Texts that are wrong in one way or another, and still secret.
WRONG = {
    "APP_TOKEN": f"{CANARY}\udc80",
    "APP_URL": f"https://user:{CANARY}/@example.com",
    "APP_PLAIN": f" {URL}\r",
    "APP_LINK": f"user:{CANARY}@example.com",
    "APP_URLS": f"https://example.com,user:{CANARY}@example.com",
    "APP_PORT": "junk",
}


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("canary")
    (folder / "canaries.py").write_text(APP)
    sys.path.insert(0, str(folder))
    yield importlib.import_module("canaries")
    sys.path.remove(str(folder))


@pytest.fixture(params=["right", "wrong"])
def secrets(request: pytest.FixtureRequest) -> dict[str, str]:
    return SECRETS if request.param == "right" else {**SECRETS, **WRONG}


@pytest.fixture
def environment(module: Any, secrets: dict[str, str]) -> Iterator[None]:
    with testing.isolated(module.AppSettings, env=secrets):
        yield


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Log everything, pydantic-settings' own sources too, and search it in the end."""
    monkeypatch.setenv("PYDANTIC_SETTINGS_DEBUG", "1")
    caplog.set_level(logging.DEBUG)
    yield
    silent(caplog.text, "".join(str(vars(record)) for record in caplog.records))


def silent(*texts: str) -> None:
    """Fail where a text holds the canary, and say what stands around it, but for the bird."""
    for text in texts:
        found = text.find(CANARY)
        around = text[max(0, found - 300) : found + 100].replace(CANARY, "<here>")
        assert found < 0, around


def everything_of(error: BaseException) -> Iterator[str]:
    """Yield all that a program can show of an error and of those behind it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        this = waiting.pop()
        if this is None or id(this) in seen:
            continue
        seen.add(id(this))
        yield from (str(this), repr(this), repr(vars(this)), repr(this.args))
        if isinstance(this, ValidationError):
            yield from (repr(this.errors()), this.json())
        shown = traceback.TracebackException.from_exception(this, capture_locals=True)
        shown.stack[:] = [f for f in shown.stack if f.filename != __file__]
        yield "".join(shown.format())
        waiting.extend((this.__cause__, this.__context__))


def raised(call: Callable[[], Any]) -> BaseException:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is searched
        return error
    raise AssertionError("nothing was raised")


def command(*arguments: str) -> str:
    """Run a command here and return everything it prints."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.suppress(SystemExit),
    ):
        main(list(arguments))
    return out.getvalue() + err.getvalue()


@pytest.mark.usefixtures("log", "environment")
class TestObjects:
    def test_settings(self, module: Any) -> None:
        """No view of an instance shows a secret, alone or inside of something else."""
        held = live.load(module.AppSettings)
        for settings in (module.AppSettings(), held.current, held.current.model_copy()):
            silent(
                repr(settings), str(settings), f"{settings}", repr([settings]), repr(settings.db)
            )
            silent(repr(settings.token), str(settings.tokens), str(settings.keys))
            silent(repr(settings.model_dump(exclude={"plain", "link", "urls"})))
            silent(settings.model_dump_json(exclude={"plain", "link", "urls"}))
            silent(repr(list(settings.__repr_args__())), repr(pickle.loads(pickle.dumps(settings))))  # noqa: S301 - our own
        silent(repr(held), repr(held.snapshot), repr(held.sources))

    def test_the_way_of_a_value(self, module: Any) -> None:
        """Nothing that a value passes through on its way shows it."""
        contract = relayconf.contract_of(module.AppSettings)
        process = read_process(os.environ, options=[f"APP_TOKEN={CANARY}"])
        layers = collect(contract, process.sources)
        resolution = resolve(contract, layers)
        silent(repr(process), repr(process.sources), repr(layers), repr(contract))
        silent(repr(resolution), repr(resolution.values), repr(resolution.problems))
        silent(*(repr(entry) for layer in layers for entry in layer.entries))
        for effective in resolution.settings.values():
            silent(repr(effective), repr(effective.value), repr(effective.stack))
            silent(repr(effective.notes))
        silent(*(problem.line() for problem in resolution.problems))


@pytest.mark.usefixtures("log", "environment")
class TestErrors:
    def test_of_a_call(self, module: Any) -> None:
        """What pydantic raises, and all that hangs on it, is silent."""
        app = module.AppSettings
        for call in (
            lambda: app(port=object()),
            lambda: app(no_such_field=1),
            lambda: app(db={"no_such_field": object(), "user": object()}),
            lambda: app(strict="refuse", token=os.environ["APP_DB__PASSWORD"]),
            lambda: app(token=f"{os.environ['APP_DB__PASSWORD']}bad"),
            lambda: app(tokens=[object()]),
        ):
            silent(*everything_of(raised(call)))

    def test_of_a_slip_in_a_name(self, module: Any) -> None:
        """A secret that is handed over under a wrong name is not in the refusal."""
        silent(*everything_of(raised(lambda: module.AppSettings(tokn=CANARY))))

    def test_of_an_assignment(self, module: Any) -> None:
        """What is assigned to an instance, or deleted from it, is not in the refusal."""
        app = module.AppSettings()
        for change in (
            lambda: setattr(app, "token", os.environ["APP_DB__PASSWORD"]),
            lambda: setattr(app, "no_such_field", os.environ["APP_DB__PASSWORD"]),
            lambda: delattr(app, "token"),
            lambda: delattr(app, "url"),
        ):
            error = raised(change)
            assert "Instance is frozen" in str(error)
            silent(*everything_of(error))

    def test_of_a_load(self, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """What load raises is silent, also where the class quotes its own secrets."""
        monkeypatch.setenv("APP_TOKEN", CANARY)
        monkeypatch.setenv("APP_STRICT", "refuse")
        error = raised(lambda: live.load(module.AppSettings))
        assert "refused: ********" in str(error)
        silent(*everything_of(error))
        monkeypatch.setenv("APP_TOKEN", f"{CANARY}bad")
        silent(*everything_of(raised(lambda: live.load(module.AppSettings))))

    @pytest.mark.parametrize("token", [f'"{CANARY}', f"{CANARY}\\", f"{CANARY}'\"é\n"])
    def test_of_a_quotation(self, module: Any, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
        """A class that quotes its secret, as Python or JSON writes it, is not quoted itself."""
        monkeypatch.setenv("APP_TOKEN", token)
        monkeypatch.setenv("APP_STRICT", "quote")
        silent(*everything_of(raised(module.AppSettings)))
        silent(*everything_of(raised(lambda: live.load(module.AppSettings))))

    def test_of_a_missing_sibling(self, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A document with a secret in it is not shown because something else is missing."""
        for text in (
            f'{{"password": "{CANARY}"}}',
            f'{{"password": "{CANARY}", "user": 5}}',
            CANARY,
        ):
            monkeypatch.setenv("APP_DB", text)
            silent(*everything_of(raised(module.Whole)))
            silent(*everything_of(raised(lambda: live.load(module.Whole))))

    def test_of_strict(self, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """The list of all problems names no secret."""
        monkeypatch.setenv("APP_PORT", "99junk")
        monkeypatch.setenv("RELAYCONF_STRICT", "1")
        silent(*everything_of(raised(module.AppSettings)))
        silent(*everything_of(raised(lambda: live.load(module.AppSettings))))

    @pytest.mark.parametrize(
        "text",
        [
            f"APP_TOKEN={CANARY}\nA B={CANARY}\n",
            f"APP_TOKEN='{CANARY}\n",
            f'APP_TOKEN="{CANARY}',
            f"APP_TOKEN={CANARY}${{\n",
            f"APP_TOKEN=${{X?{CANARY[:0]}}}{CANARY}\n",
            f"export {CANARY} {CANARY}=1\n",
        ],
    )
    def test_of_a_damaged_env_file(self, module: Any, text: str, tmp_path: Path) -> None:
        """An env file that does not parse is named with its line, and not quoted."""
        path = tmp_path / "app.env"
        path.write_text(text)
        sources = Sources({}, env_files=(str(path),))
        silent(*everything_of(raised(lambda: live.load(module.AppSettings, sources))))
        silent(command("show", "canaries:AppSettings", "--env-file", str(path)))

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("settings.toml", f'[default]\nAPP_TOKEN = "{CANARY}\n'),
            ("settings.toml", f'[default]\nAPP_TOKEN = "{CANARY}"\nAPP_TOKEN = "{CANARY}"\n'),
            ("settings.toml", f'[default]\nAPP_TOKEN = {{ a = "{CANARY}" }}\n'),
            ("settings.yaml", f"default:\n  APP_TOKEN: '{CANARY}\n"),
            ("settings.yaml", f"default:\n  APP_TOKEN: {CANARY}: {CANARY}\n"),
            ("settings.yaml", f"default:\n  APP_TOKEN: [{CANARY}]\n"),
            ("settings.json", f'{{"default": {{"APP_TOKEN": "{CANARY}\n"}}'),
            (".secrets.json", f'{{"default": {{"APP_TOKEN": {CANARY}}}}}'),
        ],
    )
    def test_of_a_damaged_settings_file(self, module: Any, name: str, text: str) -> None:
        """A settings file that cannot be right is named with its place, and not quoted."""
        (Path(os.environ["RELAYCONF_CONFIG_DIR"]) / name).write_text(text)
        os.environ.pop("APP_TOKEN")
        silent(
            command("show", "canaries:AppSettings"),
            command("show", "canaries:AppSettings", "--json"),
        )
        with contextlib.suppress(AssertionError):
            silent(*everything_of(raised(lambda: live.load(module.AppSettings))))

    def test_of_flags(self, module: Any) -> None:
        """A question that a flag cannot answer is refused without the values."""
        held = live.load(module.AppSettings)
        for name in ("token", "no_such_flag", "url"):
            silent(*everything_of(raised(partial(flags.is_on, held, name))))


COMMANDS = [
    ("show",),
    ("flags",),
    ("flags", "--key", "k"),
    *(
        ("explain", name)
        for name in ("APP_TOKEN", "APP_URL", "APP_URLS", "APP_DB__PASSWORD", "APP_KEYS")
    ),
    ("generate", "--check"),
    ("generate",),
    ("run", "--", "/no/such/command"),
]


@pytest.mark.usefixtures("log", "environment")
class TestCommands:
    @pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
    @pytest.mark.parametrize(
        "how", [(), ("--json",), ("--strict",)], ids=lambda h: " ".join(h) or "text"
    )
    def test_output(
        self,
        words: tuple[str, ...],
        how: tuple[str, ...],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """No command prints a secret, in any form, right or wrong."""
        monkeypatch.chdir(tmp_path)
        options = ["--target", "canaries:AppSettings"]
        if words[0] == "generate":
            how = ()
        silent(command(words[0], *options, *how, *words[1:]))
        for path in tmp_path.rglob("*"):
            silent(path.read_text() if path.is_file() else "")

    def test_diff(self, secrets: dict[str, str], tmp_path: Path) -> None:
        """Two deployments that differ in secrets alone are said to differ, and that is all."""
        a, b = tmp_path / "a.env", tmp_path / "b.env"
        lines = [f"{name}='{text}'\n" for name, text in secrets.items() if "\udc80" not in text]
        a.write_text("".join(lines))
        b.write_text("".join(lines).replace(CANARY, f"{CANARY}2"))
        for how in ((), ("--json",)):
            said = command("diff", str(a), str(b), "canaries:AppSettings", *how)
            silent(said)
            assert "APP_DB__PASSWORD" in said

    @pytest.mark.parametrize(
        "words",
        [
            ("show", "canaries:AppSettings", f"APP_TOKEN={CANARY}"),
            ("show", "canaries:AppSettings", f"APP_TOKEN=x y={CANARY} {CANARY}"),
            ("show", "canaries:AppSettings", f"--no-such={CANARY}"),
            ("show", "canaries:AppSettings", "--set", CANARY),
            ("show", "canaries:AppSettings", "--set", f"{CANARY}=="),
            ("show", "canaries:AppSettings", "--set", f"APP_TOKN={CANARY}"),
            ("show", "canaries:AppSettings", "--set", f"APP_TOKEN={CANARY}"),
            ("show", "canaries:AppSettings", "--set", f"APP_URL=https://:{CANARY}@h:x"),
            (f"APP_TOKEN={CANARY}",),
            ("explain", "APP_TOKEN", "--target", "canaries:AppSettings", f"APP_TOKEN={CANARY}"),
            ("completion", f"APP_TOKEN={CANARY}"),
        ],
        ids=lambda w: " ".join(w).replace(CANARY, "X"),
    )
    def test_usage(self, words: tuple[str, ...]) -> None:
        """A secret in a wrong place of the command line is not repeated."""
        silent(command(*words))

    def test_help(self) -> None:
        """Help and completion are made of declarations alone."""
        for words in (["--help"], ["run", "--help"], ["completion", "bash"]):
            silent(command(*words))


class TestRun:
    def test_exports_and_does_not_print(self, module: Any) -> None:
        """The command that is run gets the secrets in plain; nothing else hears of them."""
        env = {n: t for n, t in os.environ.items() if not n.startswith(("APP_", "RELAY"))}
        seen = "import os, sys; sys.exit(os.environ['APP_TOKEN'] != os.environ['EXPECTED'])"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "relayconf", "run", "--target", "canaries:AppSettings"),
                *("--", sys.executable, "-c", seen),
            ],
            cwd=Path(module.__file__).parent,
            env={**env, **SECRETS, "APP_PORT": "junk", "EXPECTED": CANARY},
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == done.returncode, done.stderr
        assert "APP_PORT" in done.stderr
        silent(done.stdout, done.stderr)
