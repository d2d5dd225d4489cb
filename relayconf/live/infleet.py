"""A following process's part in its fleet: the follower that it owns, and what it tells of itself.

Ties the follower to one ``Live``: its news are looked at as any other source's, and what has been
applied is said to the fleet together with what is said on this host.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from relayconf.contract.reading import fingerprint
from relayconf.fleet.engine import InstanceRecord
from relayconf.fleet.follower import Follower
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.reading import FleetReading, next_end_ms
from relayconf.fleet.record import NOWHERE
from relayconf.settings import contract_of
from relayconf.state.clock import SYSTEM

if TYPE_CHECKING:
    from relayconf.instances.register import Instance
    from relayconf.live.snapshot import Live


class InFleet:
    """One process in its fleet.

    Args:
        live: whose values the fleet has a say in.
        options: how it is reached.
        forked_from: the part that the process played from which this one was forked.

    Attributes:
        follower: what follows.
    """

    def __init__(
        self, live: Live[Any], options: FleetOptions, *, forked_from: InFleet | None = None
    ) -> None:
        sources, contract = live.sources, contract_of(type(live.current))
        self._live = live
        self._record = InstanceRecord(
            os.urandom(6).hex(),
            contract.target,
            os.uname().nodename,
            os.getpid(),
            NOWHERE,
            deployment=options.deployment,
            contract=fingerprint(contract),
            names=tuple(contract.settings),
            heartbeat_ms=options.heartbeat_ms,
        )
        self.follower = Follower(
            options, path=sources.state_dir, group=sources.state_group, changed=live.poke
        )
        self._forked = forked_from is not None
        if forked_from is not None:
            self.follower.begin(forked_from.follower)
        elif live.fleet is not None:
            self.follower.resume(live.fleet)
        live.hear_fleet(self.follower.reading)

    def start(self, instance: Instance | None) -> None:
        """Begin to follow.

        Args:
            instance: this process's entry on its host.
        """
        self._say(self._named(instance))
        # A forked child knows what its parent knew, and is not held up in the middle of a fork.
        self.follower.start(wait=not self._forked)

    def facts(self, reading: FleetReading | None) -> dict[str, Any]:
        """Return what is said of it on this host."""
        if reading is None:
            return {}
        epoch, revision, head = reading.position
        return {
            "fleet": {
                "epoch": epoch,
                "revision": revision,
                "head": head,
                "freshness": reading.freshness,
                "pending": list(reading.pending),
            }
        }

    def acknowledge(
        self, instance: Instance | None, facts: dict[str, Any], *, applied: bool
    ) -> None:
        """Say to the fleet what this process has applied, and how it is.

        Args:
            instance: its entry on this host.
            facts: what it says there.
            applied: whether everybody has applied what is in force.
        """
        record, reading = self._named(instance), self._live.fleet
        if applied and reading is not None:
            record = replace(record, applied=reading.position, generation=self._live.generation)
        self._say(
            replace(
                record,
                pending_restart=tuple(facts["pending_restart"]),
                refused=tuple(facts["refused"]),
                problems=tuple(facts["problems"]),
                flags=facts["flags"],
            )
        )

    def next_end_ms(self) -> float | None:
        """Return the milliseconds until the next entry ends; ``None`` where none does."""
        reading = self._live.fleet
        return None if reading is None else next_end_ms(reading, SYSTEM)

    def stop(self) -> None:
        """Sign off, and follow no more."""
        self.follower.stop()

    def abandon(self) -> None:
        """Leave everything to the process that this one was forked from."""
        self.follower.abandon()

    def _named(self, instance: Instance | None) -> InstanceRecord:
        if instance is None:
            # Nobody may take it for one that has ended because it has no entry.
            return replace(self._record, place="")
        return replace(self._record, id=instance.id, place=instance.place)

    def _say(self, record: InstanceRecord) -> None:
        self._record = record
        self.follower.say(record)
