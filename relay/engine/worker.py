"""File operations that may take for ever, one after another in a thread, each within a bound.

Nothing can be done about an operation that a file system does not answer: its thread waits on.
What can be done is to go on without it. So whoever waits is told when the bound has passed, and no
further operation is begun until the late one is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from errno import ETIMEDOUT
from typing import Any, TypeVar

from relay.engine.threads import Threads

T = TypeVar("T")


class Stuck(OSError):
    """The file system has not answered in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(ETIMEDOUT, f"the file system has not answered for {seconds:g} s")


class Worker:
    """One thread, for one session. Belongs to the event loop that it is made in.

    Args:
        bound: returns for how long one operation may take, in seconds.
        clock: monotonic seconds.
    """

    def __init__(self, bound: Callable[[], float], clock: Callable[[], float]) -> None:
        self._bound = bound
        self._clock = clock
        self._threads = Threads(asyncio.get_running_loop(), most=1)
        self._turn = asyncio.Lock()
        self._current: asyncio.Future[Any] | None = None
        self._late = False
        self._began = 0.0

    def beat(self) -> None:
        """Say, in the thread, that the operation before is over and the next one begins."""
        self._began = self._clock()

    @property
    def stuck(self) -> bool:
        """Whether an operation is late, and goes on."""
        return self._late and self._current is not None and not self._current.done()

    async def do(self, function: Callable[[], T]) -> T:
        """Call ``function`` in the thread.

        Raises:
            Stuck: an operation of it, or of the one before, takes longer than the bound. It goes
                on; what it finds out is for ``function`` itself to keep.
            Exception: whatever ``function`` raises.
        """
        async with self._turn:
            if self.stuck:
                raise Stuck(self._bound())
            self._late = False
            self.beat()
            future = self._current = self._threads.run(function)
            while not future.done():
                left = self._began + self._bound() - self._clock()
                if left <= 0:
                    self._late = True
                    future.add_done_callback(_look_at)
                    raise Stuck(self._bound())
                await asyncio.wait([future], timeout=left)
            result: T = future.result()
            return result

    async def settled(self) -> None:
        """Wait until no operation is late, however long that takes."""
        if self._current is not None:
            await asyncio.wait([self._current])

    def when_settled(self, then: Callable[[], None]) -> None:
        """Call ``then`` once the thread is in the middle of nothing."""
        if self._current is None or self._current.done():
            then()
        else:
            self._current.add_done_callback(lambda _: then())

    def close(self) -> None:
        """Let the thread end, as soon as it can. Nobody waits for it."""
        self._threads.close()


def _look_at(future: asyncio.Future[Any]) -> None:
    """Take note of how a late operation ended, so that nobody is warned that none has."""
    if not future.cancelled():
        future.exception()
