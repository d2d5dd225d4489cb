"""Where relayconf departs from pydantic-settings, one test for each row of the guide's tables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ByteSize,
    Field,
    HttpUrl,
    SecretStr,
    ValidationError,
    field_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from relayconf import testing
from relayconf.declare import AllowBlank, Env, Reject, Unit, Url
from relayconf.errors import DeclarationError, StrictError
from relayconf.live import snapshot as live
from relayconf.resolve import Resolution
from relayconf.settings import InvalidSettingsError, Settings, contract_of


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    with testing.isolated():
        yield


def resolution(cls: type[Settings]) -> Resolution:
    return live.load(cls).snapshot.resolution


def codes(cls: type[Settings]) -> list[tuple[str, str, str | None]]:
    return [(p.code, p.name, p.suggestion) for p in resolution(cls).problems]


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Part(BaseModel):
    host: str = "localhost"
    port: int = 1


class Texts(Settings, target="shop", prefix="SHOP_"):
    """Texts whose meaning differs."""

    name: str = "default"
    open: Annotated[str, AllowBlank()] = "default"
    debug: bool = True
    port: int = Field(default=8000, ge=1, le=65535)
    above: int = Field(default=5, gt=0, lt=10)
    strict: Annotated[int, Reject()] = Field(default=5, ge=1, le=9)
    ratio: float = 0.5
    wait: timedelta = timedelta(seconds=1)
    poll_ms: timedelta = timedelta(seconds=1)
    minutes: Annotated[timedelta, Unit("m")] = timedelta(minutes=1)
    size: ByteSize = ByteSize(1)
    hosts: list[str] = Field(default=["h"])
    color: Color = Color.RED
    optional: int | None = None


#: Row by row: the field, the text, and the value that it gets.
TEXTS: list[tuple[str, str, Any]] = [
    *(("name", blank, "default") for blank in ("", " ", "\t")),
    ("debug", "", True),
    ("port", "", 8000),
    ("open", "", ""),
    ("port", "99999", 65535),
    ("port", "0", 1),
    ("above", "0", 1),
    ("above", "10", 9),
    ("strict", "10", 5),
    *(("port", text, 8000) for text in ("1_000", "+5", "5.0", "٣٠", "007", "junk")),
    *(("ratio", text, 0.5) for text in ("1e3", "inf", "nan")),
    *(("debug", text, True) for text in ("f", "n", "t", "y", "disabled")),
    *(("debug", text, False) for text in ("FALSE", "off", "No", "0")),
    ("wait", "30", timedelta(seconds=30)),
    ("wait", "1h30m", timedelta(minutes=90)),
    ("poll_ms", "30", timedelta(milliseconds=30)),
    ("minutes", "30", timedelta(minutes=30)),
    *(("wait", text, timedelta(seconds=1)) for text in ("PT30S", "1 day", "0:30", "00:00:30")),
    ("size", "10MB", 10_000_000),
    ("size", "1KiB", 1024),
    *(("size", text, 1) for text in ("10 MB", "1 kib", "1kib")),
    *(("hosts", text, ["a", "b"]) for text in ("a,b", "a, b", '["a","b"]')),
    ("color", "BLUE", Color.BLUE),
    ("port", " 9000\r", 9000),
    ("name", " padded ", " padded "),
    ("optional", "null", None),
]


class TestTexts:
    @pytest.mark.parametrize(("field", "text", "value"), TEXTS)
    def test_value(self, field: str, text: str, value: Any) -> None:
        """Each text has the value that the guide's table says."""
        os.environ[f"SHOP_{field.upper()}"] = text
        assert value == getattr(Texts(), field)

    def test_bad_value_falls_to_the_next_layer(self, tmp_path: Path) -> None:
        """A bad value does not hide the good one below it, and is said once."""
        (tmp_path / "good.env").write_text("SHOP_PORT=9000\n")
        os.environ.update(SHOP_PORT="junk", RELAYCONF_ENV_FILE=str(tmp_path / "good.env"))
        assert 9000 == Texts().port

    def test_strict_lists_all(self) -> None:
        """RELAYCONF_STRICT=1 refuses a call as it refuses a load, with every bad value."""
        os.environ.update(SHOP_PORT="junk", SHOP_DEBUG="maybe", RELAYCONF_STRICT="1")
        with pytest.raises(StrictError) as caught:
            Texts()
        assert 2 == len(caught.value.problems)


