"""Numerals: integer and number, and the digits that durations, sizes and shares are made of.

A numeral is at most ``MOST_DIGITS`` ASCII digits without a leading zero. Nothing longer is ever
converted, so no text can cost more than its length. Integers are exact whatever their size; a
number is an integer where it is whole and the nearest float otherwise. Ground floor.
"""

from __future__ import annotations

from typing import Optional

from relayconf.setting import Setting, Value
from relayconf.values.result import Grammar

#: Digits in one numeral, its fraction included. Far above every range, and far below the 4,300 at
#: which Python refuses to convert.
MOST_DIGITS = 32

#: The first integer that is too long to be written as one numeral.
TOO_LONG: int = 10**MOST_DIGITS


def is_digits(text: str) -> bool:
    """Whether a text is one or more ASCII digits."""
    return text.isascii() and text.isdigit()


def is_numeral(text: str) -> bool:
    """Whether a text is ``0`` or ``[1-9][0-9]*``, of at most ``MOST_DIGITS`` ASCII digits."""
    return is_digits(text) and len(text) <= MOST_DIGITS and (text[0] != "0" or len(text) == 1)


def is_integer(text: str) -> bool:
    """Whether a text is a numeral, with or without a minus, and not ``-0``."""
    return is_numeral(text[1:] if text[:1] == "-" else text) and text != "-0"


def is_decimal(whole: str, fraction: str) -> bool:
    """Whether two texts are what stands before and behind a decimal point."""
    return is_numeral(whole) and is_digits(fraction) and len(whole) + len(fraction) <= MOST_DIGITS


def _read_integer(_setting: Setting, text: str) -> Optional[Value]:
    return int(text) if is_integer(text) else None


def _read_number(_setting: Setting, text: str) -> Optional[Value]:
    if is_integer(text):
        return int(text)
    whole, _, fraction = text.partition(".")
    if not is_decimal(whole[1:] if whole[:1] == "-" else whole, fraction):
        return None
    if not fraction.strip("0"):
        return int(whole)
    value = float(text)
    # Beyond 2**53 a float has no room for a fraction: what is left is whole, and written so.
    return int(value) if value.is_integer() else value


def _write_integer(_setting: Setting, value: Value) -> str:
    return str(value)


def _write_number(_setting: Setting, value: Value) -> str:
    if not isinstance(value, float):
        return str(value)
    if value.is_integer():
        return str(int(value))
    # repr is the shortest text that reads as the same float, but may use an exponent: a negative
    # one, since a large float is whole.
    mantissa, _, exponent = repr(value).partition("e-")
    if not exponent:
        return mantissa
    sign = "-" if value < 0 else ""
    return f"{sign}0.{'0' * (int(exponent) - 1)}{mantissa.lstrip('-').replace('.', '')}"


INTEGER = Grammar(_read_integer, _write_integer)
NUMBER = Grammar(_read_number, _write_number)
