"""Lists: items between commas, or a JSON array where the text starts with ``[``.

Between commas every item is trimmed and none is empty. In an array a string is data and keeps its
white space; a JSON number stands for an item of an ordered type, ``true`` and ``false`` for a
boolean, and anything nested or null for nothing. Either way each item is read by the grammar of
the setting's item type, and the value is a tuple. Ground floor.
"""

from __future__ import annotations

import json
from typing import Any, Dict, FrozenSet, List, Optional, Tuple, Union, cast

from relayconf.setting import Setting, Value
from relayconf.values.result import Grammar
from relayconf.values.scalars import SCALARS
from relayconf.values.spelling import WHITE

#: One item before its type's grammar has read it: its kind and its text. The kind is ``plain``
#: between commas, and in an array what JSON calls it: ``string``, ``number``, ``boolean``,
#: ``null``, ``array`` or ``object``.
RawItem = Tuple[str, str]

_TEXT = frozenset({"string"})
_KINDS: Dict[str, FrozenSet[str]] = {
    "integer": frozenset({"number"}),
    "number": frozenset({"number"}),
    "duration": frozenset({"number", "string"}),
    "size": frozenset({"number", "string"}),
    "boolean": frozenset({"boolean"}),
    "rollout": frozenset({"boolean", "string"}),
}


def item_setting(setting: Setting) -> Setting:
    """Return the setting that one item of a list would be."""
    return setting._replace(type=setting.items)


def kinds(item: Setting) -> FrozenSet[str]:
    """Return what an item of this type may be in a JSON array."""
    return _KINDS.get(item.type, _TEXT)


def split(text: str) -> Union[List[RawItem], str]:
    """Return the raw items of a list, or the fault that keeps it from being one."""
    if text.startswith("["):
        return _split_array(text)
    return [("plain", item.strip(WHITE)) for item in text.split(",")]


def read_item(item: Setting, raw: RawItem) -> Optional[Value]:
    """Read one item by its type's grammar; None where it is not of it."""
    kind, text = raw
    if not (text if kind == "plain" else kind in kinds(item)):
        return None
    return SCALARS[item.type].read(item, text)


class _Numeral(str):
    """The source text of a JSON number, which the item's own grammar will read."""

    __slots__ = ()


def _split_array(text: str) -> Union[List[RawItem], str]:
    try:
        document = json.loads(
            text, parse_int=_Numeral, parse_float=_Numeral, parse_constant=_Numeral
        )
    except RecursionError:
        return "an array in it nests too deep; a list holds plain items"
    except json.JSONDecodeError as error:
        return f"it is not a JSON array: {error.msg} at position {error.pos + 1}"
    return [_raw_item(item) for item in document]


def _raw_item(item: Any) -> RawItem:
    if isinstance(item, _Numeral):
        return "number", str(item)
    if isinstance(item, bool):
        return "boolean", "true" if item else "false"
    if isinstance(item, str):
        return "string", item
    return ("null" if item is None else "array" if isinstance(item, list) else "object"), ""


def _read(setting: Setting, text: str) -> Optional[Value]:
    raw = split(text)
    if isinstance(raw, str):
        return None
    item = item_setting(setting)
    values = []
    for piece in raw:
        value = read_item(item, piece)
        if value is None:
            return None
        values.append(value)
    return tuple(values)


def _write(setting: Setting, value: Value) -> str:
    """Write with commas where that reads back as the same list, else as an array."""
    items = tuple(cast(Tuple[Any, ...], value))
    item = item_setting(setting)
    texts = [SCALARS[item.type].write(item, one) for one in items]
    plain = ",".join(texts)
    if texts and plain == plain.strip(WHITE) and _read(setting, plain) == items:
        return plain
    quoted = "string" in kinds(item)
    inner = (json.dumps(text, ensure_ascii=False) if quoted else text for text in texts)
    return f"[{', '.join(inner)}]"


LIST = Grammar(_read, _write)
