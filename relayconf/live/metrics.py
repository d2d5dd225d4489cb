"""Metrics: what a process goes by, as text that Prometheus scrapes.

Pure: from live settings to text, with the time as an argument. Of settings that are no flags no
value appears, so that no secret can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from relayconf.live.snapshot import Live
from relayconf.resolve import Effective
from relayconf.values import render

#: One metric: its name, its type, what it is, and each sample's labels and value. A histogram's
#: samples say by the label ``""`` what is added to the name: ``_bucket``, ``_sum``, ``_count``.
Metric = tuple[str, str, str, list[tuple[Mapping[str, str], float]]]


def metrics(live: Live[Any], *, now: float) -> str:
    """Return the metrics of one process's settings.

    Args:
        live: the settings.
        now: monotonic seconds, as ``time.monotonic`` gives them.
    """
    return exposition(_metrics(live, now))


def exposition(found: Iterator[Metric] | list[Metric]) -> str:
    """Return metrics in the text format 0.0.4."""
    lines = []
    for name, kind, text, samples in found:
        lines.append(f"# HELP {name} {text}")
        lines.append(f"# TYPE {name} {kind}")
        for labels, value in samples:
            inner = ",".join(f'{key}="{_escaped(label)}"' for key, label in labels.items() if key)
            whole = f"{name}{labels.get('', '')}"
            shown = str(value) if isinstance(value, int) else f"{value:.9g}"
            lines.append(f"{whole}{{{inner}}} {shown}" if inner else f"{whole} {shown}")
    return "".join(f"{line}\n" for line in lines)


def _metrics(live: Live[Any], now: float) -> Iterator[Metric]:
    snapshot = live.snapshot
    target = {"target": snapshot.resolution.contract.target}
    text = "Generation of the overrides in force."
    yield "relayconf_generation", "gauge", text, [(target, live.generation)]
    text = "Number of the snapshot in force; each change of a value adds one."
    yield "relayconf_snapshot", "gauge", text, [(target, snapshot.number)]
    text = "How long the snapshot has been in force."
    age = max(0.0, now - snapshot.made)
    yield "relayconf_snapshot_age_seconds", "gauge", text, [(target, round(age, 3))]
    text = "How long ago the sources were looked at."
    age = max(0.0, now - live.looked)
    yield "relayconf_look_age_seconds", "gauge", text, [(target, round(age, 3))]
    text = "Looks at which something could not be used, so that the last good values stayed."
    yield "relayconf_reload_failures_total", "counter", text, [(target, live.reload_failures)]
    text = "Settings that changed and wait for the next start."
    yield "relayconf_pending_restart", "gauge", text, [(target, len(snapshot.pending))]
    text = "Problems with settings and overrides, by severity."
    yield "relayconf_problems", "gauge", text, list(_problems(live, target))
    text = "1 for the state that each flag is in: on, off, a share of keys, or killed."
    yield "relayconf_flag", "gauge", text, list(_flags(live, target))


def _problems(
    live: Live[Any], target: Mapping[str, str]
) -> Iterator[tuple[Mapping[str, str], float]]:
    severities = [problem.severity for problem in live.problems]
    for severity in ("error", "warning", "note"):
        yield {**target, "severity": severity}, severities.count(severity)


def _flags(live: Live[Any], target: Mapping[str, str]) -> Iterator[tuple[Mapping[str, str], float]]:
    for name, effective in live.snapshot.resolution.settings.items():
        if effective.setting.flag is not None:
            labels = {"name": name, "state": _state(effective), "source": effective.layer}
            yield {**target, **labels}, 1


def _state(effective: Effective) -> str:
    if effective.status == "killed":
        return "killed"
    if isinstance(effective.value, bool):
        return "on" if effective.value else "off"
    return "unset" if effective.value is None else render(effective.setting, effective.value)


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
