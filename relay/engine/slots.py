"""How many requests may be in flight, in one session and in all.

The directory is the queue: a request without a slot stays where it is. The last quarter of the
slots is for sessions that have none, so that busy ones never shut out the others.
"""

from __future__ import annotations

from relay.engine.limits import Limits


class Slots:
    """The slots of one runner."""

    __slots__ = ("_limits", "taken")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.taken = 0

    def change(self, limits: Limits) -> None:
        """Go by new limits from now on; what is in flight stays."""
        self._limits = limits

    def has_one_for(self, in_flight: int) -> bool:
        """Whether a session with so many requests in flight may take one more."""
        most = self._limits.max_in_flight
        if in_flight == 0:
            return self.taken < most
        return in_flight < self._limits.session_max_in_flight and self.taken < most - most // 4
