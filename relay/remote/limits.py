"""The settings that the remote hop reads, as plain seconds, for one relay and one snapshot.

Jitter is drawn here too, by the fraction that each setting declares, from a source that is an
argument. Whether the relay watches is decided here once for each snapshot, by mode, flag and share.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from relay.settings import Mode, RelaySettings
from relayconf.flags import is_on
from relayconf.jitter import draw
from relayconf.live.snapshot import Snapshot
from relayconf.settings import contract_of

_FLAG = "RELAY_REMOTE_WATCH_ENABLED"

#: Returns a float from 0 to 1.
Random = Callable[[], float]


class RemoteLimits(NamedTuple):
    """Durations in seconds. ``watches`` is whether this relay is to wait inside its sandbox."""

    watches: bool
    window: float
    grace: float
    rescan: float
    safety_poll: float
    demote_after: int
    backoff_base: float
    backoff_max: float
    poll: float
    poll_max: float
    idle_grow_after: int
    file_op_timeout: float


def remote_limits(snapshot: Snapshot[RelaySettings], key: str) -> RemoteLimits:
    """Return what one snapshot says to the relay of this key."""
    settings = snapshot.settings
    return RemoteLimits(
        watches=_watches(snapshot, key),
        window=_seconds(settings.remote_watch_window),
        grace=_seconds(settings.remote_watch_grace),
        rescan=_seconds(settings.remote_rescan),
        safety_poll=_seconds(settings.safety_poll),
        demote_after=settings.demote_after,
        backoff_base=_seconds(settings.backoff_base),
        backoff_max=_seconds(settings.backoff_max),
        poll=_seconds(settings.poll),
        poll_max=_seconds(settings.poll_max),
        idle_grow_after=settings.idle_grow_after,
        file_op_timeout=_seconds(settings.file_op_timeout),
    )


def _watches(snapshot: Snapshot[RelaySettings], key: str) -> bool:
    """``poll`` watches nowhere, ``watch`` whatever the share; a killed flag beats both."""
    mode = snapshot.settings.mode
    if mode is Mode.POLL or snapshot.resolution.settings[_FLAG].status == "killed":
        return False
    return mode is Mode.WATCH or is_on(snapshot, _FLAG, key=key)


def window(limits: RemoteLimits, random: Random) -> float:
    """Draw how long the next window lasts."""
    return _draw("RELAY_REMOTE_WATCH_WINDOW_MS", limits.window, random)


def backoff(limits: RemoteLimits, failures: int, random: Random) -> float:
    """Draw the pause after so many failures in a row: the base, doubled by each further one."""
    pause = min(limits.backoff_base * 2.0 ** min(failures - 1, 30), limits.backoff_max)
    longest = pause >= limits.backoff_max
    return _draw("RELAY_BACKOFF_MAX_MS" if longest else "RELAY_BACKOFF_BASE_MS", pause, random)


def idle_pause(limits: RemoteLimits, empty: int) -> float:
    """Return the pause of classic polling after so many looks that found nothing."""
    grown = min(max(0, empty - limits.idle_grow_after), 20)
    return min(limits.poll * 2.0**grown, limits.poll_max)


def _draw(name: str, seconds: float, random: Random) -> float:
    setting = contract_of(RelaySettings).settings[name]
    return draw(setting, round(seconds * 1000), random) / 1000


def _seconds(duration: timedelta) -> float:
    return duration.total_seconds()
