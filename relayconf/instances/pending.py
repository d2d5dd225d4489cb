"""What a command that took its settings at its start has missed since, by the audit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from relayconf.instances.listing import Seen
from relayconf.overrides.document import Json

_CHANGES = frozenset({"kill", "set", "restore", "expire"})


def with_pending(live: Iterable[Seen], lines: Iterable[Json]) -> list[Seen]:
    """Return the instances, each restart-only one with the settings that wait for its restart."""
    changed = [line for line in lines if line.get("action") in _CHANGES]
    return [_with_pending(seen, changed) if seen.restart_only else seen for seen in live]


def _with_pending(seen: Seen, changed: list[Json]) -> Seen:
    names: dict[str, None] = {}
    for line in changed:
        later = line.get("generation", 0) > (seen.generation or 0)
        if later and seen.declares(str(line.get("target")), str(line.get("name"))):
            names[str(line["name"])] = None
    return replace(seen, pending_restart=tuple(names))
