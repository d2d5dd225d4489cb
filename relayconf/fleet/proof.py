"""Proof across hosts: who has applied a change, who has not, and who cannot be asked any more.

Whoever was listed when the change was written has to apply it or to sign off. One that is silent
stays missing for as long as its store remembers it: silence is no proof. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from relayconf.fleet.engine import InstanceRecord, Standing, concerned
from relayconf.fleet.record import NOWHERE, Key, Position
from relayconf.instances.listing import Seen
from relayconf.instances.waiting import APPLIED, NOBODY, NOT_BY_ALL

#: Why somebody has not applied a change, as it is printed.
NOT_YET = "not yet applied"
SILENT = "not heard of for {age}; it may still run"
DEAD = "it died before it had applied it"
UNCONNECTED = "it has no connection to the fleet"
STARTED = "it took its settings at its start; restart it"
LOST = "the server has lost the change, or the instances"


@dataclass(frozen=True, slots=True)
class Witness:
    """One instance that a change concerns.

    Attributes:
        id: the instance's.
        why: why it does not count as having applied the change; empty where it does.
        gone: whether it has not been heard of for so long that it counts as gone, or is dead.
        age_ms: how long ago it was heard of.
        values: its flags by name, as it said them last.
    """

    id: str
    target: str
    host: str
    pid: int
    deployment: str | None = None
    position: Position = NOWHERE
    generation: int | None = None
    why: str = ""
    gone: bool = False
    age_ms: int = 0
    restart_only: bool = False
    values: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class FleetProof:
    """What is known about a change.

    Attributes:
        code: ``APPLIED``, ``NOT_BY_ALL`` or ``NOBODY``.
        witnesses: everybody whom it concerns, by host, target and process id.
        over: whether waiting longer cannot change the answer.
    """

    code: int
    witnesses: tuple[Witness, ...]
    over: bool = False

    @property
    def missing(self) -> tuple[Witness, ...]:
        """Those who have not applied it."""
        return tuple(witness for witness in self.witnesses if witness.why)


class Proving:
    """Gathers what is known about one command's changes, look by look.

    Args:
        keys: the entries that were changed.
        position: what an instance must have applied.
        lifted: targets and names that nothing overrides any more after the changes.
    """

    def __init__(
        self,
        keys: Sequence[Key],
        position: Position,
        *,
        lifted: Collection[tuple[str, str]] = (),
    ) -> None:
        self._keys = keys
        self._position = position
        self._lifted = lifted

    def look(
        self,
        records: Sequence[InstanceRecord],
        standing: Standing,
        live: Sequence[Seen],
        dead: Collection[str],
        *,
        settling: bool = False,
    ) -> FleetProof:
        """Return what is known now.

        Args:
            records: what the store lists, read before ``standing``.
            standing: where the store stands.
            live: the live instances of this host.
            dead: instances of this host that are known to be dead.
            settling: whether instances may not be back on the list yet.
        """
        found = {
            record.id: self._of_record(record, names, dead)
            for record, names in concerned(records, self._keys)
        }
        for seen in live:
            record = record_of(seen, records)
            if self._concerns(seen) and record is None:
                found[seen.id] = _of_seen(seen)
            frozen = [name for name in seen.frozen if (seen.target, name) in self._lifted]
            if frozen and record is not None and record.id in found:
                why = f"it waits for a restart: {', '.join(frozen)}"
                found[record.id] = replace(found[record.id], why=why)
        witnesses = _sorted(found.values())
        lost = not _holds(standing.position, self._position)
        missing = [witness for witness in witnesses if witness.why]
        if not witnesses and not settling and not lost:
            return FleetProof(NOBODY, ())
        code = NOT_BY_ALL if missing or settling or lost else APPLIED
        # The dead will never apply anything, and who never looks will not either.
        hopeless = bool(missing) and all(w.gone or w.restart_only for w in missing)
        return FleetProof(code, witnesses, over=lost or (hopeless and not settling))

    def here(self, live: Sequence[Seen], changes: Collection[str]) -> FleetProof:
        """Return what is known of this host alone, while the store cannot be asked.

        Args:
            live: the live instances of this host.
            changes: the ids of what waits for the store.
        """
        found = []
        for seen in live:
            if self._concerns(seen):
                witness = _of_seen(seen)
                if seen.fleet:
                    done = set(changes) <= set(seen.fleet.get("pending", ()))
                    witness = replace(witness, why="" if done else NOT_YET)
                found.append(witness)
        return FleetProof(NOT_BY_ALL, _sorted(found))

    def _of_record(
        self, record: InstanceRecord, names: Sequence[str], dead: Collection[str]
    ) -> Witness:
        why = ""
        if not all(record.has_applied(self._position, name) for name in names):
            why = _reason(record, names)
            if record.id in dead:
                why = DEAD
            elif record.gone:
                why = SILENT.format(age=f"{record.age_ms // 1000}s")
        return Witness(
            record.id,
            record.target,
            record.host,
            record.pid,
            record.deployment,
            record.applied,
            record.generation,
            why,
            record.gone or record.id in dead,
            record.age_ms,
            record.restart_only,
            record.flags,
        )

    def _concerns(self, seen: Seen) -> bool:
        """Whether one without a connection is meant; which deployment it is in nobody can tell."""
        return any(
            seen.declares(target, name) and host in (None, seen.host)
            for target, name, _, _, host in self._keys
        )


def record_of(seen: Seen, records: Iterable[InstanceRecord]) -> InstanceRecord | None:
    """Return what the store lists of an instance of this host; ``None`` for nothing.

    One that cannot write its state directory is known there by its process id alone.
    """
    for record in records:
        if record.id == seen.id:
            return record
        if seen.silent and (record.host, record.pid) == (seen.host, seen.pid):
            return record
    return None


def _sorted(witnesses: Iterable[Witness]) -> tuple[Witness, ...]:
    return tuple(sorted(witnesses, key=lambda w: (w.host, w.target, w.pid, w.id)))


def _reason(record: InstanceRecord, names: Sequence[str]) -> str:
    if record.restart_only:
        return STARTED
    refused = [name for name in names if name in record.refused]
    if refused:
        return f"it cannot go by {', '.join(refused)}"
    pending = [name for name in names if name in record.pending_restart]
    if pending:
        return f"it waits for a restart: {', '.join(pending)}"
    return NOT_YET


def _of_seen(seen: Seen) -> Witness:
    return Witness(
        seen.id,
        seen.target,
        seen.host,
        seen.pid,
        generation=seen.generation,
        why=STARTED if seen.restart_only else UNCONNECTED,
        age_ms=seen.age_ms,
        restart_only=seen.restart_only,
        values=seen.flags,
    )


def _holds(now: Position, change: Position) -> bool:
    """Whether a store still has a change that it once took."""
    return now.epoch == change.epoch and now.revision >= change.revision
