"""Bare numbers that were probably meant in another unit: ``TIMEOUT_MS=30`` for 30 seconds.

Suspected is a number only where it is far from the declared default and the same number in a usual
other unit is near it and in range; then the unit is missing, not the sense.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import log

from relayconf.check.declared import Judged, container
from relayconf.check.finding import Finding
from relayconf.check.inspection import Inspection
from relayconf.check.writing import assignment
from relayconf.setting import Contract, Setting
from relayconf.values import Parsed, clamp, parse
from relayconf.wording import value

_BARE = re.compile(r"[1-9][0-9]{0,11}\Z")

#: How many times larger or smaller than the default a number has to be. People change a timeout
#: tenfold on purpose; the units lie 60 or 1000 apart.
_FAR = 50

#: The largest number that people write in seconds, and in the units of a size. 1000 is a second.
_LARGEST_SHORT = 999


def check(inspection: Inspection) -> Iterator[Finding]:
    """Look at the bare numbers of durations and sizes in each container that has a contract."""
    project = inspection.project
    if project is None:
        return
    for service, contracts in inspection.contracts.items():
        judged = container(project, service)
        for contract in contracts:
            yield from suspected(inspection, contract, judged, service)


def suspected(
    inspection: Inspection, contract: Contract, judged: dict[str, Judged], service: str | None
) -> Iterator[Finding]:
    """Suspect the numbers of one contract."""
    for setting in contract.settings.values():
        one = judged.get(setting.name)
        meant = None if one is None else meant_text(setting, one.text)
        if one is None or meant is None:
            continue
        outcome = parse(setting, one.text)
        is_now = value(setting, outcome.value) if isinstance(outcome, Parsed) else one.text
        message = f"{one.text} is {is_now} here, far from the default; was {meant} meant?"
        fix = assignment(inspection.texts, one.at.place, one.at.name, meant)
        yield Finding("unit-suspicious", message, one.at.place, setting.name, service, fix)


def meant_text(setting: Setting, text: str) -> str | None:
    """The text with the unit that was probably meant, or None where the number is plausible."""
    if setting.type not in ("duration", "size") or not _BARE.match(text.strip()):
        return None
    default = setting.default
    if not isinstance(default, (int, float)) or isinstance(default, bool) or default <= 0:
        return None
    now = parse(setting, text)
    if not isinstance(now, Parsed) or _distance(now.value, default) < log(_FAR):
        return None
    number = int(text)
    for unit in _units(setting, number):
        other = parse(setting, f"{number}{unit}")
        if isinstance(other, Parsed) and clamp(setting, other.value)[1] is None:
            nearer = 2 * _distance(other.value, default) < _distance(now.value, default)
            if nearer and _distance(other.value, default) < log(_FAR):
                return f"{number}{unit}"
    return None


def _units(setting: Setting, number: int) -> tuple[str, ...]:
    """The other units in which people write numbers of this size."""
    if setting.type == "size":
        return ("MiB", "KiB", "GiB") if number <= _LARGEST_SHORT else ()
    if setting.unit == "ms":
        return ("s", "m") if number <= _LARGEST_SHORT else ()
    return ("ms",) if number > _LARGEST_SHORT else ()


def _distance(one: object, other: float) -> float:
    """How many times one number is the other, as a logarithm; far where that makes no sense."""
    if not isinstance(one, (int, float)) or one <= 0:
        return float("inf")
    return abs(log(one / other))
