"""Expressions that come to nothing: variables that no layer has where the compose file looks.

The commonest reasons have codes of their own: the variable is in an ``env_file``, which compose
files do not see; an entry hands on a variable under its own name and makes a blank of an absence;
a ``$`` that was meant as it stands, in a password or a hash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from relayconf.check.finding import Finding, Place
from relayconf.check.inspection import EnvFile, Inspection
from relayconf.check.uses import Use
from relayconf.check.writing import env_text, is_listed, passed_on
from relayconf.compose.dotenv import EnvEntry
from relayconf.compose.interpolate import Reference
from relayconf.compose.project import Project
from relayconf.secretnames import may_be_secret

# How the hashes begin that people keep in env files: bcrypt, htpasswd, crypt, argon2 and the like.
_HASH = re.compile(r"\$(?:2[abxy]?|apr1|[1-9]|y|gy|argon2\w*|scrypt|pbkdf2[\w-]*|sha\d+)\$")
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
        told.add(name)
        rows = use.scalar.raw.count("\n") + 2
        place = texts.find(start, re.compile(rf"\$\{{?{re.escape(name)}"), rows)
        if name in files and "+" not in reference.operator:
            message = (
                f"{name} is set in {files[name]}, an env_file, which only the container sees; "
                f"here it is {'its default' if reference.operator else 'blank'}"
            )
            fix = f"docker compose --env-file {files[name]} up"
            yield Finding("env-file-in-interpolation", message, place, name, use.service, fix)
        elif reference.operator:
            continue
        elif use.variable == name and use.scalar.value in ("", f"{name}="):
            message = (
                f"{name} is set nowhere, so the container gets a blank; "
                "an entry without a value would leave it unset"
            )
            fix = passed_on(texts, start, name)
            yield Finding("self-reference", message, place, name, use.service, fix)
        elif _is_eaten(use.scalar.raw, reference, use.variable):
            yield _eaten_in_compose(inspection, use, start, place, name)
            return
        else:
            yield _unset(name, place, use.service)


def _of_env_file(inspection: Inspection, file: EnvFile, entry: EnvEntry) -> Iterator[Finding]:
    start = Place(file.path, entry.line, entry.column)
    for reference in {each.name: each for each in reversed(entry.references)}.values():
        if not reference.blank:
            continue
        rows = entry.raw.count("\n") + 1
        pattern = re.compile(rf"\$\{{?{re.escape(reference.name)}")
        place = inspection.texts.find(start, pattern, rows)
        if _is_eaten(entry.raw, reference, entry.name):
            hidden = may_be_secret(entry.name) or entry.form != "plain"
            fix = f"write $$ for each $ in the value of {entry.name}"
            if not hidden:
                fix = f"{entry.name}={env_text(entry.raw.strip())}"
            yield _eaten(entry.name, reference.name, place, None, fix)
            return
        yield _unset(reference.name, place, None)


def _is_eaten(raw: str, reference: Reference, variable: str | None) -> bool:
    """Whether a ``$NAME`` that is not set was probably never meant as a variable."""
    at = raw.find(f"${reference.name}")
    if at < 0:
        return False
    if _HASH.search(raw):
        return True
    if _SHOUTED.match(reference.name):
        return False
    return _JOINED.search(raw[:at]) is not None or may_be_secret(variable or "")


def _eaten_in_compose(
    inspection: Inspection, use: Use, start: Place, place: Place, name: str
) -> Finding:
    variable = use.variable
    raw = use.scalar.raw
    fix = f"write $$ for each $ in the value of {variable or 'this line'}"
    plain = variable is not None and not may_be_secret(variable) and "\n" not in raw
    if plain and variable is not None and not _HASH.search(raw):
        doubled = raw.replace("$", "$$")
        fix = f"- {doubled}" if is_listed(inspection.texts, start, variable) else doubled
        fix = fix if fix.startswith("- ") else f"{variable}: {doubled}"
    return _eaten(variable, name, place, use.service, fix)


def _eaten(variable: str | None, name: str, place: Place, service: str | None, fix: str) -> Finding:
    message = f"${name} is taken for a variable, is not set, and leaves nothing of it in the value"
    return Finding("dollar-eaten", message, place, variable or name, service, fix)


def _unset(name: str, place: Place, service: str | None) -> Finding:
    message = f"{name} is set nowhere and becomes a blank; give it a value, or ${{{name}:-}}"
    return Finding("unset-variable", message, place, name, service, f"{name}=")
