"""``relayconf set``: give a setting another value in every live process, above all its layers."""

from __future__ import annotations

import argparse
import sys

from relayconf.cli import because, changing, common
from relayconf.cli.choosing import Choice
from relayconf.errors import RelayconfError, TargetError
from relayconf.layers import Entry, Layer
from relayconf.overrides import changes
from relayconf.resolve import resolve
from relayconf.setting import Contract, Setting
from relayconf.values import Invalid, clamp, excerpt, is_blank, mask_userinfo, parse
from relayconf.wording import value as in_words


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "set",
        help="give a setting another value in every live process",
        description="Override a setting, above its environment and its files, until it is "
        "restored. Secrets, unknown names, and invalid or out-of-range values are refused. Exit "
        "codes as of kill.",
        allow_abbrev=False,
    )
    parser.add_argument("assignments", nargs="+", metavar="NAME=VALUE", help="what to set")
    because.add_options(parser, ends=True)
    common.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Set, and return the exit code."""
    why = because.because(arguments)
    with changing.desk(arguments) as desk:
        wanted: dict[tuple[str, str], changes.Assignment] = {}
        for word in arguments.assignments:
            name, equals, text = word.partition("=")
            if not equals:
                raise RelayconfError(f"{excerpt(name)!r} has no '='; write NAME=VALUE")
            choice = desk.choosing.one(name)
            wanted[choice[0].target, choice[1].name] = _assignment(choice, text)
        if desk.fleet is not None:
            from relayconf.cli import fleetorder  # noqa: PLC0415 - only where there is one

            return fleetorder.put(arguments, desk, desk.fleet, "set", list(wanted.values()), why)
        editing = changes.assign(list(wanted.values()), why)
        return changing.change(desk, arguments, editing, list(wanted))


def _assignment(choice: Choice, text: str) -> changes.Assignment:
    """Judge one value.

    Raises:
        TargetError: a secret, or a value that would not be used as it is written.
    """
    contract, setting = choice
    if setting.secret:
        raise TargetError(f"{setting.name} is a secret, and overrides hold none")
    if "url" in (setting.type, setting.items) and mask_userinfo(text) != text:
        raise TargetError(f"{setting.name}: a url with a password in it is a secret; set it below")
    if is_blank(text) and not setting.allow_blank:
        raise TargetError(
            f"{setting.name}: a blank value is none; relayconf restore {setting.name} takes an "
            "override away"
        )
    outcome = parse(setting, text)
    if isinstance(outcome, Invalid):
        raise TargetError(
            f"{setting.name}: {excerpt(text)!r} is not a valid {setting.type}: {outcome.reason}"
        )
    limit, bound = clamp(setting, outcome.value)
    if bound is not None:
        side = "below" if bound == "minimum" else "above"
        given, at = in_words(setting, outcome.value), in_words(setting, limit)
        raise TargetError(f"{setting.name}: {given} is {side} the {bound} {at}")
    _warn(contract, setting, text)
    return changes.Assignment(contract.target, setting.name, text)


def _warn(contract: Contract, setting: Setting, text: str) -> None:
    """Say where a value will not be used as it is written after all, or not at once."""
    layer = Layer("override", (Entry(setting.name, text, "set"),))
    for problem in resolve(contract, [layer]).problems:
        if problem.code == "rule-repaired":
            sys.stderr.write(f"relayconf: WARNING: {problem.name}: {problem.message}\n")
    if not setting.live:
        sys.stderr.write(f"relayconf: WARNING: {setting.name} applies at the next start\n")
