"""One target without a project: its env files, settings files and the environment, judged alike.

What is resolved is what ``show`` resolves, but for the overrides: they are made during an incident,
and no file is wrong because of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import date
from typing import NamedTuple

from relayconf.check import dialect, envline, flag, reference, shadow, suppression, unit
from relayconf.check.codes import MEANING
from relayconf.check.declared import Judged, finding
from relayconf.check.examine import settle
from relayconf.check.finding import Finding, Place, place_of
from relayconf.check.hiding import Hiding
from relayconf.check.inspection import EnvFile, Inspection
from relayconf.check.standing import Standing
from relayconf.check.texts import Texts
from relayconf.compose.dotenv import last_values, parse_dotenv
from relayconf.layers import Entry, Layer, Sources, configured, read_bytes
from relayconf.resolve import resolve
from relayconf.setting import Contract


class Checked(NamedTuple):
    """What was looked at, and what was found."""

    inspection: Inspection
    findings: list[Finding]


def check_target(contract: Contract, sources: Sources, today: date) -> Checked:
    """Judge everything that configures one target.

    Raises:
        SourceError: a file cannot be read or parsed.
    """
    layers = configured(contract, sources)
    files, contents = _env_files(sources.env_files, sources.environ)
    for layer in layers:
        for entry in layer.entries if layer.name == "file" else ():
            path = place_of(entry.origin).file
            if path not in contents and os.path.isfile(path):
                contents[path] = read_bytes(path)
    texts = Texts(contents, (file.path for file in files))
    contracts = {"": (contract,)}
    inspection = Inspection(
        None, texts, files, (), contracts, sources.environ, today, (), Hiding([contract])
    )
    columns = {(f.path, e.line, e.name): e.column for f in files for e in f.entries}
    judged = _judged(layers, columns)
    found = [
        _with_column(finding(problem, inspection, contract, judged, None), columns)
        for problem in resolve(contract, layers).problems
        if problem.code in MEANING and problem.code != "shadowed"
    ]
    found.extend(flag.expired(inspection, contract, judged, None, Place(contract.target)))
    found.extend(unit.suspected(inspection, contract, judged, None))
    for kind in (reference.in_env_files, shadow.in_env_files, envline.check, dialect.check):
        found.extend(kind(inspection))
    found.extend(suppression.check(texts))
    return Checked(inspection, settle(found))


def _env_files(
    paths: tuple[str, ...], environ: Mapping[str, str]
) -> tuple[tuple[EnvFile, ...], dict[str, bytes]]:
    files, contents, earlier = [], {}, dict[str, str]()
    for path in paths:
        contents[path] = read_bytes(path)
        entries = parse_dotenv(contents[path], path=path, lookup=environ.get, earlier=earlier)
        earlier.update(last_values(entries))
        files.append(EnvFile(path, "--env-file", tuple(entries)))
    return tuple(files), contents


def _judged(layers: list[Layer], columns: Mapping[tuple[str, int, str], int]) -> dict[str, Judged]:
    """The highest text of each name; the place is the origin as resolving knows it."""
    judged: dict[str, Judged] = {}
    for layer in layers:
        for entry in layer.entries:
            at = Standing(_place(entry, columns), entry.name, layer.name)
            judged[entry.name] = Judged(entry.text, at)
    return judged


def _place(entry: Entry, columns: Mapping[tuple[str, int, str], int]) -> Place:
    place = place_of(entry.origin)
    column = columns.get((place.file, place.line or 0, entry.name))
    return place if column is None else Place(place.file, place.line, column)


def _with_column(found: Finding, columns: Mapping[tuple[str, int, str], int]) -> Finding:
    """Resolving knows lines of env files; the check also says where on the line."""
    place = found.place
    if place.line is None or place.column is not None:
        return found
    on_line = [c for (file, line, _), c in columns.items() if (file, line) == place[:2]]
    named = columns.get((place.file, place.line, found.name or ""))
    column = named or (min(on_line) if on_line else None)
    return found._replace(place=Place(place.file, place.line, column))
