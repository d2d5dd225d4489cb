"""Sizes: an integer in bytes, or an integer with one of six units, spelled exactly so.

``kB MB GB`` are powers of 1,000 and ``KiB MiB GiB`` powers of 1,024; there is no fraction and no
white space before the unit. The value is a number of bytes. Ground floor.
"""

from __future__ import annotations

from typing import Optional, cast

from relayconf.setting import Setting, Value
from relayconf.values.numerals import TOO_LONG, is_integer
from relayconf.values.result import Grammar

#: Bytes by unit. No unit is the end of another.
UNITS = {
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}


def _read(_setting: Setting, text: str) -> Optional[Value]:
    if is_integer(text):
        return int(text)
    for unit, size in UNITS.items():
        if text.endswith(unit) and is_integer(text[: -len(unit)]):
            return int(text[: -len(unit)]) * size
    return None


def _write(_setting: Setting, value: Value) -> str:
    """Write plain bytes; with a unit only where the bytes would be too long a numeral."""
    count = cast(int, value)
    for unit, size in (("", 1), *UNITS.items()):
        if count % size == 0 and abs(count // size) < TOO_LONG:
            return f"{count // size}{unit}"
    return str(count)


SIZE = Grammar(_read, _write)
