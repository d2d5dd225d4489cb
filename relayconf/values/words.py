"""Words: boolean, rollout and enum, each read in any ASCII case.

A rollout is a boolean or a share of keys in percent; its range, 0 to 100, is part of the grammar,
and its canonical text has no trailing zeros. ``0%`` and ``100%`` stay shares: they are the ends of
a rollout, not the flag's two settled states. Ground floor.
"""

from __future__ import annotations

from typing import Optional

from relayconf.setting import Setting, Value
from relayconf.values.numerals import is_decimal, is_numeral
from relayconf.values.result import Grammar
from relayconf.values.spelling import ascii_lower

BOOLEANS = {
    "true": True,
    "false": False,
    "1": True,
    "0": False,
    "yes": True,
    "no": False,
    "on": True,
    "off": False,
}

#: Every key, in the unit of a share: hundredths of a percent.
WHOLE = 10_000


def hundredths(text: str) -> Optional[int]:
    """Return a share like ``12.5%`` in hundredths of a percent, or None where it is not one."""
    whole, point, fraction = text[:-1].partition(".")
    well_formed = is_decimal(whole, fraction) if point else is_numeral(whole)
    if not text.endswith("%") or not well_formed or len(fraction) > 2:
        return None
    share = int(whole) * 100 + int(fraction.ljust(2, "0"))
    return share if share <= WHOLE else None


def _read_boolean(_setting: Setting, text: str) -> Optional[Value]:
    return BOOLEANS.get(ascii_lower(text))


def _read_rollout(_setting: Setting, text: str) -> Optional[Value]:
    value = BOOLEANS.get(ascii_lower(text))
    if value is not None:
        return value
    share = hundredths(text)
    if share is None:
        return None
    return f"{share // 100}.{share % 100:02d}".rstrip("0").rstrip(".") + "%"


def _read_enum(setting: Setting, text: str) -> Optional[Value]:
    if text in setting.choices:
        return text
    lowered = ascii_lower(text)
    return next((c for c in setting.choices if ascii_lower(c) == lowered), None)


def _write(_setting: Setting, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


BOOLEAN = Grammar(_read_boolean, _write)
ROLLOUT = Grammar(_read_rollout, _write)
ENUM = Grammar(_read_enum, _write)
