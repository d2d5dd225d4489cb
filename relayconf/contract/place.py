"""Places: one value in a parsed document and where it stands, for reading it with checks.

Whoever reads a document through places gets either what was asked for or one ``ContractError`` that
names the file, the line where it is known, the path in the document, and the fault. ``null`` counts
as absent everywhere. Ground floor.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Mapping, NamedTuple, Optional, Tuple, Union, cast

from relayconf.errors import ContractError
from relayconf.nearest import nearest
from relayconf.values import excerpt

#: The keys and indexes that lead from the root of a document to a value.
Path = Tuple[Union[str, int], ...]

#: Line and column, both from 1.
Position = Tuple[int, int]


def nowhere(_path: Path) -> Optional[Position]:
    """Return no position: of a document that was not read from a file."""
    return None


class Source(NamedTuple):
    """What a document is called in messages, and how to find the position of a path in it."""

    origin: str
    locate: Callable[[Path], Optional[Position]] = nowhere


class Place:
    """One value of a document. ``place[key]`` is the value under a key of an object."""

    __slots__ = ("parent", "source", "step", "value")

    def __init__(
        self,
        value: Any,
        source: Source,
        parent: Optional[Place] = None,
        step: Union[str, int] = "",
    ) -> None:
        self.value = value
        self.source = source
        self.parent = parent
        self.step = step

    def __getitem__(self, key: str) -> Place:
        value = self.value
        child = value.get(key) if value.__class__ is dict else self.mapping().get(key)
        return Place(child, self.source, self, key)

    @property
    def path(self) -> Path:
        """The keys and indexes that lead here."""
        return () if self.parent is None else (*self.parent.path, self.step)

    @property
    def absent(self) -> bool:
        """Whether nothing, or null, stands here."""
        return self.value is None

    def error(self, message: str) -> ContractError:
        """Return the error that says what is wrong here."""
        place: Optional[Place] = self
        position = None
        while position is None and place is not None:
            position = place.source.locate(place.path)
            place = place.parent
        at = "" if position is None else f":{position[0]}:{position[1]}"
        return ContractError(f"{self.source.origin}{at}: {self.name()}: {message}")

    def name(self) -> str:
        """Return the path as a message shows it."""
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else f".{excerpt(step)}"
        return text[1:] or "the document"

    def mapping(self) -> Mapping[str, Any]:
        """Return the object that stands here; an empty one where nothing does."""
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self.error("must be an object")
        return cast(Dict[str, Any], self.value)

    def items(self) -> Iterable[Place]:
        """Yield each item of the array that stands here; none where nothing does."""
        if self.value is None:
            return
        if not isinstance(self.value, list):
            raise self.error("must be an array")
        for index, item in enumerate(self.value):
            yield Place(item, self.source, self, index)

    def text(self) -> str:
        """Return the text that must stand here."""
        if not isinstance(self.value, str):
            if self.value is None:
                raise self.error("is missing; it must be a string")
            hint = "" if isinstance(self.value, (dict, list)) else "; write it in quotes"
            raise self.error(f"must be a string{hint}")
        try:
            self.value.encode()
        except UnicodeEncodeError:
            raise self.error("holds half of a surrogate pair, which no file can hold") from None
        return self.value

    def optional_text(self) -> Optional[str]:
        """Return the text that stands here, or ``None`` where nothing does."""
        return None if self.value is None else self.text()

    def boolean(self) -> bool:
        """Return the ``true`` or ``false`` that stands here; false where nothing does."""
        if self.value is not None and not isinstance(self.value, bool):
            raise self.error("must be true or false")
        return bool(self.value)

    def number(self, low: float, high: float) -> float:
        """Return the number that must stand here, in a range."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error("must be a number")
        if not low <= value <= high:
            raise self.error(f"must be from {low} to {high}")
        return value

    def known_keys(self, known: Iterable[str], meant: Mapping[str, str]) -> None:
        """Refuse a key that is a slip for one that counts; any other unknown key is ignored.

        Args:
            known: the keys that count.
            meant: other words for them, and what to write instead.
        """
        keys = tuple(known)
        for key in self.mapping():
            if key not in keys:
                near = meant.get(key) or nearest(key, keys)
                if near is not None:
                    raise self[key].error(f"means nothing here; did you mean {near}?")
