"""How much may be in flight: requests and their bytes, in one session and in all.

The directory is the queue: a request without a slot stays where it is. The last quarter of the
slots, and of the bytes, is for sessions that have nothing in flight, so that busy ones never shut
out the others. A request's size is known once it is claimed, so the bytes may be passed by one.
"""

from __future__ import annotations

from typing import Protocol

from relay.engine.limits import Limits

#: How many requests of the largest size may be held at once, in all and in one session.
_LARGEST_HELD = 64
_LARGEST_HELD_BY_ONE = 16


class Holder(Protocol):
    """A session, as far as its slots are concerned. ``held`` is its bytes in flight."""

    in_flight: set[str]
    held: int


class Slots:
    """The slots of one runner."""

    __slots__ = ("_held", "_limits", "taken")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held = 0
        self.taken = 0

    def change(self, limits: Limits) -> None:
        """Go by new limits from now on; what is in flight stays."""
        self._limits = limits

    def hold(self, holder: Holder, size: int) -> None:
        """Count so many bytes more, or less, of a session's requests."""
        self._held += size
        holder.held += size

    def has_one_for(self, holder: Holder) -> bool:
        """Whether a session may take one more request."""
        limits = self._limits
        most, bytes_ = limits.max_in_flight, limits.max_request * _LARGEST_HELD
        if not holder.in_flight:
            return self.taken < most and self._held < bytes_
        return (
            len(holder.in_flight) < limits.session_max_in_flight
            and self.taken < most - most // 4
            and holder.held < limits.max_request * _LARGEST_HELD_BY_ONE
            and self._held < bytes_ - bytes_ // 4
        )