class TestNames:
    def test_case_counts(self) -> None:
        """Another case is not read, and reported with the right name."""
        os.environ.update({"shop_port": "1"})
        assert 8000 == Texts().port
        assert [("near-miss", "shop_port", "SHOP_PORT")] == codes(Texts)

    def test_case_sensitive_class(self) -> None:
        """With case_sensitive a name is as the class spells it."""

        class Sensitive(Settings, target="sensitive"):
            model_config = SettingsConfigDict(env_prefix="app_", case_sensitive=True)
            maxSize: int = 1  # noqa: N815 - what is tested

        assert ["app_maxSize"] == list(contract_of(Sensitive).settings)

    @pytest.mark.parametrize("name", ["user", "path", "home", "hostname", "lang"])
    def test_ambient_name(self, name: str) -> None:
        """A field that would read what every shell sets is refused, with what to write instead."""
        with pytest.raises(DeclarationError, match=re.escape(f"Env('{name.upper()}')")):
            type("Loose", (Settings,), {"__annotations__": {name: str}, name: "x"})

    def test_ambient_name_that_is_meant(self) -> None:
        """Env says that the variable is meant."""

        class Meant(Settings, target="meant"):
            user: Annotated[str, Env("USER")] = "nobody"

        os.environ["USER"] = "ann"
        assert "ann" == Meant().user

    def test_alias_choices(self) -> None:
        """The first alias names the setting; another one works, and is a legacy name."""

        class Aliased(Settings, target="aliased"):
            url: str = Field(default="", validation_alias=AliasChoices("NEW_URL", "OLD_URL"))

        os.environ["OLD_URL"] = "x"
        assert "x" == Aliased().url
        assert [("legacy-name", "NEW_URL", "NEW_URL")] == codes(Aliased)
        os.environ["NEW_URL"] = ""
        assert "x" == Aliased().url

    def test_alias_path(self) -> None:
        """An alias that leads into a document is refused, with what to write instead."""
        with pytest.raises(DeclarationError, match=r"Deep\.part: .*Env\('A_NAME'\)"):

            class Deep(Settings, target="deep"):
                part: str = Field(default="", validation_alias=AliasPath("DATA", 0))

    def test_whole_model_in_one_variable(self) -> None:
        """With a delimiter, a document for the whole model is not read, and reported."""

        class Nested(Settings, target="nested"):
            model_config = SettingsConfigDict(env_prefix="N_", env_nested_delimiter="__")
            db: Part = Part()

        os.environ["N_DB"] = '{"port": 5}'
        assert 1 == Nested().db.port
        assert ["unknown-name"] == [p.code for p in resolution(Nested).problems]

    def test_whole_model_without_a_delimiter(self) -> None:
        """Without one, the document is what is read."""

        class Whole(Settings, target="whole", prefix="W_"):
            db: Part = Part()

        os.environ["W_DB"] = '{"port": 5}'
        assert 5 == Whole().db.port

    def test_siblings_of_a_default_instance(self) -> None:
        """Setting one field of a nested model keeps the others of its default instance."""

        class Nested(Settings, target="nested"):
            model_config = SettingsConfigDict(env_prefix="N_", env_nested_delimiter="__")
            db: Part = Part(host="db.internal")

        os.environ["N_DB__PORT"] = "5"
        assert Part(host="db.internal", port=5) == Nested().db

    def test_dictionary_by_name(self) -> None:
        """A variable that goes on behind a dictionary's name is not read, and reported."""

        class Labels(Settings, target="labels"):
            model_config = SettingsConfigDict(env_prefix="L_", env_nested_delimiter="__")
            labels: dict[str, int] = Field(default={})

        os.environ["L_LABELS__A"] = "1"
        assert {} == Labels().labels
        assert ["L_LABELS__A"] == [p.name for p in resolution(Labels).problems]
        os.environ["L_LABELS"] = '{"a": 1}'
        assert {"a": 1} == Labels().labels


