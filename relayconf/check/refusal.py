"""What Compose refuses, as findings: nothing starts before these are mended."""

from __future__ import annotations

import re
from collections.abc import Iterator

from relayconf.check.finding import Finding, place_of
from relayconf.check.inspection import Inspection, Refusal
from relayconf.compose.errors import ComposeError
from relayconf.compose.schema import SERVICE_ATTRIBUTES
from relayconf.nearest import nearest

_REQUIRED = re.compile(r"required variable (\w+) is missing")
_MISSING = re.compile(
    r"(?:env file not found|open|read|couldn't find env file|stat):? (.+?)(?::|\Z)"
)

_UNDEFINED = re.compile(r"refers to undefined (network|volume|config|secret) (.+): invalid")
_UNKNOWN = re.compile(r"schema: services\.[^ ]+ additional properties '(.+)' not allowed")

_FIXES = {
    "dotenv": "NAME='value'",
    "raw": "NAME=value",
    "template": "$$",
    "yaml": "docker compose config --quiet",
    "limit": "docker compose config --quiet",
}


def check(inspection: Inspection) -> Iterator[Finding]:
    """Turn each refusal into a finding."""
    disabled = () if inspection.project is None else inspection.project.disabled
    for refusal in inspection.refusals:
        yield _finding(refusal, disabled)


def message_of(error: ComposeError) -> str:
    """What an error says, without the origin in front."""
    text = str(error)
    return text.removeprefix(f"{error.origin}: ") if error.origin else text


def _finding(refusal: Refusal, disabled: tuple[str, ...]) -> Finding:
    error, path = refusal
    service = path[1] if len(path) > 1 and path[0] == "services" else None
    required = _REQUIRED.search(str(error))
    name = required[1] if required else _variable(path)
    message, place = message_of(error), place_of(error.origin)
    if required and service in disabled:
        message += (
            f"; {service} is in no active profile, and Compose refuses the project all the same"
        )
        code = "required-in-inactive-profile"
    else:
        message = f"Compose refuses this: {message}"
        code = "refused"
    return Finding(code, message, place, name, service, _fix(error, name, code))


def _variable(path: tuple[str, ...]) -> str | None:
    is_variable = len(path) == 4 and path[0] == "services" and path[2] == "environment"
    return path[3] if is_variable and path[3] != "[]" else None


def _fix(error: ComposeError, name: str | None, code: str) -> str:
    if code == "required-in-inactive-profile":
        return f"${{{name}:-}}"
    if error.kind == "required":
        return f"{name}=value"
    if error.kind == "missing-file":
        missing = _MISSING.search(message_of(error))
        path = missing[1] if missing else "FILE"
        return (
            f"- {{path: {path}, required: false}}" if "env file" in str(error) else f"touch {path}"
        )
    undefined = _UNDEFINED.search(str(error))
    if undefined:
        section, entry = undefined.groups()
        return f"{section}s: {{{entry}: {{}}}}"
    unknown = _UNKNOWN.search(str(error))
    if unknown:
        meant = nearest(unknown[1], SERVICE_ATTRIBUTES)
        return f"{meant}:" if meant else f"x-{unknown[1]}:"
    return _FIXES.get(error.kind, "docker compose config --quiet")
