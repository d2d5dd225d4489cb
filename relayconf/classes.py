"""From a settings class to its contract: each field's type, default and markers, read once.

A declaration that cannot be right fails here, at import, with the class, the field and what to add.
"""

from __future__ import annotations

import enum
import os
import types
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import annotated_types
from pydantic import SecretBytes, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from relayconf import declare
from relayconf.contract import from_document, literal, whole_prefix
from relayconf.document import to_document
from relayconf.errors import ContractError, DeclarationError
from relayconf.setting import Contract, Flag, Rule, Setting, Value
from relayconf.values import Invalid, parse

M = TypeVar("M")

_SCALARS: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (timedelta, "duration"),
    (SecretStr, "secret"),
    (SecretBytes, "secret"),
    (os.PathLike, "path"),
    (str, "string"),
)


def build_contract(
    where: str, fields: Mapping[str, FieldInfo], *, target: str, prefix: str
) -> tuple[Contract, dict[str, str]]:
    """Read a class's fields into a contract.

    Args:
        where: the class's name, for messages.
        fields: pydantic's own view of the fields, by field name.
        target: the contract's name.
        prefix: what the names in the environment begin with.

    Returns:
        The contract, and the setting's name for each field's name.

    Raises:
        DeclarationError: the first field that cannot be right.
    """
    settings: dict[str, Setting] = {}
    names: dict[str, str] = {}
    rules: list[Rule] = []
    for field, info in fields.items():
        place = f"{where}.{field}"
        try:
            setting = _setting(field, info, prefix)
            rules.extend(_rules(setting.name, info))
        except DeclarationError as error:
            raise DeclarationError(f"{place}: {error}") from None
        if setting.name in settings:
            raise DeclarationError(f"{place}: {setting.name} is declared twice")
        settings[setting.name] = setting
        names[field] = setting.name
    contract = Contract(target, whole_prefix(prefix, settings), settings, tuple(rules))
    try:
        # One set of checks for both spellings: what a class says must be readable as a contract.
        from_document(to_document(contract), origin=where)
    except ContractError as error:
        raise DeclarationError(str(error)) from None
    return contract, names


def canonical(setting: Setting, value: Any) -> Value:
    """Return the canonical form of a Python value of the field's type.

    Raises:
        DeclarationError: the setting's grammar has no such value.
    """
    outcome = parse(setting, text_of(setting, value))
    if isinstance(outcome, Invalid):
        raise DeclarationError(f"{value!r} is not a {setting.type}: {outcome.reason}")
    return outcome.value


def text_of(setting: Setting, value: Any) -> str:
    """Return the text that means a Python value of the field's type."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, timedelta):
        whole, rest = divmod(value, timedelta(milliseconds=1))
        if rest:
            raise DeclarationError(f"{value!r} is not a whole number of milliseconds")
        return literal(whole) + ("ms" if setting.unit != "ms" else "")
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, (list, tuple)):
        return literal([item.value if isinstance(item, enum.Enum) else item for item in value])
    return literal(value)


def marker(info: FieldInfo, kind: type[M]) -> M | None:
    """Return the field's marker of one kind, if it has one."""
    return next((m for m in metadata(info) if isinstance(m, kind)), None)


def metadata(info: FieldInfo) -> list[Any]:
    """Return the field's metadata, also what rides inside an optional (``Url | None``)."""
    inner = _required(info.annotation)
    return [*info.metadata, *(get_args(inner)[1:] if get_origin(inner) is Annotated else ())]


