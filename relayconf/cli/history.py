"""``relayconf history``: who changed which override when and why, and who applied it when."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from relayconf.cli import common
from relayconf.cli.table import table
from relayconf.instances import applied, files
from relayconf.layers import Sources
from relayconf.overrides import audit
from relayconf.overrides.document import MAX_BYTES, Broken, Pin, parse
from relayconf.overrides.reading import LAST, NAME, audit_lines
from relayconf.state.clock import seconds_of
from relayconf.state.directory import StateDirectory, find
from relayconf.values import excerpt

if TYPE_CHECKING:
    from relayconf.cli.fleethistory import FleetHistory

EX_FAULTY = 1


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "history",
        help="who changed what when and why, and who applied it",
        description="Show every change of the overrides, the oldest first, with the processes that "
        "applied it and the time each took. With --verify also check the chain of the audit: exit "
        "1 where a line was altered, removed or cut off, naming the first one.",
        allow_abbrev=False,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these settings")
    parser.add_argument("--verify", action="store_true", help="check that the audit is whole")
    parser.add_argument("--incident", metavar="ID", help="only what belongs to this incident")
    common.add_options(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the answer; 1 where a verified audit is not whole."""
    sources = common.read(arguments).sources
    texts, pin, acknowledgements = _read(sources)
    faults = audit.verify(texts, pin) if arguments.verify else []
    fleet = _remembered(sources)
    found = list(_changes(texts, acknowledgements))
    if fleet is not None:
        found = _by_time(found, list(fleet.changes()))
        if arguments.verify:
            faults.extend(fleet.faults)
        else:
            for fault in fleet.faults:
                sys.stderr.write(f"relayconf: WARNING: {fault}\n")
    changes = [c for c in found if _is_wanted(c, arguments.names, arguments.incident)]
    verified = not faults if arguments.verify else None
    if arguments.json:
        answer = {
            "state_dir": sources.state_dir,
            "verified": verified,
            "faults": faults,
            "changes": changes,
        }
        common.print_json(answer if fleet is None else {**answer, "fleet": {"url": fleet.url}})
    else:
        count = len(texts) + (0 if fleet is None else len(fleet.lines))
        common.print_text("\n".join(_lines(sources.state_dir, changes, faults, verified, count)))
    return EX_FAULTY if faults else 0


def _remembered(sources: Sources) -> FleetHistory | None:
    if sources.fleet is None:
        return None
    from relayconf.cli.fleethistory import remembered  # noqa: PLC0415 - only where there is one

    return remembered(sources)


def _by_time(here: list[dict[str, Any]], fleet: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge two histories, each of which is in its own order."""
    timed: list[tuple[str, dict[str, Any]]] = []
    for changes in (here, fleet):
        at = ""
        for change in changes:
            at = max(at, str(change.get("at") or ""))
            timed.append((at, change))
    return [change for _, change in sorted(timed, key=lambda each: each[0])]


def _read(sources: Sources) -> tuple[list[bytes], Pin, list[dict[str, Any]]]:
    """Read the audit, the pin of its tail, and what was applied.

    Raises:
        StateError: the state directory cannot be read, or cannot be trusted.
    """
    path = sources.state_dir
    directory = None if path is None else find(path, group=sources.state_group, for_owner=True)
    if directory is None:
        return [], Pin(), []
    try:
        pin = _pin(directory)
        texts = [text for text in audit_lines(directory) if text]
        folder = None
        with suppress(OSError):
            # Who has applied what is then not known; who has changed what still is.
            folder = directory.folder(files.FOLDER, make=False)
        if folder is None:
            return texts, pin, []
        try:
            return texts, pin, list(applied.read(folder))
        finally:
            folder.close()
    finally:
        directory.close()


def _pin(directory: StateDirectory) -> Pin:
    """Return the last line that the document knows of; of a broken one, that its copy knows of."""
    for name in (NAME, LAST):
        try:
            data = directory.read(name, limit=MAX_BYTES)
            if data is not None:
                return parse(data).audit
        except (OSError, Broken):
            continue
    return Pin()


def _changes(
    texts: list[bytes], acknowledgements: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    void: set[int] = set()
    changes: list[dict[str, Any]] = []
    for line in audit.scan(texts):
        body = line.body
        if body is None:
            changes.append({"seq": None, "action": "damaged", "note": f"line {line.number}"})
            continue
        if body.get("action") == "void":
            void.update(seq for seq in body.get("of", ()) if type(seq) is int)
        hidden = ("hash", "prev", "expires_boot")
        changes.append({key: value for key, value in body.items() if key not in hidden})
    for change in changes:
        change["void"] = change["seq"] in void
        change["applied"] = [] if change["void"] else list(_applied(change, acknowledgements))
        yield change


def _applied(
    change: dict[str, Any], acknowledgements: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the first acknowledgement of each instance that was there for a change."""
    seen: set[str] = set()
    generation = change.get("generation", 0)
    for line in acknowledgements:
        instance = str(line.get("instance"))
        if line.get("target") != change.get("target") or instance in seen:
            continue
        if line["generation"] < generation:
            continue
        seen.add(instance)
        if line.get("started"):
            # It found the change when it started.
            continue
        yield {
            "instance": instance,
            "pid": line.get("pid"),
            "host": line.get("host"),
            "at": line.get("at"),
            "took_ms": _took_ms(change, line),
        }


def _took_ms(change: dict[str, Any], line: dict[str, Any]) -> int | None:
    if line["generation"] == change.get("generation"):
        return line.get("took_ms")
    times = [seconds_of(str(each.get("at"))) for each in (change, line)]
    if times[0] is None or times[1] is None:
        return None
    return max(0, round((times[1] - times[0]) * 1000))


def _is_wanted(change: dict[str, Any], names: list[str], incident: str | None) -> bool:
    named = not names or change.get("name") in names
    return named and (incident is None or change.get("incident") == incident)


def _lines(
    path: str | None,
    changes: list[dict[str, Any]],
    faults: list[str],
    verified: bool | None,  # noqa: FBT001 - None is for not asked
    count: int,
) -> Iterator[str]:
    if changes:
        header = ("WHEN", "ACTION", "NAME", "VALUE", "BY", "INCIDENT", "REASON", "APPLIED BY")
        yield table(header, [_row(change) for change in changes])
    else:
        yield f"no changes in {path or '(no state directory)'}"
    if verified is not None:
        yield ""
        yield f"the audit is whole: {count} line(s)" if verified else "the audit is NOT whole:"
        yield from (f"  {fault}" for fault in faults)


def _row(change: dict[str, Any]) -> list[str]:
    action = str(change.get("action"))
    if change["void"]:
        action += " (void)"
    if change.get("store") == "fleet":
        action += " (fleet)"
    cells = [
        change.get("at"),
        action,
        change.get("name"),
        change.get("value") if change.get("action") in ("kill", "set") else None,
        change.get("actor"),
        change.get("incident"),
        change.get("reason") or change.get("note"),
    ]
    row = ["-" if cell in (None, "") else excerpt(str(cell), 120) for cell in cells]
    took = (
        f"{each['host']}:{each['pid']}"
        + ("" if each["took_ms"] is None else f" {each['took_ms']} ms")
        for each in change["applied"]
    )
    return [*row, ", ".join(took) or "-"]
