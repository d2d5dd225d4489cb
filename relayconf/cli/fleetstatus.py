"""The fleet's part of ``status``: how fresh this host is, and who lives where and goes by what.

Everything is reckoned by this command when it is asked: from the boot clock, from locks that the
kernel holds, and from the server's own time. What a process has said of itself counts for nothing
but what it has applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from relayconf.cli.lookout import Lookout
from relayconf.fleet.ended import ended
from relayconf.fleet.engine import InstanceRecord
from relayconf.fleet.known import BLIND, FRESH, STALE
from relayconf.fleet.layer import fleet_layer
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.proof import record_of
from relayconf.fleet.reading import FleetReading
from relayconf.fleet.record import Position
from relayconf.fleet.session import Session
from relayconf.instances.listing import Listing, Seen
from relayconf.layers import Layer, Sources
from relayconf.problems import Problem
from relayconf.setting import Contract
from relayconf.state.clock import SYSTEM
from relayconf.wording import duration

#: An instance looks at least this often, and says so on this host, in milliseconds.
_LOOKS_WITHIN = 2000

_ORDER = (FRESH, STALE, BLIND)


@dataclass(slots=True)
class FleetStatus:
    """What is known of the fleet now.

    Attributes:
        options: how it is reached.
        lookout: what this host knows, and what the server says.
        records: what the server lists; nothing where it was not reached.
        live: this host's live instances.
        dead: instances of this host that are known to be dead.
    """

    options: FleetOptions
    lookout: Lookout
    records: list[InstanceRecord] = field(default_factory=list)
    live: Sequence[Seen] = ()
    dead: Sequence[str] = ()

    @property
    def reached(self) -> bool:
        """Whether the server was asked and has answered."""
        return self.lookout.unavailable is None

    @property
    def reading(self) -> FleetReading:
        """What is in force on this host, or would be for a process that starts now."""
        return self.lookout.host if self._followers() else self.lookout.reading

    def layer(self, contract: Contract) -> Layer:
        """Return what of it concerns one contract."""
        return fleet_layer(contract, self.reading, self.options)

    def document(self) -> dict[str, Any]:
        """Return the object ``fleet`` of the answer."""
        lookout = self.lookout
        reading, standing = self.reading, lookout.standing
        age = lookout.known.age_ms(SYSTEM) if self._followers() or not self.reached else 0
        return {
            "url": self.options.address,
            "reached": self.reached,
            "error": lookout.unavailable,
            "state": self.state().upper(),
            "epoch": reading.position.epoch or None,
            "revision": reading.position.revision,
            "behind_ms": age,
            "pending": len(reading.pending),
            "server": None
            if standing is None
            else {
                "epoch": standing.position.epoch or None,
                "revision": standing.position.revision,
            },
        }

    def state(self) -> str:
        """Return the worst of this host's live instances, and of what it knows itself."""
        states = [self.reading.freshness]
        for seen in self._followers():
            record = record_of(seen, self.records)
            states.append(self._unlisted(seen) if record is None else self.state_of(record))
        return max(states, key=_ORDER.index)

    def _unlisted(self, seen: Seen) -> str:
        """Return how fresh an instance of this host is that the server says nothing of."""
        states = [self.reading.freshness, STALE if self.reached else FRESH]
        if seen.age_ms > max(2 * self.options.heartbeat_ms, _LOOKS_WITHIN):
            states.append(self._aged(seen.age_ms))
        return max(states, key=_ORDER.index)

    def state_of(self, record: InstanceRecord) -> str:
        """Return how fresh an instance is, by the server's clock and by what it has applied."""
        behind = max(record.age_ms, self._missed_ms(record.applied))
        if behind <= 2 * record.heartbeat_ms:
            return FRESH
        return self._aged(behind)

    def _aged(self, behind_ms: int) -> str:
        return STALE if behind_ms <= self.options.blind_after_ms else BLIND

    def _missed_ms(self, applied: Position) -> int:
        """Return for how long an instance has not applied what the server has."""
        standing = self.lookout.standing
        if standing is None or applied[:2] == standing.position[:2]:
            return 0
        later = [
            entry.at_ms
            for entry in self.lookout.reading.latest
            if entry.epoch != applied.epoch or entry.revision > applied.revision
        ]
        return max(0, standing.time_ms - min(later)) if later else 0

    def _followers(self) -> list[Seen]:
        return [seen for seen in self.live if not seen.restart_only]

    def instance(self, seen: Seen | None, record: InstanceRecord | None) -> dict[str, Any]:
        """Return what a row says beside what it says without a fleet."""
        if record is None:
            there = None if seen is None or not seen.fleet else self._by_itself(seen)
            return {"deployment": None, "gone": False, "fleet": there}
        return {
            "deployment": record.deployment,
            "gone": seen is None and (record.gone or record.id in self.dead),
            "fleet": {
                "state": self.state_of(record).upper(),
                "epoch": record.applied.epoch or None,
                "revision": record.applied.revision,
                "heard_ms": record.age_ms,
            },
        }

    def _by_itself(self, seen: Seen) -> dict[str, Any]:
        """Return what an instance of this host has applied, as it says here."""
        return {
            "state": self._unlisted(seen).upper(),
            "epoch": seen.fleet.get("epoch") or None,
            "revision": seen.fleet.get("revision"),
            "heard_ms": None,
        }

    def rows(self, local: list[tuple[Seen, dict[str, Any]]]) -> list[dict[str, Any]]:
        """Return the rows of all hosts' instances, given those of this one."""
        rest = {record.id: record for record in self.records}
        rows = []
        for seen, row in local:
            record = record_of(seen, self.records)
            rows.append({**row, **self.instance(seen, record)})
            if record is not None:
                rest.pop(record.id, None)
        rows.extend({**_row(record), **self.instance(None, record)} for record in rest.values())
        return sorted(rows, key=lambda row: (row["target"], row["host"], row["pid"], row["id"]))

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong with the fleet, and with instances as far as that is known."""
        yield from self.reading.problems
        yield from (Problem("fleet-lost", "fleet", text, raw=text) for text in self.lookout.remarks)
        if not self.reached:
            error = self.lookout.unavailable
            text = f"the server cannot be asked, so who lives on other hosts is not known: {error}"
            yield Problem("fleet-unavailable", "fleet", text, raw=text)
            return
        for seen in self._followers():
            if record_of(seen, self.records) is None:
                text = f"{seen.target} pid {seen.pid} on {seen.host} has no connection to the fleet"
                yield Problem("instance-problem", seen.id, text, raw=text)
        mine = [record_of(seen, self.records) for seen in self.live]
        for record in self.records:
            if record in mine:
                continue
            where = f"{record.target} pid {record.pid} on {record.host}"
            if record.id in self.dead:
                yield _gone(record.id, f"{where} is dead")
            elif record.gone:
                age = duration(record.age_ms // 1000 * 1000)
                yield _gone(record.id, f"{where} was not heard of for {age}; it may still run")
            for text in record.problems:
                yield Problem("instance-problem", record.id, f"{where}: {text}", raw=text)


def _gone(instance: str, text: str) -> Problem:
    return Problem("instance-gone", instance, text, raw=text)


def _row(record: InstanceRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "target": record.target,
        "host": record.host,
        "pid": record.pid,
        "generation": record.generation,
        "pending_restart": list(record.pending_restart),
        "age_ms": record.age_ms,
        "restart_only": record.restart_only,
    }


def look(sources: Sources, live: Sequence[Seen], listing: Listing | None) -> FleetStatus | None:
    """Look at the fleet; ``None`` where there is none."""
    dead = [] if listing is None else listing.dead()
    options = sources.fleet
    if options is None:
        return None
    lookout = Lookout(sources.state_dir, sources.state_group, options)
    status = FleetStatus(options, lookout, live=live, dead=dead)
    with Session(options) as session:
        if lookout.ask(session):
            with lookout.available():
                status.records = list(session.instances())
    if listing is not None:
        status.dead = (*dead, *ended(listing, status.records))
    return status
