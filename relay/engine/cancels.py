"""Looking whether callers have taken back what is in flight.

A caller that gives up leaves a file ``<id>.cancel`` beside the claim of its request. It is looked
for at intervals, which needs no event and costs next to nothing: most calls are over before the
first look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Protocol

#: Seconds between two looks, and how many calls are looked at in one.
_PAUSE = 0.2
_AT_ONCE = 512


class Cancellable(Protocol):
    """A call in flight."""

    def stop_if_cancelled(self) -> None:
        """End it, where its caller has taken it back."""


class Cancels:
    """The looks at the calls of one engine.

    Args:
        loop: the engine's.
        calls: what is in flight, now and later.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, calls: Collection[Cancellable]) -> None:
        self._loop = loop
        self._calls = calls
        self._left: Iterator[Cancellable] = iter(())
        self._timer: asyncio.TimerHandle | None = None

    def look_soon(self) -> None:
        """Look at intervals from now on, as long as there is a call."""
        if self._timer is None:
            self._timer = self._loop.call_later(_PAUSE, self._look)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        some = list(islice(self._left, _AT_ONCE))
        if not some:
            self._left = iter(tuple(self._calls))
            some = list(islice(self._left, _AT_ONCE))
        for call in some:
            call.stop_if_cancelled()
        if self._calls:
            self.look_soon()
