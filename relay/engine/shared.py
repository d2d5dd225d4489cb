"""What all sessions of one runner share, in one record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from relay.engine.announce import Announcement
from relay.engine.filesystems import Mounts
from relay.engine.hub import Hub
from relay.engine.limits import Limits
from relay.engine.locks import Locks
from relay.engine.slots import Slots
from relay.engine.telemetry import Counters, Pickups


@dataclass(slots=True)
class Shared:
    """The parts of one runner.

    Attributes:
        hub: wakes the loop.
        locks: who is alive.
        slots: how much may be in flight.
        limits: the settings in force; replaced as a whole.
        announcement: relay.json in force.
        clock: monotonic seconds.
        wall: seconds on the clock of file times.
        cancels: callers may take back what is in flight, and are told so.
        answers: how many requests were answered, by code; ``ok`` and ``paused`` are two more.
        pickups: how long requests lay there.
        mounts: which paths are on file systems that may not answer.
        unwatched: how many sessions cannot be watched, by the number of the error.
    """

    hub: Hub
    locks: Locks
    slots: Slots
    limits: Limits
    announcement: Announcement
    clock: Callable[[], float]
    wall: Callable[[], float]
    cancels: bool = False
    counters: Counters = field(default_factory=Counters)
    answers: Counter[str] = field(default_factory=Counter)
    pickups: Pickups = field(default_factory=Pickups)
    mounts: Mounts = field(default_factory=Mounts)
    unwatched: Counter[int] = field(default_factory=Counter)
