"""The shapes a compose file is worked on in: mappings, sequences and typed scalars, with positions.

A node knows where it stands in which file, and a scalar also how it was written, which variables it
asked for, and which scalar it took the place of, so that a value can be explained to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from relayconf.compose.interpolate import Reference
from relayconf.compose.scalars import Plain


class Mark(NamedTuple):
    """A position: the file as messages name it, line and column from 1, column in characters."""

    path: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


class Source(NamedTuple):
    """Where a value without one of its own was taken from: the layer, and the place if there is."""

    layer: str
    origin: str | None


class Scalar:
    """One typed value.

    ``raw`` is its text as it stands in the file, quotes included. ``references`` are the variables
    that interpolation asked for. ``previous`` is the scalar that this one shadows, if any: an
    earlier file's, an extended service's, a merge key's or a duplicate's. ``source`` is set where
    the value was passed through from outside the file.
    """

    __slots__ = ("mark", "previous", "raw", "references", "source", "value")

    def __init__(
        self,
        value: Plain,
        mark: Mark,
        raw: str = "",
        *,
        references: tuple[Reference, ...] = (),
        previous: Scalar | None = None,
        source: Source | None = None,
    ) -> None:
        self.value = value
        self.mark = mark
        self.raw = raw
        self.references = references
        self.previous = previous
        self.source = source

    def replaced(self, value: Plain, *, source: Source | None = None) -> Scalar:
        """The same place in the file with another value, taken from ``source`` if that is set."""
        return Scalar(
            value,
            self.mark,
            self.raw,
            references=self.references,
            previous=self.previous,
            source=source or self.source,
        )

    def over(self, previous: Scalar) -> Scalar:
        """This scalar, now known to shadow ``previous`` (and what that one shadows)."""
        return self._linked(lambda scalar: scalar.value, previous)

    def revalued(self, change: Callable[[Scalar], Plain]) -> Scalar:
        """This scalar and all that it shadows, each with the value that ``change`` makes of it."""
        return self._linked(change, None)

    def shadows(self) -> Iterator[Scalar]:
        """What this scalar took the place of, latest first."""
        previous = self.previous
        while previous is not None:
            yield previous
            previous = previous.previous

    def _linked(self, change: Callable[[Scalar], Plain], last: Scalar | None) -> Scalar:
        top = self.replaced(change(self))
        below = top
        for scalar in self.shadows():
            below.previous = scalar.replaced(change(scalar))
            below = below.previous
        below.previous = last
        return top


class Mapping:
    """Keys and nodes in file order. ``keys`` holds where each key stands."""

    __slots__ = ("entries", "keys", "mark")

    def __init__(self, mark: Mark) -> None:
        self.entries: dict[str, Node] = {}
        self.keys: dict[str, Mark] = {}
        self.mark = mark

    def put(self, key: str, node: Node, mark: Mark) -> None:
        """Set an entry; one that is there already keeps its place in the order."""
        self.entries[key] = node
        self.keys[key] = mark

    def drop(self, key: str) -> None:
        """Remove an entry, if it is there."""
        self.entries.pop(key, None)
        self.keys.pop(key, None)


class Sequence:
    """Nodes in order."""

    __slots__ = ("items", "mark")

    def __init__(self, mark: Mark, items: list[Node] | None = None) -> None:
        self.items: list[Node] = [] if items is None else items
        self.mark = mark


Node = Mapping | Sequence | Scalar


def clone(node: Node) -> Node:
    """A copy whose mappings and sequences may be changed; scalars are never changed in place."""
    if isinstance(node, Mapping):
        copy = Mapping(node.mark)
        for key, value in node.entries.items():
            copy.put(key, clone(value), node.keys[key])
        return copy
    if isinstance(node, Sequence):
        return Sequence(node.mark, [clone(item) for item in node.items])
    return node


def same(left: Node, right: Node) -> bool:
    """Whether two nodes hold equal data, wherever they were written."""
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        return type(left.value) is type(right.value) and left.value == right.value
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.entries.keys() == right.entries.keys() and all(
            same(node, right.entries[key]) for key, node in left.entries.items()
        )
    if isinstance(left, Sequence) and isinstance(right, Sequence):
        return len(left.items) == len(right.items) and all(map(same, left.items, right.items))
    return False


def kind(node: Node) -> str:
    """The word for a node's type, as Compose's messages use it."""
    if isinstance(node, Mapping):
        return "mapping"
    if isinstance(node, Sequence):
        return "list"
    value = node.value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    return "number" if isinstance(value, float) else "string"


def text_of(node: Node | None) -> str | None:
    """The text of a text scalar, else ``None``."""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value
    return None


def is_null(node: Node | None) -> bool:
    """Whether a node is there and is YAML's null."""
    return isinstance(node, Scalar) and node.value is None
