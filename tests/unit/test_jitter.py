"""Jitter: draws around a value, within the declared fraction and the range."""

from __future__ import annotations

import random

import pytest

from relayconf.jitter import draw
from relayconf.setting import Setting


def window(**facts: float) -> Setting:
    return Setting("NAME", "duration", jitter=(-0.2, 0.0), **facts)  # type: ignore[arg-type]  # bounds only


class TestDraw:
    @pytest.mark.parametrize(("source", "expected"), [(0.0, 20_000), (0.5, 22_500), (1.0, 25_000)])
    def test_reaches_both_ends_exactly(self, source: float, expected: int) -> None:
        """The ends of -20 % .. 0 around 25 s are 20 s and 25 s, to the millisecond."""
        assert expected == draw(window(), 25_000, lambda: source)

    def test_is_whole(self) -> None:
        """A draw of milliseconds, bytes or units is an integer."""
        drawn = draw(window(), 12_345, random.Random(1).random)
        assert isinstance(drawn, int)

    def test_is_uniform(self) -> None:
        """Every value in the fraction is about as likely as any other."""
        source = random.Random(7).random
        counts: dict[float, int] = {}
        for _ in range(6_000):
            drawn = draw(window(), 10, source)
            counts[drawn] = counts.get(drawn, 0) + 1
        assert [8, 9, 10] == sorted(counts)
        assert all(abs(count - 2_000) < 200 for count in counts.values())

    def test_range_cuts_the_fraction(self) -> None:
        """A bound inside the fraction cuts it, instead of collecting the draws beyond it."""
        source = random.Random(7).random
        drawn = {draw(window(minimum=9), 10, source) for _ in range(200)}
        assert {9, 10} == drawn

    def test_without_jitter_nothing_is_drawn(self) -> None:
        """A setting that declares none comes back as it is."""

        def never() -> float:
            raise AssertionError("drawn")

        assert 500 == draw(Setting("NAME", "duration"), 500, never)

    def test_nothing_between(self) -> None:
        """Where no whole value lies in the fraction, the value stays."""
        narrow = Setting("NAME", "integer", jitter=(-0.2, -0.1))
        assert 1 == draw(narrow, 1, lambda: 0.5)

    def test_number(self) -> None:
        """A number is drawn as a float, both ways around a negative one."""
        wide = Setting("NAME", "number", jitter=(-0.5, 0.5))
        assert -1.5 == draw(wide, -1, lambda: 0.0)
        assert -0.75 == draw(wide, -1, lambda: 0.75)
        assert 0 == draw(wide, 0, lambda: 0.3)
