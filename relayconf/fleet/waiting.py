"""Changes that wait for the fleet's server: in force on this host, to be merged when it is back.

``fleet-pending.json`` holds them in the order in which they were made. Each keeps the id under
which the server gets it, so that whoever brings it there, and however often, it has one effect.
Ground floor.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from relayconf.fleet.record import FleetEntry, Position, from_body, is_change_id, to_body
from relayconf.overrides.ttl import end_of
from relayconf.state.directory import StateDirectory

NAME = "fleet-pending.json"

VERSION = 1

#: What a change was made in view of that was overtaken: it is in place of nothing that there is.
OVERTAKEN = Position("", -1)

Json = Dict[str, Any]


class Waiting(NamedTuple):
    """One change that waits.

    Attributes:
        entry: what it writes; its end is on this host's clocks.
        expected: the entry that it was made in view of, as in ``engine.Change``.
    """

    entry: FleetEntry
    expected: Position = Position()

    @property
    def id(self) -> str:
        """The change's id."""
        return self.entry.override.id


class Queue(NamedTuple):
    """What a file holds. ``faults`` say what could not be used."""

    changes: Tuple[Waiting, ...] = ()
    faults: Tuple[str, ...] = ()


EMPTY = Queue()


def render(changes: Sequence[Waiting]) -> bytes:
    """Return the bytes of a file."""
    bodies = [{**to_body(w.entry), "expected": list(w.expected)} for w in changes]
    return json.dumps({"version": VERSION, "changes": bodies}, indent=1).encode("ascii") + b"\n"


def parse(data: bytes) -> Queue:
    """Read a file. Changes are judged one by one; a bad one is passed over, with a fault."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return Queue(faults=("it is no JSON",))
    if not isinstance(body, dict) or body.get("version") != VERSION:
        return Queue(faults=("it is no file of this version",))
    raws = body.get("changes")
    if not isinstance(raws, list):
        return Queue(faults=("it has no list of changes",))
    judged = [_judge(raw) for raw in raws]
    changes = tuple(each for each in judged if isinstance(each, Waiting))
    faults: List[str] = [each for each in judged if isinstance(each, str)]
    return Queue(changes, tuple(faults))


def read(directory: StateDirectory) -> Queue:
    """Return what waits in a state directory."""
    try:
        data = directory.read(NAME)
    except OSError as error:
        return Queue(faults=(f"it cannot be read: {error.strerror or error}",))
    return EMPTY if data is None else parse(data)


def _judge(raw: Any) -> Union[Waiting, str]:
    entry = from_body(raw)
    if isinstance(entry, str):
        return entry
    if not is_change_id(raw.get("id")):
        return "its id is missing, or none of a change"
    override = entry.override._replace(store=NAME)
    end = end_of(raw.get("expires_at"), raw.get("expires_boot"))
    if not isinstance(end, str) and not entry.tombstone:
        override = override._replace(end=end)
    return Waiting(entry._replace(override=override), _position(raw.get("expected")))


def _position(raw: Any) -> Position:
    if isinstance(raw, list) and len(raw) == len(Position._fields):
        epoch, revision, head = raw
        if isinstance(epoch, str) and type(revision) is int and isinstance(head, str):
            return Position(epoch, revision, head)
    return Position()


def find(changes: Sequence[Waiting], change: str) -> Optional[Waiting]:
    """Return the change of some id."""
    for waiting in changes:
        if waiting.id == change:
            return waiting
    return None
