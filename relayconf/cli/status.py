"""``relayconf status``: the flags and overrides in force, who is live, and what each goes by."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from relayconf import answers
from relayconf.cli import common
from relayconf.cli.choosing import Choosing
from relayconf.cli.table import table
from relayconf.errors import RelayconfError
from relayconf.instances.listing import Listing, Seen
from relayconf.instances.pending import with_pending
from relayconf.layers import Sources, configured
from relayconf.overrides import audit
from relayconf.overrides.layer import override_layer
from relayconf.overrides.reading import Reader, Reading, audit_lines
from relayconf.problems import Problem
from relayconf.resolve import resolve
from relayconf.setting import Contract
from relayconf.state.directory import find
from relayconf.values import excerpt, present
from relayconf.wording import duration

if TYPE_CHECKING:
    from relayconf.cli.fleetstatus import FleetStatus


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "status",
        help="flags and overrides in force, and the live processes",
        description="Show the value of every flag, every override in force, the live processes and "
        "the generation of overrides that each goes by, and what is wrong. Always exit 0 where it "
        "can be read.",
        allow_abbrev=False,
    )
    common.add_options(parser)
    parser.set_defaults(run=run)


@dataclass(slots=True)
class State:
    """What a state directory says, and whom it is about."""

    path: str | None
    reading: Reading
    contracts: list[Contract]
    live: list[Seen] = field(default_factory=list)
    fleet: FleetStatus | None = None


def run(arguments: argparse.Namespace) -> int:
    """Print the answer; always 0."""
    sources = common.read(arguments).sources
    state = _read(sources, arguments.target)
    problems: list[Problem] = []
    rows = [
        row for contract in state.contracts for row in _flags(contract, state, sources, problems)
    ]
    rows.extend(_unclaimed(state, rows))
    problems.extend(_of_instances(state.live))
    instances = [(seen, _instance(seen)) for seen in state.live]
    if state.fleet is not None:
        problems.extend(state.fleet.problems())
    answer: dict[str, Any] = {
        "generation": state.reading.document.generation,
        "state_dir": state.path,
        "flags": rows,
        "instances": [row for _, row in instances]
        if state.fleet is None
        else state.fleet.rows(instances),
        "problems": [answers.problem_document(problem) for problem in _each_once(problems)],
    }
    if state.fleet is not None:
        answer["fleet"] = state.fleet.document()
    if arguments.json:
        common.print_json(answer)
    else:
        common.print_text("\n".join(_lines(answer, list(_reasons(state, rows)))))
    return 0


def _read(sources: Sources, target: str | None) -> State:
    """Read a state directory; one that is not there is an empty one.

    Raises:
        StateError: it cannot be read, or cannot be trusted.
        RelayconfError: the target is unknown.
    """
    path, group = sources.state_dir, sources.state_group
    directory = None if path is None else find(path, group=group, for_owner=True)
    reading = Reader(path, group=group, for_owner=True).read()
    live: list[Seen] = []
    fleet = None
    try:
        listing = None if directory is None else Listing(directory)
        live = [] if listing is None else listing.live()
        fleet = _fleet(sources, live, listing)
        overridden = {(o.target, o.name) for o in reading.document.overrides}
        if fleet is not None:
            overridden |= {entry.key[:2] for entry in fleet.reading.entries}
        if directory is not None:
            lines = (line for text in audit_lines(directory) if (line := audit.parse(text)))
            live = with_pending(live, lines, overridden)
    finally:
        if directory is not None:
            directory.close()
    return State(path, reading, Choosing(target, live).contracts(), live, fleet)


def _fleet(sources: Sources, live: list[Seen], listing: Listing | None) -> FleetStatus | None:
    if sources.fleet is None:
        return None
    from relayconf.cli.fleetstatus import look  # noqa: PLC0415 - only where there is one

    return look(sources, live, listing)


def _flags(
    contract: Contract, state: State, sources: Sources, problems: list[Problem]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each flag, and for each other setting that is overridden."""
    try:
        layers = configured(contract, sources)
    except RelayconfError as error:
        # The overrides are what this is about; what lies below them is what the instances say.
        problems.append(Problem("source-unreadable", contract.target, str(error)))
        layers = []
    above = [override_layer(contract, state.reading)]
    if state.fleet is not None:
        above.append(state.fleet.layer(contract))
    resolution = resolve(contract, [*layers, *above])
    problems.extend(problem for layer in above for problem in layer.problems)
    names = {layer.name for layer in above}
    kills = {kill.name for layer in above for kill in layer.kills}
    for name, effective in resolution.settings.items():
        overridden = effective.layer in names
        if not overridden and effective.setting.flag is None:
            continue
        value, source = present(effective.setting, effective.value), effective.layer
        if not overridden:
            value, source = _as_reported(contract.target, name, state.live, (value, source))
        yield {
            "target": contract.target,
            "name": name,
            "value": value,
            "layer": source,
            "kind": ("kill" if name in kills else "set") if overridden else None,
        }


