"""``relayconf show``: the effective values of this command's own environment and files."""

from __future__ import annotations

import argparse

from relayconf import answers, wording
from relayconf.cli import common
from relayconf.cli.table import table
from relayconf.errors import TargetError
from relayconf.resolve import Resolution
from relayconf.targets import find_contract


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "show",
        help="the effective values and where each comes from",
        description="Show the effective value of every setting of TARGET, which layer it comes "
        "from, and every problem. Exit 0 even where values are invalid.",
        allow_abbrev=False,
    )
    parser.add_argument("positional", nargs="?", metavar="TARGET", help="as --target")
    common.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the answer; always 0."""
    process = common.read(arguments)
    target = _target(arguments.positional, arguments.target)
    resolution = common.resolved(find_contract(target), process)
    if arguments.json:
        common.print_json(answers.show_document(resolution, deployment=process.sources.deployment))
    else:
        common.print_text(_text(resolution, process.sources.deployment))
    return 0


def _target(positional: str | None, option: str | None) -> str:
    if positional and option and positional != option:
        raise TargetError(f"two targets are named, {positional} and {option}; name one")
    return positional or option or common.only_target()


def _text(resolution: Resolution, deployment: str | None) -> str:
    rows = [
        (
            effective.setting.name,
            wording.value(effective.setting, effective.value),
            wording.source(effective.layer, effective.origin),
            effective.status,
        )
        for effective in resolution.settings.values()
    ]
    where = f", deployment {deployment}" if deployment else ""
    parts = [f"{resolution.contract.target}{where}", ""]
    parts.append(table(("NAME", "VALUE", "SOURCE", "STATUS"), rows))
    if resolution.problems:
        parts.extend(("", f"{len(resolution.problems)} problem(s):"))
        parts.extend(f"  {p.severity}: {p.line()} [{p.code}]" for p in resolution.problems)
    return "\n".join(parts)
