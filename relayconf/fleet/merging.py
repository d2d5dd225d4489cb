"""Merging: what was changed on a host while the fleet's server was away gets there, in its order.

Anybody may do it, several at once and again and again: a change keeps its id, and the server gives
it one effect. What waits behind a change of the same entry builds upon it, unless that had to be
written on top of what its author could not know of: a restore that was made behind it gives way.
"""

from __future__ import annotations

from dataclasses import replace

from relayconf.fleet.changing import Submitted, change_of, submit
from relayconf.fleet.engine import Engine
from relayconf.fleet.pending import Pending
from relayconf.fleet.record import Position
from relayconf.fleet.waiting import Waiting
from relayconf.overrides.ttl import is_over
from relayconf.state.clock import SYSTEM, Clock


async def merge(
    engine: Engine, pending: Pending, latest_ms: int, *, clock: Clock = SYSTEM
) -> list[Submitted]:
    """Bring every change that waits to the server.

    Args:
        engine: a connection to it.
        pending: the host's queue.
        latest_ms: ``Known.latest_ms``, as far as this host has seen.
        clock: of this host.

    Returns:
        What became of each, in their order. One that had ended meanwhile is not among them.

    Raises:
        FleetUnavailable: the rest still waits.
        OSError: the queue cannot be written; what has been merged is merged again, to no effect.
    """
    done: list[Submitted] = []
    while queue := pending.read():
        change = queue[0]
        if is_over(change.entry.override.end, clock):
            pending.remove([change.id])
            continue
        submitted = await submit(
            engine,
            replace(change_of(change, clock), after_ms=latest_ms),
            overtakes=pending.overtake,
        )
        done.append(submitted)
        take_off(pending, change, submitted)
        if any(each.id == change.id for each in pending.read()):
            # Whoever cannot write the queue would go on with the same change for ever.
            break
    return done


def take_off(pending: Pending, change: Waiting, submitted: Submitted) -> None:
    """Take a change off that the server has answered for; what waits behind it builds upon it.

    Raises:
        OSError: the queue cannot be written; it is still on it.
    """
    outcome = submitted.outcome
    if submitted.refused is None and outcome is not None:
        epoch = outcome.standing.position.epoch
        pending.settle(change, Position(epoch, outcome.revision))
    else:
        pending.remove([change.id])
