"""Arguments against a tool's JSON Schema: compiled once, judged for every call.

The dialect is 2020-12. A schema never leads anywhere: a reference to another document is a fault
when the tool is declared, so no call can make the runner fetch something. How many bytes of
arguments are surely judged within a few milliseconds is read off the schema; larger ones belong
outside of the event loop (see ``judges``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from jsonschema.exceptions import (  # type: ignore[import-untyped]  # likewise
    SchemaError,
    ValidationError,
    best_match,
)

#: The types of decoded JSON that a schema's type surely covers, and keywords that judge nothing.
_PLAIN = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}
_WITHOUT_EFFECT = frozenset({"title", "description", "default", "examples", "$schema", "$comment"})

#: Bytes of arguments that are judged in the loop: jsonschema takes about 10 µs for each value.
_QUICK = 2048

#: The same where a keyword may look at a value many times.
_QUICK_AT_DEAR = 256
_DEAR = frozenset(
    {
        "$ref",
        "$dynamicRef",
        "contains",
        "uniqueItems",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)

#: A pattern with one place at most where there is a choice: it takes no longer than the square of
#: what it reads. Any other may take for ever.
_ATOM = r"(?:\\[dDwWsS.\-/\\]|\[\^?(?:[^\]\[\\]|\\[dDwWsS.\-/\\])+\]|[^\\\[\](){}|*+?^$])"
_EXACTLY = r"(?:\{\d{1,3}\})?"
_TAME = re.compile(
    rf"\^?(?:{_ATOM}{_EXACTLY})*(?:{_ATOM}(?:[*+?]|\{{\d{{0,3}},\d{{0,3}}\}}))?"
    rf"(?:{_ATOM}{_EXACTLY})*\$?"
)

#: A longer pattern is not looked at.
_LONGEST_TAME = 500

#: A message quotes the value that is wrong, which may be megabytes.
_LONGEST_MESSAGE = 500


class Validator:
    """Judges arguments by one schema.

    ``schema`` is that schema.

    Raises:
        ValueError: the schema is none, describes no object, or refers to another document.
    """

    __slots__ = ("__weakref__", "_quick", "_surely_fits", "_validator", "schema")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        if not isinstance(schema, Mapping):
            raise ValueError("a JSON Schema is a table")  # noqa: TRY004 - one kind for every fault
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            where = "/".join(str(part) for part in error.absolute_path)
            raise ValueError(f"no JSON Schema ({where or 'top'}): {_cut(error.message)}") from None
        if schema.get("type", "object") != "object":
            raise ValueError('the schema of arguments has type = "object"')
        for reference in _references(schema):
            if not reference.startswith("#"):
                raise ValueError(f"the reference {reference[:60]!a} leads out of the schema")
        self.schema = schema
        self._quick = _quick_bytes(schema)
        self._validator = Draft202012Validator(schema)
        self._surely_fits = _quick_look(schema)

    def is_quick(self, args: dict[str, Any], size: int) -> bool:
        """Whether ``args``, from a request of ``size`` bytes, are judged within milliseconds."""
        return size <= self._quick or self._surely_fits(args)

    def fault(self, args: dict[str, Any]) -> str | None:
        """Return what is wrong with ``args``, as one line for the caller, or ``None``."""
        if self._surely_fits(args) or self._validator.is_valid(args):
            return None
        error = best_match(self._validator.iter_errors(args))
        return None if error is None else _told(error)


def _quick_bytes(schema: object) -> int:
    """Return how many bytes of arguments a schema judges within milliseconds."""
    if isinstance(schema, Mapping):
        least = _QUICK
        for name, value in schema.items():
            if name == "pattern" and isinstance(value, str) and not _is_tame(value):
                return 0
            names = value if name == "patternProperties" and isinstance(value, Mapping) else ()
            if not all(map(_is_tame, names)):
                return 0
            if name in _DEAR:
                least = min(least, _QUICK_AT_DEAR)
            least = min(least, _quick_bytes(value))
        return least
    if isinstance(schema, list):
        return min(map(_quick_bytes, schema), default=_QUICK)
    return _QUICK


def _is_tame(pattern: str) -> bool:
    return len(pattern) <= _LONGEST_TAME and _TAME.fullmatch(pattern) is not None


def _quick_look(schema: Mapping[str, Any]) -> Callable[[dict[str, Any]], bool]:
    """Return a function that is true only of arguments that fit; false leaves it open.

    Most tools take a few plain values. Looking at their types costs a twentieth of asking the
    validator, which still has the word on everything else.
    """
    properties = schema.get("properties", {})
    plain = {
        name: _PLAIN[inner["type"]]
        for name, inner in properties.items()
        if isinstance(inner, Mapping)
        and isinstance(inner.get("type"), str)
        and set(inner) <= _WITHOUT_EFFECT | {"type"}
    }
    known = {"type", "properties", "required", "additionalProperties"} | _WITHOUT_EFFECT
    additional = schema.get("additionalProperties", True)
    if set(schema) - known or len(plain) < len(properties) or not isinstance(additional, bool):
        return lambda _: False
    required = tuple(schema.get("required", ()))

    def surely_fits(args: dict[str, Any]) -> bool:
        for name in required:
            if name not in args:
                return False
        for name, value in args.items():
            types = plain.get(name)
            if type(value) not in types if types is not None else not additional:
                return False
        return True

    return surely_fits


def _told(error: ValidationError) -> str:
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path)
    message = _cut(error.message)
    return f"{_cut(where.lstrip('.'))}: {message}" if where else message


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}..."


def _references(schema: object) -> Iterator[str]:
    """Yield every ``$ref`` and ``$dynamicRef`` of a schema."""
    if isinstance(schema, Mapping):
        for name, value in schema.items():
            if name in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)
