"""How a change is written down on a server, and the chain of hashes that holds changes together.

A change is one line of JSON, made where the server's time is known; it stands in the state, in the
stream and in the audit, letter for letter the same. Its *head* is the hash of the head before it
and of the line: whoever knows the head of a revision knows everything that led to it, so that two
histories under one name cannot be taken for each other. SHA-1, because that is what a server's
scripts can reckon: it tells faults, and is no proof against whoever may write the server.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from relayconf.fleet.engine import Change, Item
from relayconf.fleet.record import Json, Position, to_body


def digest(previous: str, line: str) -> str:
    """Return the head after a line."""
    return hashlib.sha1(f"{previous}\n{line}".encode(), usedforsecurity=False).hexdigest()


def body_text(change: Change) -> str:
    """Return what a change's entry says, as the server is given it: one line of ASCII."""
    body = to_body(change.entry)
    body["id"] = change.id
    # When it ends is for the server to say, on its own clock.
    for own in ("expires_at", "expires_boot"):
        body.pop(own, None)
    return json.dumps(body, separators=(",", ":"))


def line_text(
    change: str, body: str, position: tuple[int, str], at_ms: int, expires_ms: int | None
) -> str:
    """Return a change's line, as the server's script writes it too.

    Args:
        change: its id.
        body: from ``body_text``.
        position: its revision and epoch.
        at_ms: the server's time.
        expires_ms: when it ends, on the same clock.
    """
    revision, epoch = position
    ends = "null" if expires_ms is None else str(expires_ms)
    return (
        f'{{"revision":{revision},"epoch":"{epoch}","change":"{change}","at_ms":{at_ms},'
        f'"expires_ms":{ends},"entry":{body}}}'
    )


def read_item(line: str | bytes, previous: str = "", head: str = "") -> Item | None:
    """Return what a line says; ``None`` where it is none.

    What its entry holds is not judged here.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    revision, epoch = _count(found.get("revision")), found.get("epoch")
    if revision is None or not isinstance(epoch, str):
        return None
    position = Position(epoch, revision, head)
    at_ms = _count(found.get("at_ms")) or 0
    return Item(found.get("entry"), position, previous, at_ms, _count(found.get("expires_ms")))


def audit_line(line: str, previous: str, head: str) -> Json:
    """Return a line of the audit as ``Engine.audit`` gives it."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    body = found if isinstance(found, dict) else {"entry": None}
    return {**body, "line": line, "prev": previous, "head": head}


def verify(lines: Sequence[Json]) -> list[str]:
    """Return what is wrong with an audit, the first thing first; nothing where it is whole.

    The oldest line's own past is not known: a server keeps only so many. A line of another epoch
    begins anew.
    """
    faults = []
    before: Json | None = None
    for number, line in enumerate(lines, 1):
        name = f"line {number} (revision {line.get('revision', '?')})"
        if digest(str(line["prev"]), str(line["line"])) != line["head"]:
            faults.append(f"{name}: its content does not fit its hash: it was altered")
        elif before is not None and line["prev"] != before["head"]:
            if line.get("epoch") == before.get("epoch"):
                faults.append(f"{name}: it does not follow the line before it: lines are missing")
            elif line["prev"]:
                faults.append(f"{name}: the first lines of its epoch are missing")
        before = line
    return faults


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 53 else None
