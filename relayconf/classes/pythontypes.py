"""Python types: which grammar a field's annotation has, and what pydantic is handed for a value.

A type that has a grammar of its own becomes that type of setting. Every other type is text here: a
JSON document where the type holds several values, else the text as it stands, and pydantic is the
judge of it. A type that holds a secret anywhere is a secret as a whole.
"""

from __future__ import annotations

import enum
import json
import os
import types
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass
from datetime import timedelta
from itertools import chain, repeat
from typing import Annotated, Any, Literal, NamedTuple, Union, cast, get_args, get_origin

from pydantic import (
    AnyUrl,
    BaseModel,
    ByteSize,
    PostgresDsn,
    SecretBytes,
    SecretStr,
    TypeAdapter,
    ValidationError,
)
from pydantic.fields import FieldInfo

from relayconf.hidden import HiddenUserinfo
from relayconf.setting import Setting, Value

#: pydantic's own url types, of one host and of several: the base classes of these two.
_URLS = (AnyUrl.__mro__[1], PostgresDsn.__mro__[1])

_SCALARS: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (ByteSize, "size"),
    (int, "integer"),
    (float, "number"),
    (timedelta, "duration"),
    (SecretStr, "secret"),
    (SecretBytes, "secret"),
    (os.PathLike, "path"),
    (str, "string"),
)

_LISTS = (list, tuple, set, frozenset)

Hand = Callable[[Value], Any]


class Reading(NamedTuple):
    """How a type is read: the setting's type and its parts, and what pydantic is handed.

    ``hand`` takes a canonical value and returns an object that pydantic takes for the annotation.
    """

    type: str
    hand: Hand
    choices: tuple[str, ...] = ()
    items: str = "string"


def unwrap(annotation: Any) -> tuple[Any, list[Any]]:
    """Return the one type behind aliases, ``Annotated`` and ``| None``, and the metadata found."""
    found: list[Any] = []
    while True:
        if hasattr(annotation, "__value__"):  # an alias by the `type` statement
            annotation = annotation.__value__
            continue
        if get_origin(annotation) is Annotated:
            annotation, *extra = get_args(annotation)
            found.extend(flat(extra))
            continue
        required = _required(annotation)
        if required is annotation:
            return annotation, found
        annotation = required


def flat(metadata: list[Any]) -> Iterator[Any]:
    """Yield metadata, with what a ``Field(...)`` among it carries."""
    for item in metadata:
        if isinstance(item, FieldInfo):
            yield from item.metadata
        else:
            yield item


def model_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model that an annotation names, where it names exactly one (or ``None``)."""
    inner = unwrap(annotation)[0]
    if (
        isinstance(inner, type)
        and issubclass(inner, BaseModel)
        and "root" not in inner.model_fields
    ):
        return inner
    return None


def read_as(kind: str, annotation: Any) -> Reading:
    """Return the reading for a setting type that a marker names, whatever the annotation says."""
    if kind == "secret":
        return Reading(kind, _secret_hand(annotation))
    if kind in _HANDS:
        return Reading(kind, _HANDS[kind])
    found = reading(annotation)
    if found.type == kind:
        return found
    return Reading(kind, as_it_stands, found.choices, found.items)


def reading(annotation: Any) -> Reading:
    """Return how an annotation is read."""
    if any(issubclass(t, (SecretStr, SecretBytes)) for t in _classes(annotation)):
        return Reading("secret", _secret_hand(annotation))
    inner = unwrap(annotation)[0]
    return _listed(inner) or _scalar(inner) or text_reading(annotation)


def text_reading(annotation: Any) -> Reading:
    """Return the reading of a type without a grammar: text, and JSON where it holds several."""
    return Reading("string", _json if is_complex(annotation) else as_it_stands)


def is_complex(annotation: Any) -> bool:
    """Whether pydantic wants more than one text: a container or a model, also in one arm only."""
    inner = unwrap(annotation)[0]
    if get_origin(inner) in (Union, types.UnionType):
        return any(map(is_complex, get_args(inner)))
    base = get_origin(inner) or inner
    if not isinstance(base, type) or issubclass(base, (str, bytes)):
        return False
    return issubclass(base, (BaseModel, Mapping, AbstractSet, list, tuple)) or is_dataclass(base)


def loose(annotation: Any, hand: Hand) -> Hand:
    """Return a hand whose values a strict class takes too: what is written is always a text."""

    def hand_over(value: Value) -> Any:
        loose_value = hand(value)
        try:
            return TypeAdapter(annotation).validate_python(loose_value, strict=False)
        except ValidationError:
            return loose_value  # for the class to refuse

    return hand_over


def distinct(choices: tuple[str, ...]) -> bool:
    """Whether no two choices differ in case alone, so that any case may be written."""
    return len({choice.lower() for choice in choices}) == len(choices)


def as_it_stands(value: Value) -> Any:
    """Return a canonical value as it is; a text without what hides it."""
    return str(value) if isinstance(value, str) else value


def hand_value(setting: Setting, value: Value) -> Any:
    """Return a canonical value as plain Python: a duration, a list, or the value itself."""
    if setting.type == "duration":
        return _duration(value)
    return list(value) if isinstance(value, tuple) else value


def _required(annotation: Any) -> Any:
    """Return the type without ``None``, where it is one type and ``None``."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [a for a in get_args(annotation) if a is not type(None)]
        return rest[0] if len(rest) == 1 else annotation
    return annotation


