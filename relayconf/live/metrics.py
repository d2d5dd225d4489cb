"""Metrics: what a process goes by, as text that Prometheus scrapes.

Pure: from live settings to text, with the time as an argument. Of settings that are no flags no
value appears, so that no secret can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from relayconf.fleet.known import BLIND, FRESH, STALE
from relayconf.live.snapshot import Live
from relayconf.resolve import Effective
from relayconf.state.clock import SYSTEM, Clock
from relayconf.values import render

if TYPE_CHECKING:
    from relayconf.fleet.follower import Follower

#: One metric: its name, its type, what it is, and each sample's labels and value. A histogram's
#: samples say by the label ``""`` what is added to the name: ``_bucket``, ``_sum``, ``_count``.
Metric = tuple[str, str, str, list[tuple[Mapping[str, str], float]]]


def metrics(live: Live[Any], *, now: float, clock: Clock = SYSTEM) -> str:
    """Return the metrics of one process's settings.

    Args:
        live: the settings.
        now: monotonic seconds, as ``time.monotonic`` gives them.
        clock: by which the fleet's freshness is reckoned.
    """
    return exposition(_metrics(live, now, clock))


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


def _metrics(live: Live[Any], now: float, clock: Clock) -> Iterator[Metric]:
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
    if live.follower is not None:
        yield from _fleet(live.follower, target, clock)


def _fleet(follower: Follower, target: Mapping[str, str], clock: Clock) -> Iterator[Metric]:
    known = follower.known
    state = known.freshness(clock, follower.options.blind_after_ms)
    text = "1 for how fresh what is known of the fleet is: fresh, stale or blind."
    states = [({**target, "state": each}, float(each == state)) for each in (FRESH, STALE, BLIND)]
    yield "relayconf_fleet_state", "gauge", text, list(states)
    age = known.age_ms(clock)
    if age is not None:
        text = "How long ago what is known of the fleet was all that its server had."
        yield "relayconf_fleet_behind_seconds", "gauge", text, [(target, round(age / 1000, 3))]
    text = "Revision of the fleet that is known."
    yield "relayconf_fleet_revision", "gauge", text, [(target, known.position.revision)]
    text = "Connections to the fleet's server after the first."
    yield "relayconf_fleet_reconnects_total", "counter", text, [(target, follower.reconnects)]
    text = "Changes of this host that wait for the fleet's server."
    pending = len(follower.reading().pending)
    yield "relayconf_fleet_pending", "gauge", text, [(target, pending)]
    text = "Kills in force here that the fleet's server has lost."
    yield "relayconf_fleet_held", "gauge", text, [(target, len(known.held))]


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
