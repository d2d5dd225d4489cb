"""The engine protocol: what a fleet needs of its store, and the records that pass.

An engine is a connection and nothing else: it keeps no state of the fleet, retries nothing, and
decides nothing. What a process makes of the answers is decided in ``relayconf.fleet.view``; any
implementation is held to this text by ``relayconf.fleet.conformance``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from relayconf.fleet.record import NOWHERE, FleetEntry, Json, Key, Position

#: An instance that has not been heard of for so long has gone, in milliseconds.
GONE_AFTER_MS = 30_000


@dataclass(frozen=True, slots=True)
class Item:
    """An entry as the store holds it: judged later, so that a bad one spoils no other.

    Attributes:
        body: what it says, as JSON; anything at all where somebody else wrote it.
        position: the change that made it. ``head`` is empty where the store does not say.
        previous: the head before that change; empty where the store does not say.
        at_ms: when, in milliseconds since 1970 by the server's clock, never less than that of an
            earlier revision of the epoch.
        expires_ms: when it ends, on the same clock; ``None`` for never.
    """

    body: Any
    position: Position
    previous: str = ""
    at_ms: int = 0
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a store stands, and the server's time in milliseconds since 1970.

    A position with an empty epoch is that of an empty store.
    """

    position: Position
    time_ms: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state of a store at one instant.

    Attributes:
        standing: where it stands.
        items: every entry and tombstone, in no order.
        continues: whether this is the history that the asker knew; ``None`` where the store does
            not reach back so far.
    """

    standing: Standing
    items: tuple[Item, ...]
    continues: bool | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One entry to be written.

    Attributes:
        id: names the change for ever: 1 to 64 of ``0-9 A-Z a-z _ -``. One that a store has seen
            has no second effect.
        entry: what it writes; ``override.id`` is the change's id, ``end`` counts for nothing.
        expected: the position of the entry that it was made in view of: epoch and revision;
            ``NOWHERE`` where none was known. The change is in conflict where the store holds an
            entry of that key with another revision or of another epoch.
        ttl_ms: after how many milliseconds the entry ends by itself, if ever.
        after_ms: the server's time of the newest entry that whoever writes this has seen
            (``Known.latest_ms``). The store gives the change a later one, whatever its clock says,
            so that a restore is newer than the kill that it is for.
    """

    id: str
    entry: FleetEntry
    expected: Position = NOWHERE
    ttl_ms: int | None = None
    after_ms: int = 0


