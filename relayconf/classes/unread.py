"""Unread: what a class or a call asks of pydantic-settings that relayconf does not do, and says so.

Where values come from is the operator's business here, so that a command outside the program gives
the same answer as the program. A class that names places by itself is told once, and works.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from typing import Any, cast

from relayconf import report
from relayconf.layers import Sources

#: Keys of ``model_config`` that name a source, or a way of reading, and what there is instead.
_INSTEAD = {
    "env_file": "name env files by RELAYCONF_ENV_FILE, --env-file or _env_file=",
    "secrets_dir": "name the directory by RELAYCONF_SECRETS_DIR or _secrets_dir=",
    "json_file": "put settings.json into RELAYCONF_CONFIG_DIR",
    "toml_file": "put settings.toml into RELAYCONF_CONFIG_DIR",
    "yaml_file": "put settings.yaml into RELAYCONF_CONFIG_DIR",
    "cli_parse_args": "use --set NAME=VALUE of a command of relayconf",
    "env_parse_none_str": "leave the variable blank, which is unset",
    "env_parse_enums": "write the member's value",
}

_said: set[str] = set()


def take(config: MutableMapping[str, Any] | Any) -> dict[str, str]:
    """Take from a ``model_config`` what is not read, so that pydantic-settings does not act on it.

    Returns:
        What there is instead, by key.
    """
    settings = cast("MutableMapping[str, Any]", config)
    found = {key: instead for key, instead in _INSTEAD.items() if settings.get(key)}
    for key in found:
        settings[key] = None
    # Siblings of a nested value are always kept; its own way of doing so is not needed.
    settings["nested_model_default_partial_update"] = False
    return found


def say(cls: str, found: Mapping[str, str]) -> None:
    """Log once for each class and key what is not read."""
    for key, instead in found.items():
        line = f"{cls}: {key} in model_config is not read; {instead}"
        if line not in _said:
            _said.add(line)
            report.warn(line)


def with_places(cls: str, sources: Sources, places: Mapping[str, Any]) -> Sources:
    """Return the sources with the places that a call names by itself.

    Args:
        cls: the class that is called, for the message.
        sources: what relayconf's own settings say.
        places: ``_env_file`` (a path, several, or None for none) and ``_secrets_dir``.

    Raises:
        TypeError: another argument that begins with an underscore.
    """
    for name in places:
        if name not in ("_env_file", "_secrets_dir"):
            raise TypeError(f"{cls}() takes no argument {name}")
    if "_env_file" in places:
        sources = sources._replace(env_files=_paths(places["_env_file"]))
    if "_secrets_dir" in places:
        folder = places["_secrets_dir"]
        sources = sources._replace(secrets_dir=None if folder is None else os.fspath(folder))
    return sources


def _paths(given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    several = given if isinstance(given, (list, tuple)) else (given,)
    return tuple(os.fspath(path) for path in several)
