"""The runner's metrics, for Prometheus: its settings' and its own counters.

Names end in ``_total`` where they only grow. Nothing that a writer has chosen is a label.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Protocol

from relay.engine.shared import Shared
from relay.engine.telemetry import PICKUP_CLASSES, Counters
from relay.settings import RelaySettings
from relayconf.live.metrics import Metric, exposition, metrics
from relayconf.live.snapshot import Live

_TEXTS = {
    "wakes": "Times that the loop was woken by activity.",
    "polls": "Times that a directory was due to be looked at.",
    "scans": "Listings of a directory that were begun.",
    "requests": "Requests taken.",
    "executed": "Requests whose tool was started.",
    "interrupted": "Claims of dead runners that were answered.",
    "windows": "Drains that were sent to wait in a sandbox.",
    "expired": "Windows that ended with nothing, as they may.",
    "failures": "Windows and safety polls that failed.",
    "misses": "Requests that a safety poll found and a healthy watch had not.",
    "demotions": "Times that a remote relay fell back to polling until a trial.",
    "trips": "Times that the flag was killed, since too many relays were demoted.",
    "replays": "Claims that were printed more than once and dropped.",
}


class Measured(Protocol):
    """A runner, as far as its metrics are concerned; a local one has more to tell."""

    @property
    def live(self) -> Live[RelaySettings]:
        """Its settings."""

    @property
    def counters(self) -> Counters:
        """What it has done."""


def runner_metrics(runner: Measured, *, now: float | None = None) -> str:
    """Return everything that one runner has to tell, as text."""
    now = time.monotonic() if now is None else now
    shared: Shared | None = getattr(runner, "shared", None)
    more = [] if shared is None else [*_gauges(shared, runner), *_latencies(shared)]
    return metrics(runner.live, now=now) + exposition([*_counters(runner.counters), *more])


def _gauges(shared: Shared, runner: Measured) -> Iterator[Metric]:
    sessions = len(getattr(runner, "sessions", ()))
    yield "relay_sessions", "gauge", "Session directories that are served.", [({}, sessions)]
    text = "Sessions that are polled, since they cannot be watched."
    yield "relay_sessions_unwatched", "gauge", text, [({}, shared.unwatched.total())]
    text = "Requests that are being worked on."
    yield "relay_in_flight", "gauge", text, [({}, shared.slots.taken)]
    text = "Tools that go on although their call was given up."
    yield "relay_left_behind", "gauge", text, [({}, getattr(runner, "left_behind", 0))]
    sockets: int | None = getattr(runner, "sockets", None)
    if sockets is not None:
        text = "Connections to the remote host that are open."
        yield "relay_open_sockets", "gauge", text, [({}, sockets)]


def _latencies(shared: Shared) -> Iterator[Metric]:
    text = "Requests that were answered, by the code of the answer."
    answers: list[tuple[Mapping[str, str], float]] = [
        ({"code": code}, count) for code, count in sorted(shared.answers.items())
    ]
    yield "relay_answers_total", "counter", text, answers
    counts = list(accumulate(shared.pickups.counts))
    bounds = (*map(str, PICKUP_CLASSES), "+Inf")
    text = "Seconds from a request's publication until it was taken."
    buckets: list[tuple[Mapping[str, str], float]] = [
        ({"": "_bucket", "le": bound}, count) for bound, count in zip(bounds, counts, strict=True)
    ]
    whole: list[tuple[Mapping[str, str], float]] = [
        ({"": "_sum"}, shared.pickups.total),
        ({"": "_count"}, counts[-1]),
    ]
    yield "relay_pickup_seconds", "histogram", text, buckets + whole


def _counters(counters: Counters) -> Iterator[Metric]:
    for name, value in counters.values().items():
        text = _TEXTS.get(name, f"{name}.")
        yield f"relay_{name}_total", "counter", text, [({}, value)]
    sent: Counter[str] | None = getattr(counters, "sent", None)
    if sent is not None:
        text = "Requests to the remote host, by kind."
        values: list[tuple[Mapping[str, str], float]] = [
            ({"kind": kind}, count) for kind, count in sorted(sent.items())
        ]
        yield "relay_remote_requests_total", "counter", text, values
