"""Grammars: text to value and back, clamping, and what output may show, for every type.

Reading is pure and total: any text gives a value or a reason, never an exception. It knows nothing
of layers, blanks that mean unset, or warnings. Ground floor.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple, Union, cast

from relayconf.setting import MASK, ORDERED_TYPES, Setting, Value
from relayconf.values.lists import LIST
from relayconf.values.result import JSON, Grammar, Invalid, Parsed
from relayconf.values.scalars import SCALARS
from relayconf.values.spelling import WHITE
from relayconf.values.url import mask_userinfo

GRAMMARS: Dict[str, Grammar] = {**SCALARS, "list": LIST}


def parse(setting: Setting, text: str) -> Union[Parsed, Invalid]:
    """Read one text by the setting's grammar.

    Args:
        setting: whose type, unit, choices and items decide; its range does not.
        text: any text, lone surrogates included.

    Returns:
        The canonical value, or why the text as a whole is not one. Never raises.
    """
    grammar = GRAMMARS[setting.type]
    kept = text.strip(WHITE) if grammar.trims else text
    value = grammar.read(setting, kept)
    if value is None:
        from relayconf.values.faults import explain  # noqa: PLC0415 - most texts are right

        return Invalid(explain(setting, kept))
    return Parsed(value, len(kept) != len(text))


def clamp(setting: Setting, value: Value) -> Tuple[Value, Optional[str]]:
    """Move a value into the setting's range.

    Args:
        setting: its ``minimum`` and ``maximum`` count, where its type has an order.
        value: a canonical value.

    Returns:
        The value and ``None``, or the bound and which one it is: ``minimum`` or ``maximum``.
        Integers and floats are compared exactly.
    """
    if setting.type not in ORDERED_TYPES:
        return value, None
    number = cast(Union[int, float], value)
    if setting.minimum is not None and number < setting.minimum:
        return _canonical(setting.minimum), "minimum"
    if setting.maximum is not None and number > setting.maximum:
        return _canonical(setting.maximum), "maximum"
    return value, None


def render(setting: Setting, value: Value) -> str:
    """Return the canonical text of a value: parsing it gives the value again.

    A duration is an integer in the setting's own unit, or else in ``ms``; a list has commas, or is
    a JSON array where commas would change it. There is no text for a negative duration that is not
    whole in the setting's unit, nor for a float that takes more digits than a numeral may have;
    such a value comes from a declaration, never from a text.
    """
    return GRAMMARS[setting.type].write(setting, value)


def present(setting: Setting, value: Optional[Value]) -> JSON:
    """Return a value as JSON output shows it: a secret and a url's userinfo are masked."""
    if value is None:
        return None
    if setting.type == "list":
        return [_present(setting.items, item) for item in cast(Tuple[Any, ...], value)]
    return _present(setting.type, value)


def _present(kind: str, value: Value) -> JSON:
    if kind == "secret":
        return MASK
    if kind == "url":
        return mask_userinfo(str(value))
    return cast(JSON, value)


def _canonical(bound: float) -> Value:
    return int(bound) if bound % 1 == 0 else bound
