"""Changes that have just left a host's queue: in force here until the fleet is known to have them.

Whoever brings a change to the server takes it off the queue at once, and a process may see that
before the change itself arrives. Without this a kill would be out of force for that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from relayconf.fleet.known import Known
from relayconf.fleet.record import Key
from relayconf.fleet.waiting import Queue, Waiting
from relayconf.state.clock import SYSTEM, Clock


class Lingering:
    """What one process has seen wait, and what it still goes by. Not safe across threads.

    Args:
        clock: of this host.
    """

    def __init__(self, *, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._waiting: dict[str, Waiting] = {}
        self._gone: dict[str, tuple[Waiting, int]] = {}
        self._lost: dict[str, Waiting] = {}
        self._replaced: set[str] = set()

    @property
    def lost(self) -> tuple[Waiting, ...]:
        """The kills that left the queue and that the server has lost before they arrived here."""
        return tuple(self._lost.values())

    def release(self, changes: Collection[Waiting]) -> None:
        """Let go of lost kills that are held elsewhere from now on."""
        for change in changes:
            self._lost.pop(change.id, None)

    def take(self, queue: Queue, known: Known) -> Queue:
        """Return a queue with what has left it and is not settled yet, before what still waits.

        A change is settled once it was taken in from the server, whatever has replaced it since;
        once a later one of this host for the same entry was taken in, since it may have been
        refused, and a snapshot shows the last one alone; or where it is off the queue, once a
        comparison that was asked for afterwards has found that what is known is all: then the
        server's word counts. A kill that had acted and in whose place the server still has what
        the kill was made in view of is lost there, and stays.

        One that is what is known of its entry is there, too: what waits behind it builds upon it.

        Args:
            queue: as it is now, read after what is known.
            known: of the fleet.
        """
        boot, now = self._clock.boot_id(), self._clock.boot_ms()
        waits = {change.id: change for change in queue.changes}
        for name, change in self._waiting.items():
            self._gone.setdefault(name, (change, now))
        self._waiting = waits
        self._gone = {name: left for name, left in self._gone.items() if name not in waits}
        changes = (*(change for change, _ in self._gone.values()), *queue.changes)
        taken = set(known.taken)
        kept = self._replaced.intersection(change.id for change in changes)
        self._replaced = kept | _before(changes, lambda change: change.id in taken)
        settled = taken | self._replaced
        restored = _before(changes, lambda change: change.entry.tombstone)
        checked = -1 if known.checked is None or known.checked[0] != boot else known.checked[1]
        for change in [change for change, since in self._gone.values() if checked > since]:
            del self._gone[change.id]
            if change.id not in settled | restored and _is_lost(change, known):
                self._lost[change.id] = change
        lingers = (change for change, _ in self._gone.values())
        changes = (*self._lost.values(), *lingers, *queue.changes)
        settled -= {entry.override.id for entry in known.entries}
        return queue._replace(changes=tuple(c for c in changes if c.id not in settled))


def _before(changes: Sequence[Waiting], holds: Callable[[Waiting], bool]) -> set[str]:
    """Return the ids of those that were made before one of the same entry of which something holds.

    Args:
        changes: in the order in which they were made.
        holds: what.
    """
    found: set[str] = set()
    keys: set[Key] = set()
    for change in reversed(changes):
        if change.entry.key in keys:
            found.add(change.id)
        if holds(change):
            keys.add(change.entry.key)
    return found


def _is_lost(change: Waiting, known: Known) -> bool:
    """Whether a kill that left the queue is not on the server, and nothing in its place."""
    there = [entry for entry in known.entries if entry.key == change.entry.key]
    seen = change.expected[:2]
    return change.entry.is_kill and all((e.epoch, e.revision) == seen for e in there)
