"""JSON text: read strictly, and find afterwards where in the text a value stands.

Strict is: UTF-8, no key twice in one object, no ``NaN`` or ``Infinity``; and a number keeps its
text. Positions are looked for only when there is something to complain of, so that a right document
costs nothing more. Ground floor.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Iterator, List, NoReturn, Optional, Set, Tuple, Union

from relayconf.contract.literal import integer, numeral
from relayconf.contract.place import Path, Position
from relayconf.values import excerpt

#: One piece of a text; compiled only when there is a fault to find.
_PIECE = r'(?s)[{}\[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+'


class NotJson(ValueError):
    """A text is not strict JSON. ``position`` is where, as far as it is known."""

    def __init__(self, reason: str, position: Optional[Position] = None) -> None:
        super().__init__(reason)
        self.position = position


class _Repeated(Exception):
    """An object has the same key twice."""


class _Constant(Exception):
    """A number is none that JSON has."""


def parse(data: bytes) -> Tuple[Any, str]:
    """Read a document.

    Returns:
        The document, and its text for ``locate``. A number with a fraction, an exponent or many
        digits is a ``relayconf.contract.literal.Numeral``.

    Raises:
        NotJson: the bytes are not strict JSON.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        raise NotJson("not UTF-8", _position(before, len(before))) from None
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_float=numeral,
            parse_int=integer,
            parse_constant=_refuse,
        ), text
    except _Repeated:
        key, index = next(_repeated(text))
        reason = f"the key {excerpt(key)!r} stands twice in one object"
        raise NotJson(reason, _position(text, index)) from None
    except _Constant as error:
        constant = str(error)
        found = (m.start() for m in re.finditer(_PIECE, text) if m.group() == constant)
        raise NotJson(f"{constant} is no number", _position(text, next(found))) from None
    except json.JSONDecodeError as error:
        raise NotJson(error.msg, (error.lineno, error.colno)) from None
    except RecursionError:
        raise NotJson("nests too deep") from None


def locate(text: str, path: Path) -> Optional[Position]:
    """Return line and column of the value that a path leads to in a valid text, or ``None``."""
    for found, index in _values(text):
        if found == path:
            return _position(text, index)
    return None


def _object(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise _Repeated
    return document


def _refuse(constant: str) -> NoReturn:
    raise _Constant(constant)


def _position(text: str, index: int) -> Position:
    start = text.rfind("\n", 0, index) + 1
    return text.count("\n", 0, index) + 1, index - start + 1


def _values(text: str) -> Iterator[Tuple[Path, int]]:
    """Yield the path and the index of every value, in the order of the text."""
    path: List[Union[str, int]] = []
    at_key = False
    for match in re.finditer(_PIECE, text):
        piece = match.group()
        if piece in ("}", "]"):
            path.pop()
            at_key = False
        elif piece == ",":
            step = path[-1]
            at_key = isinstance(step, str)
            path[-1] = step if isinstance(step, str) else step + 1
        elif at_key:
            path[-1] = json.loads(piece)
            at_key = False
        elif piece != ":":
            yield tuple(path), match.start()
            if piece in ("{", "["):
                path.append("" if piece == "{" else 0)
                at_key = piece == "{"


def _repeated(text: str) -> Iterator[Tuple[str, int]]:
    """Yield each key that its object has already had, and the index of its value."""
    seen: Set[Path] = set()
    for path, index in _values(text):
        if path in seen:
            yield str(path[-1]), index
        seen.add(path)
