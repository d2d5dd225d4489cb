"""Jitter: spread a duration or a count over the fraction that its setting declares.

Many processes that wait equally long come back at the same moment; a draw around the value keeps
them apart. The random source is an argument. Ground floor.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Callable, List, Tuple

from relayconf.setting import Setting

#: Fractions count to a millionth, so that -0.2 of 25,000 is exactly 5,000.
_PARTS = 1_000_000


def draw(setting: Setting, value: float, random: Callable[[], float]) -> float:
    """Draw once, uniformly, from the declared fraction around a value, cut to the range.

    Args:
        setting: its ``jitter``, ``minimum``, ``maximum`` and type count; without jitter the value
            comes back and nothing is drawn.
        value: a canonical value within the range.
        random: returns a float from 0 to 1, like ``random.random``.

    Returns:
        A value in [minimum, maximum]: an ``int`` (ms, bytes, units) for every type but ``number``.
        Where the range and the fraction have none in common, the one given, moved into the range.
    """
    if setting.jitter is None:
        return value
    low, high = _spread(value, setting.jitter)
    if setting.minimum is not None:
        low = max(low, setting.minimum)
    if setting.maximum is not None:
        high = min(high, setting.maximum)
    if setting.type == "number":
        drawn = low + (high - low) * random() if low < high else low
        return _within(setting, drawn if low <= high else value)
    first, last = ceil(low), floor(high)
    if first > last:
        return _within(setting, value)
    return min(last, first + int(random() * (last - first + 1)))


def _spread(value: float, jitter: Tuple[float, float]) -> Tuple[float, float]:
    ends: List[float] = []
    for fraction in jitter:
        parts = value * (_PARTS + round(fraction * _PARTS))
        whole = isinstance(parts, int) and parts % _PARTS == 0
        ends.append(parts // _PARTS if whole else parts / _PARTS)
    return min(ends), max(ends)


def _within(setting: Setting, value: float) -> float:
    if setting.minimum is not None:
        value = max(value, setting.minimum)
    return value if setting.maximum is None else min(value, setting.maximum)
