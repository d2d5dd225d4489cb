"""A small reader of compose and env files that answers what each container really gets.

It reads as Docker Compose v2 does: dialect, layers, merge rules, refusals. No network, no engine,
no shell. ``load`` is the entry; ``parse_dotenv`` reads one env file and needs the standard library
only, so names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relayconf.compose.dotenv import EnvEntry, last_values, parse_dotenv
    from relayconf.compose.errors import ComposeError
    from relayconf.compose.interpolate import interpolate
    from relayconf.compose.project import Project, load

__all__ = [
    "VERSIONS",
    "ComposeError",
    "EnvEntry",
    "Project",
    "interpolate",
    "last_values",
    "load",
    "parse_dotenv",
]

#: The versions of Compose whose differences the reader knows.
VERSIONS = ("newest", "2.40")

_HOMES = {
    "ComposeError": "relayconf.compose.errors",
    "EnvEntry": "relayconf.compose.dotenv",
    "Project": "relayconf.compose.project",
    "interpolate": "relayconf.compose.interpolate",
    "last_values": "relayconf.compose.dotenv",
    "load": "relayconf.compose.project",
    "parse_dotenv": "relayconf.compose.dotenv",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  # only a first use pays for it

    return getattr(import_module(home), name)
