"""What reading one text gives: a value, or the reason why there is none.

Both are plain records. A reason is one line for the person who wrote the text: it names the
character or the rule that is at fault and, where that is certain, what to write instead. It does
not repeat the text, which the caller shows (or masks) itself, and it never holds any part of a
secret or of a url's userinfo. Ground floor.
"""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Union

from relayconf.setting import Setting, Value

#: What ``json.dumps`` takes, as far as values need it.
JSON = Union[None, bool, int, float, str, List[Any]]


class Parsed(NamedTuple):
    """A canonical value. ``trimmed``: white space stood around the text and was left out."""

    value: Value
    trimmed: bool = False


class Invalid(NamedTuple):
    """The text is not of the setting's grammar; ``reason`` says where it departs from it."""

    reason: str


class Grammar:
    """How the values of one type are read and written.

    ``read`` gets the text after trimming (as it stands where ``trims`` is false) and returns the
    canonical value, or ``None`` where the text as a whole is not of the grammar; why not is another
    module's business. ``write`` returns a text that reads as the value.
    """

    __slots__ = ("read", "trims", "write")

    def __init__(
        self,
        read: Callable[[Setting, str], Optional[Value]],
        write: Callable[[Setting, Value], str],
        *,
        trims: bool = True,
    ) -> None:
        self.read = read
        self.write = write
        self.trims = trims
