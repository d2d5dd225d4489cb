"""What the loop of one relay needs of its sandbox, which the relay's session gives it."""

from __future__ import annotations

from typing import Protocol

from relay.remote.draining import Hit, OnBatch
from relay.remote.report import Report


class Sandbox(Protocol):
    """One session's directory, as far as looking into it goes. ``runner`` is this runner's id."""

    runner: str

    @property
    def waits(self) -> bool:
        """Whether a drain can wait inside the sandbox."""

    async def drain(
        self,
        seconds: float,
        grace: float,
        *,
        take: str,
        tag: int,
        kind: str,
        on_batch: OnBatch | None = None,
    ) -> Report:
        """Send one drain."""

    async def look(self) -> list[Hit]:
        """List the directory from outside; names that are worked on are left out."""

    def accept(self, report: Report) -> int:
        """Note what a report brings; return how many claims and cancels are new."""

    def execute(self, wake: str) -> None:
        """Begin with what was accepted."""

    def has_room(self) -> bool:
        """Whether more requests may be taken."""

    def is_busy(self) -> bool:
        """Whether there are requests in flight, which their callers may take back."""

    async def rejoin(self) -> None:
        """The directory is there again, or the lease is: tell its writers who serves it."""

    async def probe(self) -> None:
        """Find out anew what can be run in the sandbox."""

    def distrust(self) -> None:
        """A connection led nowhere."""

    def is_dead(self, runner: str) -> bool:
        """Whether another runner is known to live no more."""
