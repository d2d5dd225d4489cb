"""What a runner with remote relays counts, beside what every runner does."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from relay.engine.telemetry import Counters


@dataclass(slots=True)
class RemoteCounters(Counters):
    """Counters of one runner.

    Attributes:
        windows: drains that were sent to wait.
        expired: windows that ended with nothing, as they may.
        failures: windows and safety polls that failed.
        misses: requests that a safety poll found and a healthy watch had not.
        demotions: times that a relay fell back to polling until a trial.
        trips: times that the flag was killed, since too many relays were demoted.
        replays: claims that were printed more than once and dropped.
        sent: remote requests by kind, filled in by the hosts.
    """

    windows: int = 0
    expired: int = 0
    failures: int = 0
    misses: int = 0
    demotions: int = 0
    trips: int = 0
    replays: int = 0
    sent: Counter[str] = field(default_factory=Counter)

    def values(self) -> dict[str, int]:
        """Return them by name; remote requests are one of their own."""
        own = {name: getattr(self, name) for name in RemoteCounters.__slots__ if name != "sent"}
        return {**Counters.values(self), **own}

    def line(self) -> str:
        """Return them as ``name=value`` words, remote requests by kind among them."""
        sent = {f"sent_{kind}": count for kind, count in sorted(self.sent.items())}
        return " ".join(f"{name}={value}" for name, value in {**self.values(), **sent}.items())
