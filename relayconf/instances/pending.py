"""What waits for the restart of a process that ``run`` has started, beside what it says itself.

A command that took its settings at its start has missed every change since, by the audit. One that
follows by itself keeps in its environment what was overridden at its start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from relayconf.instances.listing import Seen
from relayconf.overrides.document import Json

_CHANGES = frozenset({"kill", "set", "restore", "expire"})


def with_pending(
    live: Collection[Seen], lines: Iterable[Json], overridden: Collection[tuple[str, str]]
) -> list[Seen]:
    """Return the instances, each with the settings that wait for its restart.

    Args:
        live: the instances.
        lines: the audit.
        overridden: targets and names of what is overridden now.
    """
    if not any(seen.restart_only for seen in live):
        lines = ()  # what happened long ago is nobody's business then
    changed = [line for line in lines if line.get("action") in _CHANGES]
    return [
        _missed(seen, changed) if seen.restart_only else with_frozen(seen, overridden)
        for seen in live
    ]


def with_frozen(seen: Seen, overridden: Collection[tuple[str, str]]) -> Seen:
    """Return an instance that waits also for what nothing overrides but its own environment."""
    names = [name for name in seen.frozen if (seen.target, name) not in overridden]
    if seen.restart_only or not names:
        return seen
    return replace(seen, pending_restart=tuple(dict.fromkeys((*seen.pending_restart, *names))))


def _missed(seen: Seen, changed: list[Json]) -> Seen:
    names: dict[str, None] = {}
    for line in changed:
        later = line.get("generation", 0) > (seen.generation or 0)
        if later and seen.declares(str(line.get("target")), str(line.get("name"))):
            names[str(line["name"])] = None
    return replace(seen, pending_restart=tuple(names))
