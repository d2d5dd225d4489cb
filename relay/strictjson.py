"""JSON from a stranger, read strictly and within bounds.

``load`` takes bytes and gives what they say, or raises ``Fault`` with the one rule that they
break: not UTF-8, not JSON, nested too deep, a name twice in one object, a number that is not
finite, half of a surrogate pair, too many values. Depth and, for larger texts, the number of
values are judged before anything is parsed, so that no text costs more memory than its own length
foretells. It never raises anything else. Ground floor.
"""

from __future__ import annotations

import json
from itertools import accumulate
from math import isinf
from typing import Any, Callable, Dict, Iterable, List, Tuple

#: Arrays and objects within each other. Real arguments stay under 20; a JSON Schema validator
#: spends about six stack frames a level, and Python allows 1,000.
MAX_DEPTH = 100

#: Values in one document, counted as arrays, objects and scalars (design section 8).
MAX_NODES = 100_000

#: Below this many bytes a document cannot hold ``MAX_NODES`` values and is not counted.
COUNTED_FROM = 65_536

_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_WHITE = b" \t\n\r"
_WHITE_TEXT = " \t\n\r"

#: From so many characters on, a string is long.
_LONG = 16_384
_ESCAPED = ('"', "\\", *map(chr, range(32)))

#: Gives a string as JSON.
Quote = Callable[[str], str]

#: A numeral of up to this many digits is finite; a longer one is tried as a float.
_SURELY_FINITE = 300


class Fault(ValueError):
    """The rule that a text breaks, as one short phrase."""


def load(data: bytes, *, whole_strings: bool = True) -> Any:
    """Return the value of the JSON text ``data`` (UTF-8).

    Args:
        data: the text.
        whole_strings: refuse half of a surrogate pair; else strings may hold it (see ``whole``).

    Raises:
        Fault: the bytes break a rule; the message says which.
    """
    if len(data) >= COUNTED_FROM or data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        _check_shape(data)
    try:
        text = data.decode("utf-8").strip(_WHITE_TEXT)
    except UnicodeDecodeError as error:
        raise Fault(f"not UTF-8 (byte {error.start})") from None
    # In a short text there is no room for a numeral that would have to be looked at.
    scan = _SCAN_SHORT if len(text) <= _SURELY_FINITE else _SCAN
    try:
        value, end = scan(text, 0)
    except Fault:
        raise
    except StopIteration as stop:
        missing = json.JSONDecodeError("Expecting value", text, stop.value)
        raise Fault(f"not JSON: {missing}") from None
    except RecursionError:
        # The stack was nearly full before this call; the depth of the text itself is bounded.
        raise Fault("nested too deep for the stack that is left") from None
    except ValueError as error:
        raise Fault(f"not JSON: {error}") from None
    if end != len(text):
        raise Fault("not JSON: something follows the value")
    # Looking for one byte takes a fortieth of looking for three, and most texts do without.
    if whole_strings and b"\\" in data and (b"\\ud" in data or b"\\uD" in data):
        _check_surrogates(value)
    return value


def dump(value: Any) -> bytes:
    """Return ``value`` as compact JSON in UTF-8, in the order of its keys.

    Raises:
        Fault: the value is not JSON: not finite, not text, circular, too deep, half a pair.
    """
    pieces = _PIECES_OF_LONG if _holds_long(value) else _PIECES
    try:
        return "".join(pieces(value, 0)).encode("utf-8")
    except RecursionError:
        raise Fault("nested too deep") from None
    except UnicodeEncodeError:
        raise Fault("holds half of a surrogate pair") from None
    except (TypeError, ValueError) as error:
        raise Fault(f"not JSON: {error}") from None


