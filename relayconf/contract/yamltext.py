"""Contracts in YAML: the same document as in JSON, with comments and without the braces.

A scalar means what JSON would take it for. ``null``, ``true`` and ``false`` (in YAML's three
spellings) and JSON's numbers are those; anything else that YAML's versions disagree about (``yes``,
``0123``, ``1_000``, dates) is text, which the setting's own grammar then judges. No tag but
``!!str`` is read, no key may stand twice, and aliases are bounded.
"""

from __future__ import annotations

import re

from relayconf.contract.literal import integer, numeral
from relayconf.contract.place import Path, Place, Position, Source
from relayconf.contract.reading import from_place
from relayconf.errors import ContractError, SourceError
from relayconf.files.tokens import Source as Text
from relayconf.files.yaml_nodes import Node, compose
from relayconf.layers import read_bytes
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
_TEXT_TAGS = ("!", "!!str", "tag:yaml.org,2002:str")

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
        text = Text(data, origin)
        root = compose(text)
    except SourceError as error:
        raise ContractError(str(error)) from None
    if root is None:
        raise ContractError(f"{origin}: the file holds nothing")
    reader = _Reader(text)
    document = reader.data(root, (), 0)
    return from_place(Place(document, Source(origin, reader.positions.get)))


class _Reader:
    """Turns the nodes of one document into data, and keeps where each value stands."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.positions: dict[Path, Position] = {}
        self.values = 0

    def data(self, node: Node, path: Path, depth: int) -> Data:
        self.values += 1
        if depth > MAX_DEPTH:
            raise self.error(node, f"nests deeper than {MAX_DEPTH} levels; does it hold itself?")
        if self.values > MAX_VALUES:
            raise self.error(node, f"more than {MAX_VALUES} values, aliases written out")
        self.positions[path] = self.text.position(node.index)
        if node.tag is not None and (node.kind != "scalar" or node.tag not in _TEXT_TAGS):
            raise self.error(node, f"the tag {excerpt(node.tag)} is not read; drop it")
        if node.kind == "scalar":
            return _scalar(node.text) if node.plain else node.text
        if node.kind == "mapping":
            return self.mapping(node, path, depth)
        items = enumerate(node.children)
        return [self.data(item, (*path, index), depth + 1) for index, item in items]

    def mapping(self, node: Node, path: Path, depth: int) -> Data:
        merged: dict[str, Data] = {}
        own: dict[str, Node] = {}
        for key, value in node.pairs():
            if key.kind != "scalar":
                raise self.error(key, "a key must be a text")
            if key.plain and key.text == "<<":
                merged = {**self.merge(value, path, depth + 1), **merged}
            elif key.text in own:
                raise self.error(key, f"the key {excerpt(key.text)!r} stands twice in one mapping")
            else:
                own[key.text] = value
        # After what is merged in, so that a position is that of the value which counts.
        return {**merged, **{k: self.data(v, (*path, k), depth + 1) for k, v in own.items()}}

    def merge(self, node: Node, path: Path, depth: int) -> dict[str, Data]:
        merged: dict[str, Data] = {}
        for item in reversed(node.children if node.kind == "sequence" else [node]):
            found = self.data(item, path, depth)
            if not isinstance(found, dict):
                raise self.error(item, "'<<' takes a mapping, or a list of them")
            merged.update(found)
        return merged

    def error(self, node: Node, message: str) -> ContractError:
        return ContractError(str(self.text.error(message, node.index)))


def _scalar(text: str) -> Data:
    """Return what a text without quotes and tags means."""
    if text in _WORDS:
        return _WORDS[text]
    number = _NUMBER.fullmatch(text)
    if number is None:
        return text
    return integer(text) if number[1] is number[2] is None else numeral(text)
