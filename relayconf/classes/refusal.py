"""Refusals: pydantic's errors as lines for a person, and instances as a repr may show them.

Neither shows a secret: pydantic's own messages are kept only where they cannot hold one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from relayconf.classes.build import Declared, Field, leaves
from relayconf.resolve import Effective, Resolution
from relayconf.setting import MASK, Setting
from relayconf.values import mask_userinfo
from relayconf.wording import source


def lines(title: str, declared: Declared, resolution: Resolution, error: ValidationError) -> str:
    """Return one line for each value that pydantic refuses: its variable, why, and where from.

    Args:
        title: the class's name, for what concerns the class as a whole.
        declared: what the class declares.
        resolution: the values that it was handed.
        error: what pydantic says; its inputs are not looked at.
    """
    paths = {path: f.setting for path, f in leaves(declared.fields, keys=True)}
    secrets = tuple(secrets_in(resolution))
    found = error.errors(include_input=False, include_url=False, include_context=False)
    return "\n".join(_line(title, paths, resolution, secrets, item) for item in found)


def without_inputs(error: ValidationError, secrets: Iterable[str]) -> ValidationError:
    """Return pydantic's refusal without what it refuses, which it otherwise holds and may show.

    Args:
        error: what pydantic says.
        secrets: texts that a validator may have quoted.
    """
    secrets = tuple(secrets)
    found = [
        InitErrorDetails(
            type=PydanticCustomError(item["type"], _redacted(item["msg"], secrets)),
            loc=item["loc"],
            input=MASK,
        )
        for item in error.errors(include_input=False, include_url=False, include_context=False)
    ]
    return ValidationError.from_exception_data(error.title, found, hide_input=True)


def secrets_in(resolution: Resolution) -> Iterator[str]:
    """Yield every secret that is in force, and of every url the userinfo and its password."""
    for effective in resolution.settings.values():
        yield from _secrets(effective.setting, effective.value)


def masked_fields(
    declared: Declared, fields: Iterable[tuple[str | None, Any]]
) -> Iterator[tuple[str | None, Any]]:
    """Yield the fields of a repr, every url in them without its userinfo."""
    known = {field.name: field for field in declared.fields}
    for name, value in fields:
        yield name, _shown(declared, known.get(name or ""), value)


class _Shown:
    """Something whose repr is a given text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _shown(declared: Declared, field: Field | None, value: Any) -> Any:
    """Return a field's value, or what is to be seen of it."""
    if field is None or value is None:
        return value
    if field.fields:
        return _model(declared, field, value) if isinstance(value, BaseModel) else value
    setting = declared.contract.settings[field.setting]
    if "url" not in (setting.type, setting.items):
        return value
    several = isinstance(value, (list, tuple, set, frozenset))
    texts = [str(item) for item in (value if several else (value,))]
    masked = [mask_userinfo(text) for text in texts]
    if masked == texts:
        return value
    return _Shown(repr(masked if several else masked[0]))


def _model(declared: Declared, field: Field, value: BaseModel) -> _Shown:
    inner = {part.name: part for part in cast("tuple[Field, ...]", field.fields)}
    parts = [
        f"{name}={_shown(declared, inner.get(name or ''), part)!r}"
        for name, part in value.__repr_args__()
    ]
    return _Shown(f"{type(value).__name__}({', '.join(parts)})")


def _line(
    title: str,
    paths: Mapping[tuple[str, ...], str],
    resolution: Resolution,
    secrets: Iterable[str],
    item: Any,
) -> str:
    place = tuple(str(step) for step in item["loc"])
    name = next((paths[place[:n]] for n in range(len(place), 0, -1) if place[:n] in paths), None)
    if name is None:
        shown = ".".join(place) or title
        return f"{shown}: {_redacted(item['msg'], secrets)}"
    effective = resolution.settings[name]
    if item["type"] == "missing":
        return f"{name}: it is required, and no layer sets it"
    where = "" if effective.layer == "default" else f" (from {_where(effective)})"
    if effective.setting.secret:
        return f"{name}: the class refuses the value [{item['type']}]{where}"
    return f"{name}: {_redacted(item['msg'], secrets)}{where}"


def _where(effective: Effective) -> str:
    return effective.origin or source(effective.layer, effective.origin)


def _redacted(message: str, secrets: Iterable[str]) -> str:
    """Return a message of somebody's validator without any secret that it might quote."""
    for secret in secrets:
        # As it is, and as Python and JSON quote it.
        for text in {secret, repr(secret)[1:-1], ascii(secret)[1:-1], json.dumps(secret)[1:-1]}:
            message = message.replace(text, MASK)
    return message


def _secrets(setting: Setting, value: Any) -> Iterator[str]:
    if setting.secret and value:
        yield str(value)
    items = value if isinstance(value, tuple) else (value,)
    if "url" in (setting.type, setting.items):
        for item in items:
            userinfo, at, _ = str(item).partition("://")[2].rpartition("@")
            if at and userinfo:
                yield userinfo
                yield from (part for part in (userinfo.partition(":")[2],) if part)
