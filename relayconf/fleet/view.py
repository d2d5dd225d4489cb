"""The view: what one process knows of its fleet, and what each answer of the server makes of it.

A machine without any I/O. It is told what the server answered and when it was asked, and says what
to ask next. What it guarantees, whatever the server does:

* no kill that was ever seen leaves without a tombstone that is newer, a newer kill in its place, or
  its own end;
* ``known.checked`` is a moment at which what is known was all that the server had taken.

An empty server clears nothing. Another epoch, a lower revision, or another head under the same
revision is another history: its values count, and the kills of the old one stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import Enum

from relayconf.fleet.engine import Item, Snapshot, Standing
from relayconf.fleet.known import UNKNOWN, Known, Moment, both, settles
from relayconf.fleet.record import FleetEntry, Key, Position, from_body
from relayconf.overrides.ttl import End
from relayconf.state.clock import SYSTEM, Clock, stamp

#: More than that are not told of.
_MOST_FAULTS = 20

#: How many ids of changes are remembered, at least.
_MOST_TAKEN = 2000


class Next(Enum):
    """What the server is to be asked next."""

    SNAPSHOT = "snapshot"
    FOLLOW = "follow"


class View:
    """What one process knows.

    Args:
        known: what was known before, from the last good file.
        clock: of this host.

    Attributes:
        known: what is known now.
        remarks: what a person should hear of once, since ``remarked`` was called last.
    """

    def __init__(self, known: Known = UNKNOWN, *, heartbeat_ms: int, clock: Clock = SYSTEM) -> None:
        self.known = known._replace(heartbeat_ms=heartbeat_ms)
        self.remarks: list[str] = []
        self._clock = clock
        # What the server has yet to be followed to, and the moment from which that will be all.
        self._aim: tuple[int, Moment] | None = None
        # The server's milliseconds less those since boot, as of its last answer.
        self._offset: int | None = None

    def begin(self, known: Known) -> None:
        """Begin with what a last good file says."""
        self.known = known._replace(heartbeat_ms=self.known.heartbeat_ms)

    def moment(self) -> Moment:
        """Return the moment that it is: to be noted before the server is asked."""
        return self._clock.boot_id(), self._clock.boot_ms()

    def remarked(self) -> list[str]:
        """Return the remarks, and forget them."""
        remarks, self.remarks = self.remarks, []
        return remarks

    def take_snapshot(self, snapshot: Snapshot, asked: Moment) -> None:
        """Take in the whole state of the server.

        Args:
            snapshot: the answer.
            asked: the moment before the question.
        """
        self._aim = None
        self._set_time(snapshot.standing)
        ours, theirs = self.known.position, snapshot.standing.position
        if not theirs.epoch:
            self._find_empty(asked)
            return
        entries, faults = self._judged(snapshot.items)
        if ours.epoch and self._is_other_history(snapshot):
            self.remarks.append(_other_history(ours, theirs))
        seen = [entry for entry in self.known.entries if entry.is_kill]
        held = self._held(entries, [*self.known.held, *seen])
        self.known = self.known._replace(
            position=theirs,
            entries=tuple(entries.values()),
            held=held,
            checked=asked,
            lost=False,
            faults=tuple(faults),
            heard=self.moment(),
            taken=self._taken(entries.values()),
        )

    def take(self, items: Sequence[Item]) -> Next:
        """Take in changes. Where one is not the very next one, ask for a snapshot."""
        for item in items:
            ours, theirs = self.known.position, item.position
            if theirs.epoch != ours.epoch or theirs.revision != ours.revision + 1:
                return Next.SNAPSHOT
            if item.previous != ours.head:
                return Next.SNAPSHOT
            self._take_one(item)
        aim = self._aim
        if aim is not None and self.known.position.revision >= aim[0]:
            self._aim = None
            self._check(aim[1])
        return Next.FOLLOW

    def compare(self, standing: Standing, asked: Moment) -> Next:
        """Compare with where the server stands.

        Args:
            standing: the answer.
            asked: the moment before the question.
        """
        self._set_time(standing)
        ours, theirs = self.known.position, standing.position
        if not theirs.epoch:
            self._find_empty(asked)
            return Next.FOLLOW
        if theirs.epoch != ours.epoch or theirs.revision < ours.revision or self.known.lost:
            return Next.SNAPSHOT
        if theirs.revision > ours.revision:
            # The stream is followed first; one that has not led there since has been cut short.
            if self._aim is not None:
                return Next.SNAPSHOT
            self._aim = (theirs.revision, asked)
            return Next.FOLLOW
        if theirs.head != ours.head:
            return Next.SNAPSHOT
        self._aim = None
        self._check(asked)
        return Next.FOLLOW

    def absorb(self, known: Known) -> None:
        """Take over the kills that another process of this host has seen."""
        entries = {entry.key: entry for entry in self.known.entries}
        seen = [entry for entry in known.entries if entry.is_kill]
        held = self._held(entries, [*self.known.held, *known.held, *seen])
        self.known = self.known._replace(held=held)

    def _check(self, moment: Moment) -> None:
        before = self.known.checked
        if before is None or before[0] != moment[0] or before < moment:
            self.known = self.known._replace(checked=moment)

    def _find_empty(self, asked: Moment) -> None:
        if self.known.position.epoch:
            if not self.known.lost:
                self.remarks.append("the fleet's server is empty; what it held is held here")
            self.known = self.known._replace(lost=True)
        else:
            self._check(asked)

    def _is_other_history(self, snapshot: Snapshot) -> bool:
        ours, theirs = self.known.position, snapshot.standing.position
        if theirs.epoch != ours.epoch or theirs.revision < ours.revision:
            return True
        if theirs.revision == ours.revision:
            return theirs.head != ours.head
        return snapshot.continues is False

    def _take_one(self, item: Item) -> None:
        entry = self._judge(item)
        position, heard = item.position, self.moment()
        if isinstance(entry, str):
            faults = tuple(dict.fromkeys((*self.known.faults, entry)))[-_MOST_FAULTS:]
            self.known = self.known._replace(position=position, faults=faults, heard=heard)
            return
        entries = {each.key: each for each in self.known.entries}
        entries.pop(entry.key, None)
        entries[entry.key] = entry
        held = tuple(
            each for each in self.known.held if each.key != entry.key or not settles(entry, each)
        )
        everything = tuple(entries.values())
        taken = self._taken([entry])
        # In one step: who reads it in another thread never finds a change taken in and not there.
        self.known = self.known._replace(
            position=position, entries=everything, held=held, heard=heard, taken=taken
        )

    def _taken(self, entries: Collection[FleetEntry]) -> tuple[str, ...]:
        """Return the ids of the changes that were taken in, with those that are taken in now."""
        ids = dict.fromkeys((*self.known.taken, *(entry.override.id for entry in entries)))
        most = max(_MOST_TAKEN, len(self.known.entries), len(entries))
        return tuple(ids)[-most:]

    def _held(
        self, entries: dict[Key, FleetEntry], kills: Iterable[FleetEntry]
    ) -> tuple[FleetEntry, ...]:
        """Return those of some kills that a state does not settle: one for each key."""
        held: dict[Key, FleetEntry] = {}
        for kill in kills:
            if self.known.has_ended(kill.override.end, self._clock):
                continue
            there = entries.get(kill.key)
            if there is not None and settles(there, kill):
                continue
            other = held.get(kill.key)
            held[kill.key] = kill if other is None else both(other, kill)
        return tuple(held.values())

    def _judged(self, items: Iterable[Item]) -> tuple[dict[Key, FleetEntry], list[str]]:
        entries: dict[Key, FleetEntry] = {}
        faults: list[str] = []
        for item in sorted(items, key=lambda item: item.position.revision):
            entry = self._judge(item)
            if isinstance(entry, str):
                faults.append(entry)
            else:
                entries[entry.key] = entry
        return entries, faults

    def _judge(self, item: Item) -> FleetEntry | str:
        entry = from_body(item.body)
        if isinstance(entry, str):
            return entry
        entry = entry._replace(
            revision=item.position.revision, epoch=item.position.epoch, at_ms=item.at_ms
        )
        end = None if entry.tombstone else self._end(entry, item.expires_ms)
        return entry._replace(override=entry.override._replace(end=end))

    def _end(self, entry: FleetEntry, expires_ms: int | None) -> End | None:
        """Reckon an end on this host's clocks, once: the server's clock may be set meanwhile."""
        if expires_ms is None:
            return None
        boot, now_ms = self.moment()
        for before in self.known.entries:
            if before.key == entry.key and before.override.id == entry.override.id:
                end = before.override.end
                if end is not None and end.boot == boot:
                    return end
        offset = round(self._clock.wall() * 1000) - now_ms if self._offset is None else self._offset
        at = stamp(expires_ms / 1000)
        return End(at, boot, max(0, expires_ms - offset)) if boot else End(at)

    def _set_time(self, standing: Standing) -> None:
        self._offset = standing.time_ms - self._clock.boot_ms()


def _other_history(ours: Position, theirs: Position) -> str:
    what = "another history" if theirs.epoch != ours.epoch else "an older state"
    return (
        f"the fleet's server has come back with {what} (revision {theirs.revision}, and "
        f"{ours.revision} was known here); kills that it has lost stay in force on this host"
    )
