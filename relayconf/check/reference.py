"""Expressions that come to nothing: variables that no layer has where the compose file looks.

The commonest reasons have codes of their own: the variable is in an ``env_file``, which compose
files do not see; an entry hands on a variable under its own name and makes a blank of an absence;
a ``$`` that was meant as it stands, in a password or a hash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from relayconf.check.finding import Finding, Place
from relayconf.check.hiding import HASH
from relayconf.check.inspection import EnvFile, Inspection
from relayconf.check.uses import Use
from relayconf.check.writing import env_text, is_listed, passed_on
from relayconf.compose.dotenv import EnvEntry
from relayconf.compose.interpolate import Reference
from relayconf.compose.project import Project

# So many variables of one text are told, and so many of its lines searched: more are a data file.
_MOST = 20
_MOST_ROWS = 200
_LONGEST_NAME = 100

_JOINED = re.compile(r"[A-Za-z0-9!@#%^&*?~|$]\Z")
_SHOUTED = re.compile(r"[A-Z][A-Z0-9_]+\Z")


def check(inspection: Inspection) -> Iterator[Finding]:
    """Look at every expression of the compose files and of the env files."""
    project = inspection.project
    if project is None:
        return
    by_service = _in_env_files(project)
    files = {name: path for each in by_service.values() for name, path in each.items()}
    for use in inspection.uses:
        own = by_service.get(use.service or "", {})
        yield from _of_compose(inspection, use, {**files, **own})
    yield from in_env_files(inspection)


def in_env_files(inspection: Inspection) -> Iterator[Finding]:
    """Look at the expressions of the env files alone."""
    for file in inspection.env_files:
        for entry in file.entries:
            yield from _of_env_file(inspection, file, entry)


def _in_env_files(project: Project) -> dict[str, dict[str, str]]:
    """For each service the variables that its env files set, with the file."""
    return {
        service: {
            name: step.origin.rsplit(":", 2)[0]
            for name, binding in bindings.items()
            for step in binding.chain
            if step.layer == "env_file" and step.value is not None
        }
        for service, bindings in project.services.items()
    }


def _of_compose(inspection: Inspection, use: Use, files: Mapping[str, str]) -> Iterator[Finding]:
    texts, mark = inspection.texts, use.mark
    start = Place(mark.path, mark.line, mark.column)
    told: set[str] = set()
    for reference in use.references:
        name = reference.name
        if reference.value is not None or name in told or "?" in reference.operator:
            continue
        if len(told) == _MOST:
            return
        told.add(name)
        in_file = name in files and "+" not in reference.operator
        if reference.operator and not in_file:
            continue
        rows = min(use.scalar.raw.count("\n") + 2, _MOST_ROWS)
        place = texts.find(start, _asking(name), rows)
        if in_file:
            message = (
                f"it is set in {files[name]}, an env_file, which only the container sees; "
                f"here it is {'its default' if reference.operator else 'blank'}"
            )
            fix = f"docker compose --env-file {files[name]} up"
            yield Finding("env-file-in-interpolation", message, place, name, use.service, fix)
        elif use.variable == name and use.scalar.value in ("", f"{name}="):
            message = (
                "it is set nowhere, so the container gets a blank; "
                "an entry without a value would leave it unset"
            )
            fix = passed_on(texts, start, name)
            yield Finding("self-reference", message, place, name, use.service, fix)
        elif _is_eaten(inspection, use.scalar.raw, reference, use.variable):
            fix = _mended(inspection, use, start)
            yield _eaten(inspection, use.scalar.raw, (use.variable, name), place, use.service, fix)
            return
        else:
            yield _unset(name, place, use.service)


def _of_env_file(inspection: Inspection, file: EnvFile, entry: EnvEntry) -> Iterator[Finding]:
    start = Place(file.path, entry.line, entry.column)
    blank = {each.name: each for each in reversed(entry.references) if each.blank}
    rows = min(entry.raw.count("\n") + 1, _MOST_ROWS)
    for reference in list(blank.values())[:_MOST]:
        pattern = _asking(reference.name)
        place = inspection.texts.find(start, pattern, rows)
        if _is_eaten(inspection, entry.raw, reference, entry.name):
            fix = f"write the value of {entry.name} in single quotes"
            if entry.form == "plain" and not inspection.hiding.value(entry.name, entry.raw):
                fix = f"{entry.name}={env_text(entry.raw.strip())}"
            yield _eaten(inspection, entry.raw, (entry.name, reference.name), place, None, fix)
            return
        yield _unset(reference.name, place, None)


def _asking(name: str) -> re.Pattern[str]:
    """What asks for a variable; of a name as long as a file the beginning is enough."""
    return re.compile(rf"\$\{{?{re.escape(name[:_LONGEST_NAME])}")


def _is_eaten(inspection: Inspection, raw: str, reference: Reference, variable: str | None) -> bool:
    """Whether a ``$NAME`` that is not set was probably never meant as a variable."""
    word = f"${reference.name}"
    at = raw.find(word)
    if at < 0:
        return False
    shouted = _SHOUTED.match(reference.name) is not None
    if HASH.search(raw):
        return True
    if variable is not None and inspection.hiding.name(variable):
        return not (shouted and raw.strip("'\" ").removeprefix(f"{variable}=") == word)
    return not shouted and _JOINED.search(raw[:at]) is not None


def _mended(inspection: Inspection, use: Use, start: Place) -> str:
    """The entry with each ``$`` doubled; how to do so where it is not to be shown."""
    variable, raw = use.variable, use.scalar.raw
    if variable is None or "\n" in raw or inspection.hiding.value(variable, raw):
        return f"write $$ for each $ in {variable or 'this line'}"
    doubled = raw.replace("$", "$$")
    listed = is_listed(inspection.texts, start, variable)
    return f"- {doubled}" if listed else f"{variable}: {doubled}"


def _eaten(
    inspection: Inspection,
    raw: str,
    names: tuple[str | None, str],
    place: Place,
    service: str | None,
    fix: str,
) -> Finding:
    variable, name = names
    hidden = inspection.hiding.value(variable or "", raw)
    what = "what follows a $" if hidden else f"${name}"
    message = f"{what} is taken for a variable, is not set, and leaves nothing of it in the value"
    about = variable or (None if hidden else name)
    return Finding("dollar-eaten", message, place, about, service, fix)


def _unset(name: str, place: Place, service: str | None) -> Finding:
    message = f"it is set nowhere and becomes a blank; give it a value, or write ${{{name}:-}}"
    return Finding("unset-variable", message, place, name, service, f"{name}=")
