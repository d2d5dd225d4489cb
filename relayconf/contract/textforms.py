"""Text forms: each type's grammar as a regular expression, for editors that check settings files.

A form never refuses a text that the grammar takes; it may take a little more (a numeral's length
over a decimal point, a url's inner rules). The expressions use what ECMAScript, Python, Go and Rust
have in common. White space around a value and blank texts are fine, as they are when it is read.
"""

from __future__ import annotations

from typing import NamedTuple

from relayconf.setting import Setting
from relayconf.values.duration import UNITS as DURATION_UNITS
from relayconf.values.numerals import MOST_DIGITS
from relayconf.values.size import UNITS as SIZE_UNITS
from relayconf.values.words import BOOLEANS

_WHITE = "[ \\t\\n\\r\\v\\f]*"
_NOT_WHITE = "[^ \\t\\n\\r\\v\\f]"
_SYNTAX = frozenset("\\^$.*+?()[]{}|/")

_NUMERAL = f"(?:0|[1-9][0-9]{{0,{MOST_DIGITS - 1}}})"
_INTEGER = f"(?:0|-?[1-9][0-9]{{0,{MOST_DIGITS - 1}}})"
_FRACTION = f"\\.[0-9]{{1,{MOST_DIGITS - 1}}}"


class Form(NamedTuple):
    """What a text of one type looks like: an expression for the whole text, and a word for it.

    ``inner`` matches the value alone, without anchors and white space.
    """

    inner: str
    words: str

    @property
    def pattern(self) -> str:
        """The expression for a text as it may stand in a file: trimmed, or blank."""
        return f"^{_WHITE}(?:{self.inner})?{_WHITE}$"

    @property
    def exact(self) -> str:
        """The expression for an item of a JSON array, which is not trimmed."""
        return f"^(?:{self.inner})$"


def form(kind: str, choices: tuple[str, ...] = ()) -> Form | None:
    """Return the form of a scalar type; ``None`` where any text will do."""
    if kind == "enum":
        return Form("|".join(map(any_case, choices)), f"one of {', '.join(choices)}, in any case")
    return _FORMS.get(kind)


def list_pattern(setting: Setting) -> str | None:
    """Return the expression for a list written as text: a JSON array, or items between commas."""
    item = form(setting.items, setting.choices)
    if item is None:
        return None
    one = f"(?:{item.inner})"
    array = "\\[[\\s\\S]*"
    return f"^{_WHITE}(?:{array}|{one}(?:{_WHITE},{_WHITE}{one})*)?{_WHITE}$"


def any_case(word: str) -> str:
    """Return the expression for a word in any ASCII case."""
    return "".join(map(_any_case, word))


def _any_case(char: str) -> str:
    if char.isascii() and char.isalpha():
        return f"[{char.upper()}{char.lower()}]"
    return f"\\{char}" if char in _SYNTAX else char


def _duration() -> str:
    """Return one branch for each unit that may come last, where alone a fraction may stand."""
    branches = [_INTEGER]
    before = ""
    for unit in DURATION_UNITS:
        branches.append(f"{before}{_NUMERAL}(?:{_FRACTION})?{unit}")
        before += f"(?:{_NUMERAL}{unit})?"
    return "|".join(branches)


_BOOLEAN = "|".join(map(any_case, BOOLEANS))
_SHARE = "(?:0|[1-9][0-9]?)(?:\\.[0-9]{1,2})?%|100(?:\\.0{1,2})?%"

_FORMS = {
    "integer": Form(_INTEGER, "an integer"),
    "number": Form(f"{_INTEGER}|-?{_NUMERAL}{_FRACTION}", "a number without exponent"),
    "duration": Form(_duration(), "a duration like 300ms, 25s or 1h30m"),
    "size": Form(f"{_INTEGER}(?:{'|'.join(SIZE_UNITS)})?", "a size like 64KiB, 4MiB or 10MB"),
    "boolean": Form(_BOOLEAN, f"one of {', '.join(BOOLEANS)}"),
    "rollout": Form(f"{_BOOLEAN}|{_SHARE}", "true, false, or a share like 25%"),
    "url": Form("[A-Za-z][A-Za-z0-9+.-]*:\\/\\/[!-~]+", "a url like https://example.com"),
}

#: A blank secret protects nothing, and is the one type whose blank text is no way to unset it.
SECRET = _NOT_WHITE
