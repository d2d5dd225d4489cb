"""``relayconf explain``: why one setting has its value, and what the setting is."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterator
from typing import Any

from relayconf import answers, wording
from relayconf.cli import common
from relayconf.errors import TargetError
from relayconf.layers import Sources
from relayconf.nearest import nearest
from relayconf.resolve import Effective, Resolution, shown
from relayconf.setting import Contract, Setting
from relayconf.targets import declaring, find_contract
from relayconf.values import excerpt


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "explain",
        help="why a setting has its value",
        description="Show every text that was offered for NAME, the one in force first, and what "
        "the setting means. Exit 0 even where values are invalid.",
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="NAME", help="a setting's name, current or legacy")
    common.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the answer; always 0."""
    process = common.read(arguments)
    contract = _contract(arguments.name, arguments.target)
    name = _current_name(contract, arguments.name, arguments.target)
    resolution = common.resolved(contract, process)
    fleet = _fleet(contract, name, process.sources)
    if arguments.json:
        answer = answers.explain_document(resolution, name)
        common.print_json(answer if fleet is None else {**answer, "fleet": fleet})
    else:
        common.print_text("\n".join(_lines(resolution, name, fleet)))
    return 0


def _fleet(contract: Contract, name: str, sources: Sources) -> dict[str, Any] | None:
    if sources.fleet is None:
        return None
    from relayconf.cli.overridden import by_fleet  # noqa: PLC0415 - only where there is one

    return by_fleet(contract, contract.settings[name], sources)


def _contract(name: str, target: str | None) -> Contract:
    if target is not None:
        return find_contract(target)
    found = declaring(name)
    if len(found) > 1:
        names = ", ".join(contract.target for contract in found)
        raise TargetError(f"{name} is declared by several targets ({names}); name one by --target")
    return found[0] if found else find_contract(common.only_target())


def _current_name(contract: Contract, name: str, target: str | None) -> str:
    if name in contract.settings:
        return name
    for setting in contract.settings.values():
        if name in setting.legacy:
            return setting.name
    near = nearest(name, list(contract.settings))
    if near is not None:
        hint = f"did you mean {near}?"
    elif target is None:
        hint = "if it is another target's, name that by --target"
    else:
        hint = f"'relayconf show {target}' lists them"
    raise TargetError(f"{contract.target} has no setting {excerpt(name, 200)}; {hint}")


def _lines(resolution: Resolution, name: str, fleet: dict[str, Any] | None) -> Iterator[str]:
    effective = resolution.settings[name]
    setting = effective.setting
    yield f"{name} = {wording.value(setting, effective.value)}   [{effective.status}]"
    if setting.doc:
        yield from _wrapped(setting.doc, "  ")
    yield ""
    yield from _stack(effective)
    notes = [note for note in effective.notes if note.code not in ("shadowed", "invalid-value")]
    if notes:
        yield ""
    for note in notes:
        yield from _wrapped(f"{note.message} [{note.code}]", "  ")
    if fleet is not None:
        yield from _of_fleet(setting, fleet)
    yield ""
    rules = [("rule", rule) for rule in wording.rules(setting, resolution.contract)]
    for label, text in [*wording.facts(setting), *rules]:
        yield from _wrapped(text, f"  {label:<12}")
    if setting.description:
        yield ""
        yield from _wrapped(setting.description, "  ")


def _of_fleet(setting: Setting, fleet: dict[str, Any]) -> Iterator[str]:
    from relayconf.cli.overridden import lines  # noqa: PLC0415 - only where there is one

    found = list(lines(setting, fleet))
    if found:
        yield ""
    for label, text in found:
        yield from _wrapped(text, f"  {label:<12}")


def _stack(effective: Effective) -> Iterator[str]:
    setting = effective.setting
    rows = []
    for candidate in answers.stack(effective):
        raw = shown(setting, candidate.text)
        if candidate.layer == "default":
            raw = wording.value(setting, setting.default)
        verdict = candidate.verdict + (f": {candidate.reason}" if candidate.reason else "")
        if candidate.name != setting.name:
            verdict += f" (legacy name {candidate.name})"
        rows.append((wording.source(candidate.layer, candidate.origin), raw or "''", verdict))
    widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
    for where, raw, verdict in rows:
        head = f"  {where:<{widths[0]}}  {raw:<{widths[1]}}  "
        yield from _wrapped(verdict, head)


def _wrapped(text: str, head: str) -> Iterator[str]:
    """Yield text fitted to the terminal, its first line behind ``head``, the others under it."""
    width = max(40, shutil.get_terminal_size().columns - len(head))
    lines = textwrap.wrap(text, width) or [""]
    for number, line in enumerate(lines):
        # What a contract says is somebody else's text.
        yield (head if number == 0 else " " * len(head)) + excerpt(line, len(line))
