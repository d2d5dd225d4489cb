"""The clocks that a TTL counts on: the wall, and the time since boot, which no one can set.

Time since boot goes on while the machine is suspended (``CLOCK_BOOTTIME``); it means something only
together with the id of the boot. Ground floor.
"""

from __future__ import annotations

import time
from typing import Callable, NamedTuple, Optional

_BOOT_ID = "/proc/sys/kernel/random/boot_id"

_boot_id: Optional[str] = None


class Clock(NamedTuple):
    """``wall`` gives seconds since 1970, ``boot_ms`` milliseconds since the boot ``boot_id()``."""

    wall: Callable[[], float]
    boot_ms: Callable[[], int]
    boot_id: Callable[[], str]


def _read_boot_id() -> str:
    """Return the id of this boot, or an empty text where the system has none."""
    global _boot_id  # noqa: PLW0603 - it never changes while this process lives
    if _boot_id is None:
        try:
            with open(_BOOT_ID, encoding="ascii") as file:
                _boot_id = file.read().strip()
        except (OSError, ValueError):
            _boot_id = ""
    return _boot_id


def _read_boot_ms() -> int:
    return time.clock_gettime_ns(_CLOCK) // 1_000_000


#: Elsewhere than on Linux the monotonic clock comes closest.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

SYSTEM = Clock(time.time, _read_boot_ms, _read_boot_id)


def stamp(seconds: float) -> str:
    """Return a wall time as ``2026-11-30T12:00:00.000Z``."""
    milliseconds = round(seconds * 1000)
    whole, rest = divmod(milliseconds, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{rest:03d}Z"


def seconds_of(text: str) -> Optional[float]:
    """Return the wall time that a stamp means, in seconds; ``None`` where it is none.

    Fractions of a second are optional, and so is the time of day; what is not UTC must say so.
    """
    from datetime import datetime, timezone  # noqa: PLC0415 - only where something ends

    spelled = text.strip()
    if spelled.endswith(("Z", "z")):
        spelled = spelled[:-1] + "+00:00"
    try:
        moment = datetime.fromisoformat(_six_digits(spelled))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return moment.timestamp()
    except (ValueError, OverflowError):
        return None


def _six_digits(text: str) -> str:
    """Return a stamp with the six digits of a fraction that Python 3.9 asks for."""
    head, dot, tail = text.partition(".")
    if not dot:
        return text
    digits = len(tail) - len(tail.lstrip("0123456789"))
    return f"{head}.{tail[:digits][:6]:0<6}{tail[digits:]}"
