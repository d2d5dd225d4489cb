"""What the measured runner runs: an echo, and how late a timer of its event loop has been."""

from __future__ import annotations

import asyncio
import time

#: The timer whose lateness is told, in seconds.
TICK = 0.01

_latest = _latest_own = 0.0
_ticking: asyncio.Task[None] | None = None


async def echo(text: str) -> str:
    """Give the text back."""
    return text


async def late() -> list[float]:
    """Return by how many milliseconds a 10 ms timer was late at most, since this was last asked.

    The first number is by the wall, and what else the machine does is in it. The second is how much
    of the lateness the runner's own work can have been: the CPU time that it used meanwhile.
    """
    global _latest, _latest_own, _ticking  # noqa: PLW0603 - one event loop in the process
    if _ticking is None:
        _ticking = asyncio.get_running_loop().create_task(_tick())
    told = [round(_latest * 1000, 2), round(_latest_own * 1000, 2)]
    _latest = _latest_own = 0.0
    return told


async def _tick() -> None:
    global _latest, _latest_own  # noqa: PLW0603 - as above
    while True:
        due, used = time.monotonic() + TICK, time.thread_time() + TICK
        await asyncio.sleep(TICK)
        _latest = max(_latest, time.monotonic() - due)
        _latest_own = max(_latest_own, time.thread_time() - used)
