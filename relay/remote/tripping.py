"""Many relays of one process lose their watch at once: then its flag is killed for a while.

One relay's demotion is its own affair. The share that is too many is declared with the flag, the
kill is written into the state directory like anybody's, and ends by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from relay.engine.telemetry import log
from relay.remote.counters import RemoteCounters
from relay.settings import RelaySettings
from relayconf.errors import RelayconfError
from relayconf.live.breaker import Breaker, limits_of, trip
from relayconf.settings import contract_of

FLAG = "RELAY_REMOTE_WATCH_ENABLED"


class Tripping:
    """Counts demoted relays, and kills the flag where there are too many.

    Args:
        state: the state directory.
        group: the group that shares it.
        counters: trips are counted here.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        state: str,
        group: str | None,
        counters: RemoteCounters,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._state = state
        self._group = group
        self._counters = counters
        self._clock = clock
        self._contract = contract_of(RelaySettings)
        self._setting = self._contract.settings[FLAG]
        limits = limits_of(self._setting)
        self._breaker = None if limits is None else Breaker(limits)
        self._tasks: set[asyncio.Task[None]] = set()

    def demoted(self, relay: str, *, among: int) -> None:
        """Count one relay's demotion; ``among`` is how many relays there are."""
        breaker = self._breaker
        if breaker is None or not breaker.report(relay, now=self._clock(), among=among):
            return
        self._counters.trips += 1
        task = asyncio.ensure_future(asyncio.to_thread(self._trip, breaker.ttl_ms()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _trip(self, ttl_ms: int) -> None:
        reason = "the remote watch of too many relays failed"
        try:
            trip(
                self._state,
                self._contract,
                self._setting,
                reason=reason,
                ttl_ms=ttl_ms,
                group=self._group,
            )
        except (RelayconfError, OSError) as error:
            log.error("%s, and %s cannot be killed: %s", reason, FLAG, error)
        else:
            log.error("%s: %s is killed for %d s", reason, FLAG, ttl_ms // 1000)

    async def wait(self) -> None:
        """Wait until what was begun is written."""
        if self._tasks:
            await asyncio.wait(self._tasks)
