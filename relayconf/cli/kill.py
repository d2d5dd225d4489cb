"""``relayconf kill``: switch flags to their safe values, in every live process, now."""

from __future__ import annotations

import argparse

from relayconf.cli import because, changing, common
from relayconf.cli.choosing import Choice
from relayconf.errors import TargetError
from relayconf.overrides import changes
from relayconf.values import render


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "kill",
        help="switch flags to their safe values in every live process",
        description="Kill flags: every live process uses their safe values at once, whatever any "
        "layer or mode says, until they are restored. Exit 0 written (with --wait: applied by "
        "all); 1 it cannot be written, nothing was changed; 2 an unknown name; 3 not applied by "
        "all; 4 nobody is there to apply it.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "names", nargs="+", metavar="NAME|@GROUP", help="a flag, or all flags of a group"
    )
    because.add_options(parser, ends=True)
    common.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Kill, and return the exit code."""
    why = because.because(arguments)
    with changing.desk(arguments) as desk:
        flags = _wanted(arguments, desk)
        settings = [(flag.target, flag.name) for flag in flags]
        if desk.fleet is not None:
            from relayconf.cli import fleetorder  # noqa: PLC0415 - only where there is one

            return fleetorder.put(arguments, desk, desk.fleet, "kill", flags, why)
        return changing.change(desk, arguments, changes.kill(flags, why), settings)


def _wanted(arguments: argparse.Namespace, desk: changing.Desk) -> list[changes.Assignment]:
    """Return the flags that are to be killed.

    Raises:
        TargetError: a word means nothing, or nothing that can be killed.
    """
    try:
        chosen = desk.choosing.choose(arguments.names)
    except TargetError:
        if desk.fleet is None:
            raise
        from relayconf.cli import fleetorder  # noqa: PLC0415 - only where there is one

        flags = fleetorder.flags_by_name(arguments, desk)
        if flags is None:
            raise
        return flags
    return [_assignment(choice) for choice in _flags(chosen, arguments.names)]


def _flags(chosen: list[Choice], words: list[str]) -> list[Choice]:
    """Return what can be killed; in a group that is what is a flag.

    Raises:
        TargetError: a setting that was named is no flag, or a group has none.
    """
    flags = [choice for choice in chosen if choice[1].flag is not None]
    for contract, setting in chosen:
        if setting.flag is None and any(w in (setting.name, *setting.legacy) for w in words):
            raise TargetError(
                f"{setting.name} ({contract.target}) is no flag and has no safe value; use "
                f"relayconf set {setting.name}=VALUE"
            )
    if not flags:
        raise TargetError(f"{' '.join(words)} holds no flag")
    return flags


def _assignment(choice: Choice) -> changes.Assignment:
    contract, setting = choice
    flag = setting.flag
    value = "" if flag is None else render(setting, flag.kill)
    return changes.Assignment(contract.target, setting.name, value)
