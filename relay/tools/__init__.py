"""Tools: what a runner offers, and how one call of each kind is run.

``registry`` holds the record and the set, ``file`` reads the TOML, ``signature`` and ``validate``
are about schemas, ``command`` runs programs. Names are loaded when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "PAUSED": "relay.tools.registry",
    "Call": "relay.tools.registry",
    "Registry": "relay.tools.registry",
    "Tool": "relay.tools.registry",
    "ToolsError": "relay.tools.registry",
    "command_tool": "relay.tools.command",
    "load_tools": "relay.tools.file",
    "python_tool": "relay.tools.registry",
    "this_call": "relay.tools.registry",
}

__all__ = [
    "PAUSED",
    "Call",
    "Registry",
    "Tool",
    "ToolsError",
    "command_tool",
    "load_tools",
    "python_tool",
    "this_call",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
