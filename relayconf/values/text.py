"""Text: string, secret and path, which are taken as they stand.

A string and a secret keep every character, white space around them included; a path is trimmed and
not blank. None of them may hold what cannot be handed on: a byte that is not UTF-8, or a NUL, which
ends a string for the operating system. Ground floor.
"""

from __future__ import annotations

from typing import Optional

from relayconf.setting import Setting, Value
from relayconf.values.result import Grammar
from relayconf.values.spelling import is_blank


def unusable_at(text: str) -> Optional[int]:
    """Return the index of the first character that no text value may hold, or None.

    A byte that was not UTF-8 arrives as a lone surrogate, which cannot be encoded again.
    """
    index = text.find("\0")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start if index < 0 else min(index, error.start)
    return None if index < 0 else index


def _read_string(_setting: Setting, text: str) -> Optional[Value]:
    return text if unusable_at(text) is None else None


def _read_filled(_setting: Setting, text: str) -> Optional[Value]:
    return None if is_blank(text) or unusable_at(text) is not None else text


def write_text(_setting: Setting, value: Value) -> str:
    """Return a text value as it stands."""
    return str(value)


STRING = Grammar(_read_string, write_text, trims=False)
SECRET = Grammar(_read_filled, write_text, trims=False)
PATH = Grammar(_read_filled, write_text)
