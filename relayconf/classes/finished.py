"""Finished values: from a resolution to the mapping that a settings class is validated from.

A field that no layer sets is left out, so that pydantic takes the class's own default. Where one
field of a nested model is set, its siblings are kept: those of the default instance as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic import BaseModel

from relayconf.classes.build import Field
from relayconf.resolve import Resolution
from relayconf.setting import Value

Path = tuple[str, ...]


def finished(
    fields: Iterable[Field],
    resolution: Resolution,
    fixed: Mapping[Path, Any] | None = None,
    at: Path = (),
    *,
    whole: bool = False,
) -> dict[str, Any]:
    """Return what pydantic is handed, by the keys that it takes.

    Args:
        fields: of one class or nested model.
        resolution: the values of every setting of the class.
        fixed: values that stand whatever any layer says, by the path of field names.
        at: the path that leads to these fields.
        whole: hand over defaults too, so that a model that reads the environment by itself has
            nothing left to look up.
    """
    fixed = fixed or {}
    values: dict[str, Any] = {}
    for field in fields:
        here = (*at, field.name)
        if here in fixed:
            values[field.key] = fixed[here]
        elif field.fields:
            _add_model(values, field, resolution, fixed, here)
        else:
            effective = resolution.settings[field.setting]
            wanted = effective.value is not None and (whole or not effective.untouched)
            if wanted and field.hand is not None:
                values[field.key] = field.hand(cast("Value", effective.value))
    return values


def _add_model(
    values: dict[str, Any],
    field: Field,
    resolution: Resolution,
    fixed: Mapping[Path, Any],
    here: Path,
) -> None:
    inner = cast("tuple[Field, ...]", field.fields)
    found = finished(inner, resolution, fixed, here)
    names = {part.name for part in inner}
    own = {p[-1]: v for p, v in fixed.items() if p[:-1] == here and p[-1] not in names}
    if not found and not own and (field.optional or not field.whole):
        return
    if field.whole:
        found = finished(inner, resolution, fixed, here, whole=True)
    values[field.key] = {**_siblings(field, inner), **found, **own}


def _siblings(field: Field, inner: Iterable[Field]) -> dict[str, Any]:
    instance: BaseModel | None = field.default
    return {} if instance is None else {part.key: getattr(instance, part.name) for part in inner}
