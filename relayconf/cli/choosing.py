"""Which settings a name or a group on the command line means, and whose they are.

The contract is what ``--target`` says, else what live instances go by, else what is installed. A
name that several targets declare is no one's until the target is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from relayconf.errors import RelayconfError, TargetError
from relayconf.instances.listing import Seen
from relayconf.nearest import nearest
from relayconf.overrides.layer import known_names
from relayconf.setting import Contract, Setting
from relayconf.targets import find_contract, registered

#: A setting, and the contract that declares it.
Choice = tuple[Contract, Setting]


class Choosing:
    """Finds settings by what an operator types.

    Args:
        target: what ``--target`` says, if anything.
        live: the live instances.
    """

    def __init__(self, target: str | None, live: Sequence[Seen]) -> None:
        self._named = None if target is None else find_contract(target)
        self._live = _by_target(seen.contract for seen in live if seen.contract is not None)
        self._installed: list[Contract] | None = None

    def contracts(self) -> list[Contract]:
        """Return the contracts that an overview is about."""
        if self._named is not None:
            return [self._named]
        return self._live or [c for c in self._all_installed() if c.target != "relayconf"]

    def choose(self, words: Iterable[str]) -> list[Choice]:
        """Return the settings that names and groups (``@watch``) mean, each once, in order.

        Raises:
            TargetError: a word means nothing, or something in several targets.
        """
        chosen: dict[tuple[str, str], Choice] = {}
        for word in words:
            for contract, setting in self._group(word) if word[:1] == "@" else [self.one(word)]:
                chosen[contract.target, setting.name] = (contract, setting)
        return list(chosen.values())

    def one(self, name: str) -> Choice:
        """Return the setting of a name, current or legacy.

        Raises:
            TargetError: no target has it, or several do.
        """
        contract = self._only(name, lambda contract: name in known_names(contract))
        if contract is None:
            raise TargetError(f"{self._whose()} the setting {name}{self._near(name)}")
        return contract, known_names(contract)[name]

    def setting(self, target: str, name: str) -> Setting | None:
        """Return a target's setting by its current name, where its contract is at hand."""
        for contract in self._every():
            if contract.target == target and name in contract.settings:
                return contract.settings[name]
        return None

    def _group(self, word: str) -> list[Choice]:
        group = word[1:]

        def members(contract: Contract) -> list[Setting]:
            return [s for s in contract.settings.values() if group in s.groups]

        contract = self._only(word, lambda contract: bool(members(contract)))
        if contract is None:
            groups = {
                f"@{each}"
                for contract in self._every()
                for setting in contract.settings.values()
                for each in setting.groups
            }
            known = f"; known are: {', '.join(sorted(groups))}" if groups else ""
            raise TargetError(f"{self._whose()} the group {word}{known}")
        return [(contract, setting) for setting in members(contract)]

    def _only(self, word: str, has: Callable[[Contract], bool]) -> Contract | None:
        """Return the contract that has something: a live one before an installed one."""
        if self._named is not None:
            return self._named if has(self._named) else None
        for contracts in (self._live, self._all_installed()):
            found = [contract for contract in contracts if has(contract)]
            if len(found) > 1:
                names = ", ".join(contract.target for contract in found)
                raise TargetError(
                    f"{word} is declared by several targets ({names}); name one by --target"
                )
            if found:
                return found[0]
        return None

    def _every(self) -> list[Contract]:
        if self._named is not None:
            return [self._named]
        return [*self._live, *self._all_installed()]

    def _all_installed(self) -> list[Contract]:
        if self._installed is None:
            self._installed = []
            for target in registered():
                try:
                    self._installed.append(find_contract(target))
                except RelayconfError:
                    # Another distribution's target that is damaged must not stand in a kill's way.
                    continue
        return self._installed

    def _whose(self) -> str:
        return "no target has" if self._named is None else f"{self._named.target} does not have"

    def _near(self, name: str) -> str:
        known = [known for contract in self._every() for known in contract.settings]
        near = nearest(name, dict.fromkeys(known))  # a target that lives is mostly installed too
        return f"; did you mean {near}?" if near else ""


def _by_target(contracts: Iterable[Contract]) -> list[Contract]:
    """Return one contract for each target: of several versions the one that declares most."""
    found: dict[str, Contract] = {}
    for contract in contracts:
        known = found.get(contract.target)
        if known is None or len(contract.settings) > len(known.settings):
            found[contract.target] = contract
    return list(found.values())
