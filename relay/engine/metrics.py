"""The runner's metrics, for Prometheus: its settings' and its own counters.

Names end in ``_total`` where they only grow. Nothing that a writer has chosen is a label.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from relay.engine.runner import Runner
from relay.engine.telemetry import Counters
from relayconf.metrics import Metric, exposition, metrics

_TEXTS = {
    "wakes": "Times that the loop was woken by activity.",
    "polls": "Times that a directory was due to be looked at.",
    "scans": "Listings of a directory that were begun.",
    "requests": "Requests taken.",
    "executed": "Requests whose tool was started.",
    "interrupted": "Claims of dead runners that were answered.",
}


def runner_metrics(runner: Runner, *, now: float | None = None) -> str:
    """Return everything that one runner has to tell, as text."""
    now = time.monotonic() if now is None else now
    return metrics(runner.live, now=now) + exposition(_counters(runner.counters))


def _counters(counters: Counters) -> Iterator[Metric]:
    for name in counters.__slots__:
        text = _TEXTS.get(name, f"{name}.")
        yield f"relay_{name}_total", "counter", text, [({}, getattr(counters, name))]
