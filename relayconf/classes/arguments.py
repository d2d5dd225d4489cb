"""Arguments: what a settings class is called with, as the layer ``option`` of its fields.

A text is judged by the setting's grammar, like any other layer's. Any other object is turned into
the text that means it; an object that no text means, and ``None``, go to pydantic as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from pydantic import BaseModel, SecretBytes, SecretStr

from relayconf.classes.build import Declared, Field
from relayconf.classes.fieldnames import aliases
from relayconf.classes.pythontexts import text_of
from relayconf.errors import DeclarationError
from relayconf.layers import Entry
from relayconf.setting import MASK, Setting
from relayconf.values import Invalid, parse

Path = tuple[str, ...]


class Arguments(NamedTuple):
    """The arguments of one call, sorted.

    Attributes:
        options: entries for the layer ``option``.
        fixed: values that pydantic is handed as they are, by the path of field names.
        extra: names that are no field; whether they are allowed is the class's business.
    """

    options: tuple[Entry, ...]
    fixed: dict[Path, Any]
    extra: dict[str, Any]

    def __repr__(self) -> str:
        return f"Arguments({', '.join(entry.name for entry in self.options)})"


def sort(cls: type[BaseModel], declared: Declared, values: Mapping[str, Any]) -> Arguments:
    """Sort the arguments of one call of a settings class.

    Args:
        cls: the class.
        declared: what it declares.
        values: by field name or alias, in any case where the class does not care for case.
    """
    sorter = _Sorter(cls.__name__, declared)
    names = _accepted(cls)
    fields = {field.name: field for field in declared.fields}
    folded = not cls.model_config.get("case_sensitive")
    for given, value in values.items():
        name = names.get(given) or (names.get(given.lower()) if folded else None)
        if name is None:
            # A refusal shows what it refuses, which may be a secret with a slip in its name.
            refused = cls.model_config.get("extra") == "forbid"
            sorter.extra[given] = MASK if refused else value
        else:
            sorter.take(fields[name], value, ())
    return Arguments(tuple(sorter.options), sorter.fixed, sorter.extra)


class _Sorter:
    def __init__(self, caller: str, declared: Declared) -> None:
        self.caller = caller
        self.settings = declared.contract.settings
        self.options: list[Entry] = []
        self.fixed: dict[Path, Any] = {}
        self.extra: dict[str, Any] = {}

    def take(self, field: Field, value: Any, path: Path) -> None:
        here = (*path, field.name)
        if field.fields and isinstance(value, Mapping):
            self.take_parts(field, value, here)
            return
        text = None if field.fields else _text(self.settings[field.setting], value)
        if text is None:
            self.fixed[here] = value
        else:
            origin = f"{self.caller}({'.'.join(here)}=)"
            self.options.append(Entry(field.setting, text, origin))

    def take_parts(self, field: Field, parts: Mapping[str, Any], here: Path) -> None:
        inner = cast("Iterable[Field]", field.fields)
        known = {name: part for part in inner for name in (part.name, part.key)}
        for name, value in parts.items():
            if name in known:
                self.take(known[name], value, here)
            else:
                self.fixed[(*here, name)] = value


def _accepted(cls: type[BaseModel]) -> dict[str, str]:
    """Return the field's name for each name that an argument may have."""
    config = cast("Mapping[str, Any]", cls.model_config)
    names: dict[str, str] = {}
    for name, info in cls.model_fields.items():
        for spelled in (*aliases(info, config), name):
            names.setdefault(spelled, name)
            names.setdefault(spelled.lower(), name)
    return names


def _text(setting: Setting, value: Any) -> str | None:
    """Return the text that means an argument; None where pydantic is to have the object itself."""
    if isinstance(value, str):
        return str(value)
    if value is None:
        return None
    hidden = isinstance(value, (SecretStr, SecretBytes))
    if setting.type in ("string", "secret") and not hidden:
        return None
    try:
        text = text_of(setting, value)
    except (DeclarationError, ValueError, TypeError):
        return None
    return None if isinstance(parse(setting, text), Invalid) else text
