"""What a contract finds in a container: each value and name judged, at the place of its text.

The judging is ``resolve``'s, the same that ``show`` and the running service do; this module says
where the text stands and what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from relayconf.check.codes import MEANING
from relayconf.check.finding import Finding, Place, place_of
from relayconf.check.inspection import Inspection
from relayconf.check.standing import Standing, standing
from relayconf.check.writing import assignment, left_out
from relayconf.compose.environment import Binding
from relayconf.compose.project import Project
from relayconf.layers import Entry, Layer
from relayconf.names import unknown_names
from relayconf.problems import Problem
from relayconf.resolve import resolve
from relayconf.setting import Contract, Setting
from relayconf.values import Parsed, is_blank, parse, render
from relayconf.values.spelling import WHITE

# Everything in a container was given to it: names without their prefix are looked at as well.
_LAYER = "env-file"


class Judged(NamedTuple):
    """A text that a contract judges, and where it stands."""

    text: str
    at: Standing


def check(inspection: Inspection) -> Iterator[Finding]:
    """Judge each container that has a contract."""
    project = inspection.project
    if project is None:
        return
    for service, contracts in inspection.contracts.items():
        judged = container(project, service)
        for contract in contracts:
            yield from _judge(inspection, contract, judged, service)
            yield from _blanks(inspection, contract, judged, service)


def container(project: Project, service: str) -> dict[str, Judged]:
    """Each variable that a container has, by name."""
    bindings: dict[str, Binding] = project.services.get(service, {})
    return {
        name: Judged(binding.value, standing(binding, project.variables))
        for name, binding in bindings.items()
        if binding.value is not None
    }


def names_in_env_files(inspection: Inspection) -> Iterator[Finding]:
    """Names in the project's env files that no contract knows and no compose file asks for."""
    project = inspection.project
    asked = {reference.name for use in inspection.uses for reference in use.references}
    there = set() if project is None else {n for b in project.services.values() for n in b}
    for contract in inspection.declared():
        for file in inspection.env_files:
            if not file.feeds_project:
                continue
            judged = {
                e.name: Judged(e.value, Standing(_at(file.path, e), e.name, file.layer))
                for e in file.entries
                if e.value is not None and e.name not in asked and e.name not in there
            }
            layer = Layer(_LAYER, tuple(_entries(judged)))
            for problem in unknown_names(contract, [layer]):
                yield finding(problem, inspection, contract, judged, None)


def finding(
    problem: Problem,
    inspection: Inspection,
    contract: Contract,
    judged: dict[str, Judged],
    service: str | None,
) -> Finding:
    """Turn a problem of resolving into a finding.

    Args:
        problem: what was found; its origin is the place of its text.
        inspection: knows the files, and what is not shown.
        contract: what was resolved.
        judged: the texts by name.
        service: whose container it is.
    """
    named = [problem.name]
    setting = contract.settings.get(problem.name)
    if setting is not None:
        named.extend(setting.legacy)
    found = [judged[name] for name in named if name in judged]
    message, place = problem.message, place_of(problem.origin)
    here = [one for one in found if one.at.place[:2] == place[:2]] or found
    if here and here[0].at.layer == "shell":
        message += f" (out of the shell, handed on at {place})"
    fix = _fix(problem, inspection, contract, here[0] if here else None, place)
    return Finding(problem.code, message, place, problem.name, service, fix)


def _judge(
    inspection: Inspection, contract: Contract, judged: dict[str, Judged], service: str
) -> Iterator[Finding]:
    layer = Layer(_LAYER, tuple(_entries(judged)))
    # The order of one layer's names is no order of precedence, as it is within a file.
    for problem in resolve(contract, [layer]).problems:
        if problem.code in MEANING and problem.code != "shadowed":
            yield finding(problem, inspection, contract, judged, service)


def _blanks(
    inspection: Inspection, contract: Contract, judged: dict[str, Judged], service: str
) -> Iterator[Finding]:
    for name, setting in _settings(contract):
        one = judged.get(name)
        if one is None or not is_blank(one.text) or setting.secret or setting.allow_blank:
            continue
        message = f"it is set, and blank, which counts as unset; {_in_force(setting)}"
        fix = left_out(inspection.texts, one.at.place, one.at.name)
        yield Finding("blank-value", message, one.at.place, setting.name, service, fix)


def _settings(contract: Contract) -> Iterator[tuple[str, Setting]]:
    for setting in contract.settings.values():
        for name in (setting.name, *setting.legacy):
            yield name, setting


def _in_force(setting: Setting) -> str:
    return "it has no default" if setting.default is None else "its default is in force"


def _entries(judged: dict[str, Judged]) -> Iterator[Entry]:
    for name, one in judged.items():
        yield Entry(name, one.text, str(one.at.place))


def _at(path: str, entry: object) -> Place:
    return Place(path, getattr(entry, "line", None), getattr(entry, "column", None))


def _fix(
    problem: Problem, inspection: Inspection, contract: Contract, one: Judged | None, place: Place
) -> str:
    """The line that mends a problem, in the style of the place."""
    setting, texts = contract.settings.get(problem.name), inspection.texts
    if problem.code in ("near-miss", "legacy-name") and problem.suggestion:
        name, hiding = problem.suggestion, inspection.hiding
        if one is None or hiding.name(name) or hiding.value(problem.name, one.text):
            return f"{name}="
        return assignment(texts, place, name, one.text, written=one.at.name)
    name = one.at.name if one is not None else problem.name
    if setting is None or problem.code in ("unknown-name", "duplicate-name"):
        return left_out(texts, place, name)
    if setting.secret or inspection.hiding.value(name, one.text if one else None):
        return f"{setting.name}_FILE=/run/secrets/{setting.name}"
    if problem.code == "whitespace" and one is not None:
        return assignment(texts, place, name, one.text.strip(WHITE))
    if problem.code == "invalid-value":
        text = _mended(setting, one.text if one else "", problem.message) or valid_text(setting)
        return (
            left_out(texts, place, name) if text is None else assignment(texts, place, name, text)
        )
    return assignment(texts, place, name, problem.suggestion or "")


def valid_text(setting: Setting) -> str | None:
    """A text that is surely valid: the default's, else the example's; None where there is none."""
    if setting.default is not None:
        return render(setting, setting.default)
    return setting.example


def _mended(setting: Setting, text: str, message: str) -> str | None:
    """The valid text that was surely meant: what the reason says, or without quotes or comment."""
    told = _HINT.search(message)
    hints = [told[1]] if told else []
    for meant in (*hints, text.strip(WHITE).strip("'\""), text.partition("#")[0].strip(WHITE)):
        if meant and isinstance(parse(setting, meant), Parsed):
            return meant
    return None


_HINT = re.compile(r"; (?:write|did you mean) ([^\s?]+)\??\Z")
