"""The changes that an operator makes to a fleet, and how each gets to its server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from relayconf.fleet.engine import Change, Engine, Item, Outcome
from relayconf.fleet.reading import FleetReading
from relayconf.fleet.record import EVERYWHERE, FleetEntry, Key, Scope, from_body
from relayconf.fleet.waiting import Waiting
from relayconf.overrides.changes import Assignment, Because
from relayconf.overrides.document import Override
from relayconf.overrides.ttl import end_after, left_ms
from relayconf.state.clock import SYSTEM, Clock, stamp
from relayconf.values import excerpt

#: How often a kill is written on top of what came between.
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of a change that the server has answered for.

    Attributes:
        change: as it was written in the end.
        outcome: the server's answer.
        refused: why it was not written, as a sentence; ``None`` where it stands.
    """

    change: Change
    outcome: Outcome | None
    refused: str | None = None


def puts(
    kind: str,
    assignments: Sequence[Assignment],
    because: Because,
    *,
    scope: Scope = EVERYWHERE,
    seen: FleetReading,
    clock: Clock = SYSTEM,
) -> list[Change]:
    """Return the changes that kill flags or set values.

    Args:
        kind: ``kill`` or ``set``.
        assignments: what.
        because: who, why, and until when.
        scope: whom it is for.
        seen: what it is made in view of.
        clock: of this host.
    """
    overrides = [
        _override(each.target, each.name, kind, each.value, because, clock) for each in assignments
    ]
    end = None if because.ttl_ms is None else end_after(because.ttl_ms, clock)
    return [
        _change(FleetEntry(override._replace(end=end), scope), seen, because.ttl_ms)
        for override in overrides
    ]


def restores(
    keys: Iterable[Key], because: Because, *, seen: FleetReading, clock: Clock = SYSTEM
) -> list[Change]:
    """Return the tombstones that restore entries, also such as nobody knows of."""
    changes = []
    for target, name, kind, deployment, host in keys:
        override = _override(target, name, kind, "", because, clock)
        entry = FleetEntry(override, Scope(deployment, host), tombstone=True)
        changes.append(_change(entry, seen, None))
    return changes


def change_of(waiting: Waiting, clock: Clock = SYSTEM) -> Change:
    """Return the change that waits; of one that ends, what is left of its time."""
    left = left_ms(waiting.entry.override.end, clock)
    ttl_ms = None if left is None else max(1, round(left))
    return Change(waiting.id, waiting.entry, waiting.expected, ttl_ms)


async def submit(
    engine: Engine, change: Change, *, overtakes: Callable[[Change], None] | None = None
) -> Submitted:
    """Write a change. A kill is written on top of whatever came between; anything else is not.

    Args:
        engine: a connection to the server.
        change: the change.
        overtakes: called with a kill before it is written on top of something that came between.

    Raises:
        FleetUnavailable: whether it was written is not known; ask again with the same change.
    """
    for _ in range(_ATTEMPTS):
        outcome = await engine.change(change)
        if outcome.accepted:
            return Submitted(change, outcome)
        if not change.entry.is_kill or outcome.current is None:
            return Submitted(change, outcome, _refusal(change, outcome.current))
        change = replace(change, expected=outcome.current.position)
        if overtakes is not None:
            overtakes(change)
    return Submitted(change, None, "it is changed faster than this change can be made")


def _override(
    target: str, name: str, kind: str, value: str, because: Because, clock: Clock
) -> Override:
    return Override(
        os.urandom(6).hex(),
        target,
        name,
        kind,
        value,
        because.reason,
        because.actor,
        because.incident,
        stamp(clock.wall()),
        store="fleet",
    )


def _change(entry: FleetEntry, seen: FleetReading, ttl_ms: int | None) -> Change:
    return Change(entry.override.id, entry, seen.expected(entry.key), ttl_ms)


def _refusal(change: Change, current: Item | None) -> str:
    name = excerpt(change.entry.override.name, 100)
    what = "restored" if change.entry.tombstone else "set"
    there = None if current is None else from_body(current.body)
    if there is None or isinstance(there, str):
        return f"{name} was not {what}: it was changed meanwhile"
    override = there.override
    did = "restored" if there.tombstone else {"kill": "killed"}.get(override.kind, "set")
    by = "" if override.actor is None else f" by {excerpt(override.actor, 100)}"
    return f"{name} was not {what}: it was {did} meanwhile{by}"
