"""``relayconf restore``: take overrides away, so that the layers below decide again."""

from __future__ import annotations

import argparse

from relayconf.cli import because, changing, common
from relayconf.cli.changing import Desk
from relayconf.errors import RelayconfError, TargetError
from relayconf.overrides import changes


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "restore",
        help="take a kill or another override away",
        description="Restore settings: first a kill, so that a value that was set before is in "
        "force again; where there is no kill, that value. With --all both, and without a name "
        "everything. Restoring what was never overridden says so, exit 0. Exit codes as of kill.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME|@GROUP", help="a setting, or all of a group"
    )
    parser.add_argument("--all", action="store_true", help="kills and values; all where none named")
    because.add_options(parser, ends=False)
    common.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Restore, and return the exit code."""
    why = because.because(arguments)
    if not arguments.names and not arguments.all:
        raise RelayconfError("name what to restore, or --all for everything")
    with changing.desk(arguments) as desk:
        settings = _everything(desk, arguments) if not arguments.names else _named(desk, arguments)
        chosen = set(settings)
        target = None if arguments.target is None else desk.choosing.contracts()[0].target

        def wanted(of: str, name: str) -> bool:
            if arguments.names:
                return (of, name) in chosen
            return target is None or of == target

        if desk.fleet is not None:
            from relayconf.cli import fleetorder  # noqa: PLC0415 - only where there is one

            return fleetorder.restore(arguments, desk, desk.fleet, settings, wanted, why)
        editing = changes.restore(wanted, why, everything=arguments.all)
        return changing.change(desk, arguments, editing, settings)


def _everything(desk: Desk, arguments: argparse.Namespace) -> list[tuple[str, str]]:
    target = None if arguments.target is None else desk.choosing.contracts()[0].target
    overrides = desk.document.overrides
    return [(o.target, o.name) for o in overrides if target is None or o.target == target]


def _named(desk: Desk, arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return what the words mean; a name that is overridden counts even where nobody declares it.

    Raises:
        TargetError: a word means nothing.
    """
    found: list[tuple[str, str]] = []
    for word in arguments.names:
        try:
            found.extend((c.target, s.name) for c, s in desk.choosing.choose([word]))
        except TargetError:
            there = [(o.target, o.name) for o in desk.document.overrides if o.name == word]
            there.extend(
                (str(item.raw.get("target", "")), word)
                for item in desk.document.quarantined
                if isinstance(item.raw, dict) and item.raw.get("name") == word
            )
            if not there and desk.fleet is not None:
                from relayconf.cli import fleetorder  # noqa: PLC0415 - only where there is one

                there = fleetorder.overridden(desk, word)
            if not there:
                raise
            found.extend(there)
    return found
