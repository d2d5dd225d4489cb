"""Flags: whether one is on, in all or for one key.

A flag that is not rolled out by key is an attribute of the settings, and reading that is enough.
``is_on`` is for the others, and for a name that is only known when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from relayconf.errors import FlagError
from relayconf.nearest import nearest
from relayconf.resolve import Resolution
from relayconf.setting import Setting, Value
from relayconf.share import decide

if TYPE_CHECKING:
    from relayconf.live.snapshot import Live, Snapshot
    from relayconf.settings import Settings

    Source: TypeAlias = Settings | Live[Any] | Snapshot[Any] | Resolution

#: Decisions that are remembered: sessions times flags of one process, by order of magnitude.
_REMEMBERED = 8192

_decide = lru_cache(maxsize=_REMEMBERED)(decide)


def is_on(source: Source, name: str, *, key: str | None = None) -> bool:
    """Return whether a flag is on.

    Args:
        source: where to look: ``Live`` (its current snapshot), a snapshot, an instance of a
            settings class, or a resolution.
        name: the setting's name, or the field's.
        key: what the decision sticks to, for a flag that is rolled out to a share of keys: the
            same key always gets the same answer, and keeps it while the share grows.

    Raises:
        FlagError: no such flag; one that is neither on nor off; or a share, and no key.
    """
    setting, value = _find(source, name)
    if isinstance(value, bool):
        return value
    if setting.type != "rollout" or value is None:
        raise FlagError(f"{setting.name} is {setting.type}, which is neither on nor off; read it")
    if key is not None:
        return _decide(setting.name, key, value)
    if value in ("0%", "100%"):
        return value == "100%"
    raise FlagError(f"{setting.name} is on for {value} of the keys; ask with key=")


def _find(source: Source, name: str) -> tuple[Setting, Value | None]:
    settings: Mapping[str, Setting]
    if isinstance(source, Resolution):
        settings = source.contract.settings
        if name in settings:
            return settings[name], source.settings[name].value
        raise _unknown(name, settings)
    instance: Any = source
    if not hasattr(type(source), "__contract__"):
        instance = getattr(source, "current", None) or getattr(source, "settings", None)
    settings = type(instance).__contract__.settings
    names: Mapping[str, str] = type(instance).__names__
    field = next((f for f, known in names.items() if name in (f, known)), None)
    if field is None:
        raise _unknown(name, [*names, *settings])
    value = instance
    for part in field.split("."):
        value = getattr(value, part, None)
    return settings[names[field]], value


def _unknown(name: str, known: Any) -> FlagError:
    near = nearest(name, list(known))
    return FlagError(f"no flag is called {name}" + (f"; did you mean {near}?" if near else ""))
