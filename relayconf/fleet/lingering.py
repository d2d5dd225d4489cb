"""Changes that have just left a host's queue: in force here until the fleet is known to have them.

Whoever brings a change to the server takes it off the queue at once, and a process may see that
before the change itself arrives. Without this a kill would be out of force for that moment.
"""

from __future__ import annotations

from collections.abc import Collection, Container

from relayconf.fleet.known import Known
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

    @property
    def lost(self) -> tuple[Waiting, ...]:
        """The kills that left the queue and that the server has lost before they arrived here."""
        return tuple(self._lost.values())

    def release(self, changes: Collection[Waiting]) -> None:
        """Let go of lost kills that are held elsewhere from now on."""
        for change in changes:
            self._lost.pop(change.id, None)

    def take(self, queue: Queue, known: Known, taken: Container[str] = ()) -> Queue:
        """Return a queue with what has left it and is not settled yet, in its old place.

        A change is settled once it was taken in from the server, whatever has replaced it since; or
        where it is off the queue, once a comparison that was asked for afterwards has found that
        what is known is all: then the server's word counts. A kill that had acted and in whose
        place the server still has what the kill was made in view of is lost there, and stays.

        Args:
            queue: as it is now.
            known: of the fleet.
            taken: the ids of changes that were taken in.
        """
        boot, now = self._clock.boot_id(), self._clock.boot_ms()
        there = {change.id: change for change in queue.changes}
        for name, change in self._waiting.items():
            if name not in there:
                self._gone.setdefault(name, (change, now))
        self._waiting = there
        checked = -1 if known.checked is None or known.checked[0] != boot else known.checked[1]
        gone = {name: change for name, (change, _) in self._gone.items()}
        for name, (change, since) in self._gone.items():
            over = checked > since and name not in there and name not in taken
            if over and _is_lost(change, known, (*gone.values(), *queue.changes)):
                self._lost[name] = change
        self._gone = {
            name: (change, since)
            for name, (change, since) in self._gone.items()
            if checked <= since and name not in there
        }
        lingers = (change for change, _ in self._gone.values())
        changes = (*self._lost.values(), *lingers, *queue.changes)
        return queue._replace(changes=tuple(c for c in changes if c.id not in taken))


def _is_lost(change: Waiting, known: Known, others: Collection[Waiting]) -> bool:
    """Whether a kill that left the queue is not on the server, and nothing in its place.

    Args:
        change: the kill.
        known: of the fleet.
        others: what left with it or still waits; a restore among them takes it away.
    """
    key = change.entry.key
    if not change.entry.is_kill or any(o.entry.tombstone and o.entry.key == key for o in others):
        return False
    there = [entry for entry in known.entries if entry.key == key]
    return all((entry.epoch, entry.revision) == change.expected[:2] for entry in there)
