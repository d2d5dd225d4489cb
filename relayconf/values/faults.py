"""Faults: why a text is not of a setting's grammar, in one line for the person who wrote it.

Only called for a text that the grammar has refused, so it costs nothing while all is well. It names
the first thing that is wrong and, where that is certain, what to write instead. A position counts
characters from 1 in the trimmed text. Ground floor.
"""

from __future__ import annotations

from relayconf.nearest import nearest
from relayconf.setting import Setting
from relayconf.values import lists, numeral_faults
from relayconf.values.slips import boolean_hint, common_slip
from relayconf.values.spelling import is_blank, name_character, quote
from relayconf.values.text import unusable_at
from relayconf.values.url import url_fault
from relayconf.values.words import BOOLEANS


def explain(setting: Setting, text: str) -> str:
    """Return why ``text`` (trimmed where the type trims) is not a value of the setting.

    For a secret the reason says nothing about its text; for a url nothing about what may be
    userinfo; elsewhere it shows single characters, and short pieces through ``excerpt``.
    """
    kind = setting.type
    if kind == "secret":
        return _secret(text)
    if kind == "string":
        return _unusable(text)
    if is_blank(text):
        return "it is blank"
    if kind == "path":
        return _unusable(text)
    if kind == "url":
        return str(url_fault(text))
    if kind == "list":
        return _list(setting, text)
    if kind == "enum":
        return _word(setting, text)
    if kind == "boolean":
        return _boolean(setting, text)
    return numeral_faults.explain(setting, text)


def _secret(text: str) -> str:
    if is_blank(text):
        return "it is blank, and a blank secret protects nothing"
    return "it holds a NUL character, or a byte that is not UTF-8"


def _unusable(text: str) -> str:
    index = unusable_at(text) or 0
    return f"{name_character(text[index])} at position {index + 1} cannot be part of a text"


def _boolean(setting: Setting, text: str) -> str:
    slip = common_slip(setting, text)
    if slip is not None:
        return slip
    return f"it is none of {', '.join(BOOLEANS)}{boolean_hint(text)}"


def _word(setting: Setting, text: str) -> str:
    choices = setting.choices
    slip = common_slip(setting, text) if all(map(str.isascii, choices)) else None
    near = nearest(text, choices)
    cause = f": {slip}" if slip else ""
    meant = f"; did you mean {near}?" if near else ""
    return f"it is none of {', '.join(choices)}{cause}{meant}"


def _list(setting: Setting, text: str) -> str:
    raw = lists.split(text)
    if isinstance(raw, str):
        return f"a list that starts with '[' is read as a JSON array, and {raw}"
    item = lists.item_setting(setting)
    for number, piece in enumerate(raw, start=1):
        if lists.read_item(item, piece) is None:
            return f"item {number} {_item(item, piece)}"
    raise AssertionError("explained a list that is valid")


def _item(item: Setting, raw: lists.RawItem) -> str:
    kind, text = raw
    if kind == "plain" and not text:
        return 'is empty; drop the comma, or write a JSON array for an empty text: ["a", ""]'
    wanted = lists.kinds(item)
    if kind != "plain" and kind not in wanted:
        return f"is a JSON {kind} where a {' or a '.join(sorted(wanted))} belongs"
    shown = "" if item.type in {"secret", "url"} else f" ({quote(text)})"
    return f"is no {item.type}{shown}: {explain(item, text)}"
