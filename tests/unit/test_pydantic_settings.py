"""A class of pydantic-settings with another base: what stays, held against the original."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    HttpUrl,
    IPvAnyAddress,
    PositiveInt,
    SecretStr,
    StrictBool,
    ValidationError,
    computed_field,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from relayconf import testing
from relayconf.errors import DeclarationError
from relayconf.settings import Settings

M = TypeVar("M", bound=BaseModel)


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Leaf(BaseModel):
    size: int = 1
    name: str = Field(default="leaf", validation_alias="title")


class Database(BaseModel):
    host: str = "localhost"
    port: int = Field(default=5432, ge=1, le=65535)
    password: SecretStr | None = None
    tags: list[str] = []
    leaf: Leaf = Leaf()

    @field_validator("host")
    @classmethod
    def known(cls, host: str) -> str:
        """Refuse one host."""
        if host == "refused":
            raise ValueError("not that host")
        return host


class Fields(BaseModel):
    """The fields that both classes have."""

    debug: bool = False
    port: int = Field(default=8000, ge=1, le=65535)
    workers: PositiveInt = 4
    ratio: float = 0.5
    name: str = "shop"
    wait: timedelta = timedelta(seconds=30)
    color: Color = Color.RED
    level: Level = Level.LOW
    mode: Literal["auto", "poll"] = "auto"
    number: Literal[1, 2] = 1
    path: Path = Path("/tmp")
    url: HttpUrl = HttpUrl("https://example.com/")
    token: SecretStr = SecretStr("unset")
    tokens: list[SecretStr] = []
    hosts: list[str] = ["localhost"]
    ports: set[int] = {80}
    pair: tuple[int, str] = (1, "a")
    labels: dict[str, int] = Field(default_factory=dict)
    size: ByteSize = ByteSize(1024)
    id: UUID | None = None
    day: date = date(2026, 1, 1)
    price: Decimal = Decimal("1.50")
    address: IPvAnyAddress | None = None
    either: int | str = 0
    choice: str = Field(default="x", validation_alias=AliasChoices("SHOP_CHOICE", "OLD_CHOICE"))
    aliased: str = Field(default="x", alias="SHOP_OTHER")
    raw: Annotated[list[str], NoDecode] = []
    early: Annotated[int, BeforeValidator(lambda v: len(v) if isinstance(v, str) else v)] = 3
    late: Annotated[str, AfterValidator(str.upper)] = "x"
    db: Database = Database()
    spare: Database | None = None

    @field_validator("raw", mode="before")
    @classmethod
    def split(cls, value: Any) -> Any:
        """Read what the class alone understands."""
        return value.split("|") if isinstance(value, str) else value

    @field_validator("*", mode="before")
    @classmethod
    def stripped(cls, value: Any) -> Any:
        """Strip every text."""
        return value.strip() if isinstance(value, str) else value

    @model_validator(mode="after")
    def consistent(self) -> Fields:
        """Refuse one name."""
        if self.name == "forbidden":
            raise ValueError("that name is forbidden")
        return self

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated properties
    @property
    def title(self) -> str:
        """Two fields in one."""
        return f"{self.name}:{self.port}"


CONFIG = SettingsConfigDict(env_prefix="SHOP_", env_nested_delimiter="__")


class Theirs(Fields, BaseSettings):
    model_config = CONFIG


class Swapped(Fields, Settings):
    model_config = CONFIG


class Added(Settings, Theirs, target="added"):
    """The base beside the one that is there."""


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    with testing.isolated(Swapped):
        os.environ.pop("OLD_CHOICE", None)
        yield


#: One variable or several, that mean the same to both.
SAME = [
    {},
    {"SHOP_DEBUG": "true"},
    {"SHOP_DEBUG": "0"},
    {"SHOP_PORT": "9000"},
    {"SHOP_WORKERS": "8"},
    {"SHOP_RATIO": "0.25"},
    {"SHOP_NAME": "a name, with [things] in it"},
    {"SHOP_COLOR": "blue"},
    {"SHOP_LEVEL": "2"},
    {"SHOP_MODE": "poll"},
    {"SHOP_PATH": "/srv/shop"},
    {"SHOP_URL": "https://shop.example.com/x?y=1"},
    {"SHOP_TOKEN": "t=o, k\"en'#"},
    {"SHOP_TOKENS": '["a", "b"]'},
    {"SHOP_HOSTS": '["a", "b"]'},
    {"SHOP_PORTS": "[1, 2, 2]"},
    {"SHOP_PAIR": '[2, "b"]'},
    {"SHOP_LABELS": '{"a": 1}'},
    {"SHOP_SIZE": "2048"},
    {"SHOP_SIZE": "1MiB"},
    {"SHOP_ID": "00000000-0000-0000-0000-000000000001"},
    {"SHOP_DAY": "2027-03-01"},
    {"SHOP_PRICE": "2.50"},
    {"SHOP_ADDRESS": "::1"},
    {"SHOP_EITHER": "5"},
    {"SHOP_EITHER": "five"},
    {"SHOP_CHOICE": "new", "OLD_CHOICE": "old"},
    {"OLD_CHOICE": "old"},
    {"SHOP_OTHER": "other"},
    {"SHOP_ALIASED": "not its name"},
    {"SHOP_RAW": "a|b"},
    {"SHOP_EARLY": "12345"},
    {"SHOP_LATE": "abc"},
    {"SHOP_DB__HOST": "db", "SHOP_DB__PORT": "1"},
    {"SHOP_DB__TAGS": '["x"]'},
    {"SHOP_DB__LEAF__SIZE": "7"},
    {"SHOP_DB__LEAF__TITLE": "t"},
    {"SHOP_SPARE__HOST": "spare"},
    {"PORT": "1", "SHOP": "2", "XSHOP_PORT": "3", "DB__HOST": "4"},
]

ARGUMENTS: list[dict[str, Any]] = [
    {"port": 1},
    {"port": "1"},
    {"debug": True},
    {"workers": 5.0},
    {"name": "given"},
    {"wait": timedelta(microseconds=1500)},
    {"wait": timedelta(minutes=2)},
    {"wait": 90},
    {"wait": 1.5},
    {"color": Color.BLUE},
    {"level": Level.HIGH},
    {"url": HttpUrl("https://given.example.com")},
    {"token": SecretStr("given")},
    {"tokens": [SecretStr("given")]},
    {"hosts": ["a,b", "c"]},
    {"ports": {1, 2}},
    {"pair": (3, "c")},
    {"id": UUID(int=5)},
    {"id": None},
    {"day": date(2027, 1, 1)},
    {"price": Decimal("0.1")},
    {"either": "1"},
    {"SHOP_CHOICE": "given"},
    {"OLD_CHOICE": "given"},
    {"SHOP_OTHER": "given"},
    {"raw": ["z"]},
    {"early": 9},
    {"db": {"host": "given"}},
    {"db": Database(host="given", port=2)},
    {"db": {"leaf": {"size": 3}}},
    {"spare": None},
    {"spare": {"port": 9}},
]


def dump(settings: BaseModel) -> dict[str, Any]:
    return settings.model_dump()


class TestTheSame:
    @pytest.mark.parametrize("cls", [Swapped, Added])
    @pytest.mark.parametrize("environ", SAME, ids=str)
    def test_from_the_environment(self, cls: type[Fields], environ: dict[str, str]) -> None:
        """The same variables give the same instance, with the base changed or added."""
        os.environ.update(environ)
        assert dump(Theirs()) == dump(cls())

    @pytest.mark.parametrize("cls", [Swapped, Added])
    @pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda a: str(next(iter(a))))
    def test_from_arguments(self, cls: type[Fields], arguments: dict[str, Any]) -> None:
        """The same arguments win over the same variables."""
        os.environ.update(
            SHOP_PORT="7",
            SHOP_DB__TAGS='["kept"]',
            SHOP_ID=str(UUID(int=9)),
            SHOP_LABELS='{"a": 1}',
        )
        assert dump(Theirs(**arguments)) == dump(cls(**arguments))

    @pytest.mark.parametrize(
        "environ",
        [
            {"SHOP_NAME": "forbidden"},
            {"SHOP_DB__HOST": "refused"},
            {"SHOP_ID": "junk"},
            {"SHOP_LABELS": '{"a": "x"}'},
            {"SHOP_PAIR": "[1]"},
        ],
        ids=str,
    )
    def test_refusals(self, environ: dict[str, str]) -> None:
        """What the class's own validators and types refuse is refused by both, in one place."""
        os.environ.update(environ)
        places = []
        for cls in (Theirs, Swapped):
            with pytest.raises(ValidationError) as caught:
                cls()
            places.append([(e["loc"], e["type"]) for e in caught.value.errors()])
        assert places[0] == places[1]

    def test_unknown_argument(self) -> None:
        """An argument that is no field is refused, unless the class allows or ignores it."""
        with pytest.raises(ValidationError, match="prot"):
            Swapped(prot=1)  # type: ignore[call-arg]  # what is tested

        class Open(Settings, target="open"):
            model_config = SettingsConfigDict(env_prefix="OPEN_", extra="allow")

        assert {"more": 1} == Open(more=1).model_extra  # type: ignore[call-arg]  # as above

    def test_env_file_of_a_call(self, tmp_path: Path) -> None:
        """A file that a call names is read, also in pydantic-settings' own words."""
        (tmp_path / "a.env").write_text("SHOP_PORT=1\nSHOP_NAME=a\n")
        (tmp_path / "b.env").write_text("SHOP_PORT=2\n")
        files = (tmp_path / "a.env", tmp_path / "b.env")
        found = [cls(_env_file=files) for cls in (Theirs, Swapped)]  # type: ignore[call-arg]  # ours takes it through **
        assert [(2, "a")] * 2 == [(s.port, s.name) for s in found]

    def test_secrets_dir_of_a_call(self, tmp_path: Path) -> None:
        """A directory of secrets that a call names is read, a file for each setting."""
        (tmp_path / "SHOP_TOKEN").write_text("from a file")
        (tmp_path / "shop_token").write_text("from a file")
        found = [cls(_secrets_dir=tmp_path) for cls in (Theirs, Swapped)]  # type: ignore[call-arg]  # as above
        assert ["from a file"] * 2 == [s.token.get_secret_value() for s in found]


