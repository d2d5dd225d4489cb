"""Defaults that a compose file repeats, and that are not the declared ones any more."""

from __future__ import annotations

import re
from collections.abc import Iterator

from relayconf.check.finding import Finding, place_of
from relayconf.check.inspection import Inspection
from relayconf.check.writing import passed_on
from relayconf.compose.environment import Step
from relayconf.setting import Setting
from relayconf.values import Parsed, parse
from relayconf.wording import value

# A default without further expressions, up to its brace; quotes would be YAML's or the value's.
_DEFAULT = re.compile(r"\$\{[A-Za-z_]\w*:?-(?P<text>[^{}$\"'\\]*)\}[\"']?\Z")


def check(inspection: Inspection) -> Iterator[Finding]:
    """Compare ``${NAME:-default}`` of each declared setting with the contract's default."""
    project = inspection.project
    if project is None:
        return
    for service, contracts in inspection.contracts.items():
        bindings = project.services.get(service, {})
        for setting in (s for contract in contracts for s in contract.settings.values()):
            binding = bindings.get(setting.name)
            if binding is not None and not setting.secret:
                yield from _drift(inspection, setting, service, binding.chain[0])


def _drift(inspection: Inspection, setting: Setting, service: str, step: Step) -> Iterator[Finding]:
    written = _DEFAULT.search(step.raw) if step.layer == "environment" else None
    if written is None or not written["text"]:
        return
    outcome = parse(setting, written["text"])
    if not isinstance(outcome, Parsed) or outcome.value == setting.default:
        return
    theirs, own = value(setting, outcome.value), value(setting, setting.default)
    declared = "declares none" if setting.default is None else f"declares {own}"
    message = f"the compose file repeats a default, {theirs}, and the contract {declared}"
    place = inspection.texts.find(place_of(step.origin), re.compile(r"\$\{"))
    fix = passed_on(inspection.texts, place_of(step.origin), setting.name)
    yield Finding("default-drift", message, place, setting.name, service, fix)
