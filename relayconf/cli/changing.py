"""What kill, set and restore share: write, look who is there, wait for proof, and say it.

The directory and the instances are always named, so that a wrong user or a wrong directory never
looks like success.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from relayconf.cli import common
from relayconf.cli.because import seconds_to_wait
from relayconf.cli.choosing import Choosing
from relayconf.errors import RelayconfError, StateError, WriteError
from relayconf.fleet.options import FleetOptions
from relayconf.instances.listing import Listing, Seen
from relayconf.instances.register import open_or_make
from relayconf.instances.waiting import NOBODY, Proof, look, wait
from relayconf.overrides.attempt import Edit
from relayconf.overrides.changes import Editing
from relayconf.overrides.document import Document, Override
from relayconf.overrides.reading import Reader
from relayconf.overrides.store import Outcome, Store
from relayconf.state.clock import SYSTEM
from relayconf.state.directory import FIX, StateDirectory, find, make
from relayconf.values import excerpt

_HOMELESS = f"there is no home to keep overrides in: {FIX}; nothing was changed"


@dataclass(slots=True)
class Desk:
    """Where one command works.

    Attributes:
        path: the state directory's.
        group: the group that shares it.
        directory: that directory, or ``None`` while there is none.
        live: the instances that were there when it began.
        choosing: finds settings by name.
        document: what is in force before.
        fleet: how to reach the fleet that the change is for; ``None`` for this host alone.
        lonely: whether this host has a fleet, and the change is not for it.
        alarms: what is wrong here without standing in the way of a change of the fleet.
    """

    path: str | None
    group: str | None
    directory: StateDirectory | None
    live: list[Seen]
    choosing: Choosing
    document: Document
    fleet: FleetOptions | None = None
    lonely: bool = False
    alarms: list[str] = field(default_factory=list)


@contextmanager
def desk(arguments: argparse.Namespace) -> Iterator[Desk]:
    """Look at the state directory for a change. It is made only once there is one to write.

    Raises:
        WriteError: it cannot be opened or trusted, or there is no home to have one in.
    """
    sources = common.read(arguments).sources
    path, group = sources.state_dir, sources.state_group
    fleet = None if arguments.local else sources.fleet
    if fleet is None and (arguments.only_deployment or arguments.only_host):
        why = (
            "--local keeps it to this host" if arguments.local else "RELAYCONF_FLEET_URL sets none"
        )
        raise RelayconfError(f"--only-deployment and --only-host are for a fleet, and {why}")
    alarms: list[str] = []
    try:
        directory = _opened(path, group)
    except WriteError as error:
        if fleet is None:
            raise
        # The other hosts are not to wait for this one's disk.
        directory = None
        alarms.append(f"nothing can be kept on this host: {error}")
    live = [] if directory is None else Listing(directory).live()
    document = Reader(path, group=group, for_owner=True).read().document
    found = Desk(path, group, directory, live, Choosing(arguments.target, live), document, fleet)
    found.lonely, found.alarms = arguments.local and sources.fleet is not None, alarms
    try:
        yield found
    finally:
        if found.directory is not None:
            found.directory.close()


def made(desk: Desk) -> StateDirectory:
    """Make the state directory, for a change that is made.

    Raises:
        WriteError: it cannot be made or trusted, or there is no home to have one in.
    """
    if desk.path is None:
        raise WriteError(_HOMELESS)
    with _nothing_changed():
        return make(desk.path, group=desk.group, for_owner=True)


def _opened(path: str | None, group: str | None) -> StateDirectory | None:
    if path is None:
        raise WriteError(_HOMELESS)
    with _nothing_changed():
        return find(path, group=group, for_owner=True)


@contextmanager
def _nothing_changed() -> Iterator[None]:
    """Say of a state directory that cannot be used that nothing was changed in it."""
    try:
        yield
    except StateError as error:
        raise WriteError(f"{error}; nothing was changed") from None


def change(
    desk: Desk, arguments: argparse.Namespace, editing: Editing, settings: Sequence[tuple[str, str]]
) -> int:
    """Make a change, or show what it would be; print it and return the exit code.

    Args:
        desk: where.
        arguments: the command's.
        editing: what is to change.
        settings: the targets and names that it concerns.

    Raises:
        WriteError: it cannot be written; nothing was changed.
        RelayconfError: the time to wait cannot be read.
    """
    seconds = seconds_to_wait(arguments)
    edit = editing(desk.document)
    for alarm in _cut_short(desk.document, edit):
        sys.stderr.write(f"relayconf: WARNING: {alarm}\n")

    def noted(document: Document) -> Edit:
        nonlocal edit
        edit = editing(document)
        return edit

    if arguments.dry_run:
        _print(arguments, desk, edit, None, _now(desk, settings))
        return 0
    if desk.directory is None and not edit.lines:
        _print(arguments, desk, edit, Outcome(desk.document, changed=False), _now(desk, settings))
        return 0
    if desk.directory is None:
        desk.directory = made(desk)
    listing = Listing(desk.directory)
    outcome = Store(desk.directory, least=listing.highest()).change(noted)
    for alarm in outcome.alarms:
        sys.stderr.write(f"relayconf: WARNING: {alarm}\n")
    if not outcome.changed:
        proof = look(listing, settings, 0, overridden=_overridden(outcome.document))
        _print(arguments, desk, edit, outcome, proof)
        return 0
    try:
        open_or_make(desk.directory, SYSTEM).close()
    except OSError as error:
        why = error.strerror or str(error)
        sys.stderr.write(f"relayconf: WARNING: nobody can be found in {desk.path}: {why}\n")
    if not desk.lonely:
        # Their end has to be told to the fleet first; whoever changes it next does that.
        listing.bury()
    generation = outcome.document.generation
    overridden = _overridden(outcome.document)
    if seconds is None:
        proof = look(listing, settings, generation, overridden=overridden)
    else:
        proof = wait(listing, settings, generation, seconds, overridden=overridden)
    _print(arguments, desk, edit, outcome, proof)
    return 0 if seconds is None else proof.code


def _cut_short(before: Document, edit: Edit) -> Iterator[str]:
    """Yield what to say of each kill that a new one replaces, and that would have lasted longer."""
    for override in edit.made:
        there = before.find(*override.key)
        if override.end is None or there is None or there.kind != "kill":
            continue
        if there.outlasts(override):
            end = "without an end" if there.end is None else f"until {there.end.at}"
            who = ", ".join(excerpt(text, 60) for text in (there.actor, there.incident) if text)
            by = f" (by {who})" if who else ""
            yield f"{there.name} was killed {end}{by}; it now ends at {override.end.at}"


def _now(desk: Desk, settings: Sequence[tuple[str, str]]) -> Proof:
    if desk.directory is None:
        return Proof(NOBODY, (), (), settling=False)
    overridden = _overridden(desk.document)
    listing = Listing(desk.directory)
    return look(listing, settings, desk.document.generation, overridden=overridden)


def _overridden(document: Document) -> set[tuple[str, str]]:
    return {(override.target, override.name) for override in document.overrides}


def _print(
    arguments: argparse.Namespace, desk: Desk, edit: Edit, outcome: Outcome | None, proof: Proof
) -> None:
    if arguments.json:
        common.print_json(_document(desk, edit, outcome, proof))
        return
    common.print_text("\n".join(_lines(desk, edit, outcome, proof)))
    complaint = _complaint(desk, proof, written=outcome is not None)
    if complaint is not None and (outcome is None or outcome.changed):
        sys.stderr.write(f"relayconf: {complaint}\n")


def _document(desk: Desk, edit: Edit, outcome: Outcome | None, proof: Proof) -> dict[str, Any]:
    document = desk.document if outcome is None else outcome.document
    changed = [*edit.made, *edit.removed]
    missing = {seen.id for seen in proof.missing}
    return {
        "dry_run": outcome is None,
        "changed": outcome is not None and outcome.changed,
        "generation": document.generation,
        "state_dir": desk.path,
        "made": [_entry(override) for override in edit.made],
        "removed": [_entry(override) for override in edit.removed],
        "instances": [
            {
                "id": seen.id,
                "target": seen.target,
                "host": seen.host,
                "pid": seen.pid,
                "generation": seen.generation,
                "applied": seen.id not in missing,
                "restart_only": seen.restart_only,
                "values": {
                    o.name: seen.flags[o.name]["value"] for o in changed if o.name in seen.flags
                },
            }
            for seen in proof.concerned
        ],
        "missing": sorted(missing),
        "problems": [] if outcome is None else list(outcome.alarms),
    }


def _entry(override: Override) -> dict[str, Any]:
    return {
        "id": override.id,
        "target": override.target,
        "name": override.name,
        "kind": override.kind,
        "value": override.value,
        "expires_at": None if override.end is None else override.end.at,
    }


def _lines(desk: Desk, edit: Edit, outcome: Outcome | None, proof: Proof) -> Iterator[str]:
    would = "would be " if outcome is None else ""
    generation = "" if outcome is None else f" (generation {outcome.document.generation})"
    for override in edit.made:
        end = "" if override.end is None else f", until {override.end.at}"
        what = "killed" if override.kind == "kill" else "set"
        value = excerpt(override.value)
        yield f"{override.name} ({override.target}) {would}{what}: {value}{end}{generation}"
    for override in edit.removed:
        what = "kill" if override.kind == "kill" else f"value {excerpt(override.value)}"
        yield f"{override.name} ({override.target}) {would}restored: its {what} is gone{generation}"
    if not edit.lines:
        yield "nothing to restore: no override of that name is in force"
    yield f"state directory: {desk.path}"
    aside = f" ({proof.others} other(s) do not declare it)" if proof.others else ""
    yield f"live instances: {len(proof.concerned)}{aside}"
    missing = {seen.id for seen in proof.missing}
    for seen in proof.concerned:
        state = "not yet applied" if seen.id in missing else "applied"
        if outcome is None or not outcome.changed:
            state = ", ".join(_values(seen, edit)) or "goes by it"
        yield f"  {seen.target} pid {seen.pid} on {seen.host}: {state}{_hint(seen, missing)}"


def _values(seen: Seen, edit: Edit) -> Iterator[str]:
    for override in (*edit.made, *edit.removed):
        if override.name in seen.flags:
            value = seen.flags[override.name]["value"]
            shown = str(value).lower() if isinstance(value, bool) else excerpt(str(value))
            yield f"{override.name} is {shown} now"


def _hint(seen: Seen, missing: set[str]) -> str:
    if seen.id not in missing:
        return ""
    if seen.restart_only:
        return " (it took its settings at its start; restart it)"
    if seen.refused:
        return f" (cannot go by {', '.join(seen.refused)})"
    if seen.pending_restart:
        return f" (waits for a restart: {', '.join(seen.pending_restart)})"
    return "".join(f" ({excerpt(problem, 200)})" for problem in seen.problems[:1])


def _complaint(desk: Desk, proof: Proof, *, written: bool) -> str | None:
    if desk.directory is None:
        return f"there is no state directory {desk.path}"
    if not proof.concerned:
        where = f"no live instance in {desk.path} declares it"
        doubt = f"is this the right directory and user (uid {os.geteuid()})?"
        return f"{where}; {doubt}" + (" the change is written all the same" if written else "")
    if proof.settling and not proof.missing:
        return "the state directory was made just now; instances may not be back in it yet"
    return None
