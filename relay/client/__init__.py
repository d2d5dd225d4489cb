"""The writer's side: ask a runner outside to run a tool, and wait for what it says.

``call`` and ``acall`` are all that most programs need; a ``Writer`` is the same for one directory,
with its clock, its randomness and its environment given. Ground floor: stdlib only, loaded when
first named; asyncio only by what awaits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relay.client.writer import Writer, acall, call

_HOME = {
    "Writer": "relay.client.writer",
    "acall": "relay.client.writer",
    "call": "relay.client.writer",
}

__all__ = ["Writer", "acall", "call"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only a program that asks pays for it

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value