@dataclass(frozen=True, slots=True)
class Durability:
    """How safe an accepted change was when its answer came.

    Attributes:
        replicas: how many replicas had it; ``None`` where the store cannot say.
        on_disk: whether the server had it on disk; ``None`` where it cannot say.
    """

    replicas: int | None = None
    on_disk: bool | None = None

    def text(self) -> str:
        """Return it as one phrase for a person."""
        disk = {True: "on disk", False: "not yet on disk", None: "in memory"}[self.on_disk]
        return disk if self.replicas is None else f"{disk}, {self.replicas} replica(s)"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a change.

    Attributes:
        accepted: whether it stands. ``False`` is a conflict: nothing was written.
        repeated: whether the store had seen it before; the answer is the earlier one's.
        standing: where the store stands now.
        revision: the revision of the change, 0 for a conflict.
        current: the entry that was in the way of a conflict.
        durability: of an accepted change.
    """

    accepted: bool
    repeated: bool
    standing: Standing
    revision: int
    current: Item | None = None
    durability: Durability = Durability()


@dataclass(frozen=True, slots=True)
class InstanceRecord:
    """What one process says of itself, and what it has applied.

    Attributes:
        id: the same as in the local ``instances/``.
        applied: the position in the fleet's history that it goes by, everything included.
        generation: the generation of the host's own overrides that it goes by.
        names: every setting that its contract declares, so that anybody can tell whom a change
            concerns.
        flags: its flags by name, each with ``value``, ``layer`` and ``status``.
        heartbeat_ms: how often it means to be heard of.
        restart_only: it took its settings at its start and never looks again.
        place: of the folder that holds its entry on its host; empty where it has none. Whoever has
            the same folder can tell that it has ended.
        age_ms: how long ago it was heard of, by the server's clock; filled in by the store.
    """

    id: str
    target: str
    host: str
    pid: int
    applied: Position
    generation: int = 0
    deployment: str | None = None
    contract: str = ""
    names: tuple[str, ...] = ()
    pending_restart: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    flags: dict[str, Any] = field(default_factory=dict)
    heartbeat_ms: int = 1000
    restart_only: bool = False
    place: str = ""
    age_ms: int = 0

    @property
    def gone(self) -> bool:
        """Whether it has not been heard of for so long that it counts as gone."""
        return self.age_ms > GONE_AFTER_MS

    def declares(self, target: str, name: str) -> bool:
        """Whether a setting is its business."""
        return target == self.target and name in self.names

    def has_applied(self, position: Position, name: str) -> bool:
        """Whether it goes by a change, for one setting.

        One that is in another epoch has not, as far as anybody can tell.
        """
        applied = self.applied.epoch == position.epoch
        there = applied and self.applied.revision >= position.revision
        return there and name not in self.pending_restart and name not in self.refused


class Engine(Protocol):
    """A connection to a fleet's store.

    Guaranteed:

    * Every call ends within its time limit: with a result, or with ``FleetUnavailable``.
    * A call after one that failed starts on a new connection.
    * ``change`` happens as a whole or not at all, one after the other, whoever asks.
    * ``snapshot`` shows one instant. ``follow`` yields changes in the order of their revisions.
    * No text of any error holds the password.

    Not guaranteed:

    * That a change whose call raised did not take place: repeat it under the same id.
    * That ``follow`` misses nothing: the store forgets old changes. Whoever follows checks that
      each is the next one, and takes a snapshot where it is not.
    * That an accepted change outlives the server: see ``Outcome.durability``.
    * That calls may run at the same time: one after the other, from one event loop.
    """

    async def snapshot(self, since: Position = NOWHERE) -> Snapshot:
        """Return the whole state.

        Args:
            since: the last position that was known, for ``Snapshot.continues``.

        Raises:
            FleetUnavailable: there is no answer that could be used.
        """

    async def follow(self, since: Position, timeout_ms: int) -> Sequence[Item]:
        """Wait for changes after a revision, at most so long, and return those that are there.

        Returns:
            As soon as there is any; nothing once the time is over. They may be of another epoch.

        Raises:
            FleetUnavailable: there is no answer that could be used.
        """

    async def change(self, change: Change) -> Outcome:
        """Write one entry, where it is not in conflict and was not written before.

        Raises:
            FleetUnavailable: whether it took place is not known.
            ValueError: its id cannot be one.
        """

    async def heartbeat(self, record: InstanceRecord) -> Standing:
        """Say what an instance has applied, and learn where the store stands.

        Raises:
            FleetUnavailable: there is no answer that could be used.
        """

    async def instances(self, *, silent_ms: int = 0) -> Sequence[InstanceRecord]:
        """Return every instance that was heard of within a day, those that are gone too.

        Args:
            silent_ms: leave out who was heard of later than so long ago.

        Raises:
            FleetUnavailable: there is no answer that could be used.
        """

    async def sign_off(self, instance: str) -> None:
        """Take an instance off the list.

        Raises:
            FleetUnavailable: it may still be on it.
        """

    async def audit(self, limit: int = ...) -> Sequence[Json]:
        """Return the last lines of the audit, the oldest first.

        Each has ``revision``, ``epoch``, ``at_ms``, ``expires_ms``, ``entry`` (the body), and
        ``prev`` and ``head`` of the chain; see ``relayconf.fleet.chain``.

        Raises:
            FleetUnavailable: there is no answer that could be used.
        """

    async def applied(self, limit: int = ...) -> Sequence[Json]:
        """Return what was applied last, and when, the oldest first.

        Each line has ``instance``, ``target``, ``host``, ``pid``, ``epoch``, ``revision``, and by
        the server's clock ``at_ms`` and ``took_ms`` (``None`` where that cannot be told). There is
        one for each heartbeat whose instance had applied more than at the one before.

        Raises:
            FleetUnavailable: there is no answer that could be used.
        """

    async def close(self) -> None:
        """Close the connection. Never raises; a later call opens another one."""


def concerned(
    instances: Sequence[InstanceRecord], keys: Sequence[Key]
) -> list[tuple[InstanceRecord, tuple[str, ...]]]:
    """Return the instances that some changed entries are for, each with the names of these."""
    found = []
    for record in instances:
        names = tuple(
            name
            for target, name, _, deployment, host in keys
            if record.declares(target, name)
            and deployment in (None, record.deployment)
            and host in (None, record.host)
        )
        if names:
            found.append((record, names))
    return found
