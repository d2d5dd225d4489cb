"""What a YAML scalar means to Compose, and how Compose writes it into an environment.

Compose reads YAML with a Go library that keeps much of YAML 1.1 (``0755`` is octal, ``1_000`` is a
number, ``0b101`` too) and drops the rest (``yes`` and ``22:22`` are text), and it writes numbers as
Go's ``%v`` does. Pure; no YAML library involved.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple

#: Tags as Compose compares them, in their short form.
STR, INT, FLOAT, BOOL, NULL, TIMESTAMP, BINARY, MERGE = (
    "!!str",
    "!!int",
    "!!float",
    "!!bool",
    "!!null",
    "!!timestamp",
    "!!binary",
    "!!merge",
)
_RESOLVABLE = frozenset({STR, INT, FLOAT, BOOL, NULL, TIMESTAMP})
_LONG = "tag:yaml.org,2002:"

_WORDS: dict[str, tuple[str, object]] = {
    **dict.fromkeys(("true", "True", "TRUE"), (BOOL, True)),
    **dict.fromkeys(("false", "False", "FALSE"), (BOOL, False)),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), (NULL, None)),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), (FLOAT, float("nan"))),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), (FLOAT, float("inf"))),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), (FLOAT, float("-inf"))),
}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_PREFIXED = re.compile(
    r"(?P<sign>[-+]?)(?:0[bB](?P<bin>[01]+)|0[xX](?P<hex>[0-9a-fA-F]+)"
    r"|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))",
    re.ASCII,
)
_DATE = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?:(?P<mark>[Tt]| +)(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})"
    r"(?P<fraction>[.,][0-9]+)?(?P<zone>Z|[-+][0-9]{2}:[0-9]{2})?)?",
    re.ASCII,
)
_MAX_INT, _MIN_INT, _MAX_UINT = 2**63 - 1, -(2**63), 2**64 - 1
# Go's ``%v`` writes a float in its shortest digits, as 1e-05 or 1e+06 beyond these exponents.
_SMALLEST_EXPONENT, _LARGEST_EXPONENT = -4, 5


class Timestamp(NamedTuple):
    """A point in time, already written as Go prints it (``2024-01-02 00:00:00 +0000 UTC``)."""

    text: str


#: What a scalar may be once it is typed.
Plain = str | bool | int | float | None | Timestamp


class ScalarError(ValueError):
    """A scalar does not fit the tag that it carries. Names no value."""


def short_tag(tag: str | None) -> str:
    """``tag:yaml.org,2002:int`` and ``!!int`` are one tag; ``""`` and ``!`` are none."""
    if not tag or tag == "!":
        return ""
    return "!!" + tag[len(_LONG) :] if tag.startswith(_LONG) else tag


def resolve(
    text: str, *, tag: str = "", quoted: bool = False, newest: bool = True
) -> tuple[str, Plain]:
    """Type one scalar as Compose does.

    Args:
        text: the scalar's value, escapes taken off.
        tag: its explicit tag in short form, empty where there is none.
        quoted: whether it was quoted or a block scalar, so that it is text unless tagged.
        newest: type as the newest Compose does, for which ``-0`` is a float.

    Returns:
        The tag it ends up with and its value.

    Raises:
        ScalarError: it carries a tag such as ``!!int`` and is not one.
    """
    if tag == STR or (quoted and not tag):
        return STR, text
    if tag == BINARY:
        return STR, _binary(text)
    if tag and tag not in _RESOLVABLE:
        return tag, text
    found, value = (FLOAT, -0.0) if newest and text == "-0" else _guess(text, tag)
    if tag in ("", found):
        return found, value
    if tag == FLOAT and found == INT and isinstance(value, int) and value <= _MAX_INT:
        return FLOAT, float(value)
    raise ScalarError(f"cannot decode a {found} as a {tag}")


def render(value: Plain) -> str:
    """Write a typed scalar the way Go's ``%v`` writes it into an environment."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Timestamp):
        return value.text
    if isinstance(value, float):
        return _render_float(value)
    return str(value)


def _guess(text: str, tag: str) -> tuple[str, Plain]:
    """The type of a plain text; its first character says what is worth trying."""
    word = _WORDS.get(text)
    if word is not None:
        return word  # type: ignore[return-value]  # the table holds Plain values only
    first = text[0]
    if first == ".":
        return (FLOAT, float(text)) if _is_float(text) else (STR, text)
    if first not in "+-0123456789":
        return STR, text
    if tag in ("", TIMESTAMP):
        moment = _timestamp(text)
        if moment is not None:
            return TIMESTAMP, moment
    plain = text.replace("_", "")
    number = _integer(plain)
    if number is not None:
        return INT, number
    return (FLOAT, float(plain)) if _is_float(plain) else (STR, text)


def _is_float(text: str) -> bool:
    """Go refuses a number that overflows a float, so that it stays text."""
    return _FLOAT.fullmatch(text) is not None and abs(float(text)) != float("inf")


def _integer(plain: str) -> int | None:
    """An integer with Go's prefixes, where it fits 64 bits; a leading 0 alone is octal."""
    match = _PREFIXED.fullmatch(plain)
    if match is None:
        return None
    digits = next(text for text in match.group("bin", "hex", "oct", "dec") if text is not None)
    base = {"bin": 2, "hex": 16, "oct": 8, "dec": 10}[match.lastgroup or "dec"]
    if base == 10 and len(digits) > 20:  # 2**64 has 20 digits
        return None
    number = int(digits, base)
    sign = match["sign"]
    if sign == "-":
        number = -number
    if _MIN_INT <= number <= _MAX_INT or (not sign and number <= _MAX_UINT):
        return number
    return None


def _timestamp(text: str) -> Timestamp | None:
    """A date, or a date and time in one of the forms the Go library knows."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    mark, zone = match["mark"], match["zone"]
    if mark is not None and (zone is None) != mark.isspace():
        return None
    fraction = (match["fraction"] or "")[1:][:9].rstrip("0")
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if not (1 <= month <= 12 and 1 <= day <= _days(year, month)):
        return None
    if hour > 23 or minute > 59 or second > 59:
        return None
    where = "+0000 UTC"
    if zone not in (None, "Z", "+00:00"):
        offset = zone.replace(":", "")
        where = f"{offset} {offset}"
    dot = "." if fraction else ""
    stamp = f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{dot}{fraction}"
    return Timestamp(f"{stamp} {where}")


def _days(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _binary(text: str) -> str:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "replace")
    except binascii.Error:
        raise ScalarError("!!binary value contains invalid base64 data") from None


def _render_float(value: float) -> str:
    if value != value:  # noqa: PLR0124  # the one value that is not itself
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    digits, exponent = _shortest(abs(value))
    sign = "-" if str(value).startswith("-") else ""
    if not _SMALLEST_EXPONENT <= exponent <= _LARGEST_EXPONENT:
        tail = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{tail}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    rest = digits[exponent + 1 :]
    return f"{sign}{whole}.{rest}" if rest else f"{sign}{whole}"


def _shortest(value: float) -> tuple[str, int]:
    """The fewest digits that read back as ``value``, and the power of ten of the first."""
    mantissa, _, power = f"{value!r}e0".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "0", 0
    shift = int(power.split("e")[0]) + len(whole) - 1
    leading = len(whole + fraction) - len(digits)
    return digits.rstrip("0") or "0", shift - leading
