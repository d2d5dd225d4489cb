"""How kill, set and restore say what became of a change of the fleet: as JSON, and in lines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from relayconf.cli import common
from relayconf.cli.changing import Desk
from relayconf.cli.fleetwide import Errand
from relayconf.fleet.engine import Change
from relayconf.fleet.proof import LOST, Witness
from relayconf.fleet.record import FleetEntry, Scope
from relayconf.instances.waiting import APPLIED, NOBODY, NOT_BY_ALL
from relayconf.overrides.ttl import end_after
from relayconf.state.clock import SYSTEM
from relayconf.values import excerpt


def tell(arguments: argparse.Namespace, desk: Desk, errand: Errand) -> int:
    """Print what became of it, and return the exit code."""
    alarms = [*desk.alarms, *errand.alarms, *errand.lookout.remarks, *_cut_short(errand)]
    alarms.extend(_still_here(desk, errand))
    for alarm in alarms:
        sys.stderr.write(f"relayconf: WARNING: {alarm}\n")
    if arguments.json:
        common.print_json(_document(arguments, desk, errand, alarms))
    else:
        common.print_text("\n".join(_lines(arguments, desk, errand)))
        for complaint in _complaints(arguments, errand):
            sys.stderr.write(f"relayconf: {complaint}\n")
    return _code(arguments, errand)


def _still_here(desk: Desk, errand: Errand) -> Iterator[str]:
    """Yield what this host's own overrides keep in force although the fleet's were restored."""
    for target, name in sorted(errand.lifted):
        kinds = [kind for kind in ("kill", "set") if desk.document.find(target, name, kind)]
        if kinds:
            what = "killed" if kinds[0] == "kill" else "set"
            yield f"{name} is {what} on this host alone, too: relayconf restore {name} --local"


def _cut_short(errand: Errand) -> Iterator[str]:
    """Yield what to say of each kill that a new one replaces, and that would have lasted longer."""
    known = {entry.key: entry.override for entry in errand.lookout.reading.entries}
    for change in errand.changes:
        there, override = known.get(change.entry.key), change.entry.override
        if there is None or override.end is None or there.kind != "kill":
            continue
        if there.outlasts(override):
            end = "without an end" if there.end is None else f"until {there.end.at}"
            yield f"{there.name} was killed {end}; it now ends at {override.end.at}"


def _code(arguments: argparse.Namespace, errand: Errand) -> int:
    if arguments.dry_run or not errand.changes:
        return APPLIED
    if errand.waiting:
        return NOT_BY_ALL
    if arguments.wait is None:
        return APPLIED
    if errand.proof is None or not errand.is_safe:
        return NOT_BY_ALL
    return errand.proof.code


def _document(
    arguments: argparse.Namespace, desk: Desk, errand: Errand, alarms: list[str]
) -> dict[str, Any]:
    made, removed = _parted(errand)
    proof = errand.proof
    return {
        "dry_run": arguments.dry_run,
        "changed": not arguments.dry_run and bool(errand.changes),
        "generation": desk.document.generation,
        "state_dir": desk.path,
        "made": [_entry(change) for change in made],
        "removed": [_entry(change) for change in removed],
        "instances": [] if proof is None else [_instance(w, errand) for w in proof.witnesses],
        "missing": [] if proof is None else [witness.id for witness in proof.missing],
        "problems": [*alarms, *_complaints(arguments, errand)],
        "fleet": _fleet(errand),
    }


def _fleet(errand: Errand) -> dict[str, Any]:
    reached = errand.durability
    standing = errand.lookout.standing
    return {
        "url": errand.options.address,
        "reached": errand.unavailable is None,
        "error": errand.unavailable,
        "epoch": None if standing is None else standing.position.epoch or None,
        "revision": errand.position.revision or None,
        "pending": len(errand.waiting) if errand.queued else 0,
        "durability": {
            "wanted": errand.options.durability,
            "on_disk": None if reached is None else reached.on_disk,
            "replicas": None if reached is None else reached.replicas,
            "reached": errand.is_safe and reached is not None,
        },
    }


def _entry(change: Change) -> dict[str, Any]:
    override = change.entry.override
    end = None if change.ttl_ms is None else end_after(change.ttl_ms, SYSTEM)
    return {
        "id": change.id,
        "target": override.target,
        "name": override.name,
        "kind": override.kind,
        "value": override.value,
        "expires_at": None if end is None else end.at,
        "scope": change.entry.scope._asdict(),
    }


def _instance(witness: Witness, errand: Errand) -> dict[str, Any]:
    names = {change.entry.override.name for change in errand.changes}
    flags = witness.values or {}
    return {
        "id": witness.id,
        "target": witness.target,
        "host": witness.host,
        "pid": witness.pid,
        "deployment": witness.deployment,
        "generation": witness.generation,
        "epoch": witness.position.epoch or None,
        "revision": witness.position.revision,
        "applied": not witness.why,
        "why": witness.why or None,
        "gone": witness.gone,
        "age_ms": witness.age_ms,
        "restart_only": witness.restart_only,
        "values": {name: _value(flags[name]) for name in sorted(names) if name in flags},
    }


def _value(flag: object) -> Any:
    return flag.get("value") if isinstance(flag, dict) else None


def _shown(flag: object) -> str:
    value = _value(flag)
    return str(value).lower() if isinstance(value, bool) else excerpt(str(value))


def _parted(errand: Errand) -> tuple[list[Change], list[Change]]:
    made = [change for change in errand.changes if not change.entry.tombstone]
    return made, [change for change in errand.changes if change.entry.tombstone]


def _lines(arguments: argparse.Namespace, desk: Desk, errand: Errand) -> Iterator[str]:
    would = "would be " if arguments.dry_run else ""
    made, removed = _parted(errand)
    known = {entry.key: entry for entry in errand.lookout.reading.entries}
    for change in made:
        override = change.entry.override
        end = _entry(change)["expires_at"]
        until = "" if end is None else f", until {end}"
        what = "killed" if override.kind == "kill" else "set"
        yield f"{_name(change)} {would}{what}: {excerpt(override.value)}{until}"
    for change in removed:
        yield f"{_name(change)} {would}restored: {_removed(known.get(change.entry.key))}"
    if not errand.changes:
        yield "nothing to restore: no override of that name is in force"
    yield f"fleet: {errand.options.address}, {_standing(errand)}"
    yield f"state directory: {desk.path}"
    yield from _witnesses(arguments, errand)


def _removed(entry: FleetEntry | None) -> str:
    if entry is None:
        return "nothing of it was known here; whoever still holds it lets it go"
    override = entry.override
    what = "kill" if override.kind == "kill" else f"value {excerpt(override.value)}"
    return f"its {what} is gone"


def _name(change: Change) -> str:
    override = change.entry.override
    return f"{override.name} ({override.target}{_scope(change.entry.scope)})"


def _scope(scope: Scope) -> str:
    parts = [f"{field} {value}" for field, value in scope._asdict().items() if value is not None]
    return "".join(f", {excerpt(part, 100)} alone" for part in parts)


def _standing(errand: Errand) -> str:
    if errand.waiting and errand.written == {} and errand.unavailable is not None:
        count = len(errand.waiting)
        return f"away: {count} change(s) in force on this host alone, to be merged"
    if errand.unavailable is not None:
        return "away"
    if not errand.position.revision:
        standing = errand.lookout.standing
        return f"revision {0 if standing is None else standing.position.revision}"
    reached = errand.durability
    durable = "" if reached is None else f", {reached.text()}"
    return f"revision {errand.position.revision}{durable}"


def _witnesses(arguments: argparse.Namespace, errand: Errand) -> Iterator[str]:
    proof = errand.proof
    if proof is None:
        return
    hosts = len({witness.host for witness in proof.witnesses})
    where = f" on {hosts} host(s)" if hosts else ""
    of = "instances of this host that declare it" if errand.waiting else "instances that declare it"
    yield f"{of}: {len(proof.witnesses)}{'' if errand.waiting else where}"
    names = {change.entry.override.name for change in errand.changes}
    changed = bool(errand.changes) and not arguments.dry_run
    for witness in proof.witnesses:
        state = witness.why or "applied"
        if not changed:
            flags = witness.values or {}
            said = [f"{n} is {_shown(flags[n])} now" for n in sorted(names) if n in flags]
            state = ", ".join(said) or "goes by it"
        at = f"{witness.target} pid {witness.pid} on {witness.host}"
        yield f"  {at}: {state}"


def _complaints(arguments: argparse.Namespace, errand: Errand) -> Iterator[str]:
    if errand.unavailable is not None:
        yield f"the fleet cannot be asked: {errand.unavailable}"
    if errand.waiting and not arguments.dry_run and errand.changes:
        yield (
            "the other hosts go on as before; the change is merged by whichever process of this "
            "host, or command, reaches the server first"
        )
        return
    proof = errand.proof
    if proof is None or arguments.dry_run or not errand.changes:
        return
    if not errand.is_safe:
        reached = errand.durability
        text = "nothing" if reached is None else reached.text()
        yield f"the change is in force, and not as safe as {errand.options.durability}: {text}"
    if proof.code == NOBODY:
        yield (
            "no instance on any host declares it; is this the right server, prefix and target? "
            "The change is written all the same"
        )
    elif proof.code == NOT_BY_ALL and not proof.missing:
        yield LOST if proof.over else "instances may not be back on the server's list yet"
