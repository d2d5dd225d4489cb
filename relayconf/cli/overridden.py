"""Who overrides a setting through the fleet and why, and how fresh that knowledge is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from relayconf import wording
from relayconf.fleet.layer import host_name
from relayconf.fleet.reading import read_files, reading_of
from relayconf.fleet.record import FleetEntry
from relayconf.layers import Sources
from relayconf.setting import Contract, Setting
from relayconf.state.clock import SYSTEM
from relayconf.values import excerpt, mask_userinfo


def by_fleet(contract: Contract, setting: Setting, sources: Sources) -> dict[str, Any] | None:
    """Return what this host knows of a setting from its fleet; ``None`` where there is none."""
    options = sources.fleet
    if options is None:
        return None
    known, queue, _ = read_files(sources.state_dir, group=sources.state_group)
    reading = reading_of(known, queue, options)
    names = {setting.name, *setting.legacy}
    entries = [
        entry
        for entry in reading.entries
        if entry.override.target == contract.target and entry.override.name in names
    ]
    mine = options.deployment, host_name()
    return {
        "url": options.address,
        "state": reading.freshness.upper(),
        "behind_ms": known.age_ms(SYSTEM),
        "blind": None if setting.flag is None else setting.flag.blind,
        "overrides": [_entry(entry, applies=entry.scope.covers(*mine)) for entry in entries],
    }


def _entry(entry: FleetEntry, *, applies: bool) -> dict[str, Any]:
    override = entry.override
    return {
        "origin": override.origin,
        "kind": override.kind,
        "value": mask_userinfo(override.value) if "://" in override.value else override.value,
        "revision": entry.revision or None,
        "epoch": entry.epoch or None,
        "scope": entry.scope._asdict(),
        "applies": applies,
        "actor": override.actor,
        "reason": override.reason,
        "incident": override.incident,
        "made_at": override.made_at,
        "expires_at": None if override.end is None else override.end.at,
    }


def lines(setting: Setting, fleet: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the same for a person, label and text."""
    for entry in fleet["overrides"]:
        yield "fleet", _told(entry)
    if not fleet["overrides"] and fleet["state"] == "FRESH":
        return
    age = fleet["behind_ms"]
    behind = "" if age is None else f", last compared {wording.duration(age)} ago"
    yield "freshness", f"{fleet['state']}{behind}"
    if fleet["state"] != "FRESH" and setting.flag is not None:
        yield "when blind", wording.blind(setting, setting.flag)


def _told(entry: dict[str, Any]) -> str:
    what = "killed" if entry["kind"] == "kill" else f"set to {excerpt(entry['value'])}"
    at = "not yet on the server" if entry["revision"] is None else f"revision {entry['revision']}"
    by = "" if entry["actor"] is None else f" by {excerpt(entry['actor'], 100)}"
    when = "" if entry["made_at"] is None else f" at {entry['made_at']}"
    why = "" if entry["reason"] is None else f": {excerpt(entry['reason'], 500)}"
    incident = "" if entry["incident"] is None else f" ({excerpt(entry['incident'], 100)})"
    until = "" if entry["expires_at"] is None else f", until {entry['expires_at']}"
    whom = "".join(f", {k} {excerpt(v, 100)} alone" for k, v in entry["scope"].items() if v)
    aside = "" if entry["applies"] else "; not for this process"
    return f"{what}{by}{when}{why}{incident} [{entry['origin']}, {at}{until}{whom}{aside}]"
