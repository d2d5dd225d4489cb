"""A file-based tool relay: a sandboxed writer asks, a runner outside answers.

What is public is listed in ``__all__`` and loaded when it is first named, so that ``import
relay`` costs a writer in a sandbox next to nothing. Writers and errors are the ground floor
(stdlib only, Python 3.9 syntax); the runner needs Python 3.11 and the dependencies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from relay.client.writer import Writer, acall, call
    from relay.engine.guard import GuardedRequest
    from relay.engine.runner import Runner
    from relay.errors import (
        BadRequest,
        BadResponse,
        CallError,
        CallTimeout,
        CannotPublish,
        Interrupted,
        NoDirectory,
        NotExecuted,
        Paused,
        RelayError,
        ToolError,
        ToolFailed,
        UnknownTool,
    )
    from relay.tools.registry import PAUSED, this_call

_HOME = {
    "PAUSED": "relay.tools",
    "BadRequest": "relay.errors",
    "BadResponse": "relay.errors",
    "CallError": "relay.errors",
    "CallTimeout": "relay.errors",
    "CannotPublish": "relay.errors",
    "GuardedRequest": "relay.engine.guard",
    "Interrupted": "relay.errors",
    "NoDirectory": "relay.errors",
    "NotExecuted": "relay.errors",
    "Paused": "relay.errors",
    "RelayError": "relay.errors",
    "Runner": "relay.engine",
    "ToolError": "relay.errors",
    "ToolFailed": "relay.errors",
    "UnknownTool": "relay.errors",
    "Writer": "relay.client",
    "acall": "relay.client",
    "call": "relay.client",
    "this_call": "relay.tools",
}

__all__ = [
    "PAUSED",
    "BadRequest",
    "BadResponse",
    "CallError",
    "CallTimeout",
    "CannotPublish",
    "GuardedRequest",
    "Interrupted",
    "NoDirectory",
    "NotExecuted",
    "Paused",
    "RelayError",
    "Runner",
    "ToolError",
    "ToolFailed",
    "UnknownTool",
    "Writer",
    "acall",
    "call",
    "this_call",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only a program that asks pays for it

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))
