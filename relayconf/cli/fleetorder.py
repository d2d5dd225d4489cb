"""The orders that kill, set and restore give to the fleet: what is meant, and for whom."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from relayconf.cli import fleetwords
from relayconf.cli.changing import Desk
from relayconf.cli.fleetwide import Wish, carry_out
from relayconf.cli.lookout import Lookout
from relayconf.errors import TargetError
from relayconf.fleet.engine import InstanceRecord
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.record import EVERYWHERE, Key, Scope
from relayconf.fleet.session import Session
from relayconf.overrides.changes import Assignment, Because


def put(
    arguments: argparse.Namespace,
    desk: Desk,
    fleet: FleetOptions,
    kind: str,
    assignments: Sequence[Assignment],
    because: Because,
) -> int:
    """Kill or set on the fleet, and return the exit code.

    Raises:
        WriteError: it could be written nowhere, or another change stands in its way.
    """
    scope = _scope(arguments) or EVERYWHERE
    wish = Wish(kind, because, scope, assignments=tuple(assignments))
    return fleetwords.tell(arguments, desk, carry_out(desk, fleet, arguments, wish))


def restore(
    arguments: argparse.Namespace,
    desk: Desk,
    fleet: FleetOptions,
    settings: Sequence[tuple[str, str]],
    wanted: Callable[[str, str], bool],
    because: Because,
) -> int:
    """Restore on the fleet, and return the exit code.

    Args:
        arguments: the command's.
        desk: where.
        fleet: how it is reached.
        settings: the targets and names that were named.
        wanted: whether a target and a name is meant.
        because: who and why.

    Raises:
        WriteError: it could be written nowhere, or another change stands in its way.
    """
    scope = _scope(arguments)
    named = _keys(desk, settings, scope or EVERYWHERE) if arguments.names else ()
    wish = Wish(
        "restore", because, scope, wanted=wanted, named=named, everything=bool(arguments.all)
    )
    return fleetwords.tell(arguments, desk, carry_out(desk, fleet, arguments, wish))


def flags_by_name(arguments: argparse.Namespace, desk: Desk) -> list[Assignment] | None:
    """Return the flags that names mean by what live instances say, with no contract at hand.

    A kill needs no more than a target and a name, so that it can be made on a host where nothing of
    the target is installed.

    Returns:
        ``None`` where a name is nobody's.

    Raises:
        TargetError: a name is several targets'.
    """
    records = _records(desk)
    found = []
    for name in arguments.names:
        targets = sorted({record.target for record in records if name in record.flags})
        if len(targets) > 1:
            raise TargetError(
                f"{name} is declared by several targets ({', '.join(targets)}); name one by "
                "--target"
            )
        if not targets or arguments.target is not None:
            return None
        found.append(Assignment(targets[0], name, ""))
    return found


def overridden(desk: Desk, name: str) -> list[tuple[str, str]]:
    """Return the targets in which the fleet overrides a name, each with that name."""
    if desk.fleet is None:
        return []
    lookout = Lookout(desk.path, desk.group, desk.fleet)
    with Session(desk.fleet) as session:
        lookout.ask(session)
    entries = lookout.reading.entries
    return list(dict.fromkeys(e.key[:2] for e in entries if e.override.name == name))


def _records(desk: Desk) -> Sequence[InstanceRecord]:
    if desk.fleet is None:
        return ()
    lookout = Lookout(None, None, desk.fleet)
    with Session(desk.fleet) as session, lookout.available():
        return session.instances()
    return ()


def _keys(desk: Desk, settings: Sequence[tuple[str, str]], scope: Scope) -> tuple[Key, ...]:
    """Return what is restored of settings of which nothing is known: the kill, or the value."""
    keys: list[Key] = []
    for target, name in settings:
        setting = desk.choosing.setting(target, name)
        kind = "kill" if setting is None or setting.flag is not None else "set"
        keys.append((target, name, kind, *scope))
    return tuple(keys)


def _scope(arguments: argparse.Namespace) -> Scope | None:
    scope = Scope(arguments.only_deployment, arguments.only_host)
    return None if scope == EVERYWHERE else scope
