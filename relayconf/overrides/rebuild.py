"""Rebuild a lost document: from the copy of the last one, brought forward by the audit.

A kill is never forgotten: only a line that is whole and follows from the copy takes one away, while
any whole line that makes one is believed. Pure. Ground floor.
"""

from __future__ import annotations

from typing import Dict, Iterable, Optional, Tuple

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
    overrides: Dict[Tuple[str, str, str], Override] = {o.key: o for o in base.overrides}
    pin = Pin(base.audit.seq, base.audit.hash)
    generation, whole = base.generation, True
    for text in texts:
        line = audit.parse(text)
        if line is None or line["seq"] <= base.audit.seq:
            continue
        found = True
        whole = whole and line["seq"] == pin.seq + 1 and line["prev"] == pin.hash
        pin = Pin(line["seq"], line["hash"])
        _apply(line, overrides, removes=whole)
        written_in = line.get("generation")
        if type(written_in) is int:
            generation = max(generation, written_in)
    if not found:
        return None
    return base._replace(generation=generation, audit=pin, overrides=tuple(overrides.values()))


def _apply(line: Json, overrides: Dict[Tuple[str, str, str], Override], *, removes: bool) -> None:
    action = line.get("action")
    override = judge(line)
    if isinstance(override, str):
        return
    if action in ("kill", "set"):
        overrides[override.key] = override
    elif action in ("restore", "expire") and removes:
        overrides.pop(override.key, None)
