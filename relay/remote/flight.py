"""One drain under way, under a tag of its own.

It is waited for until its outer bound and not longer, even where it can not be cancelled. What an
abandoned one still says is dropped, and what it raises too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from relay.engine.tasks import start
from relay.remote.report import Report


class Flight:
    """A drain that is under way.

    Args:
        work: the drain.
        tag: the generation of the lease that it goes by.
        now: when it was sent, in monotonic seconds.
        window: seconds that it was asked to wait.
        bound: seconds after which nobody waits for it any more.
    """

    __slots__ = ("beaten", "began", "bound", "shape", "tag", "task", "window")

    def __init__(
        self,
        work: Coroutine[Any, Any, Report],
        *,
        tag: int,
        now: float,
        window: float,
        bound: float,
        shape: object = None,
    ) -> None:
        self.tag = tag
        self.began = now
        self.window = window
        self.bound = now + bound
        #: The settings that it was sent with; where they change, it is sent anew.
        self.shape = shape
        #: Whether a poll took a request while this one waited.
        self.beaten = False
        self.task: asyncio.Task[Report] = start(asyncio.get_running_loop(), work)

    def abandon(self) -> None:
        """Stop waiting for it. Its process may go on until it notices another lease."""
        _abandoned.add(self.task)
        self.task.add_done_callback(_forget)
        self.task.cancel()


#: Tasks that nobody waits for; the loop itself keeps only weak references.
_abandoned: set[asyncio.Task[Report]] = set()


def _forget(task: asyncio.Task[Report]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        # Its outcome is looked at, so that nobody reports an exception that was never retrieved.
        task.exception()
