"""What a process or a host knows of its fleet: entries, where they come from, and since when.

Also the two rules that time has a say in. *Freshness* is reckoned by whoever reads, from a stamp on
the clock that counts from boot: a process that was stopped cannot say of itself that it is fresh.
And an entry ends only at a moment at which what is known was fresh: without news it could have been
prolonged. Pure. Ground floor.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from relayconf.fleet.record import NOWHERE, FleetEntry, Position
from relayconf.overrides.ttl import End
from relayconf.state.clock import Clock, seconds_of

FRESH, STALE, BLIND = "fresh", "stale", "blind"

#: Where a kill stands that the server has lost.
HELD = "fleet.json"

#: A moment: the id of a boot, and milliseconds since it.
Moment = Tuple[str, int]


class Known(NamedTuple):
    """What is known of a fleet.

    Attributes:
        position: the change up to which it is known.
        entries: every entry and tombstone of the server.
        held: kills that were seen and that the server has lost. They stay in force.
        checked: the last moment at which this was all that there was.
        heartbeat_ms: how often whoever wrote this compares.
        lost: whether the server has lost everything, and what it held is held here.
        faults: what is wrong with entries that cannot be used.
        heard: a moment at which the server had the change up to which it is known: that of the
            answer.
        taken: the ids of the last changes that were taken in, also of those that others have
            replaced since. They belong to whoever took them in; no file has them.
    """

    position: Position = NOWHERE
    entries: Tuple[FleetEntry, ...] = ()
    held: Tuple[FleetEntry, ...] = ()
    checked: Optional[Moment] = None
    heartbeat_ms: int = 1000
    lost: bool = False
    faults: Tuple[str, ...] = ()
    heard: Optional[Moment] = None
    taken: Tuple[str, ...] = ()

    def age_ms(self, clock: Clock) -> Optional[int]:
        """Return how long ago this was known to be all; ``None`` where that cannot be told."""
        if self.checked is None or self.checked[0] != clock.boot_id():
            return None
        return max(0, clock.boot_ms() - self.checked[1])

    def is_fresh(self, clock: Clock) -> bool:
        """Whether it is at most two heartbeats behind the server."""
        age = self.age_ms(clock)
        return age is not None and age <= 2 * self.heartbeat_ms and not self.lost

    def freshness(self, clock: Clock, blind_after_ms: int, since: Optional[Moment] = None) -> str:
        """Return ``fresh``, ``stale`` or ``blind``.

        Args:
            clock: of this host.
            blind_after_ms: how old it may be before nobody can go by it.
            since: when somebody began to look, who cannot be blind at once.
        """
        if self.is_fresh(clock):
            return FRESH
        if self.checked is None and since is None:
            # Nobody has looked yet, so nobody can say for how long there was nothing to see.
            return STALE
        ages = [self.age_ms(clock)]
        if since is not None and since[0] == clock.boot_id():
            ages.append(max(0, clock.boot_ms() - since[1]))
        known = [age for age in ages if age is not None]
        return STALE if known and min(known) <= blind_after_ms else BLIND

    def has_ended(self, end: Optional[End], clock: Clock) -> bool:
        """Whether an end has come, and come while this was fresh."""
        if end is None or self.checked is None or self.checked[0] != clock.boot_id():
            return False
        if end.boot and end.boot == self.checked[0]:
            freshest = self.checked[1] + 2 * self.heartbeat_ms
            return end.boot_ms <= min(clock.boot_ms(), freshest)
        seconds = seconds_of(end.at)
        return self.is_fresh(clock) and seconds is not None and seconds <= clock.wall()

    @property
    def latest_ms(self) -> int:
        """The server's time of the newest entry that was ever seen."""
        return max((entry.at_ms for entry in (*self.entries, *self.held)), default=0)

    def in_force(self, clock: Clock) -> Tuple[FleetEntry, ...]:
        """Return the entries that have not ended and are no tombstones; held kills come last."""
        found = [entry for entry in self.entries if not entry.tombstone]
        lost = [e._replace(override=e.override._replace(store=HELD)) for e in self.held]
        found.extend(lost)
        return tuple(e for e in found if not self.has_ended(e.override.end, clock))


UNKNOWN = Known()


def settles(entry: FleetEntry, kill: FleetEntry) -> bool:
    """Whether a kill that was seen needs no holding, since a server has this for its key.

    It is the kill itself, or was written after it. Revisions say nothing about that: a server that
    came back from an older copy counts on from there, so that an older entry may have the higher
    one. Its time does not go back within one history, nor behind what whoever writes has seen
    (``Change.after_ms``).
    """
    if entry.at_ms == kill.at_ms:
        return entry.override.id == kill.override.id
    return entry.at_ms > kill.at_ms


def both(one: FleetEntry, other: FleetEntry) -> FleetEntry:
    """Return the kill that two lost ones for one key amount to: the longer, and as new as both."""
    longer = one if outlasts(one, other) else other
    return longer._replace(at_ms=max(one.at_ms, other.at_ms))


def outlasts(one: FleetEntry, other: FleetEntry) -> bool:
    """Whether an entry is in force at least as long as another one."""
    mine, theirs = one.override.end, other.override.end
    if mine is None or theirs is None:
        return mine is None
    if mine.boot and mine.boot == theirs.boot:
        return mine.boot_ms >= theirs.boot_ms
    return (seconds_of(mine.at) or 0) >= (seconds_of(theirs.at) or 0)
