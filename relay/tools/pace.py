"""How fast a stream without an end is read: whoever floods it is held back by its own pipe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

#: Lines, and bytes, in a second. A call makes a line or two, and costs the MCP library a
#: millisecond; the bytes are those of the largest message.
LINES = 2000
BYTES = 64 * 1024 * 1024


class Pace:
    """Counts what comes through one stream.

    Args:
        lines: so many in a second.
        clock: monotonic seconds.
        sleep: waits for so many seconds.
    """

    def __init__(
        self,
        *,
        lines: int = LINES,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._most = lines
        self._since = clock()
        self._lines = self._bytes = 0

    async def keep(self, data: bytes) -> None:
        """Wait for the next second, where this one has brought enough."""
        now = self._clock()
        if now - self._since >= 1:
            self._since, self._lines, self._bytes = now, 0, 0
        self._lines += data.count(b"\n")
        self._bytes += len(data)
        if self._lines > self._most or self._bytes > BYTES:
            await self._sleep(self._since + 1 - now)
