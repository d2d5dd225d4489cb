"""What the fleet says to this host, now: what is known, with the host's own waiting changes on top.

A process that follows its fleet hands over what it knows itself; everybody else reads the last good
file. Nothing here talks to a server, nothing raises, and what is wrong is a problem. Ground floor.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from relayconf.errors import StateError
from relayconf.fleet import lastgood, waiting
from relayconf.fleet.known import BLIND, STALE, UNKNOWN, Known, Moment
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.record import NOWHERE, FleetEntry, Key, Position
from relayconf.overrides.ttl import is_over, left_ms
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
        pending: the ids of this host's changes that count here and wait for the server; not those
            that others have overtaken.
        problems: what a person should hear of.
        latest: what stands at the server for each key, tombstones too: what a change of it has to
            be in view of.
        waits: the changes of ``pending``.
    """

    position: Position = NOWHERE
    entries: Tuple[FleetEntry, ...] = ()
    freshness: str = BLIND
    pending: Tuple[str, ...] = ()
    problems: Tuple[Problem, ...] = ()
    latest: Tuple[FleetEntry, ...] = ()
    waits: Tuple[waiting.Waiting, ...] = ()

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
    waits = _weigh(known, queue.changes, clock)
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
    for changes, what in (
        (waits.pending, "in force on this host"),
        (waits.overtaken, "not in force, since others have changed the same meanwhile"),
    ):
        if changes:
            names = ", ".join(sorted({excerpt(w.entry.override.name, 100) for w in changes}))
            text = f"{len(changes)} change(s) wait for the fleet's server, {what}: {names}"
            problems.append(_problem("fleet-pending", text))
    return FleetReading(
        known.position,
        _overlaid(known.in_force(clock), waits.on_top),
        freshness,
        tuple(each.id for each in waits.pending),
        tuple(problems),
        known.entries,
        tuple(waits.pending),
    )


def next_end_ms(reading: FleetReading, clock: Clock) -> Optional[float]:
    """Return the milliseconds until the next entry ends; ``None`` where none does."""
    lefts = (left_ms(entry.override.end, clock) for entry in reading.entries)
    coming = [left for left in lefts if left is not None and left > 0]
    return min(coming) if coming else None


class _Weighed(NamedTuple):
    """What waits, by what it means here.

    Attributes:
        on_top: what is put on top of what is known, by key; a tombstone takes away what is there.
        pending: the changes that count.
        overtaken: those that do not.
    """

    on_top: Dict[Key, FleetEntry]
    pending: List[waiting.Waiting]
    overtaken: List[waiting.Waiting]


def _weigh(known: Known, changes: Tuple[waiting.Waiting, ...], clock: Clock) -> _Weighed:
    """Weigh what waits as the server will: the last change of a key counts, and a kill always.

    A value or a restore counts where it was made in view of what is known, or builds upon a change
    that was. Elsewhere it takes back what this host has changed itself, and nothing else: whoever
    is told up to where this process follows takes it for one that goes by all of that.
    """
    there = {entry.key: entry for entry in known.entries}
    weighed = _Weighed({}, [], [])
    built: Set[Key] = set()
    for change in changes:
        key, entry = change.entry.key, there.get(change.entry.key)
        if entry is not None and entry.override.id == change.id:
            # The server has it already; what waits behind it builds upon it.
            built.add(key)
            weighed.on_top.pop(key, None)
            continue
        if entry is None or change.expected[:2] == (entry.epoch, entry.revision):
            built.add(key)
        counts = key in built or change.entry.is_kill
        (weighed.pending if counts else weighed.overtaken).append(change)
        if is_over(change.entry.override.end, clock):
            # It never gets to the server, and what it was to replace stays.
            continue
        if counts:
            weighed.on_top[key] = change.entry
        else:
            weighed.on_top.pop(key, None)
    return weighed


def _overlaid(
    entries: Tuple[FleetEntry, ...], on_top: Dict[Key, FleetEntry]
) -> Tuple[FleetEntry, ...]:
    kept = [entry for entry in entries if entry.key not in on_top]
    return (*kept, *(entry for entry in on_top.values() if not entry.tombstone))


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
