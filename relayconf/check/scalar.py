"""Values that YAML or the quoting of a list changed on their way into the container.

An unquoted ``0755``, ``1.50`` or date is a number or a date to YAML, and the container gets it as
Go prints it. Quotes inside a list item, or in a raw env file, are part of the value.
"""

from __future__ import annotations

from collections.abc import Iterator

from relayconf.check.finding import Finding, place_of
from relayconf.check.inspection import Inspection
from relayconf.check.writing import assignment, is_listed
from relayconf.compose.environment import Binding, Step
from relayconf.compose.scalars import ScalarError, Timestamp, render, resolve

_QUOTES = ("'", '"')


def check(inspection: Inspection) -> Iterator[Finding]:
    """Look at the value in force of each variable of each container."""
    project = inspection.project
    for service, bindings in () if project is None else project.services.items():
        for binding in bindings.values():
            step = binding.chain[0]
            if step.layer == "environment" and step.source is None:
                yield from _typed(inspection, service, binding, step)
                yield from _quoted(inspection, service, binding, step)
    yield from _raw_quotes(inspection)


def _typed(inspection: Inspection, service: str, binding: Binding, step: Step) -> Iterator[Finding]:
    raw, became = step.raw, step.value
    if became is None or raw == became or step.references or raw[:1] not in "+-.0123456789":
        return
    try:
        typed = resolve(raw)[1]
    except ScalarError:
        return
    # What is typed may also be written back unchanged; only what changed is a finding.
    if isinstance(typed, (str, bool)) or typed is None or render(typed) != became:
        return
    place = place_of(step.origin)
    if is_listed(inspection.texts, place, binding.name):
        return
    kind = "a date" if isinstance(typed, Timestamp) else "a number"
    message = f"unquoted, {raw} is {kind} to YAML, and the container gets {became}"
    if inspection.hiding.name(binding.name):
        message = f"unquoted, the value is {kind} to YAML, and the container gets another text"
        fix = f'put the value of {binding.name} in quotes: "..."'
    else:
        fix = f'{binding.name}: "{raw}"'
    yield Finding("yaml-scalar", message, place, binding.name, service, fix)


def _quoted(
    inspection: Inspection, service: str, binding: Binding, step: Step
) -> Iterator[Finding]:
    value, place = step.value or "", place_of(step.origin)
    if not _in_quotes(value) or not is_listed(inspection.texts, place, binding.name):
        return
    message = "the quotes around the value are part of it in a list item"
    fix = _without_quotes(inspection, step, binding.name, value)
    yield Finding("quoted-value", message, place, binding.name, service, fix)


def _raw_quotes(inspection: Inspection) -> Iterator[Finding]:
    for file in inspection.env_files:
        for entry in file.entries:
            if entry.form == "raw" and _in_quotes(entry.raw):
                message = "the quotes around the value are part of it in a raw file"
                fix = f"{entry.name}={entry.raw[1:-1]}"
                if inspection.hiding.value(entry.name, entry.raw):
                    fix = f"write the value of {entry.name} without quotes"
                place = place_of(f"{file.path}:{entry.line}:{entry.column}")
                yield Finding("quoted-value", message, place, entry.name, None, fix)


def _in_quotes(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES


def _without_quotes(inspection: Inspection, step: Step, name: str, value: str) -> str:
    if inspection.hiding.value(name, value) or step.references:
        return f"write the value of {name} without quotes"
    return assignment(inspection.texts, place_of(step.origin), name, value[1:-1])
