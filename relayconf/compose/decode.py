"""Types the bare graph of one document as Compose does: aliases, merge keys, ``!reset``, scalars.

``!reset`` and ``!override`` leave no trace in the data; where they stood is recorded, because they
act on what earlier files said. Expansion of aliases is bounded.
"""

from __future__ import annotations

from typing import NamedTuple

from relayconf.compose.document import (
    MAX_DEPTH,
    MAX_NODES,
    RawAlias,
    RawCollection,
    RawNode,
    RawScalar,
)
from relayconf.compose.errors import ComposeError
from relayconf.compose.nodes import Mapping, Mark, Node, Scalar, Sequence
from relayconf.compose.scalars import MERGE, Plain, ScalarError, resolve

Path = tuple[str, ...]


class Document(NamedTuple):
    """One document: its root (``None`` for an empty one) and the places to reset underneath."""

    root: Node | None
    resets: tuple[Path, ...]


def decode(root: RawNode, *, newest: bool) -> Document:
    """Type one document.

    Args:
        root: the root of its bare graph.
        newest: read as the newest Compose does, else as 2.40 did.

    Raises:
        ComposeError: a key twice, a key that is no text, a merge of what is no mapping, an alias
            inside itself, a tag that does not fit, or aliases that expand without bound.
    """
    decoder = _Decoder(newest=newest)
    return Document(decoder.node(root, ()), tuple(decoder.resets))


def apply_resets(root: Mapping, resets: tuple[Path, ...]) -> None:
    """Take away from ``root`` what a later document resets or overrides."""
    for path in resets:
        _remove(root, path)


def _remove(node: Node, path: Path) -> None:
    """Remove what ``path`` names. List items are never removed this way, nor by Compose."""
    if not path or not isinstance(node, Mapping):
        return
    names = list(node.entries) if path[0] == "*" else [path[0]]
    for name in names:
        if name not in node.entries:
            continue
        if len(path) == 1:
            node.drop(name)
        else:
            _remove(node.entries[name], path[1:])


