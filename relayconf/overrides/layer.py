"""Overrides as a layer: what of a document concerns one contract, now.

Ground floor.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from relayconf.layers import Entry, Layer
from relayconf.overrides.document import Document, Override
from relayconf.overrides.reading import Reading
from relayconf.overrides.ttl import is_over, left_ms
from relayconf.problems import Problem
from relayconf.setting import Contract, Setting
from relayconf.state.clock import SYSTEM, Clock
from relayconf.values import excerpt

NAME = "override"


def override_layer(
    contract: Contract, reading: Reading, *, clock: Clock = SYSTEM, name: str = NAME
) -> Layer:
    """Return the layer of overrides for one contract.

    Args:
        contract: entries for other targets are passed over in silence.
        reading: what was read.
        clock: entries that have ended by it count for nothing.
        name: the layer's name: ``override``, or that of another store of the same kind.
    """
    names: Dict[str, Setting] = {}
    values: List[Entry] = []
    kills: List[Entry] = []
    problems = list(reading.problems)
    for override in reading.document.overrides:
        if override.target != contract.target or is_over(override.end, clock):
            continue
        names = names or known_names(contract)
        setting = names.get(override.name)
        fault = unusable(contract, setting, override)
        if setting is None or fault is not None:
            shown = excerpt(override.name, 100)
            message = f"an override cannot be used and is passed over: {fault}"
            raw = f"{override.id} {fault}"
            problems.append(
                Problem("override-quarantined", shown, message, override.origin, raw=raw)
            )
        else:
            entry = Entry(setting.name, override.value, override.origin)
            (kills if override.kind == "kill" else values).append(entry)
    return Layer(name, tuple(values), tuple(kills), tuple(problems), reading.document.generation)


def known_names(contract: Contract) -> Dict[str, Setting]:
    """Return each name of a contract, current or legacy, with its setting."""
    names = {old: s for s in contract.settings.values() for old in s.legacy}
    names.update(contract.settings)
    return names


def unusable(contract: Contract, setting: Optional[Setting], override: Override) -> Optional[str]:
    """Return why an entry cannot be for a setting; ``None`` where it can."""
    if setting is None:
        return f"{contract.target} has no setting of that name"
    if override.kind == "kill" and setting.flag is None:
        return f"{setting.name} is no flag and has no safe value"
    if override.kind == "set" and setting.secret:
        return f"{setting.name} is a secret, which no override may hold"
    return None


def next_end_ms(document: Document, clock: Clock) -> Optional[float]:
    """Return the milliseconds until the next entry ends; ``None`` where none does."""
    ends: Tuple[Optional[float], ...] = tuple(left_ms(o.end, clock) for o in document.overrides)
    coming = [left for left in ends if left is not None and left > 0]
    return min(coming) if coming else None
