"""Literals: the text that a value of a JSON or YAML document stands for.

A setting's value is text, and its grammar alone decides what the text means; so a number in a
document counts as it was written (``1.50``, not ``1.5``). Only an exponent is written out, since
JSON allows one and no grammar does. Ground floor.
"""

from __future__ import annotations

import json
from typing import Any, Union

#: An integer of so many characters is read as an ``int``; a longer one keeps its text alone.
_INT_CHARACTERS = 18

#: An exponent is written out where the result has at most about so many digits; no numeral may have
#: more than 32, so beyond this the text with its exponent is as good for being refused.
_MOST_PLACES = 64
_MOST_BITS = 4096


class Numeral(float):
    """A number of a document that keeps its text; as a ``float`` it may be rounded or infinite."""

    __slots__ = ("text",)

    text: str


def numeral(text: str) -> Numeral:
    """Read a JSON number of any form."""
    number = Numeral(text)
    number.text = text
    return number


def integer(text: str) -> Union[int, Numeral]:
    """Read a JSON number without fraction and exponent, of any length."""
    return int(text) if len(text) <= _INT_CHARACTERS else numeral(text)


def literal(value: Any) -> str:
    """Return the text that means a JSON value: what a person would have written for it.

    Args:
        value: what a JSON or YAML document holds. An array becomes the text of a JSON array; what
            is nested in it is not written out, since no list of settings holds such items.
    """
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_item, value))}]"
    return _scalar(value)


def _item(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return "[]" if isinstance(value, (list, tuple)) else _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Numeral):
        return _without_exponent(value.text)
    if isinstance(value, float):
        return _without_exponent(repr(value))
    if isinstance(value, int):
        # Python refuses to write an integer of more than 4,300 digits; no grammar takes one of 33.
        return str(value) if value.bit_length() < _MOST_BITS else hex(value)
    return "{}"


def _without_exponent(text: str) -> str:
    if "e" not in text and "E" not in text:
        return text
    from decimal import Decimal  # noqa: PLC0415 - hardly any document has an exponent

    number = Decimal(text)
    return format(number, "f") if abs(number.adjusted()) < _MOST_PLACES else text