class TestStrict:
    def test_strict_class(self) -> None:
        """A strict class takes what is written, though that is always a text."""

        class Inner(BaseModel):
            model_config = ConfigDict(strict=True)
            path: Path = Path("/")

        class Strict(Settings, target="strict"):
            model_config = SettingsConfigDict(
                env_prefix="STRICT_", env_nested_delimiter="__", strict=True
            )
            ports: set[int] = Field(default={1})
            names: tuple[str, ...] = ()
            path: Path = Path("/")
            id: UUID | None = None
            day: date | None = None
            token: SecretStr | None = None
            flag: StrictBool = False
            inner: Inner = Inner()

        os.environ.update(
            STRICT_PORTS="1,2", STRICT_NAMES="a,b", STRICT_PATH="/x", STRICT_ID=str(UUID(int=1))
        )
        os.environ.update(
            STRICT_DAY="2027-01-01", STRICT_TOKEN="t", STRICT_FLAG="on", STRICT_INNER__PATH="/y"
        )
        assert Strict().model_dump() == {
            "ports": {1, 2},
            "names": ("a", "b"),
            "path": Path("/x"),
            "id": UUID(int=1),
            "day": date(2027, 1, 1),
            "token": SecretStr("t"),
            "flag": True,
            "inner": {"path": Path("/y")},
        }
        os.environ["STRICT_ID"] = "junk"
        with pytest.raises(ValidationError):
            Strict()


