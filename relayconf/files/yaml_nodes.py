"""YAML as plain nodes with positions: a bounded composer over ruamel.yaml's events.

Events are all that is taken from the library: no tag is resolved or run, no value is made. Aliases
become the node that they name (which may contain itself). Any bytes give a node or one
``SourceError``; no message quotes a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)
from ruamel.yaml.reader import ReaderError

from relayconf.files.tokens import MAX_DEPTH, Source

# The library's messages quote characters, which help, and whole words of the file, which may be a
# secret that stands without quotes. They print a kind of token in a way of their own.
_CHARACTER_OR_WORD = re.compile(
    r"""\s*(?:('(?:\\x..|\\.|[^'\\])'|"'")|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
)
_KIND = re.compile(r"\(?'(<[a-z ]+>)',?\)?")


class Node:
    """One node: a scalar's text, a sequence's children, or a mapping's keys and values in turn.

    ``kind`` is ``scalar``, ``sequence`` or ``mapping``; ``tag`` is an explicit tag in full, else
    ``None``; ``plain`` tells a scalar without quotes.
    """

    __slots__ = ("children", "index", "kind", "plain", "tag", "text")

    def __init__(self, kind: str, index: int, tag: str | None) -> None:
        self.kind = kind
        self.index = index
        self.tag = tag
        self.text = ""
        self.plain = False
        self.children: list[Node] = []

    def pairs(self) -> Iterator[tuple[Node, Node]]:
        """Yield the keys of a mapping with their values."""
        return zip(self.children[::2], self.children[1::2], strict=True)


def compose(source: Source) -> Node | None:
    """Return the root of the only document of a text, or ``None`` where there is none.

    Raises:
        SourceError: it is not YAML, holds two documents, nests too deep, or uses an alias that
            nothing defines.
    """
    composer = _Composer(source)
    try:
        for event in YAML(typ="safe", pure=True).parse(source.text):
            composer.take(event)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context or "it does not parse"
        reason = _CHARACTER_OR_WORD.sub(_kept, _KIND.sub(r"\1", reason)).strip()
        raise source.error(f"not YAML: {reason}", mark.index if mark else 0) from None
    except ReaderError as error:
        raise source.error(
            "not YAML: a character that YAML does not allow", error.position
        ) from None
    except (YAMLError, ValueError) as error:
        raise source.error(f"not YAML: {type(error).__name__}", composer.last) from None
    return composer.root


class _Composer:
    """Takes events one by one. ``open`` holds the collections that are being filled."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.root: Node | None = None
        self.open: list[Node] = []
        self.anchors: dict[str, Node] = {}
        self.documents = 0
        self.last = 0

    def take(self, event: Any) -> None:
        self.last = event.start_mark.index if event.start_mark else self.last
        if isinstance(event, DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                message = "a second document starts here, where one belongs"
                raise self.source.error(message, self.last)
        elif isinstance(event, CollectionEndEvent):
            self.open.pop()
        elif isinstance(event, NodeEvent):
            self.add(self.node(event), opens=isinstance(event, CollectionStartEvent))

    def node(self, event: Any) -> Node:
        if isinstance(event, AliasEvent):
            if event.anchor not in self.anchors:
                message = "not YAML: '*' starts an alias, and no anchor of that name stands above"
                raise self.source.error(
                    f"{message}; put a text that starts so in quotes", self.last
                )
            return self.anchors[event.anchor]
        if isinstance(event, ScalarEvent):
            node = Node("scalar", self.last, _explicit(event.tag))
            node.text = event.value
            node.plain = event.style in (None, "") and node.tag is None
        else:
            kind = "mapping" if isinstance(event, MappingStartEvent) else "sequence"
            node = Node(kind, self.last, _explicit(event.tag))
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def add(self, node: Node, *, opens: bool) -> None:
        if self.open:
            self.open[-1].children.append(node)
        else:
            self.root = node
        if opens:
            self.open.append(node)
            if len(self.open) > MAX_DEPTH:
                raise self.source.error(f"it nests deeper than {MAX_DEPTH} levels", self.last)


def _kept(match: re.Match[str]) -> str:
    return match.group() if match[1] else ""


def _explicit(tag: str | None) -> str | None:
    return None if tag is None else str(tag)
