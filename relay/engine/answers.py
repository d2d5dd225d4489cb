"""Answers on their way into a directory that may not answer itself.

Each is tried again with growing pauses until it is there, or until nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from relay.engine.telemetry import log
from relay.engine.worker import Worker

#: Pauses between attempts, in seconds: the first, and the longest.
_RETRY_FIRST = 0.05
_RETRY_LONGEST = 1.0


class Answers:
    """The answers of one session.

    Args:
        worker: publishes them.
        clock: monotonic seconds.
        over: called with a request's id when its answer is there, or given up.
    """

    def __init__(
        self, worker: Worker, clock: Callable[[], float], over: Callable[[str], None]
    ) -> None:
        self._worker = worker
        self._clock = clock
        self._over = over
        self._until: dict[str, float] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def wait_until(self, request: str, seconds: float) -> None:
        """Take note that the caller of a request waits for so long from now."""
        self._until[request] = self._clock() + seconds

    def forget(self, request: str) -> None:
        """Forget a request that is over."""
        self._until.pop(request, None)

    def publishing(self, request: str) -> bool:
        """Whether an answer of a request is on its way."""
        return request in self._tasks

    def publish(self, request: str, publish: Callable[[], None]) -> None:
        """Have ``publish`` called in the thread, again and again until it succeeds."""
        self._tasks[request] = asyncio.ensure_future(self._insist(request, publish))

    async def flush(self, patience: float) -> None:
        """Wait until all are there, for at most so many seconds; not where nothing answers."""
        if self._tasks and not self._worker.stuck:
            await asyncio.wait(self._tasks.values(), timeout=max(patience, 0.0))

    def stop(self) -> None:
        """Give up the rest; a later sweep finds their claims."""
        for task in self._tasks.values():
            task.cancel()

    async def _insist(self, request: str, publish: Callable[[], None]) -> None:
        done: list[bool] = []

        def once() -> None:
            # One that got stuck half-way may have come to its end meanwhile.
            if not done:
                publish()
                done.append(True)

        pause = _RETRY_FIRST
        try:
            while not done:
                try:
                    await self._worker.do(once)
                except OSError as error:
                    left = self._until.get(request, 0.0) - self._clock() - pause
                    if left <= 0:
                        log.warning("request %s cannot be answered: %s", request, error.strerror)
                        return
                    with suppress(TimeoutError):
                        async with asyncio.timeout(left):
                            await self._worker.settled()
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, _RETRY_LONGEST)
        finally:
            del self._tasks[request]
            self._over(request)
