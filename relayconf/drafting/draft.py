"""The draft: every variable of a project's containers as a setting, with what is known about it.

It is a contract that reads, and every value of the files that it was made from is valid under it.
What a person has to look at is marked so; no secret's value is in it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from relayconf.check.standing import standing
from relayconf.compose.environment import Binding
from relayconf.compose.project import Project
from relayconf.drafting.guess import guessed, holds_secret
from relayconf.setting import Contract, Setting
from relayconf.values import Parsed, is_blank, parse

#: What stands in front of each description until somebody has read it.
REVIEW = "REVIEW:"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DEFAULT = re.compile(r"\$\{(?P<name>[A-Za-z_]\w*):?-(?P<text>[^{}$\"'\\]*)\}[\"']?\Z")
_OWN = ("RELAYCONF_", "COMPOSE_")

# So many places stand in one description.
_PLACES = 4


class Draft(NamedTuple):
    """A contract for review, and the names that no setting can have."""

    contract: Contract
    left_out: tuple[str, ...]


class _Seen(NamedTuple):
    """One variable: its values and defaults, and where it is set."""

    texts: list[str]
    defaults: list[str]
    places: list[str]
    services: list[str]


def draft(project: Project, services: Iterable[str], *, target: str) -> Draft:
    """Draft a contract.

    Args:
        project: what was read.
        services: whose variables; those of one name are one setting.
        target: the contract's name.
    """
    seen: dict[str, _Seen] = {}
    for service in services:
        for name, binding in project.services[service].items():
            one = seen.setdefault(name, _Seen([], [], [], []))
            _take(one, service, binding, project)
    # A name that differs from an earlier one in case alone could not be told from it.
    names: dict[str, str] = {}
    for name in seen:
        if _NAME.match(name) and not name.startswith(_OWN):
            names.setdefault(name.lower(), name)
    kept = list(names.values())
    left_out = tuple(n for n in seen if n not in kept and not n.startswith(_OWN))
    settings = {name: _setting(name, seen[name]) for name in kept}
    return Draft(Contract(target, _prefix(kept), settings), left_out)


def _take(one: _Seen, service: str, binding: Binding, project: Project) -> None:
    if service not in one.services:
        one.services.append(service)
    for step in binding.chain:
        if step.value is not None and step.value not in one.texts:
            one.texts.append(step.value)
        written = _DEFAULT.search(step.raw) if step.layer == "environment" else None
        if written is not None and written["text"] not in one.defaults:
            one.defaults.append(written["text"])
    places = [step.origin for step in binding.chain]
    if binding.value is not None:
        places.insert(0, str(standing(binding, project.variables).place))
    for place in places:
        where = place.rsplit(":", 1)[0]
        if where not in one.places:
            one.places.append(where)


def _setting(name: str, one: _Seen) -> Setting:
    texts = [*one.texts, *(text for text in one.defaults if text not in one.texts)]
    setting = guessed(name, texts)
    doc = _described(setting, one)
    default = next((text for text in one.defaults if not is_blank(text)), None)
    if default is not None and not holds_secret(setting, default):
        outcome = parse(setting, default)
        if isinstance(outcome, Parsed):
            return setting._replace(doc=doc, default=outcome.value)
    example = next((text for text in one.texts if not is_blank(text)), None)
    if example is not None and not holds_secret(setting, example) and example.isprintable():
        return setting._replace(doc=doc, example=example)
    return setting._replace(doc=doc)


def _described(setting: Setting, one: _Seen) -> str:
    places = ", ".join(one.places[:_PLACES])
    more = len(one.places) - _PLACES
    places += f" and {more} more" if more > 0 else ""
    guess = f"guessed type: {setting.type}"
    several = f"; defaults differ: {len(one.defaults)}" if len(one.defaults) > 1 else ""
    return f"{REVIEW} what it does. Of {', '.join(one.services)}; at {places}; {guess}{several}."


def _prefix(names: Iterable[str]) -> str:
    """The first part that at least half of the names share, and more than one."""
    listed = list(names)
    parts = Counter(name.partition("_")[0] for name in listed if "_" in name)
    if not parts:
        return ""
    part, count = parts.most_common(1)[0]
    return f"{part}_" if part and count > 1 and 2 * count >= len(listed) else ""


def by_service(project: Project) -> Mapping[str, int]:
    """How many variables each service has, of those that have any."""
    return {service: len(found) for service, found in project.services.items() if found}