def _required(annotation: Any) -> Any:
    """Return the type without ``None``, where it is one type and ``None``."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [a for a in get_args(annotation) if a is not type(None)]
        return rest[0] if len(rest) == 1 else annotation
    return annotation


def _setting(field: str, info: FieldInfo, prefix: str) -> Setting:
    env = marker(info, declare.Env) or declare.Env(prefix + field.upper())
    doc = marker(info, declare.Doc) or declare.Doc(info.description or "")
    setting = _grammar(Setting(env.name, "string"), info)
    setting = setting._replace(
        doc=doc.line,
        description=doc.more,
        reject=marker(info, declare.Reject) is not None,
        allow_blank=marker(info, declare.AllowBlank) is not None,
        live=marker(info, declare.AppliesLive) is not None,
        legacy=env.legacy,
        groups=getattr(marker(info, declare.Groups), "names", ()),
        owner=getattr(marker(info, declare.Owner), "name", None),
        since=getattr(marker(info, declare.Since), "version", None),
        example=getattr(marker(info, declare.Example), "text", None),
    )
    setting = _range(setting, info)
    flag = marker(info, declare.Flag)
    if flag is not None:
        setting = setting._replace(flag=_flag(setting, flag))
    default = info.get_default(call_default_factory=True, validated_data={})
    if default is PydanticUndefined or default is None:
        return setting
    return setting._replace(default=canonical(setting, default))


def _grammar(setting: Setting, info: FieldInfo) -> Setting:
    annotation = _required(info.annotation)
    kind = marker(info, declare.Kind)
    if kind is not None:
        return setting._replace(type=kind.type)
    if marker(info, declare.Bytes) is not None:
        return setting._replace(type="size")
    name, choices = _type_name(annotation)
    if get_origin(annotation) in (list, tuple, set, frozenset):
        items, choices = _type_name(next(iter(get_args(annotation)), str))
        return setting._replace(type="list", items=items, choices=choices)
    unit = marker(info, declare.Unit)
    if name == "duration":
        return setting._replace(type=name, unit=unit.unit if unit else "ms")
    return setting._replace(type=name, choices=choices)


def _type_name(annotation: Any) -> tuple[str, tuple[str, ...]]:
    """Return the setting type of a plain Python type, and an enum's members."""
    if get_origin(annotation) is Literal:
        return "enum", tuple(str(choice) for choice in get_args(annotation))
    if get_origin(annotation) in (list, tuple, set, frozenset):
        return "list", ()
    if isinstance(annotation, type):
        if issubclass(annotation, enum.Enum):
            return "enum", tuple(str(member.value) for member in annotation)
        for base, name in _SCALARS:
            if issubclass(annotation, base):
                return name, ()
    raise DeclarationError(f"no value grammar fits the type {annotation!r}; add Kind('...')")


def _range(setting: Setting, info: FieldInfo) -> Setting:
    low: Any = None
    high: Any = None
    for item in metadata(info):
        if isinstance(item, declare.Clamp):
            low, high = item.low, item.high
        elif isinstance(item, annotated_types.Ge):
            low = text_of(setting, item.ge)
        elif isinstance(item, annotated_types.Le):
            high = text_of(setting, item.le)
    bounds = [None if bound is None else canonical(setting, bound) for bound in (low, high)]
    jitter = marker(info, declare.Jitter)
    minimum, maximum = cast("list[int | float | None]", bounds)
    if setting.type == "duration" and maximum is None:
        maximum = timedelta.max // timedelta(milliseconds=1)  # what the field's type can hold
    return setting._replace(
        minimum=minimum,
        maximum=maximum,
        jitter=None if jitter is None else (float(jitter.low), float(jitter.high)),
    )


def _flag(setting: Setting, flag: declare.Flag) -> Flag:
    breaker = flag.breaker
    facts = None
    if breaker is not None:
        window_ms = breaker.window // timedelta(milliseconds=1)
        facts = {
            "event": breaker.event,
            "at_least": breaker.at_least,
            "share": breaker.share,
            "window_ms": window_ms,
        }
    kill = canonical(setting, flag.kill)
    return Flag(flag.kind, kill, flag.owner, flag.expires, flag.why, facts)


def _rules(name: str, info: FieldInfo) -> Iterable[Rule]:
    for item in metadata(info):
        if isinstance(item, declare.NotBelow):
            yield Rule(low=item.name, high=name, strict=False, moves=name)
        elif isinstance(item, declare.LessThan):
            yield Rule(low=name, high=item.name, strict=True, moves=name)
