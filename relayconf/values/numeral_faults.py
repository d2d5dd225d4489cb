"""Faults of numerals: why a text is no integer, number, duration, size or share of keys.

Everything here works on text. A numeral is converted only to suggest the right spelling, and only
where it is short. Ground floor.
"""

from __future__ import annotations

from typing import Optional, Tuple

from relayconf.setting import Setting
from relayconf.values import duration, size, words
from relayconf.values.numerals import MOST_DIGITS, is_digits
from relayconf.values.slips import boolean_hint, common_slip, hint, ungroup
from relayconf.values.spelling import ascii_lower, name_character, quote

#: A numeral of so many characters may be converted for a hint.
_SHORT = 20

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BASES = {"0x": 16, "0o": 8, "0b": 2}
_UNIT_NAMES = {"h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds"}


def explain(setting: Setting, text: str) -> str:
    """Return why a text is not a value of a setting whose type is built from numerals."""
    fault = common_slip(setting, text) or _foreign_notation(setting, text)
    if fault is None and setting.type == "duration":
        fault = _duration(setting, text)
    elif fault is None and setting.type == "size":
        fault = _size(setting, text)
    elif fault is None and setting.type == "rollout":
        fault = _rollout(setting, text)
    if fault is None:
        fault = _numeral(setting, text, fraction=setting.type == "number")
    return fault or "it is not a numeral"


def _foreign_notation(setting: Setting, text: str) -> Optional[str]:
    """Name a way of writing numbers that other programs read and this one does not."""
    sign, body = ("-", text[1:]) if text.startswith("-") else ("", text)
    lowered = ascii_lower(body)
    if text.startswith("+"):
        return f"a '+' is not read{hint(setting, text[1:])}"
    if lowered in {"nan", "inf", "infinity"}:
        return "it is not a finite number"
    if lowered[:2] in _BASES:
        decimal = _decimal(setting, sign, lowered)
        return f"'{body[1]}' at position {len(sign) + 2} is not a digit{decimal}"
    for mark in "_,":
        if mark in text:
            plain = ungroup(setting, text, mark)
            return f"'{mark}' at position {text.index(mark) + 1} is not a digit{plain}"
    return _exponent(setting, sign, lowered)


def _decimal(setting: Setting, sign: str, body: str) -> str:
    """Return the hint that spells a numeral like ``0x10`` in decimal, where it is one."""
    base, digits = _BASES[body[:2]], body[2:]
    if len(body) > _SHORT or not digits.isalnum():
        return ""
    try:
        return hint(setting, f"{sign}{int(digits, base)}")
    except ValueError:
        return ""


def _exponent(setting: Setting, sign: str, body: str) -> Optional[str]:
    mantissa, mark, power = body.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = power[1:] if power[:1] in {"+", "-"} else power
    if not mark or not is_digits(digits) or not is_digits(whole + fraction):
        return None
    spelled = ""
    if len(body) <= _SHORT and len(fraction) <= int(power) <= _SHORT:
        numeral = int(whole + fraction) * 10 ** (int(power) - len(fraction))
        spelled = hint(setting, f"{sign}{numeral}")
    at = len(sign) + len(mantissa) + 1
    instead = spelled or "; write the numeral out"
    return f"'e' at position {at} is not a digit: an exponent is not read{instead}"


def _numeral(
    setting: Setting, value: str, start: int = 0, end: Optional[int] = None, *, fraction: bool
) -> Optional[str]:
    """Return what keeps a part of a value, from one index to another, from being one numeral."""
    text = value[start:end]
    sign = "-" if text.startswith("-") else ""
    whole, point, rest = text[len(sign) :].partition(".")
    first, dot = start + len(sign) + 1, start + len(sign) + len(whole) + 1

    def instead(numeral: str) -> str:
        behind = "" if end is None else value[end:]
        return hint(setting, f"{value[:start]}{numeral}{behind}")

    for index, char in enumerate(whole + point + rest):
        if not is_digits(char) and index != len(whole):
            return f"{name_character(char)} at position {first + index} is not a digit"
    if not whole:
        return f"a digit is missing at position {first}{instead(f'{sign}0.{rest}')}"
    if point and not fraction:
        short = "" if rest.strip("0") else instead(sign + whole)
        return f"'.' at position {dot}: a fraction is not read here{short}"
    if point and not rest:
        return f"a digit is missing behind the '.' at position {dot}"
    if len(whole + rest) > MOST_DIGITS:
        return f"it has {len(whole + rest)} digits in one numeral, and {MOST_DIGITS} are the most"
    if whole[0] == "0" and len(whole) > 1:
        kept = sign + (whole.lstrip("0") or "0") + point + rest
        return f"'0' at position {first} is a leading zero{instead(kept)}"
    return f"there is no minus zero{instead('0')}" if text == "-0" else None


