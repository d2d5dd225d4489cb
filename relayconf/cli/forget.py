"""``relayconf forget``: say that instances of the fleet are dead, which nobody else can know."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from relayconf.cli import common
from relayconf.errors import FleetUnavailable, RelayconfError, TargetError, WriteError
from relayconf.values import excerpt

if TYPE_CHECKING:
    from relayconf.fleet.engine import InstanceRecord
    from relayconf.fleet.options import FleetOptions


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "forget",
        help="take instances off the fleet's list that are known to be dead",
        description="An instance that fell silent may still run behind a broken network, so that "
        "kill --wait names it and exits 3 for a day. Say here which ones will not come back. One "
        "that lives after all is on the list again with its next heartbeat.",
        allow_abbrev=False,
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help="an instance, as status --json has it")
    parser.add_argument(
        "--gone", action="store_true", help="every instance that was not heard of for 30 seconds"
    )
    common.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Forget, and return the exit code.

    Raises:
        RelayconfError: there is no fleet, or nobody was named.
        TargetError: the list has no such instance.
        WriteError: the server cannot be asked.
    """
    options = common.read(arguments).sources.fleet
    if options is None:
        raise RelayconfError("there is no fleet; RELAYCONF_FLEET_URL sets one")
    if not arguments.ids and not arguments.gone:
        raise RelayconfError("name instances by their ids, or --gone for all that fell silent")
    chosen = _forget(options, arguments)
    if arguments.json:
        common.print_json({"forgotten": [record.id for record in chosen]})
    elif not chosen:
        common.print_text("nobody has fallen silent")
    else:
        common.print_text("\n".join(_line(record) for record in chosen))
    return 0


def _forget(options: FleetOptions, arguments: argparse.Namespace) -> list[InstanceRecord]:
    from relayconf.fleet.session import Session  # noqa: PLC0415 - only where there is a fleet

    try:
        with Session(options) as session:
            chosen = _chosen(arguments, session.instances())
            for record in chosen:
                session.sign_off(record.id)
            return chosen
    except FleetUnavailable as error:
        raise WriteError(f"the fleet cannot be asked: {error}; nobody is forgotten") from None


def _chosen(
    arguments: argparse.Namespace, records: Sequence[InstanceRecord]
) -> list[InstanceRecord]:
    known = {record.id for record in records}
    for instance in arguments.ids:
        if instance not in known:
            raise TargetError(f"the fleet's list has no instance {excerpt(instance, 100)}")
    return [r for r in records if r.id in arguments.ids or (arguments.gone and r.gone)]


def _line(record: InstanceRecord) -> str:
    return f"forgotten: {record.target} pid {record.pid} on {record.host} ({record.id})"
