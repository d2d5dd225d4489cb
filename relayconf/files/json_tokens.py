"""Reads a JSON settings file, strictly: bytes in, texts with positions out, or one error.

Strict is RFC 8259 without its freedoms: no ``NaN``, no repeated key, no comment, no trailing comma.
A number keeps the text that it is written with. Any bytes give a document or one ``SourceError``.
"""

from __future__ import annotations

import json
import re

from relayconf.files.tokens import (
    MAX_DEPTH,
    NESTED,
    NULL,
    NULL_ITEM,
    Builder,
    Document,
    Leaf,
    Source,
    Step,
)
from relayconf.values.spelling import quote

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORD = re.compile(r"true|false|null")
_STRING = json.JSONDecoder()

_NO_VALUE = "not JSON: a value was expected here"


def read(data: bytes, *, path: str) -> Document:
    """Read a JSON settings file.

    Raises:
        SourceError: it is too large, not UTF-8, not JSON, or repeats a key.
    """
    return _Reader(Source(data, path)).read()


class _Reader:
    """One pass over one text. Methods take the index to read at and return the one behind."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.builder = Builder(source)

    def read(self) -> Document:
        at = self.space(0)
        if not self.text.startswith("{", at):
            raise self.source.error("not a JSON object of settings", at)
        at = self.space(self.object(at, [], 0))
        if at < len(self.text):
            raise self.source.error("not JSON: something follows the end of the object", at)
        return self.builder.document()

    def object(self, at: int, path: list[Step] | None, depth: int) -> int:
        """Read an object; without a path its members are skipped."""
        seen: set[str] = set()
        at = self.space(at + 1)
        if self.text.startswith("}", at):
            return at + 1
        while True:
            key, index = self.key(at), at
            if key[0] in seen:
                raise self.source.error(f"the key {quote(key[0])} stands twice", index)
            seen.add(key[0])
            at = self.space(key[1])
            if not self.text.startswith(":", at):
                raise self.source.error("not JSON: expected ':' after a key", at)
            inner = None if path is None else [*path, (key[0], index)]
            at = self.space(self.member(self.space(at + 1), inner, depth + 1))
            if self.text.startswith("}", at):
                return at + 1
            if not self.text.startswith(",", at):
                raise self.source.error("not JSON: expected ',' or '}' after a value", at)
            at = self.space(at + 1)

    def key(self, at: int) -> tuple[str, int]:
        if not self.text.startswith('"', at):
            raise self.source.error("not JSON: a key in double quotes was expected here", at)
        return self.string(at)

    def member(self, at: int, path: list[Step] | None, depth: int) -> int:
        """Read the value of a key into the document, where it is within reach."""
        if self.text.startswith("{", at):
            self.guard(at, depth)
            if path is not None:
                self.builder.table(path)
            return self.object(at, path if path is not None and len(path) < 2 else None, depth)
        leaf, at = self.leaf(at, depth)
        if path is not None:
            self.builder.put(path, leaf)
        return at

    def leaf(self, at: int, depth: int) -> tuple[Leaf, int]:
        """Read a list or a scalar."""
        if self.text.startswith("[", at):
            self.guard(at, depth)
            return self.array(at, depth)
        text, at = self.scalar(at)
        return (Leaf(fault=NULL) if text is None else Leaf(text)), at

    def array(self, at: int, depth: int) -> tuple[Leaf, int]:
        items: list[str] = []
        fault: str | None = None
        at = self.space(at + 1)
        if self.text.startswith("]", at):
            return Leaf(items=()), at + 1
        while True:
            if self.text.startswith(("[", "{"), at):
                at, fault = self.member(at, None, depth + 1), NESTED
            else:
                text, at = self.scalar(at)
                if text is None:
                    fault = fault or NULL_ITEM
                else:
                    items.append(text)
            at = self.space(at)
            if self.text.startswith("]", at):
                leaf = Leaf(items=tuple(items)) if fault is None else Leaf(fault=fault)
                return leaf, at + 1
            if not self.text.startswith(",", at):
                raise self.source.error("not JSON: expected ',' or ']' after an item", at)
            at = self.space(at + 1)

    def scalar(self, at: int) -> tuple[str | None, int]:
        """Return the text of a string, a number or a boolean; None for null."""
        if self.text.startswith('"', at):
            return self.string(at)
        match = _NUMBER.match(self.text, at) or _WORD.match(self.text, at)
        if match is None:
            raise self.source.error(_NO_VALUE, at)
        text = match.group()
        return (None if text == "null" else text), match.end()

    def string(self, at: int) -> tuple[str, int]:
        try:
            text, end = _STRING.raw_decode(self.text, at)
        except json.JSONDecodeError as error:
            reason = error.msg.removesuffix(" at").removesuffix(" starting")
            message = f"not JSON: {reason[:1].lower()}{reason[1:]}"
            raise self.source.error(message, error.pos) from None
        return str(text), end

    def space(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return at if match is None else match.end()

    def guard(self, at: int, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self.source.error(f"it nests deeper than {MAX_DEPTH} levels", at)