def _duration(setting: Setting, text: str) -> Optional[str]:
    if not any(char in _LETTERS for char in text):
        if "." in text and _numeral(setting, text, fraction=True) is None:
            unit = _UNIT_NAMES[setting.unit or "ms"]
            return f"without a unit it is a whole number of {unit}; write like 1.5s"
        return None
    if text.startswith("-"):
        return "'-' at position 1: a duration with units has no minus"
    position, before = 0, ""
    while position < len(text):
        fault, position, before = _part(setting, text, position, before)
        if fault is not None:
            return fault
    return "it is not a whole number of milliseconds"


def _part(setting: Setting, text: str, start: int, before: str) -> Tuple[Optional[str], int, str]:
    """Judge the part of a duration at an index, after one with the unit ``before``.

    Returns:
        The fault or None, the index behind the part, and its unit.
    """
    middle = _skip(text, start, "0123456789.")
    end = _skip(text, middle, _LETTERS)
    numeral, unit = text[start:middle], text[middle:end]
    units = list(duration.UNITS)
    spelled = f"units are {' '.join(units)}"
    if not numeral:
        fault = f"{name_character(text[start])} at position {start + 1} is not a digit"
    elif not unit and middle == len(text):
        fault = f"{quote(numeral)} at position {start + 1} has no unit; {spelled}"
    elif not unit:
        fault = f"{name_character(text[middle])} at position {middle + 1} is not a digit or a unit"
    elif unit not in units:
        fault = f"{quote(unit)} at position {middle + 1} is not a unit; {spelled}, lower case"
    elif unit == before:
        fault = f"{quote(unit)} at position {middle + 1} is given twice"
    elif before and units.index(unit) < units.index(before):
        order = " ".join(units)
        fault = f"'{unit}' at position {middle + 1} comes after '{before}'; the order is {order}"
    elif "." in numeral and end < len(text):
        fault = f"only the last part may have a fraction, and {quote(numeral + unit)} is not"
    else:
        return _numeral(setting, text, start, middle, fraction=True), end, unit
    return fault, end, unit


def _skip(text: str, index: int, among: str) -> int:
    while index < len(text) and text[index] in among:
        index += 1
    return index


def _size(setting: Setting, text: str) -> Optional[str]:
    numeral = text.rstrip(_LETTERS)
    unit = text[len(numeral) :]
    if not unit or numeral in {"", "-"}:
        return None
    if unit in size.UNITS:
        return _numeral(setting, text, 0, len(numeral), fraction=False)
    if unit == "B":
        return f"'B' at position {len(text)} is not a unit: bytes have none{hint(setting, numeral)}"
    meant = [known for known in size.UNITS if ascii_lower(known) == ascii_lower(unit)]
    near = f"; did you mean {meant[0]}?" if meant else ""
    units = " ".join(size.UNITS)
    where = f"{quote(unit)} at position {len(numeral) + 1}"
    return f"{where} is not a unit; units are {units}, spelled so{near}"


def _rollout(setting: Setting, text: str) -> str:
    if text.endswith("%"):
        numeral = text[:-1]
        fault = _numeral(setting, text, 0, len(numeral), fraction=True)
        if fault is None and len(numeral.partition(".")[2]) > 2:
            fault = "a share has at most two decimals"
        return fault or "a share is 0% to 100%"
    if _numeral(setting, text, fraction=True) is None:
        share = hint(setting, f"{text}%") if text.isdigit() else ""
        return f"it is no boolean, and a share ends with '%'{share}"
    known = ", ".join(words.BOOLEANS)
    return f"it is neither a boolean ({known}) nor a share like 25%{boolean_hint(text)}"
