"""Durations: an integer in the setting's own unit, or parts in the order ``h m s ms``.

The value is whole milliseconds, computed in integers throughout: ``0.1s`` is 100, and ``1.5ms`` is
no duration. A minus is only for the bare integer, where it is well-formed and will be clamped;
parts have none. Ground floor.
"""

from __future__ import annotations

from typing import Optional, cast

from relayconf.setting import Setting, Value
from relayconf.values.numerals import TOO_LONG, is_decimal, is_integer, is_numeral
from relayconf.values.result import Grammar

#: Milliseconds by unit, in the order in which parts are written.
UNITS = {"h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}


def _read(setting: Setting, text: str) -> Optional[Value]:
    if is_integer(text):
        return int(text) * UNITS[setting.unit or "ms"]
    return _read_parts(text)


def _read_parts(text: str) -> Optional[int]:
    total, rest = 0, text
    for unit, size in UNITS.items():
        head, found, tail = rest.partition(unit)
        if not found or (unit == "m" and tail.startswith("s")):
            continue
        whole, point, fraction = head.partition(".")
        if is_numeral(head):
            total += int(head) * size
        elif point and not tail and is_decimal(whole, fraction):
            exact, beyond = divmod(int(whole + fraction) * size, 10 ** len(fraction))
            if beyond:
                return None
            total += exact
        else:
            continue
        rest = tail
    return None if rest or not text else total


def _write(setting: Setting, value: Value) -> str:
    """Write an integer in the setting's own unit where that is exact, else with units."""
    milliseconds = cast(int, value)
    count, beyond = divmod(milliseconds, UNITS[setting.unit or "ms"])
    if not beyond and _fits(count):
        return str(count)
    return f"{milliseconds}ms" if _fits(milliseconds) else _write_parts(milliseconds)


def _write_parts(milliseconds: int) -> str:
    """Write what is too long for one numeral of milliseconds, the large units taking the most."""
    parts, rest = [], milliseconds
    for unit, size in UNITS.items():
        count = min(rest // size, TOO_LONG - 1)
        rest -= count * size
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def _fits(count: int) -> bool:
    return abs(count) < TOO_LONG


DURATION = Grammar(_read, _write)
