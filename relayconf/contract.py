"""Contracts: read a published JSON contract into records, and name it by its fingerprint.

A contract is a JSON Schema document that validates a settings file, with one extra keyword,
``x-relayconf``. Numbers in it are what a person would write in a settings file: in the setting's
own unit. Reading checks everything that resolving relies on, so that a contract that was read
cannot surprise anybody later. Ground floor.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union, cast

from relayconf.errors import ContractError
from relayconf.setting import (
    FLAG_KINDS,
    ORDERED_TYPES,
    TYPES,
    Contract,
    Flag,
    Rule,
    Setting,
    Value,
)
from relayconf.values import Invalid, clamp, parse

#: The version of the ``x-relayconf`` keyword that this module reads.
VERSION = 1

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DATE = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])\Z")
_SCHEMA_TYPES = {
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "array": "list",
    "string": "string",
}


def installed_path(target: str) -> Optional[str]:
    """Return the path of the contract that ships for ``target``, or ``None``.

    A wheel carries the contracts inside the package; a checkout has them beside it.
    """
    if not _NAME.match(target):
        return None
    package = os.path.dirname(os.path.abspath(__file__))
    for folder in (os.path.join(package, "schema"), os.path.join(package, os.pardir, "schema")):
        path = os.path.normpath(os.path.join(folder, f"{target}.schema.json"))
        if os.path.isfile(path):
            return path
    return None


def load_installed(target: str) -> Optional[Contract]:
    """Read the contract that ships for ``target``; ``None`` where there is none.

    Raises:
        ContractError: the file is damaged.
    """
    path = installed_path(target)
    return None if path is None else load(path)


def load(path: str) -> Contract:
    """Read a JSON contract from a file.

    Raises:
        ContractError: it cannot be read, is not JSON, or is not a contract.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ContractError(f"{path}: cannot read the contract: {error.strerror}") from None
    return read(data, origin=path)


def read(data: bytes, *, origin: str) -> Contract:
    """Read a JSON contract from its bytes; ``origin`` names them in errors.

    Raises:
        ContractError: not UTF-8 JSON, a repeated key, or not a contract.
    """
    try:
        document = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_no_repeats)
    except UnicodeDecodeError as error:
        raise ContractError(f"{origin}: not UTF-8 at byte {error.start}") from None
    except (ValueError, RecursionError) as error:
        raise ContractError(f"{origin}: not a JSON document: {error}") from None
    return from_document(document, origin=origin)


def from_document(document: Any, *, origin: str) -> Contract:
    """Read a contract from a parsed document; ``origin`` names it in errors.

    Raises:
        ContractError: the first thing in it that cannot be right, with its place.
    """
    reader = _Reader(origin)
    root = reader.mapping(document, "the document")
    head = reader.mapping(root.get("x-relayconf"), "x-relayconf")
    if head.get("version") != VERSION:
        raise reader.error("x-relayconf.version", f"must be {VERSION}")
    target = reader.name(head.get("target"), "x-relayconf.target")
    prefix = reader.text(head.get("prefix", ""), "x-relayconf.prefix")
    properties = reader.mapping(root.get("properties"), "properties")
    settings = {name: reader.setting(name, body) for name, body in properties.items()}
    reader.no_shared_names(settings)
    rules = head.get("rules", [])
    if not isinstance(rules, list):
        raise reader.error("x-relayconf.rules", "must be an array")
    return Contract(target, prefix, settings, tuple(reader.rule(r, settings) for r in rules))


def fingerprint(contract: Contract) -> str:
    """Return 16 hex digits that change whenever anything that affects a value changes."""
    import hashlib  # noqa: PLC0415 - most readers of a contract never name it

    settings = [
        s._replace(doc="", description="", example=None) for s in contract.settings.values()
    ]
    text = repr((contract.target, contract.prefix, settings, contract.rules))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _no_repeats(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} stands twice in one object")
            seen.add(key)
    return document