def whole(text: str) -> str:
    """Return ``text`` with each half of a surrogate pair replaced by U+FFFD.

    JavaScript cuts strings between the halves of a pair and writes what is left as an escape.
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _check_shape(data: bytes) -> None:
    """Refuse by depth and by number of values, without parsing."""
    outside = _outside_strings(data)
    brackets = outside.translate(None, _NOT_BRACKETS)
    if len(brackets) > 2 * MAX_NODES:
        # Looking at each of so many would cost more than parsing the most that is allowed.
        raise Fault(f"more than {MAX_NODES} values")
    if len(data) >= COUNTED_FROM:
        dense = outside.translate(None, _WHITE)
        empty = dense.count(b"[]") + dense.count(b"{}")
        opened = dense.count(b"[") + dense.count(b"{")
        if 1 + dense.count(b",") + opened - empty > MAX_NODES:
            raise Fault(f"more than {MAX_NODES} values")
    if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > MAX_DEPTH:
        raise Fault(f"nested deeper than {MAX_DEPTH} levels")


def _outside_strings(data: bytes) -> bytes:
    """Return the bytes of a JSON text that are outside its strings."""
    plain = data
    if b"\\" in data:
        # Escapes are read from left to right, so pairs of backslashes go first; an escaped
        # quotation mark is what then still has a backslash before it.
        plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    pieces = plain.split(b'"', 4 * MAX_NODES + 1)
    if len(pieces) > 4 * MAX_NODES + 1:
        raise Fault(f"more than {MAX_NODES} values")
    return b"".join(pieces[::2])


def _check_surrogates(value: Any) -> None:
    try:
        _ENCODER.encode(value).encode("utf-8")
    except UnicodeEncodeError:
        raise Fault("a string holds half of a surrogate pair") from None


def _object(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen = set()
        for name, _ in pairs:
            if name in seen:
                raise Fault(f"the name {name[:60]!a} appears twice in one object")
            seen.add(name)
    return made


def _float(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise Fault("a number is too large to be finite")
    return number


def _int(text: str) -> int:
    if len(text) > _SURELY_FINITE:
        _float(text)
    return int(text)


def _constant(text: str) -> Any:
    raise Fault(f"{text} is not a number in JSON")


def _scanner(parse_int: Callable[[str], int]) -> Callable[[str, int], Tuple[Any, int]]:
    """Return what ``JSONDecoder.raw_decode`` calls: it gives a value and where that ends."""
    decoder: Any = json.JSONDecoder(
        object_pairs_hook=_object,
        parse_float=_float,
        parse_int=parse_int,
        parse_constant=_constant,
    )
    scan: Callable[[str, int], Tuple[Any, int]] = decoder.scan_once
    return scan


_SCAN, _SCAN_SHORT = _scanner(_int), _scanner(int)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _holds_long(value: Any) -> bool:
    """Whether a long string is a value of an object, or of one directly in it."""
    if type(value) is not dict:
        return type(value) is str and len(value) >= _LONG
    for each in value.values():
        if type(each) is str:
            if len(each) >= _LONG:
                return True
        elif type(each) is dict:
            for inner in each.values():
                if type(inner) is str and len(inner) >= _LONG:
                    return True
    return False


def _quoted(quote: Quote) -> Quote:
    """Return what quotes like ``quote``, and a long string without escapes much sooner.

    To look for each of the characters that need an escape takes a sixth of looking at each
    character of the string; and where there is one, it is soon found.
    """

    def quoted(text: str) -> str:
        if len(text) < _LONG or any(character in text for character in _ESCAPED):
            return quote(text)
        return f'"{text}"'

    return quoted


def _pieces(*, of_long: bool = False) -> Callable[[Any, int], Iterable[str]]:
    """Return what ``_ENCODER`` makes anew for each value, which is half of what a small one costs.

    It looks for no circle: one ends as nesting too deep. Where Python has no such thing in C, there
    is the encoder itself.
    """
    make = getattr(json.encoder, "c_make_encoder", None)
    quote = getattr(json.encoder, "c_encode_basestring", None)
    if make is None or quote is None:
        return lambda value, _: (_ENCODER.encode(value),)
    if of_long:
        quote = _quoted(quote)
    made: Callable[[Any, int], Iterable[str]] = make(
        None, _ENCODER.default, quote, None, ":", ",", False, False, False
    )
    return made


_PIECES = _pieces()
_PIECES_OF_LONG = _pieces(of_long=True)
