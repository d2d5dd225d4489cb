"""Contracts in YAML: the same document as in JSON, with comments and without the braces.

A scalar means what JSON would take it for. ``null``, ``true`` and ``false`` (in YAML's three
spellings) and JSON's numbers are those; anything else that YAML's versions disagree about (``yes``,
``0123``, ``1_000``, dates) is text, which the setting's own grammar then judges. No tag but
``!!str`` is read, no key may stand twice, and aliases are bounded.
"""

from __future__ import annotations

import re

from relayconf.compose.document import (
    RawAlias,
    RawCollection,
    RawNode,
    RawScalar,
    read_documents,
)
from relayconf.contract import from_place
from relayconf.errors import ContractError, SourceError
from relayconf.layers import read_bytes
from relayconf.literal import integer, numeral
from relayconf.place import Path, Place, Position, Source
from relayconf.setting import Contract
from relayconf.values import excerpt

#: Levels and values of one contract, aliases written out. Real ones have about 6 and 5,000.
MAX_DEPTH = 50
MAX_VALUES = 100_000

_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", re.ASCII)
_TEXT_TAGS = ("!!str", "!")

Data = dict[str, "Data"] | list["Data"] | str | float | bool | None


def load(path: str) -> Contract:
    """Read a YAML contract from a file.

    Raises:
        ContractError: it cannot be read, is not YAML, or is not a contract.
    """
    try:
        return read(read_bytes(path), origin=path)
    except SourceError as error:
        raise ContractError(str(error)) from None


def read(data: bytes, *, origin: str) -> Contract:
    """Read a YAML contract from its bytes; ``origin`` names them in errors.

    Raises:
        ContractError: not YAML, a repeated key, or not a contract; with line and column.
    """
    try:
        documents = read_documents(data, origin)
    except SourceError as error:
        raise ContractError(str(error)) from None
    if len(documents) != 1:
        raise ContractError(f"{origin}: holds {len(documents)} documents where one belongs")
    reader = _Reader()
    root = reader.data(documents[0], (), 0)
    return from_place(Place(root, Source(origin, reader.positions.get)))


class _Reader:
    """Turns the nodes of one document into data, and keeps where each value stands."""

    def __init__(self) -> None:
        self.positions: dict[Path, Position] = {}
        self.values = 0

    def data(self, node: RawNode, path: Path, depth: int) -> Data:
        while isinstance(node, RawAlias):
            node = node.target
        self.values += 1
        if depth > MAX_DEPTH:
            raise _error(node, f"more than {MAX_DEPTH} levels; does an alias hold itself?")
        if self.values > MAX_VALUES:
            raise _error(node, f"more than {MAX_VALUES} values, aliases written out")
        self.positions[path] = (node.mark.line, node.mark.column)
        if isinstance(node, RawScalar):
            return _scalar(node)
        if node.tag:
            raise _error(node, f"the tag {excerpt(node.tag)} is not read; drop it")
        if node.is_mapping:
            return self.mapping(node, path, depth)
        items = enumerate(node.children)
        return [self.data(item, (*path, index), depth + 1) for index, item in items]

    def mapping(self, node: RawCollection, path: Path, depth: int) -> Data:
        pairs = list(zip(node.children[::2], node.children[1::2], strict=True))
        merged: dict[str, Data] = {}
        own: dict[str, RawNode] = {}
        for key, value in pairs:
            name = _key(key)
            if name == "<<" and isinstance(key, RawScalar) and not key.quoted:
                merged = {**self.merge(value, path, depth), **merged}
            elif name in own:
                raise _error(key, f"the key {excerpt(name)!r} stands twice in one mapping")
            else:
                own[name] = value
        # After what is merged in, so that a position is that of the value which counts.
        return {**merged, **{k: self.data(v, (*path, k), depth + 1) for k, v in own.items()}}

    def merge(self, node: RawNode, path: Path, depth: int) -> dict[str, Data]:
        while isinstance(node, RawAlias):
            node = node.target
        if isinstance(node, RawCollection) and not node.is_mapping:
            merged: dict[str, Data] = {}
            for item in reversed(node.children):
                merged.update(self.merge(item, path, depth + 1))
            return merged
        found = self.data(node, path, depth + 1)
        if not isinstance(found, dict):
            raise _error(node, "'<<' takes a mapping, or a list of them")
        return found


def _scalar(node: RawScalar) -> Data:
    if node.tag in _TEXT_TAGS or (node.quoted and not node.tag):
        return node.text
    if node.tag:
        raise _error(node, f"the tag {excerpt(node.tag)} is not read; drop it")
    if node.text in _WORDS:
        return _WORDS[node.text]
    number = _NUMBER.fullmatch(node.text)
    if number is None:
        return node.text
    return integer(node.text) if number[1] is number[2] is None else numeral(node.text)


def _key(node: RawNode) -> str:
    while isinstance(node, RawAlias):
        node = node.target
    if not isinstance(node, RawScalar):
        raise _error(node, "a key must be a text")
    return node.text


def _error(node: RawNode, message: str) -> ContractError:
    return ContractError(f"{node.mark}: {message}")