class _Reader:
    """Reads the parts of one document; every error names the document and the place in it."""

    def __init__(self, origin: str) -> None:
        self.origin = origin

    def error(self, place: str, message: str) -> ContractError:
        return ContractError(f"{self.origin}: {place}: {message}")

    def mapping(self, value: Any, place: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.error(place, "must be an object")
        return cast(Mapping[str, Any], value)

    def text(self, value: Any, place: str) -> str:
        if not isinstance(value, str):
            raise self.error(place, "must be a string")
        return value

    def name(self, value: Any, place: str) -> str:
        text = self.text(value, place)
        if not _NAME.match(text):
            raise self.error(place, f"{text!r} is not a name (letters, digits and '_')")
        return text

    def texts(self, value: Any, place: str) -> Tuple[str, ...]:
        if not isinstance(value, list):
            raise self.error(place, "must be an array of strings")
        return tuple(self.text(item, place) for item in value)

    def optional(self, body: Mapping[str, Any], key: str, place: str) -> Optional[str]:
        value = body.get(key)
        return None if value is None else self.text(value, f"{place}.{key}")

    def setting(self, name: str, body: Any) -> Setting:
        place = f"properties.{self.name(name, 'properties')}"
        schema = self.mapping(body, place)
        extra = self.mapping(schema.get("x-relayconf", {}), f"{place}.x-relayconf")
        place = f"{place}.x-relayconf"
        setting = Setting(
            name=name,
            type=self.type(schema, extra, place),
            doc=self.text(schema.get("description", ""), f"{place}.description"),
            description=self.text(extra.get("description", ""), f"{place}.description"),
            reject=extra.get("reject", False) is True,
            allow_blank=extra.get("allow_blank", False) is True,
            live=extra.get("live", False) is True,
            legacy=self.texts(extra.get("legacy", []), f"{place}.legacy"),
            groups=self.texts(extra.get("groups", []), f"{place}.groups"),
            owner=self.optional(extra, "owner", place),
            since=self.optional(extra, "since", place),
            example=self.optional(extra, "example", place),
            items=extra.get("items", "string"),
            unit=extra.get("unit"),
        )
        setting = self.grammar(setting, schema, extra, place)
        setting = self.range(setting, schema, extra, place)
        if "flag" in extra:
            setting = setting._replace(flag=self.flag(setting, extra["flag"], f"{place}.flag"))
        return setting._replace(default=self.default(setting, schema))

    def type(self, schema: Mapping[str, Any], extra: Mapping[str, Any], place: str) -> str:
        """The declared type; where only the schema speaks, what it means."""
        kind = extra.get("type")
        if kind is None:
            named = schema.get("type")
            kind = "enum" if "enum" in schema else _SCHEMA_TYPES.get(str(named), named)
            if kind == "string" and schema.get("format") == "uri":
                kind = "url"
            if kind == "string" and schema.get("writeOnly") is True:
                kind = "secret"
        if kind not in TYPES:
            raise self.error(f"{place}.type", f"{kind!r} is none of {', '.join(TYPES)}")
        return cast(str, kind)

    def grammar(
        self, setting: Setting, schema: Mapping[str, Any], extra: Mapping[str, Any], place: str
    ) -> Setting:
        """Fill in what the type's grammar needs beside its name."""
        if setting.type == "duration":
            unit = setting.unit or "ms"
            if unit not in ("h", "m", "s", "ms"):
                raise self.error(f"{place}.unit", f"{unit!r} is none of h, m, s, ms")
            setting = setting._replace(unit=unit)
        if setting.type == "enum" or setting.items == "enum":
            choices = self.texts(extra.get("choices", schema.get("enum")), f"{place}.choices")
            if not choices or len({c.lower() for c in choices}) != len(choices):
                raise self.error(f"{place}.choices", "must be distinct in any case, at least one")
            setting = setting._replace(choices=choices)
        if setting.items not in TYPES or setting.items in ("list", "secret"):
            raise self.error(f"{place}.items", f"{setting.items!r} cannot be the type of an item")
        return setting

    def range(
        self, setting: Setting, schema: Mapping[str, Any], extra: Mapping[str, Any], place: str
    ) -> Setting:
        bounds: List[Optional[Union[int, float]]] = []
        for key, standard in (("min", "minimum"), ("max", "maximum")):
            bound = extra.get(key, schema.get(standard))
            if bound is not None and setting.type not in ORDERED_TYPES:
                raise self.error(f"{place}.{key}", f"a {setting.type} has no range")
            value = None if bound is None else self.value(setting, bound, f"{place}.{key}")
            bounds.append(cast("Optional[Union[int, float]]", value))
        low, high = bounds
        if low is not None and high is not None and low > high:
            raise self.error(f"{place}.min", "is above max")
        setting = setting._replace(minimum=low, maximum=high)
        return setting._replace(jitter=self.jitter(setting, extra, place))

    def jitter(
        self, setting: Setting, extra: Mapping[str, Any], place: str
    ) -> Optional[Tuple[float, float]]:
        pair = extra.get("jitter")
        if pair is None:
            return None
        numbers = isinstance(pair, list) and len(pair) == 2
        if not numbers or not all(isinstance(n, (int, float)) and n >= -1 for n in pair):
            raise self.error(f"{place}.jitter", "must be two fractions, each at least -1")
        if setting.type not in ORDERED_TYPES or pair[0] > pair[1]:
            raise self.error(f"{place}.jitter", "must be low to high, on a setting with an order")
        return (float(pair[0]), float(pair[1]))

    def flag(self, setting: Setting, body: Any, place: str) -> Flag:
        flag = self.mapping(body, place)
        if setting.type not in ("boolean", "rollout", "enum"):
            raise self.error(place, "a flag is a boolean, a rollout or an enum")
        if flag.get("kind") not in FLAG_KINDS:
            raise self.error(f"{place}.kind", f"must be one of {', '.join(FLAG_KINDS)}")
        expires, why = self.optional(flag, "expires", place), self.optional(flag, "why", place)
        if expires is None and not why:
            raise self.error(f"{place}.expires", "needs a date, or a reason in 'why'")
        if expires is not None and not _DATE.match(expires):
            raise self.error(f"{place}.expires", f"{expires!r} is not a date like 2027-03-01")
        owner = self.text(flag.get("owner"), f"{place}.owner")
        if not owner:
            raise self.error(f"{place}.owner", "must name somebody")
        kill = self.value(setting, flag.get("kill"), f"{place}.kill")
        breaker = flag.get("breaker")
        if breaker is not None:
            breaker = self.mapping(breaker, f"{place}.breaker")
        return Flag(flag["kind"], kill, owner, expires, why, breaker)

    def default(self, setting: Setting, schema: Mapping[str, Any]) -> Optional[Value]:
        place = f"properties.{setting.name}.default"
        default = schema.get("default")
        if default is None:
            return None
        if setting.secret:
            raise self.error(place, "a secret cannot have a default")
        value = self.value(setting, default, place)
        if clamp(setting, value)[1] is not None:
            raise self.error(place, "is out of range")
        return value

    def value(self, setting: Setting, value: Any, place: str) -> Value:
        """Read a JSON value by the setting's own grammar, as a settings file would be."""
        outcome = parse(setting, literal(value))
        if isinstance(outcome, Invalid):
            raise self.error(place, f"is not a {setting.type}: {outcome.reason}")
        return outcome.value

    def rule(self, body: Any, settings: Mapping[str, Setting]) -> Rule:
        place = "x-relayconf.rules"
        rule = self.mapping(body, place)
        keys = ("low", "high", "moves")
        low, high, moves = (self.text(rule.get(key), f"{place}.{key}") for key in keys)
        for name in (low, high):
            if name not in settings or settings[name].type not in ORDERED_TYPES:
                raise self.error(place, f"{name!r} is not a declared setting with an order")
        if settings[low].type != settings[high].type or low == high:
            raise self.error(place, f"{low} and {high} cannot be compared")
        if moves not in (low, high):
            raise self.error(f"{place}.moves", f"must be {low} or {high}")
        return Rule(low, high, rule.get("strict", False) is True, moves)

    def no_shared_names(self, settings: Mapping[str, Setting]) -> None:
        taken = set(settings)
        for setting in settings.values():
            for old in setting.legacy:
                if old in taken:
                    raise self.error(f"properties.{setting.name}", f"{old} already names a setting")
                taken.add(old)


def literal(value: Any) -> str:
    """Return the text that means a JSON value: what a person would have written for it."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        from decimal import Decimal  # noqa: PLC0415 - no contract of ours needs it

        return format(Decimal(repr(value)), "f")
    return json.dumps(value, ensure_ascii=False)
