"""``relayconf diff``: two deployments, compared by effective value.

The environment of the command and the overrides on this machine are left out: they are not the
deployments', would be the same on both sides, and would hide what differs.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from relayconf import answers, report, wording
from relayconf.cli import common
from relayconf.cli.table import table
from relayconf.comparison import Difference, compare
from relayconf.layers import Sources, concerns, configured
from relayconf.names import pointers
from relayconf.resolve import Effective, Resolution, resolve
from relayconf.setting import Contract
from relayconf.targets import find_contract

EX_DIFFERENT = 1


class _Side(NamedTuple):
    """One of the two: how it was named, what that is, and what it comes to."""

    name: str
    kind: str
    resolution: Resolution


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "diff",
        help="what differs between two deployments",
        description="Compare two deployments by the effective value of every setting of TARGET. "
        "A and B are names of deployments, whose sections and settings files are read, or env "
        "files: a word with a '/' or '.env' in it is the path of one. The options hold for both "
        "sides, below A and B; the environment of this command is not a part of either. Exit 0 "
        "also where they differ.",
        allow_abbrev=False,
    )
    parser.add_argument("a", metavar="A", help="a deployment, or the path of an env file")
    parser.add_argument("b", metavar="B", help="what to compare it with")
    parser.add_argument("positional", nargs="?", metavar="TARGET", help="as --target")
    common.add_options(parser)
    parser.add_argument("--exit-code", action="store_true", help="exit 1 where they differ")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the answer; 0, or 1 with --exit-code where there are differences."""
    process = common.read(arguments)
    target = arguments.positional or arguments.target or common.only_target()
    contract = find_contract(target)
    environ = _without_own(contract, process.sources.environ)
    sources = process.sources._replace(environ=environ)
    a, b = (_side(contract, sources, name) for name in (arguments.a, arguments.b))
    if process.strict:
        report.refuse([*a.resolution.problems, *b.resolution.problems])
    differences = compare(a.resolution, b.resolution)
    if arguments.json:
        common.print_json(_document(contract, a, b, differences))
    else:
        common.print_text(_text(contract, a, b, differences))
    return EX_DIFFERENT if differences and arguments.exit_code else 0


def _side(contract: Contract, sources: Sources, name: str) -> _Side:
    if os.sep in name or ".env" in name:
        sources = sources._replace(env_files=(*sources.env_files, name))
        return _Side(name, "env-file", resolve(contract, configured(contract, sources)))
    layers = configured(contract, sources._replace(deployment=name))
    if layers == configured(contract, sources._replace(deployment=None)):
        where = sources.config_dir or "."
        report.warn(f"no settings file in {where} has a section or a name for deployment {name!r}")
    return _Side(name, "deployment", resolve(contract, layers))


def _without_own(contract: Contract, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that env files may refer to, without any value of the contract."""
    files = pointers(contract)
    return {
        name: text
        for name, text in environ.items()
        if name not in files and not concerns(contract, name)
    }


def _document(
    contract: Contract, a: _Side, b: _Side, differences: Sequence[Difference]
) -> dict[str, Any]:
    sides = {"a": a, "b": b}
    return {
        "target": contract.target,
        **{key: {"name": side.name, "kind": side.kind} for key, side in sides.items()},
        "differences": [difference.document() for difference in differences],
        "problems": {
            key: [answers.problem_document(p) for p in side.resolution.problems]
            for key, side in sides.items()
        },
    }


def _text(contract: Contract, a: _Side, b: _Side, differences: Sequence[Difference]) -> str:
    count = len(contract.settings)
    if differences:
        rows = [[d.name, _cell(d, d.left), _cell(d, d.right)] for d in differences]
        parts = [table(["NAME", a.name, b.name], rows)]
        parts.extend(("", f"{len(differences)} of {count} settings differ"))
    else:
        parts = [f"{a.name} and {b.name} have the same value for all {count} settings"]
    for side in (a, b):
        problems = side.resolution.problems
        if problems:
            parts.extend(("", f"{side.name}: {len(problems)} problem(s):"))
            parts.extend(f"  {p.severity}: {p.line()} [{p.code}]" for p in problems)
    return "\n".join(parts)


def _cell(difference: Difference, effective: Effective) -> str:
    value = difference.words(effective)
    where = wording.source(effective.layer, effective.origin)
    same = " differs, masked" if difference.masked else ""
    return f"{value}{same} ({where})"
