"""Fields: one field of a settings class, its markers, its default and its bounds, as a setting."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, TypeVar, cast

import annotated_types
from pydantic import BaseModel, BeforeValidator, PlainValidator, WrapValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings, ForceDecode, NoDecode

from relayconf import declare
from relayconf.classes.pythontexts import canonical, text_of
from relayconf.classes.pythontypes import (
    Hand,
    Reading,
    as_it_stands,
    flat,
    is_complex,
    loose,
    read_as,
    reading,
    unwrap,
)
from relayconf.declare import Env, Kind
from relayconf.errors import DeclarationError
from relayconf.setting import ORDERED_TYPES, Flag, Rule, Setting
from relayconf.values import Invalid, parse

__all__ = ["Env", "Kind", "default", "marker", "read_field", "rules"]

M = TypeVar("M")

#: Validators of these modes see what the class is given before pydantic reads it.
_EARLY = ("before", "wrap", "plain")

#: Types whose grammar stands even where a validator runs first: what they hide stays hidden.
_MASKED = ("secret", "url")


def read_field(
    cls: type[BaseModel], name: str, info: FieldInfo, names: tuple[str, ...], value: Any
) -> tuple[Setting, Hand]:
    """Return a field's setting, and what turns its value into what pydantic is handed.

    Args:
        cls: the class or the nested model that has the field.
        name: the attribute's name.
        info: pydantic's view of it.
        names: its variables, the current one first.
        value: its default; ``None`` or pydantic's ``PydanticUndefined`` where it has none.

    Raises:
        DeclarationError: it cannot be right.
    """
    found = _reading(cls, name, info)
    doc = marker(info, declare.Doc) or declare.Doc(info.description or "")
    setting = Setting(
        name=names[0],
        type=found.type,
        doc=doc.line,
        description=doc.more,
        unit=_unit(info, names[0]) if "duration" in (found.type, found.items) else None,
        reject=marker(info, declare.Reject) is not None,
        allow_blank=marker(info, declare.AllowBlank) is not None,
        choices=found.choices,
        items=found.items,
        live=marker(info, declare.AppliesLive) is not None,
        legacy=names[1:],
        groups=getattr(marker(info, declare.Groups), "names", ()),
        owner=getattr(marker(info, declare.Owner), "name", None),
        since=getattr(marker(info, declare.Since), "version", None),
    )
    setting = _range(setting, info)
    flag = marker(info, declare.Flag)
    if flag is not None:
        setting = setting._replace(flag=_flag(setting, flag))
    setting = setting._replace(example=_example(setting, info))
    setting = setting._replace(default=_default_value(setting, value))
    if cls.model_config.get("strict") and found.type != "secret":
        return setting, loose(info.annotation, found.hand)
    return setting, found.hand


def marker(info: FieldInfo, kind: type[M]) -> M | None:
    """Return the field's marker of one kind, if it has one."""
    return next((m for m in metadata(info) if isinstance(m, kind)), None)


def metadata(info: FieldInfo) -> list[Any]:
    """Return the field's metadata, also what rides inside an optional (``Url | None``)."""
    return [*flat(info.metadata), *unwrap(info.annotation)[1]]


def default(info: FieldInfo) -> Any:
    """Return a field's default; ``PydanticUndefined`` where it has none, or none that is fixed.

    A factory that reads the environment, the clock or chance would put this machine's answer into
    what is generated; it runs when an instance is made, and only then.
    """
    factory = info.default_factory
    if factory is None:
        return info.default
    settings = isinstance(factory, type) and issubclass(factory, BaseSettings)
    if settings or getattr(info, "default_factory_takes_validated_data", False):
        return PydanticUndefined
    try:
        first, second = (cast("Any", factory)() for _ in range(2))
    except Exception:  # noqa: BLE001 - a factory of the user's may raise anything, and will again
        return PydanticUndefined
    return first if first == second else PydanticUndefined


