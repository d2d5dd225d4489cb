"""From a settings class to its contract: each field's type, default and markers, read once.

A declaration that cannot be right fails here, at import, with the class, the field and what to add.
A nested model becomes one setting for each of its fields, named by the class's delimiter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from relayconf.classes import fieldnames, fields
from relayconf.classes.fields import marker
from relayconf.classes.pythontexts import canonical, text_of
from relayconf.classes.pythontypes import Hand, model_of
from relayconf.contract.document import to_document
from relayconf.contract.reading import from_document
from relayconf.errors import ContractError, DeclarationError
from relayconf.setting import Contract, Rule, Setting

__all__ = ["Declared", "Field", "canonical", "leaves", "own_prefix", "read_class", "text_of"]


class Field(NamedTuple):
    """One field of a class or of a nested model: a setting, or the fields of a model.

    ``key`` is what pydantic takes it under. A field with ``fields`` has no setting of its own:
    ``default`` is the instance that stands there by default, ``optional`` says that ``None`` does,
    and ``whole`` that pydantic gets every value of it, and none is left for the model to look up.
    """

    name: str
    key: str
    setting: str = ""
    hand: Hand | None = None
    fields: tuple[Any, ...] = ()
    default: BaseModel | None = None
    optional: bool = False
    whole: bool = False


class Declared(NamedTuple):
    """What a class declares: its contract, and the way from settings to fields."""

    contract: Contract
    fields: tuple[Field, ...]

    @property
    def names(self) -> dict[str, str]:
        """Each setting's name by its field's; a nested field's is dotted: ``db.host``."""
        return {".".join(path): field.setting for path, field in leaves(self.fields)}


def read_class(cls: type[BaseModel], *, target: str, prefix: str) -> Declared:
    """Read a class's fields.

    Args:
        cls: the settings class, whole (no annotation left to be resolved).
        target: the contract's name.
        prefix: what the names in the environment begin with.

    Raises:
        DeclarationError: the first field that cannot be right.
    """
    reader = _Reader(cls, prefix)
    found = reader.model(cls, cls.__qualname__, _Names(prefix, (cls,)), None)
    contract = Contract(target, prefix, reader.settings, tuple(reader.rules))
    try:
        # One set of checks for both spellings: what a class says must be readable as a contract.
        from_document(to_document(contract), origin=cls.__qualname__)
    except ContractError as error:
        raise DeclarationError(str(error)) from None
    return Declared(contract, found)


def leaves(
    found: Iterable[Field], path: tuple[str, ...] = (), *, keys: bool = False
) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Yield every field that is a setting, with the names that lead to it (or pydantic's keys)."""
    for field in found:
        here = (*path, field.key if keys else field.name)
        if field.fields:
            yield from leaves(field.fields, here, keys=keys)
        else:
            yield here, field


class _Names(NamedTuple):
    """How the fields of one model are named: by a prefix, or behind the names of its parent.

    ``within`` holds the models that lead here; one that holds itself would have no end.
    """

    prefix: str
    within: tuple[type[BaseModel], ...]
    outer: tuple[str, ...] = ()


class _Reader:
    """Reads one class; collects what its contract holds."""

    def __init__(self, cls: type[BaseModel], prefix: str) -> None:
        self.prefix = prefix
        self.config = cast("Mapping[str, Any]", cls.model_config)
        self.delimiter: str | None = self.config.get("env_nested_delimiter")
        self.settings: dict[str, Setting] = {}
        self.rules: list[Rule] = []

    def model(
        self, cls: type[BaseModel], place: str, names: _Names, default: BaseModel | None
    ) -> tuple[Field, ...]:
        found = []
        for name, info in cls.model_fields.items():
            try:
                found.append(self.field(cls, f"{place}.{name}", name, info, names, default))
            except DeclarationError as error:
                message = str(error)
                if not message.startswith(f"{place}."):
                    message = f"{place}.{name}: {message}"
                raise DeclarationError(message) from None
        return tuple(found)

    def field(
        self,
        cls: type[BaseModel],
        place: str,
        name: str,
        info: FieldInfo,
        names: _Names,
        owner: BaseModel | None,
    ) -> Field:
        spelled = self.spelled(cls, name, info, names)
        key = fieldnames.input_key(name, info, cast("Mapping[str, Any]", cls.model_config))
        default = fields.default(info) if owner is None else getattr(owner, name)
        nested = self.nested(info, names)
        if nested is not None:
            own = issubclass(nested, BaseSettings)
            prefix = own_prefix(nested) if own else ""
            behind = spelled if self.delimiter else ()
            instance = default if isinstance(default, BaseModel) and not own else None
            inner = _Names(prefix, (*names.within, nested), behind)
            found = self.model(nested, place, inner, instance)
            return Field(name, key, "", None, found, instance, default is None, own)
        setting, hand = fields.read_field(cls, name, info, spelled, default)
        if setting.name in self.settings:
            raise DeclarationError(f"{setting.name} is declared twice")
        self.settings[setting.name] = setting
        self.rules.extend(fields.rules(setting.name, info))
        return Field(name, key, setting.name, hand)

    def spelled(
        self, cls: type[BaseModel], name: str, info: FieldInfo, names: _Names
    ) -> tuple[str, ...]:
        """Return the variables of a field, behind those of its parent where it is nested."""
        config = cast("Mapping[str, Any]", cls.model_config)
        env = marker(info, fields.Env)
        if not names.outer or env is not None:
            return fieldnames.variables(name, info, config, prefix=names.prefix, env=env)
        behind = fieldnames.segments(name, info, config, outer=self.config)
        found = [f"{outer}{self.delimiter}{part}" for outer in names.outer for part in behind]
        if issubclass(cls, BaseSettings) and names.prefix:
            found.extend(fieldnames.variables(name, info, config, prefix=names.prefix, env=None))
        return tuple(dict.fromkeys(found))

    def nested(self, info: FieldInfo, names: _Names) -> type[BaseModel] | None:
        """Return the model whose fields become settings; None where the field is one itself."""
        model = model_of(info.annotation)
        if model is None or model in names.within or marker(info, fields.Kind) is not None:
            return None
        return model if self.delimiter or issubclass(model, BaseSettings) else None


def own_prefix(cls: type[BaseModel]) -> str:
    """Return the prefix that a class's ``model_config`` names, as variables are written."""
    prefix = str(cls.model_config.get("env_prefix") or "")
    return prefix if cls.model_config.get("case_sensitive") else prefix.upper()
