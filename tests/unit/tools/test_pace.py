"""The pace at which an endless stream is read."""

from __future__ import annotations

import asyncio

import pytest

from relay.tools.pace import BYTES, LINES, Pace


class Clock:
    """A clock that goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the seconds that have gone by."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Go on by so many seconds."""
        self.now += seconds


@pytest.mark.parametrize(
    ("piece", "in_a_second"),
    [(b"\n" * 100, LINES // 100), (b"x" * (BYTES // 8), 8), (b"{}\n", LINES)],
    ids=["blank lines", "no line at all", "messages"],
)
def test_what_comes_in_a_second(piece: bytes, in_a_second: int) -> None:
    """So much passes at once; with the next piece the second has to be over."""
    clock = Clock()

    async def read() -> list[float]:
        pace = Pace(clock=clock, sleep=clock.sleep)
        times = []
        for _ in range(2 * in_a_second + 2):
            await pace.keep(piece)
            times.append(clock.now)
        return times

    times = asyncio.run(read())
    first = [0.0] * in_a_second
    assert [*first, 1.0, *[1.0] * in_a_second, 2.0] == times


def test_who_is_slower_never_waits() -> None:
    """What comes at a lower rate is never held up."""
    clock = Clock()

    async def read() -> None:
        pace = Pace(clock=clock, sleep=clock.sleep)
        for _ in range(1000):
            before = clock.now
            await pace.keep(b"\n" * (LINES // 2))
            assert before == clock.now
            clock.now += 0.6

    asyncio.run(read())