class _Decoder:
    """The state of one document: places to reset, aliases being followed, nodes made so far."""

    def __init__(self, *, newest: bool) -> None:
        self.newest = newest
        self.resets: list[Path] = []
        self.following: set[int] = set()
        self.made = 0

    def node(
        self, raw: RawNode, path: Path, *, plain: bool = False, merged: bool = False
    ) -> Node | None:
        """The typed node, or ``None`` where it leaves nothing.

        ``plain`` holds inside ``!override``, where Compose looks for no further tags; ``merged``
        where the node stands behind a ``<<``.
        """
        if isinstance(raw, RawAlias):
            return self.alias(raw, path, plain=plain, merged=merged)
        self.made += 1
        if len(path) + len(self.following) > MAX_DEPTH:
            raise _refuse(f"more than {MAX_DEPTH} levels of nesting", raw.mark, "limit")
        if self.made > MAX_NODES:
            raise _refuse(f"aliases expand to more than {MAX_NODES} nodes", raw.mark, "limit")
        if not plain and raw.tag == "!reset":
            self.resets.append(path)
            return None
        if not plain and raw.tag == "!override":
            self.resets.append(path)
            plain = True
        if isinstance(raw, RawScalar):
            return self.scalar(raw)
        if raw.is_mapping:
            mapping = Mapping(raw.mark)
            self.fill(mapping, raw, path, plain=plain, merged=merged)
            return mapping
        items = []
        for index, child in enumerate(raw.children):
            item = self.node(child, (*path, str(index)), plain=plain)
            if item is not None:
                items.append(item)
        return Sequence(raw.mark, items)

    def alias(self, raw: RawAlias, path: Path, *, plain: bool, merged: bool) -> Node | None:
        """The node an alias stands for, expanded anew so that each place is its own."""
        if id(raw.target) in self.following:
            reason = f"cycle detected: anchor {raw.name!r} value contains itself"
            raise _refuse(reason, raw.mark)
        self.following.add(id(raw.target))
        try:
            return self.node(raw.target, path, plain=plain, merged=merged)
        finally:
            self.following.discard(id(raw.target))

    def scalar(self, raw: RawScalar) -> Scalar | None:
        """The typed scalar; the newest Compose takes a lone ``<<`` for a merge and drops it."""
        if self.newest and raw.text == "<<" and not raw.quoted and raw.tag in ("", MERGE):
            return None
        return Scalar(_typed(raw, newest=self.newest), raw.mark, raw.raw)

    def fill(
        self, into: Mapping, raw: RawCollection, path: Path, *, plain: bool, merged: bool = False
    ) -> None:
        """Put the entries of ``raw`` into a mapping; its own keys win over those it merges in.

        ``merged`` is set where ``raw`` is itself merged in: its keys are then taken as text.
        """
        self.check_keys(raw, path, any_type=merged)
        merge: RawNode | None = None
        for key, value in _pairs(raw):
            if _is_merge(key):
                merge = value
                continue
            name = _name(key)
            node = self.node(value, (*path, name), plain=plain)
            if node is not None:
                into.put(name, node, key.mark)
        if merge is not None:
            self.merge(into, merge, path, plain=plain)

    def merge(self, into: Mapping, raw: RawNode, path: Path, *, plain: bool) -> None:
        """Merge the mapping, or each of the mappings, behind a ``<<``."""
        target = _target(raw)
        if isinstance(target, RawCollection) and not target.is_mapping:
            sources = [(child, _target(child)) for child in target.children]
        else:
            sources = [(raw, target)]
        for written, source in sources:
            if not (isinstance(source, RawCollection) and source.is_mapping):
                reason = "map merge requires map or sequence of maps as the value"
                raise _refuse(reason, written.mark)
            merged = self.node(written, path, plain=plain, merged=True)
            if isinstance(merged, Mapping):
                _add_missing(into, merged)

    def check_keys(self, raw: RawCollection, path: Path, *, any_type: bool) -> None:
        """Each key is text and stands once; ``<<`` counts as a key."""
        seen: dict[str, Mark] = {}
        for key, _ in _pairs(raw):
            where = f"in {'.'.join(path)}" if path else "at top level"
            target = _target(key)
            if not isinstance(target, RawScalar):
                raise _refuse(f"yaml syntax: invalid map key {where}", key.mark)
            first = seen.setdefault(target.text, key.mark)
            if first is not key.mark:
                reason = f'mapping key "{target.text}" already defined at line {first.line}'
                raise _refuse(reason, key.mark)
            if any_type or _is_merge(key):
                continue
            if not isinstance(_typed(target, newest=self.newest), str):
                raise _refuse(f"non-string key {where}: {target.text}", key.mark)


def _typed(raw: RawScalar, *, newest: bool) -> Plain:
    try:
        return resolve(raw.text, tag=raw.tag, quoted=raw.quoted, newest=newest)[1]
    except ScalarError as error:
        raise _refuse(f"yaml syntax: {error}", raw.mark) from None


def _pairs(raw: RawCollection) -> list[tuple[RawNode, RawNode]]:
    return list(zip(raw.children[::2], raw.children[1::2], strict=True))


def _target(raw: RawNode) -> RawScalar | RawCollection:
    return raw.target if isinstance(raw, RawAlias) else raw


def _name(key: RawNode) -> str:
    target = _target(key)
    return target.text if isinstance(target, RawScalar) else ""


def _is_merge(key: RawNode) -> bool:
    return (
        isinstance(key, RawScalar)
        and key.text == "<<"
        and (key.tag == MERGE or (not key.tag and not key.quoted))
    )


def _add_missing(into: Mapping, merged: Mapping) -> None:
    """Add what is missing; where both have a scalar, remember which one stays in the shadow."""
    for name, node in merged.entries.items():
        mine = into.entries.get(name)
        if mine is None:
            into.put(name, node, merged.keys[name])
        elif isinstance(mine, Scalar) and isinstance(node, Scalar):
            into.entries[name] = mine.over(node)


def _refuse(reason: str, mark: Mark, kind: str = "yaml") -> ComposeError:
    return ComposeError(reason, kind=kind, origin=str(mark))
