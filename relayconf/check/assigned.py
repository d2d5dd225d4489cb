"""Which contracts a service has: by option, by a label on it, or by being the one that fits."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from relayconf.compose.nodes import Mapping as Node
from relayconf.compose.nodes import Scalar, text_of
from relayconf.compose.nodes import Sequence as Items
from relayconf.compose.project import Project
from relayconf.errors import TargetError
from relayconf.nearest import nearest
from relayconf.setting import Contract
from relayconf.targets import find_contract

#: The label by which a service names its own contract; several with commas between them.
LABEL = "relayconf.target"

#: Stands for a service where a contract has none.
NOBODY = ""

_OWN = "relayconf"


def assigned(
    project: Project,
    *,
    options: Sequence[str],
    target: str | None,
    service: str | None,
) -> dict[str, tuple[Contract, ...]]:
    """Return the contracts of each service that has some.

    Args:
        project: what was read; services of inactive profiles count for nothing.
        options: texts ``SERVICE=TARGET``.
        target: a target whose service is the one of ``service``, of its name, or the one that fits.
        service: the service that ``target`` is for.

    Raises:
        TargetError: an option names no service, or it is not clear which service is meant.
        ContractError: a contract cannot be read.
    """
    named: dict[str, list[str]] = {}
    for name, label in _labels(project):
        named.setdefault(name, []).append(label)
    for option in options:
        name, equals, text = option.partition("=")
        if not equals or not name or not text:
            raise TargetError(f"--contract wants SERVICE=TARGET, not {option!r}")
        _known(project, name)
        named.setdefault(name, []).append(text)
    if service is not None:
        _known(project, service)
    contracts = {text: _contract(text) for texts in named.values() for text in texts}
    found = {name: [contracts[text] for text in texts] for name, texts in named.items()}
    if target is not None:
        contract = find_contract(target)
        found.setdefault(service or _fitting(project, contract), []).append(contract)
    return {name: _unique(project, name, each) for name, each in found.items()}


def _contract(text: str) -> Contract:
    if not text.isprintable():
        # A label may hold any text at all, and no path has a NUL in it.
        raise TargetError(f"{text!a} is no target")
    return find_contract(text)


def _unique(project: Project, service: str, contracts: Sequence[Contract]) -> tuple[Contract, ...]:
    """Each contract once, and relayconf's own where the service sets something of it."""
    by_target = {contract.target: contract for contract in contracts}
    if _OWN not in by_target:
        own = find_contract(_OWN)
        if any(name.startswith(own.prefix) for name in project.services.get(service, ())):
            by_target[_OWN] = own
    return tuple(by_target.values())


def _known(project: Project, service: str) -> None:
    if service in project.services:
        return
    if service in project.disabled:
        raise TargetError(f"service {service} is not in an active profile; name it with --profile")
    near = nearest(service, project.services)
    hint = f"; is it {near}?" if near else f"; there are: {', '.join(project.services)}"
    raise TargetError(f"no service {service!r}{hint}")


def _fitting(project: Project, contract: Contract) -> str:
    """The service of the target's name, else the only one that has any of its settings.

    Where none has any, the contract is nobody's: the project's env files are judged by it all the
    same, and what they set reaches no container.
    """
    if contract.target in project.services:
        return contract.target
    fitting = [n for n, bindings in project.services.items() if _fits(contract, bindings)]
    if not fitting and len(project.services) == 1:
        return next(iter(project.services))
    if len(fitting) > 1:
        what = f"{', '.join(fitting)} have settings of {contract.target}"
        raise TargetError(f"{what}; say which by --service S or --contract S=TARGET")
    return fitting[0] if fitting else NOBODY


def _fits(contract: Contract, bindings: Mapping[str, object]) -> bool:
    if any(name in contract.settings for name in bindings):
        return True
    return bool(contract.prefix) and any(name.startswith(contract.prefix) for name in bindings)


def _labels(project: Project) -> Iterator[tuple[str, str]]:
    """Each service's label; a relative path in it is relative to the compose file's folder."""
    folder = os.path.dirname(project.files[0])
    services = project.model.entries.get("services")
    for name, node in services.entries.items() if isinstance(services, Node) else ():
        if name not in project.services or not isinstance(node, Node):
            continue
        for text in (_label(node.entries.get("labels")) or "").split(","):
            word = text.strip()
            if word:
                is_path = os.sep in word or word.endswith((".json", ".yaml", ".yml"))
                yield name, os.path.join(folder, word) if is_path else word


def _label(labels: object) -> str | None:
    if isinstance(labels, Node):
        return text_of(labels.entries.get(LABEL))
    for item in labels.items if isinstance(labels, Items) else ():
        key, _, text = (
            (text_of(item) or "").partition("=") if isinstance(item, Scalar) else ("",) * 3
        )
        if key == LABEL:
            return text
    return None
