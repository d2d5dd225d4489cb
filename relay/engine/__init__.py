"""The runner: it takes requests out of session directories, runs tools and publishes answers.

``Runner`` is the way in. The rest is one module per idea: the directory, its residue, who else is
alive, how the loop is woken, what happens to one request.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {"Counters": "relay.engine.telemetry", "Runner": "relay.engine.runner"}

__all__ = ["Counters", "Runner"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
