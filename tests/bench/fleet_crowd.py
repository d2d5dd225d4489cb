"""A crowd for the bench of the fleet: many instances in one process, by the follower's pursuit.

What a real instance does beside it (its file, its snapshot of settings) costs the server nothing.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace

from relayconf.errors import FleetUnavailable
from relayconf.fleet.engine import Engine, InstanceRecord
from relayconf.fleet.opening import open_engine
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.pursuit import Pursuit
from relayconf.fleet.record import NOWHERE
from relayconf.fleet.view import View

#: As many names and flags as the relay has.
NAMES = tuple(f"APP_SETTING_{number}" for number in range(40))
FLAGS = {
    f"APP_SETTING_{number}": {"value": True, "layer": "default", "status": "default"}
    for number in range(4)
}


class Idler:
    """One instance that follows and does nothing else."""

    def __init__(self, options: FleetOptions, number: int) -> None:
        self._view = View(heartbeat_ms=options.heartbeat_ms)
        self._record = InstanceRecord(
            os.urandom(6).hex(), "app", f"host-{number}", number, NOWHERE, names=NAMES, flags=FLAGS
        )
        self.pursuit = Pursuit(lambda: open_engine(options), self._view, self)

    def record(self) -> InstanceRecord | None:
        """Say that whatever is known is applied."""
        return replace(self._record, applied=self._view.known.position)

    def changed(self) -> None:
        """Apply nothing."""

    async def tend(self, _engine: Engine) -> None:
        """Keep nothing."""

    def failed(self, _error: FleetUnavailable) -> None:
        """Try again, as the pursuit does."""


async def crowd(url: str, first: int, count: int) -> None:
    """Follow with so many, for ever; they begin over one heartbeat, as a real fleet is spread."""
    options = FleetOptions(url, timeout_ms=10_000)
    running = set()
    for number in range(first, first + count):
        running.add(asyncio.ensure_future(Idler(options, number).pursuit.run()))
        await asyncio.sleep(1 / count)
    await asyncio.gather(*running)


if __name__ == "__main__":
    asyncio.run(crowd(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
