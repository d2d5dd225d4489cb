"""Configuration and feature flags for services that are deployed with Compose.

Everything public is named here and imported on first use, so that ``import relayconf`` costs
nothing and the stdlib-only ground floor works where nothing is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List

if TYPE_CHECKING:
    from relayconf import flags, testing
    from relayconf.contract.reading import from_document, load_installed
    from relayconf.errors import (
        ContractError,
        DeclarationError,
        FlagError,
        RelayconfError,
        SourceError,
        StrictError,
        TargetError,
    )
    from relayconf.layers import Sources
    from relayconf.live.snapshot import Live, Snapshot, load
    from relayconf.resolve import Resolution
    from relayconf.setting import Contract, Setting
    from relayconf.settings import InvalidSettingsError, Settings, contract_of

__all__ = [
    "Contract",
    "ContractError",
    "DeclarationError",
    "FlagError",
    "InvalidSettingsError",
    "Live",
    "RelayconfError",
    "Resolution",
    "Setting",
    "Settings",
    "Snapshot",
    "SourceError",
    "Sources",
    "StrictError",
    "TargetError",
    "contract_of",
    "flags",
    "from_document",
    "load",
    "load_installed",
    "testing",
]

_HOMES: Dict[str, str] = {
    "Contract": "setting",
    "ContractError": "errors",
    "DeclarationError": "errors",
    "FlagError": "errors",
    "InvalidSettingsError": "settings",
    "Live": "live.snapshot",
    "RelayconfError": "errors",
    "Resolution": "resolve",
    "Setting": "setting",
    "Settings": "settings",
    "Snapshot": "live.snapshot",
    "SourceError": "errors",
    "Sources": "layers",
    "StrictError": "errors",
    "TargetError": "errors",
    "contract_of": "settings",
    "from_document": "contract.reading",
    "load": "live.snapshot",
    "load_installed": "contract.reading",
}

_MODULES = frozenset({"flags", "testing"})


def __getattr__(name: str) -> Any:
    home = name if name in _MODULES else _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only when something is used

    module = import_module(f"{__name__}.{home}")
    value = module if name in _MODULES else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted([*globals(), *__all__])
