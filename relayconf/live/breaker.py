"""Breakers: a flag that pulls its own switch when too many report that it does harm.

A breaker counts who reported within a window. Where enough of them did, and enough of all that are
there, it trips: the flag is killed for a while, by ``auto``, and then tried again. Counting is
pure, with the time as an argument; ``trip`` is what writes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from relayconf.errors import RelayconfError
from relayconf.overrides.attempt import Edit
from relayconf.overrides.changes import Assignment, Because, kill
from relayconf.overrides.document import Document, Override
from relayconf.overrides.store import Store
from relayconf.overrides.ttl import is_over, left_ms
from relayconf.setting import Contract, Setting
from relayconf.state.clock import SYSTEM, Clock
from relayconf.state.directory import make
from relayconf.values import render

#: A flag that trips again at once is killed for twice as long each time, up to this many times its
#: window.
_LONGEST = 12

#: A kill by another breaker that still has this share of the time to go is as good as a new one.
_AS_LONG = 0.9

#: Who did it, in the audit.
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Limits:
    """When a breaker trips: ``at_least`` distinct reporters and ``share`` of all, in ``window``.

    ``window`` is in seconds, ``share`` a fraction.
    """

    event: str
    at_least: int
    share: float
    window: float


def limits_of(setting: Setting) -> Limits | None:
    """Return the limits that a flag declares; ``None`` where it has no breaker."""
    flag = setting.flag
    if flag is None or flag.breaker is None:
        return None
    facts = flag.breaker
    return Limits(
        str(facts["event"]),
        int(facts["at_least"]),
        float(facts["share"]),
        float(facts["window_ms"]) / 1000,
    )


class Breaker:
    """Counts distinct reporters within a window of time. Not safe across threads."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.trips = 0
        self._reported: dict[Hashable, float] = {}
        self._tripped_at: float | None = None

    def report(self, reporter: Hashable, *, now: float, among: int) -> bool:
        """Count a report; True where it trips the breaker.

        Args:
            reporter: who reports; a second report of the same counts as one.
            now: monotonic seconds.
            among: how many could report, this one included.

        Returns:
            Whether the flag is to be killed now. Counting begins anew after that.
        """
        self._forget(now)
        self._reported[reporter] = now
        count = len(self._reported)
        if count < self.limits.at_least or count < self.limits.share * max(1, among):
            return False
        self._reported.clear()
        calm = self._tripped_at is None or now - self._tripped_at > self._pause() * 2
        self.trips = 1 if calm else self.trips + 1
        self._tripped_at = now
        return True

    def ttl_ms(self) -> int:
        """Return for how many milliseconds the flag is to stay killed after the last trip."""
        return round(self._pause() * 1000)

    def reporters(self, *, now: float) -> int:
        """Return how many have reported within the window."""
        self._forget(now)
        return len(self._reported)

    def _pause(self) -> float:
        doublings: int = 2 ** max(0, self.trips - 1)
        return self.limits.window * min(doublings, _LONGEST)

    def _forget(self, now: float) -> None:
        oldest = now - self.limits.window
        self._reported = {who: at for who, at in self._reported.items() if at > oldest}


def _stays(there: Override, ttl_ms: int, clock: Clock) -> bool:
    """Whether a kill is somebody else's, or lasts about as long as the one to replace it."""
    if is_over(there.end, clock):
        return False
    left = left_ms(there.end, clock)
    return there.actor != AUTO or left is None or left >= ttl_ms * _AS_LONG


def trip(
    path: str,
    contract: Contract,
    setting: Setting,
    *,
    reason: str,
    ttl_ms: int,
    group: str | None = None,
    clock: Clock = SYSTEM,
) -> None:
    """Kill a flag for a while in one state directory, as ``auto``.

    A kill that somebody else has made stays as it is: it must not end with this one. So does one
    that another process's breaker has just made for the same harm.

    Args:
        path: the state directory.
        contract: whose flag it is.
        setting: the flag.
        reason: what was counted, for the history.
        ttl_ms: after how many milliseconds it is tried again.
        group: the group that shares the directory.
        clock: what the time is counted on.

    Raises:
        RelayconfError: it is no flag, or the kill cannot be written.
    """
    if setting.flag is None:
        raise RelayconfError(f"{setting.name} is no flag and has no safe value")
    flag = Assignment(contract.target, setting.name, render(setting, setting.flag.kill))
    directory = make(path, group=group)
    try:
        editing = kill([flag], Because(reason, AUTO, ttl_ms=ttl_ms), clock=clock)

        def edit(document: Document) -> Edit:
            there = document.find(flag.target, flag.name, "kill")
            if there is not None and _stays(there, ttl_ms, clock):
                return Edit(document.overrides, document.quarantined)
            return editing(document)

        Store(directory, clock=clock).change(edit)
    finally:
        directory.close()
