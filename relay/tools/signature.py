"""The JSON Schema of a callable's arguments, read off its signature.

It covers what a signature says plainly: ``str int float bool None``, lists, tuples, dicts,
``Literal``, ``Optional`` and unions of these. Any other annotation, and none, accepts anything.
Arguments that the callable does not take are refused.
"""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union

_PLAIN: dict[object, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    dict: {"type": "object"},
}
_KEYWORDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the schema of the keywords that ``function`` takes.

    Raises:
        ValueError: it has no signature, or an argument that cannot be given by keyword.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise ValueError("the callable has no signature; give the tool an input schema") from None
    hints = _hints(function)
    properties: dict[str, Any] = {}
    required = []
    additional = False
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            additional = True
            continue
        if parameter.kind not in _KEYWORDS:
            raise ValueError(
                f"the argument {name!r} cannot be given by keyword; the arguments of a tool are"
            )
        properties[name] = _of(hints.get(name, Any))
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
        elif _is_json(parameter.default):
            properties[name] = {**properties[name], "default": parameter.default}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = additional
    return schema


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    bare = inspect.unwrap(function)
    if not inspect.isroutine(bare) and not inspect.isclass(bare):
        bare = type(bare).__call__
    try:
        return typing.get_type_hints(bare)
    except (NameError, TypeError, AttributeError):
        # An annotation that names something not there at run time says nothing about JSON.
        return {}


def _of(annotation: Any) -> dict[str, Any]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is None:
        # By identity: an annotation may be any object, also one that cannot be hashed.
        return next((dict(schema) for kind, schema in _PLAIN.items() if kind is annotation), {})
    if origin is Literal:
        return {"enum": list(arguments)} if _is_json(list(arguments)) else {}
    if origin in (Union, types.UnionType):
        return _union([_of(argument) for argument in arguments])
    if origin in (list, Sequence):
        return {"type": "array", **_items(_of(arguments[0]))}
    if origin is tuple:
        return _tuple(arguments)
    if origin in (dict, Mapping):
        values = _of(arguments[1])
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    return {}


def _union(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {} if {} in choices else {"anyOf": choices}


def _items(item: dict[str, Any]) -> dict[str, Any]:
    return {"items": item} if item else {}


def _tuple(arguments: tuple[Any, ...]) -> dict[str, Any]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return {"type": "array", **_items(_of(arguments[0]))}
    count = len(arguments)
    items = [_of(argument) for argument in arguments]
    return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
