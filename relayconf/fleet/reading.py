"""What the fleet says to this host, now: what is known, with the host's own waiting changes on top.

A process that follows its fleet hands over what it knows itself; everybody else reads the last good
file. Nothing here talks to a server, nothing raises, and what is wrong is a problem. Ground floor.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple

from relayconf.errors import StateError
from relayconf.fleet import lastgood, waiting
from relayconf.fleet.known import BLIND, STALE, UNKNOWN, Known, Moment
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.record import NOWHERE, FleetEntry, Key, Position
from relayconf.overrides.ttl import left_ms
from relayconf.problems import Problem
from relayconf.state.clock import SYSTEM, Clock
from relayconf.state.directory import find
from relayconf.values import excerpt

#: A process that starts without news of the fleet is no news, for so long.
_FIRST_ANSWER_MS = 3000


class FleetReading(NamedTuple):
    """What the fleet says.

    Attributes:
        position: the change up to which the fleet is known.
        entries: everything in force, for whichever deployment and host.
        freshness: ``fresh``, ``stale`` or ``blind``.
        pending: the ids of this host's changes that are in force here and wait for the server.
        problems: what a person should hear of.
        latest: what stands at the server for each key, tombstones too: what a change of it has to
            be in view of.
    """

    position: Position = NOWHERE
    entries: Tuple[FleetEntry, ...] = ()
    freshness: str = BLIND
    pending: Tuple[str, ...] = ()
    problems: Tuple[Problem, ...] = ()
    latest: Tuple[FleetEntry, ...] = ()

    def __repr__(self) -> str:
        entries = f"{len(self.entries)} entries"
        return f"FleetReading({tuple(self.position)!r}, {self.freshness!r}, {entries})"

    def expected(self, key: Key) -> Position:
        """Return the position of the entry that a change of some key is made in view of."""
        for entry in self.latest:
            if entry.key == key:
                return Position(entry.epoch, entry.revision)
        return NOWHERE


NOTHING = FleetReading(freshness=STALE)


def read_fleet(
    path: Optional[str],
    options: FleetOptions,
    *,
    group: Optional[str] = None,
    clock: Clock = SYSTEM,
    since: Optional[Moment] = None,
    for_owner: bool = False,
) -> FleetReading:
    """Read what this host knows of its fleet, from its state directory alone.

    Args:
        path: the state directory; with ``None`` there is nothing to read.
        options: how the fleet is reached, and when nobody can go by it any more.
        group: the group that shares the directory.
        clock: freshness and ends are reckoned by it.
        since: when a process began, which cannot be blind at once.
        for_owner: see ``relayconf.state.directory.find``.
    """
    known, queue, faults = read_files(path, group=group, for_owner=for_owner)
    return reading_of(known, queue, options, clock=clock, since=since, faults=faults)


def read_files(
    path: Optional[str], *, group: Optional[str] = None, for_owner: bool = False
) -> Tuple[Known, waiting.Queue, Tuple[str, ...]]:
    """Return what stands in a state directory, and what is wrong with it."""
    if path is None:
        return UNKNOWN, waiting.EMPTY, ()
    try:
        directory = find(path, group=group, for_owner=for_owner)
    except StateError:
        # Whoever reads the overrides beside it says so already.
        return UNKNOWN, waiting.EMPTY, ()
    if directory is None:
        return UNKNOWN, waiting.EMPTY, ()
    try:
        known, fault = lastgood.read(directory)
        return known, waiting.read(directory), () if fault is None else (fault,)
    finally:
        directory.close()


def reading_of(
    known: Known,
    queue: waiting.Queue,
    options: FleetOptions,
    *,
    clock: Clock = SYSTEM,
    since: Optional[Moment] = None,
    faults: Tuple[str, ...] = (),
) -> FleetReading:
    """Return what follows from what is known, and from the changes that wait on this host.

    Args:
        known: of the fleet.
        queue: the changes.
        options: how the fleet is reached.
        clock: of this host.
        since: when somebody began to follow, who is not blind at once.
        faults: what was wrong with files.
    """
    there = {entry.override.id for entry in known.entries}
    pending = [each for each in queue.changes if each.id not in there]
    freshness = known.freshness(clock, options.blind_after_ms, since)
    problems = list(_problems(known, freshness, options))
    if freshness == STALE and not known.lost and not _has_just_begun(since, clock):
        text = "what is known of the fleet may be behind: its server was not heard of in time"
        problems.append(_problem("fleet-stale", text))
    problems.extend(_problem("fleet-damaged", fault) for fault in faults)
    problems.extend(
        _problem("fleet-damaged", f"{waiting.NAME}: a change cannot be used: {fault}")
        for fault in queue.faults
    )
    if pending:
        names = ", ".join(sorted({excerpt(each.entry.override.name, 100) for each in pending}))
        text = (
            f"{len(pending)} change(s) wait for the fleet's server, in force on this host: {names}"
        )
        problems.append(_problem("fleet-pending", text))
    return FleetReading(
        known.position,
        _overlaid(known.in_force(clock), pending, clock),
        freshness,
        tuple(each.id for each in pending),
        tuple(problems),
        known.entries,
    )


def next_end_ms(reading: FleetReading, clock: Clock) -> Optional[float]:
    """Return the milliseconds until the next entry ends; ``None`` where none does."""
    lefts = (left_ms(entry.override.end, clock) for entry in reading.entries)
    coming = [left for left in lefts if left is not None and left > 0]
    return min(coming) if coming else None


def _overlaid(
    entries: Tuple[FleetEntry, ...], pending: List[waiting.Waiting], clock: Clock
) -> Tuple[FleetEntry, ...]:
    """Put what waits on top: the last change of a key counts, and a tombstone takes it away."""
    if not pending:
        return entries
    own: Dict[Key, FleetEntry] = {each.entry.key: each.entry for each in pending}
    kept = [entry for entry in entries if entry.key not in own]
    for entry in own.values():
        left = left_ms(entry.override.end, clock)
        if not entry.tombstone and (left is None or left > 0):
            kept.append(entry)
    return tuple(kept)


def _problems(known: Known, freshness: str, options: FleetOptions) -> List[Problem]:
    problems: List[Problem] = []
    if options.fault is not None:
        problems.append(_problem("fleet-unavailable", options.fault))
    if known.lost:
        text = (
            "the fleet's server has lost everything that it held; this host goes on by what it "
            f"knows ({len(known.entries)} entries): make the kills that you need again"
        )
        problems.append(_problem("fleet-lost", text))
    for held in known.held:
        override = held.override
        text = (
            f"the kill of {excerpt(override.name, 100)} ({excerpt(override.target, 100)}) is in "
            "force here, and the fleet's server has lost it: kill it again, or restore it"
        )
        problems.append(
            Problem("fleet-held", excerpt(override.name, 100), text, override.origin, raw=text)
        )
    problems.extend(
        _problem("fleet-quarantined", f"an entry cannot be used and is passed over: {fault}")
        for fault in known.faults
    )
    if freshness == BLIND:
        text = "nothing was heard of the fleet's server for too long; what is known stays in force"
        problems.append(_problem("fleet-blind", text))
    return problems


def _has_just_begun(since: Optional[Moment], clock: Clock) -> bool:
    """Whether somebody began to look so lately that there may not have been an answer yet."""
    if since is None or since[0] != clock.boot_id():
        return False
    return clock.boot_ms() - since[1] < _FIRST_ANSWER_MS


def _problem(code: str, text: str) -> Problem:
    return Problem(code, "fleet", text, raw=text)
