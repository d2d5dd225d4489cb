"""Hosts: how a runner reaches a remote sandbox, by running commands and moving files.

``Host`` says what one promises; ``MemoryHost`` is a public fake; ``open_host`` finds an
implementation by the name that RELAY_BACKEND gives. ``relay.hosts.conformance`` tries any of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Denied": "relay.hosts.host",
    "Done": "relay.hosts.host",
    "Entry": "relay.hosts.host",
    "Exists": "relay.hosts.host",
    "Faulty": "relay.hosts.host",
    "Host": "relay.hosts.host",
    "HostError": "relay.hosts.host",
    "MemoryHost": "relay.hosts.memory",
    "Missing": "relay.hosts.host",
    "NoCommand": "relay.hosts.host",
    "TimedOut": "relay.hosts.host",
    "TooLarge": "relay.hosts.host",
    "Unreachable": "relay.hosts.host",
    "open_host": "relay.hosts.opening",
}

__all__ = [  # noqa: PLE0604 - the names are those of the table above
    *sorted(_HOME)
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
