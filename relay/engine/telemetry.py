"""What the runner says about its work: lines for a log, and counters.

Everything that a writer may have chosen is escaped before it reaches a line, so that one line of
the log is one event of the runner and nothing else.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger("relay")


#: What takes event lines in a process whose log is all its own; else they go to the logger.
_sink: Callable[[str], None] | None = None


def event(line: str) -> None:
    """Say that something happened: ``stage=NAME`` and further ``name=value`` words."""
    if _sink is not None:
        _sink(line)
    else:
        log.info("%s", line)


def send_events_to(sink: Callable[[str], None] | None) -> None:
    """Have event lines handed to ``sink``, past the logger.

    A runner writes one for each call; as a record of a logger it costs a twentieth of the call.
    """
    global _sink  # noqa: PLW0603 - like a logger's handlers, it is the process's
    _sink = sink


def escaped(text: str, *, limit: int = 200) -> str:
    """Return ``text`` for a log: at most ``limit`` characters, nothing that moves a cursor."""
    if len(text) > limit:
        text = f"{text[:limit]}..."
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def token(text: str) -> str:
    """Return ``text`` as one word of a ``name=value`` line."""
    return escaped(text, limit=4096).replace(" ", "\\x20")


def pickup_ms(age: float) -> str:
    """Return the age in seconds at which a request was taken, in milliseconds; -1 is unknown."""
    return "-1" if age < 0 else f"{age * 1000:.2f}"


@dataclass(slots=True)
class Counters:
    """What one runner has done since its start.

    Attributes:
        wakes: times that the loop was woken by activity.
        polls: times that a directory was due to be looked at.
        scans: listings of a directory that were begun.
        requests: requests taken.
        executed: requests whose tool was started.
        interrupted: claims of dead runners that were answered.
    """

    wakes: int = 0
    polls: int = 0
    scans: int = 0
    requests: int = 0
    executed: int = 0
    interrupted: int = 0

    def values(self) -> dict[str, int]:
        """Return them by name."""
        return {name: getattr(self, name) for name in Counters.__slots__}

    def line(self) -> str:
        """Return them as ``name=value`` words."""
        return " ".join(f"{name}={value}" for name, value in self.values().items())


#: Upper bounds of the classes in which pickups are counted, in seconds. The kernel keeps a file's
#: time to a tick of its clock, which is up to 10 ms.
PICKUP_CLASSES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Pickups:
    """How long requests had lain there when they were taken.

    ``counts`` are by class, the last for those above all; ``total`` is in seconds.
    """

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(PICKUP_CLASSES) + 1)
        self.total = 0.0

    def note(self, age: float) -> None:
        """Count one request; an age below 0 is not known, and is not counted."""
        if age >= 0:
            self.counts[bisect_left(PICKUP_CLASSES, age)] += 1
            self.total += age
