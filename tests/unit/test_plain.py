"""Plain instances: read like any attribute, and in everything else the settings that they are."""

from __future__ import annotations

import copy
import pickle
from functools import cached_property
from types import MemberDescriptorType
from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError, computed_field

from relayconf import Settings, Sources, load
from relayconf.classes.plain import IS_QUICK, plain, wrapped
from relayconf.declare import AppliesLive, Owner
from relayconf.settings import contract_of


class PoolSettings(Settings, target="pool", prefix="POOL_"):
    """Settings with everything that a class may have beside its fields."""

    size: Annotated[int, AppliesLive(), Owner("pool")] = 4
    name: str = "main"
    _seen: int = PrivateAttr(default=7)

    @property
    def doubled(self) -> int:
        """Twice the size."""
        return 2 * self.size

    @cached_property
    def label(self) -> str:
        """Worked out once."""
        return f"{self.name}/{self.size}"

    @computed_field
    def shown(self) -> str:
        """Part of what is dumped."""
        return self.name.upper()

    def grown(self, by: int) -> int:
        """Reads what is private."""
        return self.size + by + self._seen


@pytest.fixture
def settings() -> PoolSettings:
    return load(PoolSettings, Sources({}), strict=False).current


@pytest.fixture
def held(settings: PoolSettings) -> PoolSettings:
    return wrapped(settings)


def test_it_stands_for_the_instance(settings: PoolSettings, held: PoolSettings) -> None:
    """It is one for isinstance, equal to it, and shows, hashes and dumps like it."""
    assert isinstance(held, PoolSettings)
    assert isinstance(held, BaseModel)
    assert settings == held == settings
    assert hash(settings) == hash(held)
    assert (repr(settings), str(settings)) == (repr(held), str(held))
    assert settings.model_dump() == held.model_dump()
    assert settings.model_dump_json() == held.model_dump_json()
    assert dict(settings) == dict(held)
    assert vars(settings) == vars(held)


def test_methods_and_properties_are_the_class_s_own(held: PoolSettings) -> None:
    """A method sees private attributes; a property that is kept is worked out once."""
    assert (8, "main/4", 13) == (held.doubled, held.label, held.grown(2))
    assert "MAIN" == str(held.shown)
    assert held.label is held.label


def test_it_cannot_be_changed(settings: PoolSettings, held: PoolSettings) -> None:
    """Assigning and deleting are refused in the words of the class."""
    for instance in (settings, held):
        with pytest.raises(ValidationError, match="frozen"):
            instance.size = 5
        with pytest.raises(ValidationError, match="frozen"):
            del instance.size
        assert 4 == instance.size


def test_an_attribute_that_is_not_there_is_missed(held: PoolSettings) -> None:
    """A slip in a name is no silent None."""
    with pytest.raises(AttributeError, match="sise"):
        held.sise  # type: ignore[attr-defined]  # noqa: B018 - that is what is tried


def test_copies_are_of_the_class_itself(settings: PoolSettings, held: PoolSettings) -> None:
    """What is copied or sent to another process is an ordinary instance."""
    sent = pickle.loads(pickle.dumps(held))  # noqa: S301 - made in the same line
    for made in (copy.copy(held), copy.deepcopy(held), sent):
        assert type(made) is PoolSettings
        assert settings == made
    assert 9 == held.model_copy(update={"size": 9}).size


def test_another_model_can_hold_it(held: PoolSettings) -> None:
    """It passes where pydantic asks for an instance of the class."""

    class Service(BaseModel):
        pool: PoolSettings

    assert 4 == Service(pool=held).pool.size


def test_its_class_answers_as_the_settings_class_does(held: PoolSettings) -> None:
    """Code that asks type() for what the class declares gets that."""
    assert contract_of(PoolSettings) is contract_of(type(held))
    assert "PoolSettings" == type(held).__name__
    assert set(PoolSettings.model_fields) == set(type(held).model_fields)


def test_its_fields_are_read_without_a_hook(held: PoolSettings) -> None:
    """Each is a slot, and nothing of the class stands in the way of reading one."""
    kind = type(held)
    assert isinstance(vars(kind)["size"], MemberDescriptorType)
    assert not hasattr(kind, "__getattr__")
    assert kind.__getattribute__ is object.__getattribute__


def test_what_is_in_force_is_read_like_a_plain_attribute() -> None:
    """Where the interpreter takes the long way for pydantic's classes, their fields are slots."""
    live = load(PoolSettings, Sources({}), strict=False)
    assert IS_QUICK == hasattr(type(live.current), "__getattr__")
    assert live.current is wrapped(live.current) or IS_QUICK
    assert live.current is live.snapshot.settings


class Open(Settings, target="open", prefix="OPEN_"):
    """Settings that hold what no field is for."""

    model_config = ConfigDict(extra="allow")  # type: ignore[assignment]  # a part of the same
    size: int = 1


class Loose(Settings, target="loose", prefix="LOOSE_"):
    """Settings that somebody may assign to."""

    model_config = ConfigDict(frozen=False)  # type: ignore[assignment]  # a part of the same
    size: int = 1


class Answering(Settings, target="answering", prefix="ANSWERING_"):
    """Settings that answer for names of their own."""

    size: int = 1

    def __getattr__(self, name: str) -> str:
        return name


@pytest.mark.parametrize("cls", [Open, Loose, Answering])
def test_what_may_change_is_left_as_it_is(cls: type[Settings]) -> None:
    """A class whose attributes are not fixed by its fields is read as before."""
    made = cls()
    assert made is wrapped(made)
    assert made is plain(made)
