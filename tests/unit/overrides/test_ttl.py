"""Ends of overrides: counted from the boot, so that no clock step and no suspend moves them."""

from __future__ import annotations

import pytest

from relayconf.overrides.ttl import End, end_after, end_of, is_over, left_ms
from relayconf.state.clock import Clock, seconds_of, stamp


def clock(wall: float = 1_000_000.0, boot_ms: int = 50_000, boot: str = "b1") -> Clock:
    return Clock(lambda: wall, lambda: boot_ms, lambda: boot)


class TestEnds:
    def test_a_step_of_the_clock_moves_nothing(self) -> None:
        """Set back or forward by a day, the wall clock neither prolongs nor ends a kill."""
        end = end_after(60_000, clock())
        for wall in (0.0, 1_086_400.0):
            assert not is_over(end, clock(wall, boot_ms=109_999))
            assert is_over(end, clock(wall, boot_ms=110_000))

    def test_another_boot_goes_by_the_wall(self) -> None:
        """After a restart of the machine the time of day decides."""
        end = end_after(60_000, clock())
        assert not is_over(end, clock(1_000_059.0, boot_ms=0, boot="b2"))
        assert is_over(end, clock(1_000_061.0, boot_ms=0, boot="b2"))

    def test_a_system_without_a_boot_id_goes_by_the_wall(self) -> None:
        """An empty id is never the same as another empty id."""
        end = end_after(60_000, clock(boot=""))
        assert end.boot is None
        assert 60_000 == left_ms(end, clock(boot="", boot_ms=9_999_999))

    def test_no_end_is_never_over(self) -> None:
        """What was made without a TTL stays."""
        assert not is_over(None, clock(wall=9e12))


class TestReading:
    @pytest.mark.parametrize(
        "text",
        ["2026-11-30T12:00:00Z", "2026-11-30T12:00:00.5Z", "2026-11-30T13:00:00+01:00"],
    )
    def test_stamps(self, text: str) -> None:
        """ISO stamps of the usual spellings are read."""
        assert isinstance(end_of(text, None), End)

    @pytest.mark.parametrize("text", ["soon", "", 5, True, "2026-13-01T00:00:00Z", "9" * 5000])
    def test_what_is_no_stamp(self, text: object) -> None:
        """Anything else says so."""
        assert isinstance(end_of(text, None), str)

    @pytest.mark.parametrize(
        "boot", [5, {}, {"boot": "", "boot_ms": 5}, {"boot": "b", "boot_ms": "5"}]
    )
    def test_a_damaged_boot_leaves_the_wall(self, boot: object) -> None:
        """The time of day is enough."""
        assert End("2026-11-30T12:00:00Z") == end_of("2026-11-30T12:00:00Z", boot)

    def test_stamps_are_read_as_they_are_written(self) -> None:
        """A time survives to the millisecond."""
        assert 1_234_567.891 == seconds_of(stamp(1_234_567.8912))
