"""Rebuild a lost document: from the copy of the last one, brought forward by the audit.

A kill is never forgotten: only a line that is whole and follows from the copy takes one away, while
any whole line that makes one is believed. What a later line calls void, since its command died
before the document was renamed, takes nothing away. Pure. Ground floor.
"""

from __future__ import annotations

from typing import Dict, Iterable, NamedTuple, Optional, Tuple

from relayconf.overrides import audit
from relayconf.overrides.document import (
    EMPTY,
    Broken,
    Document,
    Json,
    Override,
    Pin,
    judge,
    parse,
)

Key = Tuple[str, str, str]
Overrides = Dict[Key, Override]


class Undo(NamedTuple):
    """What a line did: under ``key`` stood ``before``, and then ``after``; ``None`` is nothing."""

    key: Key
    before: Optional[Override]
    after: Optional[Override]


def rebuild(last: Optional[bytes], texts: Iterable[bytes]) -> Optional[Document]:
    """Return the document that a copy and the lines of an audit amount to.

    Args:
        last: the bytes of ``overrides.last.json``, or ``None``.
        texts: the lines of the audit.

    Returns:
        ``None`` where neither is there, or nothing can be made of either.
    """
    try:
        base = EMPTY if last is None else parse(last)
        found = last is not None
    except Broken:
        base, found = EMPTY, False
    overrides: Overrides = {o.key: o for o in base.overrides}
    undoing: Dict[int, Undo] = {}
    pin = Pin(base.audit.seq, base.audit.hash)
    generation, whole = base.generation, True
    for text in texts:
        line = audit.parse(text)
        if line is None or line["seq"] <= base.audit.seq:
            continue
        found = True
        whole = whole and line["seq"] == pin.seq + 1 and line["prev"] == pin.hash
        pin = Pin(line["seq"], line["hash"])
        if line.get("action") == "void":
            _undo(line.get("of"), undoing, overrides)
        elif (undo := _apply(line, overrides, removes=whole)) is not None:
            undoing[pin.seq] = undo
        written_in = line.get("generation")
        if type(written_in) is int:
            generation = max(generation, written_in)
    if not found:
        return None
    return base._replace(generation=generation, audit=pin, overrides=tuple(overrides.values()))


def _apply(line: Json, overrides: Overrides, *, removes: bool) -> Optional[Undo]:
    """Do what a line says, and return what stood there before and stands there now."""
    action = line.get("action")
    override = judge(line)
    if isinstance(override, str):
        return None
    before = overrides.get(override.key)
    if action in ("kill", "set"):
        overrides[override.key] = override
    elif action in ("restore", "expire") and removes:
        overrides.pop(override.key, None)
    return Undo(override.key, before, overrides.get(override.key))


def _undo(numbers: object, undoing: Dict[int, Undo], overrides: Overrides) -> None:
    """Take back what was never in force, the last first; a kill that it made stays."""
    for number in reversed(numbers if isinstance(numbers, list) else []):
        undo = undoing.get(number) if type(number) is int else None
        if undo is None or overrides.get(undo.key) is not undo.after:
            continue
        if undo.before is not None:
            overrides[undo.key] = undo.before
        elif undo.after is not None and undo.after.kind != "kill":
            del overrides[undo.key]
