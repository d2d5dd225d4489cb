"""The contract as a document: JSON Schema 2020-12 that validates a settings file.

The inverse of ``relayconf.contract.reading``, which reads the same contract again from it.
Numbers are written in the setting's own unit, as a person would in a settings file; a duration that
is no whole number of its unit is written as text. The schema never refuses a text that would be in
force: a value out of range is clamped, so a range is a bound here only where it rejects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from relayconf.contract.reading import VERSION
from relayconf.contract.textforms import SECRET, form, list_pattern
from relayconf.setting import Contract, Flag, Setting, Value
from relayconf.values import render

DIALECT = "https://json-schema.org/draft/2020-12/schema"

#: What a settings file may hold for each type, since a value without quotes counts as its text:
#: ``1.10`` is one for a string. Not ``true``: an editor would suggest it for every path.
_JSON_TYPES = {
    "integer": ("integer", "string"),
    "number": ("number", "string"),
    "duration": ("integer", "string"),
    "size": ("integer", "string"),
    "boolean": ("boolean", "integer", "string"),
    "rollout": ("boolean", "integer", "string"),
    "enum": ("string",),
    "string": ("string", "number"),
    "secret": ("string", "number"),
    "path": ("string", "number"),
    "url": ("string",),
}

#: Types whose form many properties refer to, instead of repeating a long pattern.
_SHARED = ("integer", "number", "duration", "size", "boolean", "rollout")


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
    found = {kind: form(kind) for kind in _SHARED if kind in kinds}
    return {kind: _checked(f.pattern, f.words) for kind, f in found.items() if f is not None}


def _checked(pattern: str, words: str) -> dict[str, Any]:
    """Return a pattern, and what an editor says (``patternErrorMessage``) where it is not met."""
    return {"pattern": pattern, "patternErrorMessage": f"must be {words}"}


def _property(setting: Setting) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _json_type(setting)}
    if setting.default is not None:
        schema["default"] = own_unit(setting, setting.default)
    if setting.doc:
        schema["description"] = setting.doc
    schema.update(_list(setting) if setting.type == "list" else _scalar(setting))
    if setting.example is not None:
        schema["examples"] = [setting.example]
    schema["x-relayconf"] = _extra(setting)
    return schema


def _json_type(setting: Setting) -> Any:
    if setting.type == "list":
        alone = (kind for kind in _JSON_TYPES[setting.items] if kind != "string")
        return ["array", "string", *alone]
    names = list(_JSON_TYPES[setting.type])
    if setting.type == "enum":
        # A member like ``1`` or ``true`` may stand without quotes as well.
        found = {type(_plain(choice)) for choice in setting.choices}
        names += ["number"] if found & {int, float} else []
        names += ["boolean"] if bool in found else []
    return names[0] if len(names) == 1 else names


def _plain(text: str) -> Any:
    try:
        return json.loads(text.lower())
    except (ValueError, RecursionError):
        return text


def _scalar(setting: Setting) -> dict[str, Any]:
    """Return what an editor needs to complete and check a value."""
    own = form(setting.type, setting.choices)
    if setting.secret:
        return {"writeOnly": True, "pattern": SECRET}
    if own is None:
        return {}
    if setting.type == "enum":
        return _members(setting, own.pattern)
    if setting.type not in _SHARED:
        return _checked(own.pattern, own.words)
    return {**_bounds(setting), "$ref": f"#/$defs/{setting.type}"}


def _bounds(setting: Setting) -> dict[str, Any]:
    """Return the bounds of a bare number; a string is not concerned by them."""
    if setting.type in ("boolean", "rollout"):
        return {"minimum": 0, "maximum": 1}
    bounds = {}
    for key, bound in (("minimum", setting.minimum), ("maximum", setting.maximum)):
        number = None if bound is None else own_unit(setting, bound)
        if setting.reject and isinstance(number, (int, float)):
            bounds[key] = number
    return bounds


def _members(setting: Setting, pattern: str) -> dict[str, Any]:
    # The members are for completion, the pattern for every other case that is right as well.
    return {"anyOf": [{"enum": list(setting.choices)}, {"pattern": pattern}]}


def _list(setting: Setting) -> dict[str, Any]:
    item = setting._replace(type=setting.items, items="string")
    schema = {"type": _json_type(item)}
    own, pattern = form(item.type, item.choices), list_pattern(setting)
    if own is not None:
        schema |= _members(item, own.exact) if item.type == "enum" else {"pattern": own.exact}
    return {"items": schema, **({"pattern": pattern} if pattern else {})}


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
    if flag.blind != "hold":
        facts["blind"] = flag.blind
    return facts
