"""Reads a YAML settings file: bytes in, texts with positions out, or one error.

A plain scalar is the text that is written, whatever YAML would make of it: ``0123``, ``1.50``,
``no``, ``2026-11-30``. Anchors, aliases and merge keys are followed within bounds; no tag is run.
"""

from __future__ import annotations

from relayconf.files.tokens import (
    MAX_BYTES,
    MAX_DEPTH,
    NESTED,
    NULL,
    NULL_ITEM,
    TABLE,
    Document,
    Leaf,
    Section,
    Source,
    Token,
)
from relayconf.files.yaml_nodes import Node, compose
from relayconf.values.spelling import quote

#: How many keys all merge keys of a file may bring in together. Each costs a moment, and a chain
#: of merges multiplies them.
_MAX_MERGED = 100_000

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_STANDARD = "tag:yaml.org,2002:"
_TEXTS = frozenset(_STANDARD + name for name in ("str", "int", "float", "bool", "timestamp"))
_LISTS = frozenset({f"{_STANDARD}seq", "!"})

_TAGGED = (
    "it has a tag ('!' starts one), and nothing in a value is run; put a text that starts so in "
    "quotes"
)
_LONG = f"the list adds up to more than {MAX_BYTES} characters"

_Pairs = dict[str, tuple[Node, Node]]


def read(data: bytes, *, path: str) -> Document:
    """Read a YAML settings file.

    Raises:
        SourceError: it is too large, not UTF-8, not one YAML document, or repeats a key.
    """
    source = Source(data, path)
    root = compose(source)
    if root is None or (root.plain and root.text in _NULLS):
        return Document()
    if root.kind != "mapping":
        raise source.error("not a YAML mapping of settings", root.index)
    return _Reader(source).document(root)


class _Reader:
    """Turns the nodes of one file into tokens. Each node is looked at once, however often used."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.flattened: dict[int, _Pairs] = {}
        self.flattening: set[int] = set()
        self.merged = 0
        self.leaves: dict[int, Leaf] = {}

    def document(self, root: Node) -> Document:
        self.no_repeats(root)
        tokens: list[Token] = []
        sections: list[Section] = []
        for name, (key, value) in self.flat(root).items():
            where = self.source.position(key.index)
            if value.kind == "mapping":
                members = (self.token(n, k, v) for n, (k, v) in self.flat(value).items())
                sections.append(Section(name, *where, tuple(members)))
            else:
                tokens.append(Token(name, *where, self.leaf(value)))
        return Document(tuple(tokens), tuple(sections))

    def no_repeats(self, root: Node) -> None:
        """Refuse a key that stands twice in any one mapping of the file."""
        waiting, seen = [root], {id(root)}
        while waiting:
            node = waiting.pop()
            if node.kind == "mapping":
                names: set[str] = set()
                for key, _ in node.pairs():
                    if key.kind == "scalar" and key.text in names:
                        message = f"the key {quote(key.text)} stands twice"
                        raise self.source.error(message, key.index)
                    names.add(key.text if key.kind == "scalar" else "")
            fresh = [child for child in node.children if id(child) not in seen]
            seen.update(map(id, fresh))
            waiting.extend(fresh)

    def flat(self, node: Node, depth: int = 0) -> _Pairs:
        """Return a mapping's keys with what its merge keys bring in; its own keys win."""
        known = self.flattened.get(id(node))
        if known is not None:
            return known
        if id(node) in self.flattening:
            raise self.source.error("a merge key ('<<') brings in its own mapping", node.index)
        if depth > MAX_DEPTH:
            raise self.source.error(f"merge keys nest deeper than {MAX_DEPTH} levels", node.index)
        self.flattening.add(id(node))
        pairs: _Pairs = {}
        merges: list[Node] = []
        for key, value in node.pairs():
            if key.plain and key.text == "<<":
                merges.extend(value.children if value.kind == "sequence" else [value])
            elif key.kind == "scalar":
                pairs[key.text] = (key, value)
        for merge in merges:
            self.merge(merge, pairs, depth)
        self.flattening.discard(id(node))
        self.flattened[id(node)] = pairs
        return pairs

    def merge(self, node: Node, pairs: _Pairs, depth: int) -> None:
        if node.kind != "mapping":
            message = "a merge key ('<<') takes a mapping, or a list of mappings"
            raise self.source.error(message, node.index)
        brought = self.flat(node, depth + 1)
        self.merged += len(brought)
        if self.merged > _MAX_MERGED:
            message = f"merge keys ('<<') bring in more than {_MAX_MERGED} keys"
            raise self.source.error(message, node.index)
        for name, pair in brought.items():
            pairs.setdefault(name, pair)

    def token(self, name: str, key: Node, value: Node) -> Token:
        return Token(name, *self.source.position(key.index), self.leaf(value))

    def leaf(self, node: Node) -> Leaf:
        found = self.leaves.get(id(node))
        if found is None:
            found = self.leaves[id(node)] = _leaf(node)
        return found


def _leaf(node: Node) -> Leaf:
    if node.kind == "scalar":
        fault = _scalar_fault(node, NULL)
        return Leaf(node.text) if fault is None else Leaf(fault=fault)
    if node.kind == "mapping":
        return Leaf(fault=TABLE)
    if node.tag is not None and node.tag not in _LISTS:
        return Leaf(fault=_TAGGED)
    for item in node.children:
        fault = _scalar_fault(item, NULL_ITEM) if item.kind == "scalar" else NESTED
        if fault is not None:
            return Leaf(fault=fault)
    if sum(len(item.text) for item in node.children) > MAX_BYTES:
        return Leaf(fault=_LONG)
    return Leaf(items=tuple(item.text for item in node.children))


def _scalar_fault(node: Node, null: str) -> str | None:
    if node.plain and node.text in _NULLS:
        return null
    return None if node.tag in (None, "!") or node.tag in _TEXTS else _TAGGED
