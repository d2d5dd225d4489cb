"""When an override ends: on the clock that counts from boot, so that no clock step moves it.

The boot clock goes on while the machine is suspended. On another boot than the one that is named
the wall clock has to do. Ground floor.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Union

from relayconf.state.clock import Clock, seconds_of, stamp


class End(NamedTuple):
    """An end: ``at`` on the wall clock, ``boot_ms`` milliseconds after the boot ``boot``."""

    at: str
    boot: Optional[str] = None
    boot_ms: int = 0


def end_after(milliseconds: int, clock: Clock) -> End:
    """Return the end that comes in so many milliseconds."""
    at = stamp(clock.wall() + milliseconds / 1000)
    boot = clock.boot_id()
    return End(at, boot, clock.boot_ms() + milliseconds) if boot else End(at)


def left_ms(end: Optional[End], clock: Clock) -> Optional[float]:
    """Return the milliseconds until an end, at most 0 where it has come; ``None`` for no end."""
    if end is None:
        return None
    if end.boot and end.boot == clock.boot_id():
        return float(end.boot_ms - clock.boot_ms())
    seconds = seconds_of(end.at)
    return None if seconds is None else (seconds - clock.wall()) * 1000


def is_over(end: Optional[End], clock: Clock) -> bool:
    """Whether an end has come."""
    left = left_ms(end, clock)
    return left is not None and left <= 0


def end_of(at: Any, boot: Any) -> Union[End, str, None]:
    """Read an end from a document; a text says why there is none to be read."""
    if at is None:
        return None
    if not isinstance(at, str) or seconds_of(at) is None:
        return "its expires_at is no time"
    if isinstance(boot, dict):
        name, count = boot.get("boot"), boot.get("boot_ms")
        if isinstance(name, str) and name and type(count) is int and 0 <= count < 1 << 63:
            return End(at, name, count)
    return End(at)
