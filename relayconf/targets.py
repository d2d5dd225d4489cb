"""Targets: from the word on the command line to a contract, or to a settings class.

A target is an installed name (``relay``), ``module:Class``, or the path of a contract file. A
target that has a contract is answered from it, without importing anybody's code. Ground floor,
but for the functions that import a class or read YAML.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Type, cast

from relayconf.contract.reading import installed_path, load, load_installed
from relayconf.errors import ContractError, RelayconfError, TargetError
from relayconf.nearest import nearest
from relayconf.setting import Contract
from relayconf.values import excerpt

if TYPE_CHECKING:
    from relayconf.settings import Settings

#: The entry point group under which a distribution registers its settings classes.
GROUP = "relayconf.targets"


def find_contract(target: str) -> Contract:
    """Return the contract that a target names.

    Raises:
        TargetError: it names nothing known; the message lists what is.
        ContractError: it names a file that is not a contract.
        DeclarationError: it names a class that cannot be right.
    """
    if ":" in target and not os.path.exists(target):
        return find_class(target).__contract__
    if target.endswith((".yaml", ".yml")):
        return _load_yaml(target)
    if os.sep in target or target.endswith(".json"):
        return load(target)
    contract = load_installed(target)
    return contract if contract is not None else find_class(target).__contract__


def find_class(target: str) -> Type[Settings]:
    """Import the settings class of an installed name or of ``module:Class``.

    Raises:
        TargetError: there is none; the message says why.
    """
    spec = target
    if ":" not in target:
        installed = registered()
        if target not in installed:
            near = nearest(target, list(installed))
            hint = f"did you mean {near}?" if near else f"known are: {', '.join(installed)}"
            raise TargetError(f"no target {excerpt(target, 200)!r} is installed; {hint}")
        spec = installed[target]
    module, _, name = spec.partition(":")
    if not module or not name:
        raise TargetError(f"{target!r} is not module:Class")
    return _import(target, module, name)


def registered() -> Dict[str, str]:
    """Return every installed target and where its class is, sorted by name."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - costs as much as argparse

    points: Any = entry_points(group=GROUP)  # type: ignore[call-arg,unused-ignore]  # 3.10 and later
    return {point.name: point.value for point in sorted(points, key=lambda point: point.name)}


def declaring(name: str) -> List[Contract]:
    """Return the contracts of installed targets that declare ``name``, also as a legacy name."""
    return [
        contract
        for contract in map(find_contract, registered())
        if name in contract.settings or any(name in s.legacy for s in contract.settings.values())
    ]


def _load_yaml(path: str) -> Contract:
    try:
        # By name: YAML is read on the floor above, where its reader is installed.
        reader: Any = importlib.import_module("relayconf.contract.yamltext")
    except ModuleNotFoundError as error:
        reason = f"reading YAML needs {error.name}; install ruamel.yaml, or write it in JSON"
        raise ContractError(f"{path}: {reason}") from None
    return cast(Contract, reader.load(path))


def _import(target: str, module: str, name: str) -> Type[Settings]:
    from contextlib import redirect_stdout  # noqa: PLC0415 - only where somebody's code is imported

    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as `python -m` would: the project one stands in
    try:
        # What it prints is no part of a command's answer.
        with redirect_stdout(sys.stderr):
            found: Optional[Any] = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        raise TargetError(f"cannot import {module!r} for target {target!r}: {error}") from None
    except RelayconfError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's module may raise anything
        reason = f"{type(error).__name__}: {error}"
        raise TargetError(f"importing {module!r} for target {target!r} failed: {reason}") from None
    if not hasattr(found, "__contract__"):
        raise TargetError(f"{target!r} names no settings class")
    return cast("Type[Settings]", found)


__all__ = ["GROUP", "declaring", "find_class", "find_contract", "installed_path", "registered"]
