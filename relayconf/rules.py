"""Rules across settings: ``low <= high``, or ``low < high``, kept by moving one of the two.

Rules apply after clamping, in the order of their declaration, until nothing moves. The one that
moves takes the smallest step that satisfies the rule and never leaves its own range; where its
range does not allow that, it goes as far as it may. Ground floor.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Optional, Union, cast

from relayconf.setting import Contract, Rule, Setting, Value
from relayconf.values import clamp
from relayconf.wording import value as in_words

Number = Union[int, float]


class Repair(NamedTuple):
    """One setting moved by one rule: its name, its new canonical value, and the reason."""

    name: str
    value: Number
    message: str


def apply_rules(contract: Contract, values: Mapping[str, Optional[Value]]) -> List[Repair]:
    """Return the moves that make ``values`` satisfy the contract's rules.

    Args:
        contract: its ``rules`` are applied; one with a side that is not in ``values``, or is unset,
            does not apply.
        values: canonical values after clamping.

    Returns:
        At most one repair for each setting, in the order of the declaration. Rules that contradict
        each other end after one pass for each rule: the last one stated wins.
    """
    current: Dict[str, Optional[Value]] = dict(values)
    repairs: Dict[str, Repair] = {}
    for _ in contract.rules:
        moved = False
        for rule in contract.rules:
            repair = _repair(contract, rule, current)
            if repair is not None:
                moved = moved or repair.value != current[repair.name]
                repairs[repair.name] = repair
                current[repair.name] = repair.value
        if not moved:
            break
    return [repairs[name] for name in contract.settings if name in repairs]


def broken(rule: Rule, low: Number, high: Number) -> bool:
    """Whether a pair of values breaks a rule."""
    return low >= high if rule.strict else low > high


def _repair(
    contract: Contract, rule: Rule, values: Mapping[str, Optional[Value]]
) -> Optional[Repair]:
    low, high = values.get(rule.low), values.get(rule.high)
    if low is None or high is None or not broken(rule, cast(Number, low), cast(Number, high)):
        return None
    setting = contract.settings[rule.moves]
    fixed = cast(Number, low if rule.moves == rule.high else high)
    wanted = _step(setting, fixed, up=rule.moves == rule.high) if rule.strict else fixed
    value = cast(Number, clamp(setting, wanted)[0])
    relation = "below" if rule.strict else "at most"
    message = f"{rule.low} must be {relation} {rule.high}; using {in_words(setting, value)}"
    if value != wanted:
        message += f", the nearest that the range of {rule.moves} allows"
    return Repair(rule.moves, value, message)


def _step(setting: Setting, value: Number, *, up: bool) -> Number:
    """Return the nearest value of the setting's type on one side."""
    if setting.type != "number":
        return value + 1 if up else value - 1
    from math import inf, nextafter  # noqa: PLC0415 - only for a strict rule between numbers

    return nextafter(value, inf if up else -inf)
