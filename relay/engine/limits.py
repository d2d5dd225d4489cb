"""The settings that the engine reads while it works, as plain numbers of seconds and bytes.

One immutable record is derived for each snapshot of the settings and swapped as a whole, so that
the hot path never converts anything and never sees half of a change.
"""

from __future__ import annotations

from typing import NamedTuple

from relay.settings import Mode, RelaySettings
from relayconf.live.snapshot import Snapshot

#: The longest deadline that a request may ask for, in seconds: the maximum of RELAY_TIMEOUT_MS.
LONGEST_TIMEOUT = 24 * 3600.0


class Limits(NamedTuple):
    """Durations in seconds, sizes in bytes. ``watches`` is whether hop 2 is to use file events."""

    poll: float
    poll_max: float
    idle_grow_after: int
    timeout: float
    mode: Mode
    watches: bool
    max_request: int
    max_response: int
    max_in_flight: int
    session_max_in_flight: int
    tool_timeout: float
    drain_timeout: float
    file_op_timeout: float

    def pause_after(self, empty: int) -> float:
        """Return the seconds until the next poll, after so many in a row that found nothing."""
        # Beyond 20 doublings every pause is the longest, and a power would be a large number.
        grown = min(max(0, empty - self.idle_grow_after), 20)
        return min(self.poll * 2.0**grown, self.poll_max)


def limits_of(snapshot: Snapshot[RelaySettings], *, mode: Mode | None = None) -> Limits:
    """Return the limits that one snapshot of the settings states; ``mode`` stands for its own."""
    settings = snapshot.settings
    mode = settings.mode if mode is None else mode
    return Limits(
        poll=settings.poll.total_seconds(),
        poll_max=settings.poll_max.total_seconds(),
        idle_grow_after=settings.idle_grow_after,
        timeout=settings.timeout.total_seconds(),
        mode=mode,
        watches=_watches(snapshot, mode),
        max_request=settings.max_request,
        max_response=settings.max_response,
        max_in_flight=settings.max_in_flight,
        session_max_in_flight=settings.session_max_in_flight,
        tool_timeout=settings.tool_timeout.total_seconds(),
        drain_timeout=settings.drain_timeout.total_seconds(),
        file_op_timeout=settings.file_op_timeout.total_seconds(),
    )


def _watches(snapshot: Snapshot[RelaySettings], mode: Mode) -> bool:
    """``poll`` watches nowhere, ``watch`` whatever the flag's value; a killed flag beats both."""
    if snapshot.resolution.settings["RELAY_LOCAL_WATCH_ENABLED"].status == "killed":
        return False
    return snapshot.settings.local_watch if mode is Mode.AUTO else mode is Mode.WATCH
