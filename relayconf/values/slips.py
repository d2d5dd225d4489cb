"""Slips: what people write into any value that is a numeral or a word, and what to tell them.

Quotes that an env file kept, a comment behind the value, a variable that nobody expands, white
space, a digit or letter of another script. Ground floor.
"""

from __future__ import annotations

from typing import Optional

from relayconf.nearest import nearest
from relayconf.setting import Setting
from relayconf.values.numerals import is_digits
from relayconf.values.scalars import SCALARS
from relayconf.values.spelling import WHITE, ascii_lower, is_stray_byte, name_character
from relayconf.values.words import BOOLEANS

#: A hint is only worth its place while it is short.
_HINT_LIMIT = 40

#: Words for a boolean that other programs read, and what to write here.
_ALMOST_BOOLEANS = {
    "t": "true",
    "f": "false",
    "y": "yes",
    "n": "no",
    "enable": "true",
    "enabled": "true",
    "disable": "false",
    "disabled": "false",
}


def common_slip(setting: Setting, text: str) -> Optional[str]:
    """Return the slip that a text shows, or None where every character is plain printable ASCII."""
    if text[0] in "'\"" or text[-1] in "'\"":
        return "the quotes are part of the value; write it without them"
    for char, meaning in (
        ("#", "a comment is not stripped, so it is part of the value"),
        ("$", "nothing in a value is expanded"),
    ):
        if char in text:
            return f"'{char}' at position {text.index(char) + 1}: {meaning}"
    for index, char in enumerate(text):
        if not "!" <= char <= "~":
            return f"{name_character(char)} at position {index + 1} {_why_not(setting, text, char)}"
    return None


def hint(setting: Setting, text: str) -> str:
    """Return ``; write TEXT`` where the setting accepts that, and it is short enough to show."""
    if len(text) > _HINT_LIMIT or SCALARS[setting.type].read(setting, text) is None:
        return ""
    return f"; write {text}"


def boolean_hint(text: str) -> str:
    """Return which boolean was probably meant, as the end of a reason, or nothing."""
    word = ascii_lower(text)
    if word in _ALMOST_BOOLEANS:
        return f"; write {_ALMOST_BOOLEANS[word]}"
    near = nearest(text, [word for word in BOOLEANS if len(word) > 1])
    return f"; did you mean {near}?" if near else ""


def ungroup(setting: Setting, text: str, mark: str) -> str:
    """Return ``; write 1000`` for ``1 000``, and nothing unless the groups are of three digits."""
    first, *groups = text.split(mark)
    if is_digits(first.lstrip("-")[-3:]) and all(is_digits(g) and len(g) == 3 for g in groups):
        return hint(setting, "".join((first, *groups)))
    return ""


def _why_not(setting: Setting, text: str, char: str) -> str:
    if char in WHITE:
        return f"is inside the value{ungroup(setting, text, char)}"
    digits = _ascii_digits(text)
    if char.isdecimal() and digits != text:
        return f"is not an ASCII digit{hint(setting, digits)}"
    if char.isascii() or is_stray_byte(char):
        return "cannot be part of the value"
    return "is not ASCII"


def _ascii_digits(text: str) -> str:
    """Return a text with the decimal digits of every script written as ASCII digits."""
    return "".join(str(int(char)) if char.isdecimal() else char for char in text)
