"""Names that nobody declared: unknown ones, near misses, and what was probably meant.

Only names that the contract concerns are looked at; every other variable is foreign and is never
mentioned. Ground floor.
"""

from __future__ import annotations

from typing import Iterable, List, Sequence

from relayconf.layers import Entry, Layer, concerns
from relayconf.nearest import nearest
from relayconf.problems import Problem
from relayconf.setting import Contract


def unknown_names(contract: Contract, layers: Sequence[Layer]) -> List[Problem]:
    """Report each undeclared name once for each layer that carries it.

    Returns:
        ``near-miss`` where a declared name is close enough to suggest, else ``unknown-name``.
    """
    known = set(contract.settings)
    known.update(old for setting in contract.settings.values() for old in setting.legacy)
    problems = []
    for layer in layers:
        seen = set()
        for entry in _undeclared(contract, layer.entries, known):
            if entry.name not in seen:
                seen.add(entry.name)
                problems.append(_problem(contract, entry))
    return problems


def _undeclared(contract: Contract, entries: Iterable[Entry], known: set[str]) -> Iterable[Entry]:
    return (e for e in entries if e.name not in known and concerns(contract, e.name))


def _problem(contract: Contract, entry: Entry) -> Problem:
    near = nearest(entry.name, list(contract.settings))
    if near is None:
        message = f"{contract.target} has no setting of that name; it has no effect"
        return Problem("unknown-name", entry.name, message, entry.origin)
    message = f"{contract.target} has no setting of that name; the nearest is {near}"
    return Problem("near-miss", entry.name, message, entry.origin, suggestion=near)
