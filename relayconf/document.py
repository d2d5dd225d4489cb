"""The contract as a document: JSON Schema 2020-12 that validates a settings file.

The inverse of ``relayconf.contract``: reading what this writes gives the same contract again.
Numbers are written in the setting's own unit, as a person would in a settings file; a duration that
is no whole number of its unit is written as text. The schema never refuses a text that would be in
force: a value out of range is clamped, so a range is a bound here only where it rejects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from relayconf.contract import VERSION
from relayconf.setting import Contract, Flag, Setting, Value
from relayconf.textforms import SECRET, form, list_pattern
from relayconf.values import render

DIALECT = "https://json-schema.org/draft/2020-12/schema"

#: What a settings file may hold for each type: the plain JSON type first, then text.
_JSON_TYPES: dict[str, list[str]] = {
    "integer": ["integer", "string"],
    "number": ["number", "string"],
    "duration": ["integer", "string"],
    "size": ["integer", "string"],
    "boolean": ["boolean", "string"],
    "rollout": ["boolean", "string"],
    "list": ["array", "string"],
}

#: What an item of an array may be where that differs: no text stands for it there.
_ITEM_TYPES = {"integer": "integer", "number": "number", "boolean": "boolean"}


def to_document(contract: Contract) -> dict[str, Any]:
    """Return the contract as a JSON Schema document with the ``x-relayconf`` keyword."""
    settings = contract.settings.values()
    document: dict[str, Any] = {
        "$schema": DIALECT,
        "title": f"Settings of {contract.target}",
        "x-relayconf": {
            "version": VERSION,
            "target": contract.target,
            "prefix": contract.prefix,
            "rules": [rule._asdict() for rule in contract.rules],
        },
        "type": "object",
        "properties": {setting.name: _property(setting) for setting in settings},
        # A settings file may hold a table for each deployment, which is a settings file again.
        "additionalProperties": {"if": {"type": "object"}, "then": {"$ref": "#"}},
    }
    forms = _forms(settings)
    return {**document, "$defs": forms} if forms else document


def own_unit(setting: Setting, value: Value) -> Any:
    """Return a canonical value as a settings file would hold it: a number in the setting's unit."""
    if setting.type in ("duration", "size", "integer"):
        text = render(setting, value)
        return int(text) if text.lstrip("-").isdigit() else text
    if isinstance(value, tuple):
        return [own_unit(setting._replace(type=setting.items), item) for item in value]
    return value


def _forms(settings: Iterable[Setting]) -> dict[str, Any]:
    """Return the text forms that the properties refer to, by type."""
    kinds = {setting.type for setting in settings}
    found = {kind: form(kind) for kind in _JSON_TYPES if kind in kinds}
    return {kind: _checked(f.pattern, f.words) for kind, f in found.items() if f is not None}


def _checked(pattern: str, words: str) -> dict[str, Any]:
    """Return a pattern, and what an editor says (``patternErrorMessage``) where it is not met."""
    return {"pattern": pattern, "patternErrorMessage": f"must be {words}"}


def _property(setting: Setting) -> dict[str, Any]:
    kind = _JSON_TYPES.get(setting.type, ["string"])
    schema: dict[str, Any] = {"type": list(kind) if len(kind) > 1 else kind[0]}
    if setting.default is not None:
        schema["default"] = own_unit(setting, setting.default)
    if setting.doc:
        schema["description"] = setting.doc
    schema.update(_form(setting))
    if setting.example is not None:
        schema["examples"] = [setting.example]
    schema["x-relayconf"] = _extra(setting)
    return schema


def _form(setting: Setting) -> dict[str, Any]:
    """Return what an editor needs to complete and check a value."""
    own = form(setting.type, setting.choices)
    if setting.secret:
        return {"writeOnly": True, "pattern": SECRET}
    if setting.type == "list":
        pattern = list_pattern(setting)
        return {"items": _items(setting), **({"pattern": pattern} if pattern else {})}
    if own is None:
        return {}
    if setting.type == "enum":
        # The members are for completion, the pattern for every other case that is right as well.
        return {"anyOf": [{"enum": list(setting.choices)}, {"pattern": own.pattern}]}
    if setting.type not in _JSON_TYPES:
        return _checked(own.pattern, own.words)
    bounds = {}
    for key, bound in (("minimum", setting.minimum), ("maximum", setting.maximum)):
        number = None if bound is None else own_unit(setting, bound)
        if setting.reject and isinstance(number, (int, float)):
            bounds[key] = number
    return {**bounds, "$ref": f"#/$defs/{setting.type}"}


def _items(setting: Setting) -> dict[str, Any]:
    if setting.items in _ITEM_TYPES:
        return {"type": _ITEM_TYPES[setting.items]}
    kind = _JSON_TYPES.get(setting.items, ["string"])
    schema: dict[str, Any] = {"type": list(kind) if len(kind) > 1 else kind[0]}
    own = form(setting.items, setting.choices)
    if own is None:
        return schema
    if setting.items == "enum":
        return {**schema, "anyOf": [{"enum": list(setting.choices)}, {"pattern": own.exact}]}
    return {**schema, "pattern": own.exact}


def _extra(setting: Setting) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": setting.type}
    if setting.unit is not None:
        facts["unit"] = setting.unit
    if setting.type == "list":
        facts["items"] = setting.items
    if setting.choices:
        facts["choices"] = list(setting.choices)
    for key, bound in (("min", setting.minimum), ("max", setting.maximum)):
        if bound is not None:
            facts[key] = own_unit(setting, bound)
    if setting.jitter is not None:
        facts["jitter"] = list(setting.jitter)
    for key in ("reject", "allow_blank"):
        if getattr(setting, key):
            facts[key] = True
    facts["live"] = setting.live
    facts["legacy"] = list(setting.legacy)
    facts["groups"] = list(setting.groups)
    for key in ("owner", "since", "example"):
        if getattr(setting, key) is not None:
            facts[key] = getattr(setting, key)
    if setting.description:
        facts["description"] = setting.description
    if setting.flag is not None:
        facts["flag"] = _flag(setting, setting.flag)
    return facts


def _flag(setting: Setting, flag: Flag) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "kind": flag.kind,
        "kill": own_unit(setting, flag.kill),
        "owner": flag.owner,
        "expires": flag.expires,
        "why": flag.why,
    }
    if flag.breaker is not None:
        facts["breaker"] = dict(flag.breaker)
    return facts
