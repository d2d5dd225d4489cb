"""Names that nobody declared: unknown ones, near misses, and what was probably meant.

In the environment only names are looked at that carry the prefix; every other variable is foreign
and is never mentioned. In a file that was given to the command a declared name without its prefix,
or with another separator, is found too. Ground floor.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Sequence

from relayconf.layers import Entry, Layer, concerns
from relayconf.nearest import nearest
from relayconf.problems import Problem
from relayconf.setting import Contract, Setting
from relayconf.values import excerpt

#: The layers whose names were written for this contract, or for services that share the file.
_GIVEN = frozenset({"file", "env-file"})

#: The variable that names a secret's file is the secret's name and this.
_POINTER = "_FILE"

#: Looking for the nearest name takes time; so many in one layer are no slips of the pen.
_MOST_SUGGESTIONS = 100

_SEPARATORS = re.compile(r"[-_.]+")


def fileable(setting: Setting) -> bool:
    """Whether a setting's value may be in a file of its own: a secret, or a url that may hold one.

    A url counts because its userinfo is a secret.
    """
    return setting.type in ("secret", "url")


def pointers(contract: Contract) -> Dict[str, str]:
    """Return each ``NAME_FILE`` that may name a secret's file, with the name it stands for.

    A name that is itself declared is not one.
    """
    declared = _declared(contract)
    return {
        name + _POINTER: name
        for setting in contract.settings.values()
        if fileable(setting)
        for name in (setting.name, *setting.legacy)
        if name + _POINTER not in declared
    }


def unknown_names(contract: Contract, layers: Sequence[Layer]) -> List[Problem]:
    """Report each undeclared name once for each layer that carries it.

    Returns:
        ``near-miss`` where a declared name is close enough to suggest, else ``unknown-name``.
    """
    if all(entry.name in contract.settings for layer in layers for entry in layer.entries):
        return []
    names = _Names(contract)
    problems = []
    for layer in layers:
        seen = set()
        for entry in layer.entries:
            if entry.name in names.known or entry.name in seen:
                continue
            seen.add(entry.name)
            problem = names.judge(entry, given=layer.name in _GIVEN)
            if problem is not None:
                problems.append(problem)
    return problems


class _Names:
    """Everything that is declared, spelled so that slips can be looked up."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        files = pointers(contract)
        self.known = _declared(contract) | set(files)
        self.candidates = [*contract.settings, *files]
        self.suggestions = 0
        self._spellings: Dict[str, str] = {}

    @property
    def spelled(self) -> Dict[str, str]:
        """Each name by what slips leave of it; made when there is a slip, which is seldom."""
        if not self._spellings:
            self._spellings = {_spelled(name): name for name in reversed(self.candidates)}
        return self._spellings

    def judge(self, entry: Entry, *, given: bool) -> Optional[Problem]:
        """Return what is wrong with an undeclared name; ``None`` where it is foreign."""
        contract, name = self.contract, entry.name
        if not concerns(contract, name):
            near = self._without_prefix(name) if given else None
            if near is None:
                return None
            prefix = f"; names carry their prefix {contract.prefix}" if contract.prefix else ""
            return self._problem(entry, f"the nearest is {near}{prefix}", near)
        near = self.spelled.get(_spelled(name)) or self._nearest(name)
        if near is not None:
            return self._problem(entry, f"the nearest is {near}", near)
        reason = "it has no effect"
        if name.endswith(_POINTER) and name[: -len(_POINTER)] in contract.settings:
            reason += f"; {name[: -len(_POINTER)]} is no secret, and only a secret is read from one"
        return self._problem(entry, reason, None)

    def _without_prefix(self, name: str) -> Optional[str]:
        return self.spelled.get(_spelled(self.contract.prefix + name)) or self.spelled.get(
            _spelled(name)
        )

    def _nearest(self, name: str) -> Optional[str]:
        self.suggestions += 1
        return nearest(name, self.candidates) if self.suggestions <= _MOST_SUGGESTIONS else None

    def _problem(self, entry: Entry, reason: str, near: Optional[str]) -> Problem:
        message = f"{self.contract.target} has no setting of that name; {reason}"
        code = "unknown-name" if near is None else "near-miss"
        # A key of a settings file may be any text at all.
        return Problem(code, excerpt(entry.name, 200), message, entry.origin, suggestion=near)


def _declared(contract: Contract) -> set[str]:
    names = set(contract.settings)
    names.update(old for setting in contract.settings.values() for old in setting.legacy)
    return names


def _spelled(name: str) -> str:
    """Return a name as slips of case and separators leave it."""
    return _SEPARATORS.sub("_", name).upper()
