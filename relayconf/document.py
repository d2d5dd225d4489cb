"""The contract as a document: JSON Schema 2020-12 that validates a settings file.

The inverse of ``relayconf.contract``: reading what this writes gives the same contract again.
Numbers are written in the setting's own unit, as a person would in a settings file; a duration that
is no whole number of its unit is written as text.
"""

from __future__ import annotations

from typing import Any

from relayconf.contract import VERSION
from relayconf.setting import Contract, Flag, Setting, Value
from relayconf.values import present, render

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


def to_document(contract: Contract) -> dict[str, Any]:
    """Return the contract as a JSON Schema document with the ``x-relayconf`` keyword."""
    return {
        "$schema": DIALECT,
        "title": f"Settings of {contract.target}",
        "x-relayconf": {
            "version": VERSION,
            "target": contract.target,
            "prefix": contract.prefix,
            "rules": [rule._asdict() for rule in contract.rules],
        },
        "type": "object",
        "properties": {name: _property(s) for name, s in contract.settings.items()},
    }


def own_unit(setting: Setting, value: Value) -> Any:
    """Return a canonical value as a settings file would hold it: a number in the setting's unit."""
    if setting.type in ("duration", "size", "integer"):
        text = render(setting, value)
        return int(text) if text.lstrip("-").isdigit() else text
    return present(setting, value)


def _property(setting: Setting) -> dict[str, Any]:
    kind = _JSON_TYPES.get(setting.type, ["string"])
    schema: dict[str, Any] = {"type": kind if len(kind) > 1 else kind[0]}
    if setting.default is not None:
        schema["default"] = own_unit(setting, setting.default)
    if setting.doc:
        schema["description"] = setting.doc
    if setting.type == "enum":
        schema["enum"] = list(setting.choices)
    if setting.secret:
        schema["writeOnly"] = True
    if setting.example is not None:
        schema["examples"] = [setting.example]
    schema["x-relayconf"] = _extra(setting)
    return schema


def _extra(setting: Setting) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": setting.type}
    if setting.type == "duration":
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
    for key in ("owner", "since", "example", "description"):
        if getattr(setting, key):
            facts[key] = getattr(setting, key)
    if setting.flag is not None:
        facts["flag"] = _flag(setting, setting.flag)
    return facts


def _flag(setting: Setting, flag: Flag) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "kind": flag.kind,
        "kill": present(setting, flag.kill),
        "owner": flag.owner,
        "expires": flag.expires,
        "why": flag.why,
    }
    if flag.breaker is not None:
        facts["breaker"] = dict(flag.breaker)
    return facts
