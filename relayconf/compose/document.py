"""Turns the text of a YAML file into its bare graph: tags, anchors and positions, nothing typed.

The scanning is ruamel.yaml's (pure Python, event level); the graph is ours, so that no value is
guessed at here. Depth and size are bounded; any bytes give a graph or one ``ComposeError``.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from relayconf.compose.errors import ComposeError
from relayconf.compose.nodes import Mark
from relayconf.compose.scalars import short_tag
from relayconf.compose.scanner import BreakReader, TabScanner

#: Deeper nesting is refused, aliases included. Real files nest about ten deep.
MAX_DEPTH = 100
#: A larger file is refused, so that scanning it takes seconds at most.
MAX_BYTES = 4 * 1024 * 1024
#: More nodes in one file are refused (Compose itself stops at 100,000 visits by default).
MAX_NODES = 500_000

_SURROGATE = re.compile("[\ud800-\udfff]")
# What ruamel.yaml is known to raise on text that is no YAML, besides its own errors.
_FOREIGN = (ValueError, OverflowError, LookupError, AttributeError, TypeError, AssertionError)


class RawScalar:
    """A scalar before typing. ``quoted`` is true for quotes and block scalars."""

    __slots__ = ("mark", "quoted", "raw", "tag", "text")

    def __init__(self, text: str, tag: str, mark: Mark, raw: str, *, quoted: bool) -> None:
        self.text = text
        self.tag = tag
        self.mark = mark
        self.raw = raw
        self.quoted = quoted


class RawCollection:
    """A mapping (keys and values by turns in ``children``) or a sequence."""

    __slots__ = ("children", "is_mapping", "mark", "tag")

    def __init__(self, tag: str, mark: Mark, *, is_mapping: bool) -> None:
        self.children: list[RawNode] = []
        self.tag = tag
        self.mark = mark
        self.is_mapping = is_mapping


class RawAlias:
    """A reference to an anchored node of the same file; Compose keeps anchors across documents."""

    __slots__ = ("mark", "name", "target")

    def __init__(self, name: str, target: RawScalar | RawCollection, mark: Mark) -> None:
        self.name = name
        self.target = target
        self.mark = mark


RawNode = RawScalar | RawCollection | RawAlias


def read_documents(data: bytes, path: str, *, newest: bool = True) -> list[RawNode]:
    """Parse the documents of a YAML file.

    Args:
        data: the content of the file, any bytes.
        path: how messages and marks name the file.
        newest: whether a ``%YAML 1.2`` directive is understood; Compose 2.40 refuses it.

    Returns:
        The root of each document, in order; none for a file without content.

    Raises:
        ComposeError: the file is not YAML (kind ``yaml``) or goes beyond a bound (``limit``).
    """
    if len(data) > MAX_BYTES:
        raise _refuse(f"more than {MAX_BYTES} bytes of YAML", Mark(path, 1, 1), "limit")
    text = _decode(data, path)
    try:
        return _Composer(text, path, newest=newest).documents()
    except ReaderError as error:
        mark = _mark_of(text, path, error.position)
        raise _refuse("control characters are not allowed", mark) from None
    except MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        mark = Mark(path, place.line + 1, place.column + 1) if place else Mark(path, 1, 1)
        raise _refuse(str(error.problem or error.context), mark) from None
    except (YAMLError, *_FOREIGN) as error:
        reason = f"this is no YAML that can be read ({type(error).__name__})"
        raise _refuse(reason, Mark(path, 1, 1)) from None


class _Composer:
    """Builds the graph from the event stream of one file, without recursion."""

    def __init__(self, text: str, path: str, *, newest: bool) -> None:
        self.text = text
        self.path = path
        self.newest = newest
        self.nodes = 0
        self.anchors: dict[str, RawScalar | RawCollection] = {}
        self.stack: list[RawCollection] = []
        self.roots: list[RawNode] = []

    def documents(self) -> list[RawNode]:
        yaml = YAML(typ="safe", pure=True)
        yaml.Reader = BreakReader
        yaml.Scanner = TabScanner
        events: Iterator[Any] = yaml.parse(self.text)
        for event in events:
            if isinstance(event, ScalarEvent):
                self.add(self.scalar(event), event.anchor)
            elif isinstance(event, AliasEvent):
                self.add(self.alias(event), None)
            elif isinstance(event, (MappingStartEvent, SequenceStartEvent)):
                self.open(event)
            elif isinstance(event, CollectionEndEvent):
                self.stack.pop()
            elif isinstance(event, DocumentStartEvent):
                self.check_version(event)
        return self.roots

    def check_version(self, event: DocumentStartEvent) -> None:
        """Refuse a document of a YAML version that Compose's library does not know."""
        version = event.version
        if version is None or tuple(version) == (1, 1):
            return
        if not self.newest or tuple(version) != (1, 2):
            raise _refuse("found incompatible YAML document", self.mark(event))

    def open(self, event: MappingStartEvent | SequenceStartEvent) -> None:
        is_mapping = isinstance(event, MappingStartEvent)
        node = RawCollection(short_tag(event.tag), self.mark(event), is_mapping=is_mapping)
        self.add(node, event.anchor)
        self.stack.append(node)
        if len(self.stack) > MAX_DEPTH:
            raise _refuse(f"more than {MAX_DEPTH} levels of nesting", node.mark, "limit")

    def add(self, node: RawNode, anchor: str | None) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _refuse(f"more than {MAX_NODES} nodes in one file", node.mark, "limit")
        if self.stack:
            self.stack[-1].children.append(node)
        else:
            self.roots.append(node)
        if anchor is not None and not isinstance(node, RawAlias):
            self.anchors[anchor] = node

    def scalar(self, event: ScalarEvent) -> RawScalar:
        mark = self.mark(event)
        text = str(event.value)
        if _SURROGATE.search(text) is not None:
            raise _refuse("invalid Unicode character escape code", mark)
        raw = self.text[event.start_mark.index : event.end_mark.index]
        return RawScalar(text, short_tag(event.tag), mark, raw, quoted=event.style is not None)

    def alias(self, event: AliasEvent) -> RawAlias:
        mark = self.mark(event)
        target = self.anchors.get(event.anchor)
        if target is None:
            raise _refuse(f"unknown anchor {event.anchor!r} referenced", mark)
        return RawAlias(event.anchor, target, mark)

    def mark(self, event: Any) -> Mark:
        return Mark(self.path, event.start_mark.line + 1, event.start_mark.column + 1)


def _decode(data: bytes, path: str) -> str:
    """The text of the file; YAML allows UTF-8, and UTF-16 where a byte order mark says so."""
    encoding = "utf-8-sig"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(encoding, "replace")
        reason = "invalid leading UTF-8 octet" if encoding == "utf-8-sig" else "invalid UTF-16"
        raise _refuse(reason, _mark_of(before, path, len(before))) from None


def _mark_of(text: str, path: str, index: int) -> Mark:
    start = text.rfind("\n", 0, index) + 1
    return Mark(path, text.count("\n", 0, index) + 1, index - start + 1)


def _refuse(reason: str, mark: Mark, kind: str = "yaml") -> ComposeError:
    message = f"yaml syntax: {reason}" if kind == "yaml" else reason
    return ComposeError(message, kind=kind, origin=str(mark))