def _as_reported(
    target: str, name: str, live: list[Seen], here: tuple[Any, str]
) -> tuple[Any, str]:
    """Return what the live instances go by, where they agree; else what holds for this command."""
    said = [
        (seen.flags[name].get("value"), str(seen.flags[name].get("layer")))
        for seen in live
        if seen.target == target and isinstance(seen.flags.get(name), dict)
    ]
    return said[0] if said and all(each == said[0] for each in said) else here


def _unclaimed(state: State, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each override that no contract at hand declares."""
    claimed = {(row["target"], row["name"]) for row in rows}
    known = {contract.target for contract in state.contracts}
    found = [("override", override) for override in state.reading.document.overrides]
    if state.fleet is not None:
        found.extend(("fleet", entry.override) for entry in state.fleet.reading.entries)
    for layer, override in found:
        if (override.target, override.name) not in claimed and override.target not in known:
            yield {
                "target": override.target,
                "name": override.name,
                "value": override.value,
                "layer": layer,
                "kind": override.kind,
            }


def _of_instances(live: list[Seen]) -> Iterator[Problem]:
    for seen in live:
        for text in seen.problems:
            where = f"{seen.target} pid {seen.pid} on {seen.host}"
            yield Problem("instance-problem", seen.id, f"{where}: {text}", raw=text)


def _each_once(problems: list[Problem]) -> list[Problem]:
    return list({(p.code, p.name, p.message): p for p in problems}.values())


def _instance(seen: Seen) -> dict[str, Any]:
    return {
        "id": seen.id,
        "target": seen.target,
        "host": seen.host,
        "pid": seen.pid,
        "generation": seen.generation,
        "pending_restart": list(seen.pending_restart),
        "age_ms": seen.age_ms,
        "restart_only": seen.restart_only,
    }


def _reasons(state: State, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield who overrides what, and why: a line for each override that is in force."""
    found = {("override", *each.key): each for each in state.reading.document.overrides}
    if state.fleet is not None:
        entries = state.fleet.reading.entries
        found.update({("fleet", *each.override.key): each.override for each in entries})
    for row in rows:
        override = found.get((row["layer"], row["target"], row["name"], str(row["kind"])))
        if override is not None:
            facts = {
                "by": override.actor,
                "for": override.incident,
                "at": override.made_at,
                "until": None if override.end is None else override.end.at,
            }
            told = "".join(f" {word} {excerpt(text, 60)}" for word, text in facts.items() if text)
            why = f": {excerpt(override.reason, 200)}" if override.reason else ""
            yield f"{row['name']} was {_state(row)}{told}{why}"


def _lines(answer: dict[str, Any], reasons: list[str]) -> Iterator[str]:
    yield f"generation {answer['generation']}, state directory {answer['state_dir'] or '(none)'}"
    if "fleet" in answer:
        yield _heading(answer["fleet"])
    if answer["flags"]:
        rows = [
            (f["target"], f["name"], _shown(f["value"]), f["layer"], _state(f))
            for f in answer["flags"]
        ]
        yield ""
        yield table(("TARGET", "NAME", "VALUE", "LAYER", "STATE"), rows)
    if reasons:
        yield ""
        yield from reasons
    yield ""
    yield _instances(answer)
    if answer["problems"]:
        yield ""
        yield f"{len(answer['problems'])} problem(s):"
        for problem in answer["problems"]:
            yield f"  {problem['severity']}: {problem['message']} [{problem['code']}]"


def _heading(fleet: dict[str, Any]) -> str:
    behind = "" if fleet["behind_ms"] is None else f", {duration(fleet['behind_ms'])} behind"
    away = "" if fleet["reached"] else ", away"
    waiting = f", {fleet['pending']} change(s) waiting" if fleet["pending"] else ""
    where = f"fleet {fleet['url']}: {fleet['state']}, revision {fleet['revision']}"
    return f"{where}{behind}{away}{waiting}"


def _instances(answer: dict[str, Any]) -> str:
    if not answer["instances"]:
        return "no live instances"
    header = ["TARGET", "PID", "HOST", "GENERATION", "LOOKED", "PENDING RESTART"]
    rows = [
        [
            each["target"],
            str(each["pid"]),
            each["host"],
            "-" if each["generation"] is None else str(each["generation"]),
            duration(each["age_ms"]),
            ", ".join(each["pending_restart"]) or "-",
        ]
        for each in answer["instances"]
    ]
    if "fleet" in answer:
        header.extend(("FLEET", "REVISION"))
        for row, each in zip(rows, answer["instances"], strict=True):
            row.extend(_in_fleet(each))
    return table(header, rows)


def _in_fleet(row: dict[str, Any]) -> tuple[str, str]:
    if row["gone"]:
        return "gone", "-" if row["fleet"] is None else str(row["fleet"]["revision"])
    if row["fleet"] is None:
        return "not connected", "-"
    return row["fleet"]["state"], str(row["fleet"]["revision"])


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return str(value).lower() if isinstance(value, bool) else excerpt(str(value))


def _state(row: dict[str, Any]) -> str:
    return {"kill": "killed", "set": "set"}.get(row["kind"], "ok")
