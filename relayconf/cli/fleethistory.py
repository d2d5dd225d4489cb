"""The fleet's part of ``history``: its audit, checked, and who has applied what on any host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from relayconf.cli.lookout import Lookout
from relayconf.fleet.chain import verify
from relayconf.fleet.record import EVERYWHERE, Json, from_body
from relayconf.fleet.session import Session
from relayconf.layers import Sources
from relayconf.state.clock import stamp


@dataclass(slots=True)
class FleetHistory:
    """What the server remembers.

    Attributes:
        url: where it is, without a secret.
        lines: its audit, the oldest first.
        applied: what each instance has applied when, the oldest first.
        faults: what is wrong with the audit, or why it could not be read.
    """

    url: str
    lines: Sequence[Json] = ()
    applied: Sequence[Json] = ()
    faults: list[str] = field(default_factory=list)

    def changes(self) -> Iterator[dict[str, Any]]:
        """Yield each change as ``history`` prints it."""
        for line in self.lines:
            yield self._change(line)

    def _change(self, line: Json) -> dict[str, Any]:
        revision, epoch = line.get("revision"), str(line.get("epoch"))
        change: dict[str, Any] = {
            "seq": revision,
            "store": "fleet",
            "epoch": epoch,
            "revision": revision,
            "at": stamp(line.get("at_ms", 0) / 1000),
            "void": False,
            "applied": [],
        }
        entry = from_body(line.get("entry"))
        if isinstance(entry, str) or not isinstance(revision, int):
            return {**change, "action": "damaged", "note": str(entry)}
        override = entry.override
        expires_ms = line.get("expires_ms")
        change.update(
            action="restore" if entry.tombstone else override.kind,
            id=override.id,
            target=override.target,
            name=override.name,
            kind=override.kind,
            value=override.value,
            reason=override.reason,
            actor=override.actor,
            incident=override.incident,
            expires_at=None if expires_ms is None else stamp(expires_ms / 1000),
            scope=None if entry.scope == EVERYWHERE else entry.scope._asdict(),
        )
        change["applied"] = list(self._applied(override.target, epoch, revision, line))
        return change

    def _applied(
        self, target: str, epoch: str, revision: int, change: Json
    ) -> Iterator[dict[str, Any]]:
        """Yield the first acknowledgement of each instance that was there for a change."""
        seen: set[str] = set()
        for line in self.applied:
            instance = str(line.get("instance"))
            if line.get("target") != target or line.get("epoch") != epoch or instance in seen:
                continue
            if line.get("revision", 0) < revision:
                continue
            seen.add(instance)
            at_ms = line.get("at_ms")
            if not isinstance(at_ms, int):
                continue
            yield {
                "instance": instance,
                "pid": line.get("pid"),
                "host": line.get("host"),
                "at": stamp(at_ms / 1000),
                "took_ms": max(0, at_ms - change.get("at_ms", at_ms)),
            }


def remembered(sources: Sources) -> FleetHistory | None:
    """Ask the server what it remembers; ``None`` where there is no fleet."""
    options = sources.fleet
    if options is None:
        return None
    history = FleetHistory(options.address)
    lookout = Lookout(sources.state_dir, sources.state_group, options)
    with Session(options) as session:
        if lookout.ask(session):
            with lookout.available():
                history.lines = session.audit()
                history.applied = session.applied()
    if lookout.unavailable is not None:
        history.faults.append(f"the fleet's audit cannot be read: {lookout.unavailable}")
        return history
    history.faults.extend(f"the fleet's audit: {fault}" for fault in verify(history.lines))
    history.faults.extend(_end_faults(lookout, history.lines))
    return history


def _end_faults(lookout: Lookout, lines: Sequence[Json]) -> Iterator[str]:
    """Yield what is missing at the end, by what the server and this host know of it."""
    standing = lookout.standing
    head = standing.position.head if standing is not None else ""
    if head and (not lines or lines[-1].get("head") != head):
        yield "the fleet's audit: its last lines are missing"
    if lookout.lost:
        known = lookout.known.position
        yield (
            f"the fleet's audit: the server has lost changes that this host knows (revision "
            f"{known.revision} of epoch {known.epoch})"
        )