class TestPlaces:
    @pytest.mark.parametrize(
        "key", ["env_file", "secrets_dir", "json_file", "toml_file", "yaml_file"]
    )
    def test_named_by_the_class(
        self,
        key: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """A place that the class names is not read, and one warning says what there is instead."""
        (tmp_path / ".env").write_text("PLACES_NAME='\nnot an env file: canary\n")
        monkeypatch.chdir(tmp_path)
        config = {"env_prefix": "PLACES_", key: ".env"}
        cls = type(f"By_{key}", (Settings,), {"__annotations__": {"name": str}, "name": "x"})
        cls = type(f"By_{key}", (cls,), {"model_config": config})
        assert ["x", "x"] == [cls().name for _ in range(2)]
        lines = [record.getMessage() for record in caplog.records]
        assert [f"By_{key}: {key} in model_config is not read"] == [x.split(";")[0] for x in lines]

    def test_command_line_of_the_class(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A class that would parse the command line does not."""
        monkeypatch.setattr("sys.argv", ["program", "--name", "x", "--no-such-option"])

        class Cli(Settings, target="cli"):
            model_config = SettingsConfigDict(env_prefix="CLI_", cli_parse_args=True)
            name: str = "default"

        assert "default" == Cli().name

    def test_sources_of_the_class(self) -> None:
        """A class with sources of its own is refused when it is defined."""
        with pytest.raises(DeclarationError, match="settings_customise_sources"):

            class Own(Settings, target="own"):
                @classmethod
                def settings_customise_sources(cls, *_: Any, **sources: Any) -> Any:
                    """Return another order."""
                    return tuple(sources.values())

    def test_other_words_of_a_call(self) -> None:
        """An argument of pydantic-settings that is not supported is refused by name."""
        with pytest.raises(TypeError, match="_env_prefix"):
            Texts(_env_prefix="X_")  # type: ignore[call-arg]  # what is tested


class Reading(Settings, target="reading", prefix="READ_"):
    seen: ClassVar[list[Any]] = []

    own: int = 1
    all: int = 1

    @field_validator("own", mode="before")
    @classmethod
    def one(cls, value: Any) -> Any:
        """Keep what the validator of one field gets."""
        cls.seen.append(value)
        return value

    @field_validator("*", mode="before")
    @classmethod
    def every(cls, value: Any) -> Any:
        """Keep what the validator of all fields gets."""
        cls.seen.append(value)
        return value


class TestTypesAndClasses:
    def test_validators_that_run_first(self) -> None:
        """A field's own gets the text as it is written; one for all fields the finished value."""
        os.environ.update(READ_OWN="0x1", READ_ALL="2")
        Reading.seen.clear()
        with pytest.raises(ValidationError):
            Reading()
        assert ["0x1", "0x1", 2] == Reading.seen
        assert "string" == contract_of(Reading).settings["READ_OWN"].type

    def test_refusal_names_the_variable(self, tmp_path: Path) -> None:
        """What pydantic refuses at start is named by its variable, with its file and line."""

        class Typed(Settings, target="typed", prefix="T_"):
            labels: dict[str, int] = Field(default={})
            needed: str

        (tmp_path / "app.env").write_text('\nT_LABELS={"a": "canary"}\n')
        os.environ["RELAYCONF_ENV_FILE"] = str(tmp_path / "app.env")
        with pytest.raises(InvalidSettingsError) as caught:
            live.load(Typed)
        first, second = str(caught.value).splitlines()
        assert first.startswith("T_LABELS: Input should be a valid integer")
        assert first.endswith("app.env:2)")
        assert "T_NEEDED: it is required, and no layer sets it" == second
        assert None is caught.value.__context__

    def test_frozen(self) -> None:
        """An instance cannot be changed, unless its class says so."""
        with pytest.raises(ValidationError, match="frozen"):
            Texts().port = 1

        class Loose(Settings, target="loose"):
            model_config = SettingsConfigDict(frozen=False)
            port: int = 1

        loose = Loose()
        loose.port = 2
        assert 2 == loose.port

    def test_default_factories(self) -> None:
        """A default that is always the same is documented; any other is left to the instance."""
        calls = iter(range(100))

        class Inner(BaseSettings):
            port: int

        class Made(Settings, target="made", prefix="M_"):
            hosts: list[str] = Field(default_factory=lambda: ["a"])
            number: int = Field(default_factory=lambda: next(calls))
            broken: int = Field(default_factory=lambda: int(os.environ["NOT_THERE"]))
            inner: Inner = Field(default_factory=Inner)  # type: ignore[arg-type]  # reads PORT

        found = {name: s.default for name, s in contract_of(Made).settings.items()}
        assert {"M_HOSTS": ("a",), "M_NUMBER": None, "M_BROKEN": None, "PORT": None} == found

    def test_arguments(self) -> None:
        """A text as an argument is judged like a variable; an object is pydantic's to refuse."""
        assert 8000 == Texts(port="junk").port  # type: ignore[arg-type]  # what is tested
        assert 65535 == Texts(port=99999).port
        with pytest.raises(ValidationError):
            Texts(port=object())  # type: ignore[arg-type]  # what is tested

    def test_dictionary_argument(self) -> None:
        """A dictionary as an argument is the value; a nested model is merged field by field."""

        class Both(Settings, target="both"):
            model_config = SettingsConfigDict(env_prefix="B_", env_nested_delimiter="__")
            labels: dict[str, int] = Field(default={})
            db: Part = Part()

        os.environ.update(B_LABELS='{"a": 1}', B_DB__PORT="5")
        found = Both(labels={"b": 2}, db={"host": "h"})  # type: ignore[arg-type]  # pydantic takes it
        assert ({"b": 2}, Part(host="h", port=5)) == (found.labels, found.db)

    def test_default_of_a_secret(self) -> None:
        """A secret's default works, and no contract has it."""

        class Secret(Settings, target="secret", prefix="S_"):
            token: SecretStr = SecretStr("canary")

        assert "canary" == Secret().token.get_secret_value()
        assert "canary" not in repr(contract_of(Secret))

    def test_errors_show_no_input(self) -> None:
        """A refusal never shows what it refuses, not even where a name has a slip in it."""
        os.environ["SHOP_NAME"] = "canary"
        with pytest.raises(ValidationError) as caught:
            Texts(prot="canary")  # type: ignore[call-arg]  # what is tested
        assert "canary" not in str(caught.value) + str(caught.value.errors())

    def test_urls(self) -> None:
        """A password in a url is masked in a repr; Url masks it in JSON too, and is usable."""

        class Urls(Settings, target="urls", prefix="U_"):
            ours: Url = "https://example.com"
            theirs: HttpUrl = HttpUrl("https://example.com")

        os.environ.update(U_OURS="https://u:canary@h/x", U_THEIRS="https://u:canary@h/x")
        urls = Urls()
        assert "canary" not in repr(urls) + str(urls)
        assert "https://u:canary@h/x" == urls.ours
        assert "canary" not in urls.model_dump_json(include={"ours"})