class TestNesting:
    def test_a_settings_class_as_a_field(self) -> None:
        """A settings class that is a field of another keeps the names that it has by itself."""

        class Cache(BaseSettings):
            model_config = SettingsConfigDict(env_prefix="CACHE_")
            ttl: int = 60
            size: int = 10

        class Outer(Settings, target="outer"):
            model_config = SettingsConfigDict(env_prefix="OUTER_")
            cache: Cache = Field(default_factory=Cache)

        assert ["CACHE_TTL", "CACHE_SIZE"] == list(Outer.__contract__.settings)
        os.environ.update(CACHE_TTL="5", CACHE_SIZE="junk")
        assert {"ttl": 5, "size": 10} == Outer().cache.model_dump()

    def test_a_settings_class_behind_the_delimiter(self) -> None:
        """With a delimiter it is named by its parent, and its own name still works."""

        class Cache(BaseSettings):
            model_config = SettingsConfigDict(env_prefix="CACHE_")
            ttl: int = 60

        class Outer(Settings, target="outer"):
            model_config = SettingsConfigDict(env_prefix="OUTER_", env_nested_delimiter="__")
            cache: Cache = Field(default_factory=Cache)

        os.environ.update(CACHE_TTL="5")
        assert 5 == Outer().cache.ttl
        os.environ.update(OUTER_CACHE__TTL="6")
        assert 6 == Outer().cache.ttl

    def test_a_model_that_holds_itself(self) -> None:
        """A model without an end is one JSON document instead of settings without end."""
        contract = TreeSettings.__contract__
        assert ["TREE_ROOT__NAME", "TREE_ROOT__BELOW"] == list(contract.settings)
        os.environ.update(TREE_ROOT__NAME="a", TREE_ROOT__BELOW='{"name": "b"}')
        below = TreeSettings().root.below
        assert below is not None
        assert "b" == below.name

    def test_several_outer_names(self) -> None:
        """An aliased model's fields are found behind each of its names."""

        class Outer(Settings, target="outer"):
            model_config = SettingsConfigDict(env_prefix="OUTER_", env_nested_delimiter="__")
            db: Database = Field(
                default=Database(), validation_alias=AliasChoices("MAIN_DB", "OLD_DB")
            )

        os.environ.update(OLD_DB__PORT="7")
        assert 7 == Outer().db.port
        os.environ.update(MAIN_DB__PORT="8")
        assert 8 == Outer().db.port


class Node(BaseModel):
    name: str = ""
    below: Node | None = None


class TreeSettings(Settings, target="tree"):
    model_config = SettingsConfigDict(env_prefix="TREE_", env_nested_delimiter="__")
    root: Node = Node()


class TestDeclaredLater:
    def test_an_annotation_that_is_resolved_later(self) -> None:
        """A class may name a type that is defined further down, as any pydantic model may."""
        os.environ["LATER_PART"] = '{"size": 4}'
        assert 4 == LaterSettings().part.size  # type: ignore[call-arg]  # from the environment
        assert ["LATER_PART"] == list(LaterSettings.__contract__.settings)

    def test_an_annotation_that_is_never_there(self) -> None:
        """A type that nobody defines is said to be missing when the class is used."""

        class Hopeless(Settings, target="hopeless"):
            part: Nowhere  # type: ignore[name-defined]  # noqa: F821 - what is tested

        with pytest.raises(DeclarationError, match=r"Hopeless.*not there"):
            Hopeless()  # type: ignore[call-arg]  # as above


class LaterSettings(Settings, target="later"):
    model_config = SettingsConfigDict(env_prefix="LATER_")
    part: Part


class Part(BaseModel):
    size: int