def _classes(annotation: Any) -> Iterator[type]:
    """Yield every class that an annotation names, at any depth, and those of a model's fields."""
    waiting, seen = [annotation], set()
    while waiting:
        inner = unwrap(waiting.pop())[0]
        if isinstance(inner, type) and get_origin(inner) is None:
            if inner in seen:
                continue
            seen.add(inner)
            yield inner
            if issubclass(inner, BaseModel):
                waiting.extend(field.annotation for field in inner.model_fields.values())
        waiting.extend(get_args(inner) if get_origin(inner) is not Literal else ())


def _scalar(inner: Any) -> Reading | None:
    if get_origin(inner) is Literal:
        return _enum({str(_plain(choice)): choice for choice in get_args(inner)})
    if not isinstance(inner, type) or get_origin(inner) is not None:
        return None
    if issubclass(inner, enum.Enum) and not issubclass(inner, enum.Flag):
        return _enum({str(member.value): member for member in inner})
    if object not in _URLS and issubclass(inner, _URLS):
        return Reading("url", _url)
    for base, name in _SCALARS:
        if issubclass(inner, base):
            return Reading(name, _HANDS.get(name, as_it_stands))
    return None


def _enum(members: Mapping[str, Any]) -> Reading | None:
    choices = tuple(members)
    if not choices or not all(choices) or not distinct(choices):
        return None
    return Reading("enum", lambda value: members[str(value)], choices)


def _listed(inner: Any) -> Reading | None:
    if inner in _LISTS:
        return Reading("list", _list_of(as_it_stands))
    if get_origin(inner) not in _LISTS:
        return None
    arguments = get_args(inner)
    if get_origin(inner) is tuple and arguments[1:] != (Ellipsis,):
        return None
    item = _scalar(unwrap(arguments[0])[0])
    if item is None:
        return None
    return Reading("list", _list_of(item.hand), item.choices, item.type)


def _secret_hand(annotation: Any) -> Hand:
    inner = unwrap(annotation)[0]
    if isinstance(inner, type) and issubclass(inner, SecretStr):
        return lambda value: inner(str(value))
    if isinstance(inner, type) and issubclass(inner, SecretBytes):
        return lambda value: inner(str(value).encode())
    if not is_complex(annotation):
        return as_it_stands
    return lambda value: _hidden_parts(annotation, value)


def _hidden_parts(annotation: Any, value: Value) -> Any:
    """Return a JSON document, or what stands between commas, with every secret of it hidden."""
    document = _json(value)
    if isinstance(document, str) and model_of(annotation) is None:
        document = [item.strip() for item in document.split(",")]
    return _hide(annotation, document)


def _hide(annotation: Any, document: Any) -> Any:
    """Return a document with every text hidden that the annotation calls a secret."""
    inner = unwrap(annotation)[0]
    if isinstance(document, str):
        hand = _secret_hand(inner) if inner in (SecretStr, SecretBytes) else as_it_stands
        return hand(document)
    if get_origin(inner) in (Union, types.UnionType):
        return document  # which of them it is, pydantic will find out
    model, arguments = model_of(inner), get_args(inner) or (Any,)
    if isinstance(document, dict):
        fields = {} if model is None else model.model_fields
        parts = {
            key: info.annotation for name, info in fields.items() for key in (name, info.alias)
        }
        return {key: _hide(parts.get(key, arguments[-1]), part) for key, part in document.items()}
    if isinstance(document, list):
        several = zip(document, chain(arguments[:-1], repeat(arguments[-1])), strict=False)
        same = arguments[1:] == (Ellipsis,)
        return [_hide(arguments[0] if same else part, item) for item, part in several]
    return document


def _list_of(hand: Hand) -> Hand:
    return lambda value: [hand(item) for item in cast("tuple[Any, ...]", value)]


def _duration(value: Value) -> timedelta:
    return timedelta(milliseconds=cast(int, value))


def _url(value: Value) -> str:
    return HiddenUserinfo(value)


def _json(value: Value) -> Any:
    """Return the document; the text itself where it is none, for pydantic to refuse or take."""
    try:
        return json.loads(str(value))
    except (ValueError, RecursionError):
        return str(value)


def _plain(choice: Any) -> Any:
    return choice.value if isinstance(choice, enum.Enum) else choice


#: Types whose value is another object in Python than it is canonically.
_HANDS: dict[str, Hand] = {"duration": _duration, "url": _url}