def rules(name: str, info: FieldInfo) -> Iterable[Rule]:
    """Yield the rules that stand at a field."""
    for item in metadata(info):
        if isinstance(item, declare.NotBelow):
            yield Rule(low=item.name, high=name, strict=False, moves=name)
        elif isinstance(item, declare.LessThan):
            yield Rule(low=name, high=item.name, strict=True, moves=name)


def _reading(cls: type[BaseModel], name: str, info: FieldInfo) -> Reading:
    kind = marker(info, Kind)
    if marker(info, declare.Bytes) is not None:
        kind = Kind("size")
    if kind is not None:
        found = read_as(kind.type, info.annotation)
        if kind.type == "secret" and reading(info.annotation).type != "secret":
            raise DeclarationError("a secret's field is a SecretStr, so that no repr shows it")
        return found
    found = reading(info.annotation)
    if found.type in _MASKED:
        return found
    if is_complex(info.annotation):
        # pydantic-settings decodes such a text before any validator runs, unless told not to.
        wants_text = _undecoded(cls, info)
    else:
        wants_text = _reads_text(cls, name, info)
    return Reading("string", as_it_stands) if wants_text else found


def _reads_text(cls: type[BaseModel], name: str, info: FieldInfo) -> bool:
    """Whether the field has a validator of its own that sees what is written before pydantic."""
    early = (BeforeValidator, WrapValidator, PlainValidator)
    if any(isinstance(m, early) for m in metadata(info)):
        return True
    validators = cls.__pydantic_decorators__.field_validators.values()
    return any(v.info.mode in _EARLY and name in v.info.fields for v in validators)


def _undecoded(cls: type[BaseModel], info: FieldInfo) -> bool:
    """Whether the class wants the text of a list as it is written."""
    found = metadata(info)
    if NoDecode in found:
        return True
    return cls.model_config.get("enable_decoding") is False and ForceDecode not in found


def _unit(info: FieldInfo, name: str) -> str:
    unit = marker(info, declare.Unit)
    if unit is not None:
        return unit.unit
    return "ms" if name.upper().endswith("_MS") else "s"


def _default_value(setting: Setting, value: Any) -> Any:
    # A secret's default stays in the class: a contract is published.
    if value is PydanticUndefined or value is None or setting.secret:
        return None
    if setting.type != "string":
        return canonical(setting, value)
    try:
        outcome = parse(setting, text_of(setting, value))
    except DeclarationError:
        return None
    return None if isinstance(outcome, Invalid) else outcome.value


def _example(setting: Setting, info: FieldInfo) -> str | None:
    example = marker(info, declare.Example)
    if example is not None:
        return example.text
    if not info.examples or setting.secret:
        return None
    try:
        text = text_of(setting, info.examples[0])
    except DeclarationError:
        return None
    return None if isinstance(parse(setting, text), Invalid) else text


def _range(setting: Setting, info: FieldInfo) -> Setting:
    low: Any = None
    high: Any = None
    ordered = setting.type in ORDERED_TYPES
    for item in metadata(info):
        if isinstance(item, declare.Clamp):
            low, high = item.low, item.high
        elif isinstance(item, annotated_types.Ge) and ordered:
            low = text_of(setting, item.ge)
        elif isinstance(item, annotated_types.Le) and ordered:
            high = text_of(setting, item.le)
        elif isinstance(item, annotated_types.Gt) and _whole(setting, item.gt):
            low = text_of(setting, cast(int, item.gt) + 1)
        elif isinstance(item, annotated_types.Lt) and _whole(setting, item.lt):
            high = text_of(setting, cast(int, item.lt) - 1)
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


def _whole(setting: Setting, bound: Any) -> bool:
    return setting.type in ("integer", "size") and type(bound) is int


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
    return Flag(flag.kind, kill, flag.owner, flag.expires, flag.why, facts, flag.blind)
