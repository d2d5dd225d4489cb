"""Calls in one directory: one by one, at once, large ones, and among files of others.

The floor and the relay take turns within one run, so that whatever else the machine does meets both
alike.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

from relay.bench.measure import Result, Taken, compared, taken, together
from relay.bench.sides import FloorSide, RelaySide, Side, both, scans_per_call

#: What travels, both ways, where size is not what is measured.
TEXT = "x" * 100

CALLERS = (1, 8, 64, 256)
FOREIGN = (0, 1_000, 10_000)
PAYLOADS = (1 << 10, 1 << 14, 1 << 17, 1 << 20)

#: Rounds that each side takes in turn.
_ROUNDS = 4

#: Seconds between calls where a caller thinks (design section 12).
THINK = 0.02


def roundtrip(scale: float) -> Result:
    """One caller: with think time, and calling again at once."""
    return {
        "think": _in_turns(partial(_one_by_one, text=TEXT, calls=_times(60, scale), think=THINK)),
        "closed": _in_turns(partial(_one_by_one, text=TEXT, calls=_times(300, scale))),
    }


def throughput(scale: float) -> Result:
    """Callers that all call again at once, and what a timer in the runner suffers."""
    result: Result = {}
    for callers in CALLERS:
        calls = _times(600, scale) + 4 * callers

        work = partial(_at_once, callers=callers, calls=calls)
        result[str(callers)] = _in_turns(work, timers=True)
    return result


def payload(scale: float) -> Result:
    """Texts of growing size, one caller."""
    result: Result = {}
    for size in PAYLOADS:
        text = "x" * size
        calls = _times(max(10, 100 >> (size >> 18)), scale)
        result[str(size)] = _in_turns(partial(_one_by_one, text=text, calls=calls))
    return result


def residue(scale: float) -> Result:
    """Among files that are not the relay's, one caller who thinks."""
    result: Result = {}
    for count in FOREIGN:
        calls = _times(40, scale)
        work = partial(_one_by_one, text=TEXT, calls=calls, think=THINK)
        result[str(count)] = _in_turns(work, foreign=count)
    return result


def _times(calls: int, scale: float) -> int:
    return max(4, round(calls * scale))


def _at_once(side: Side, *, callers: int, calls: int) -> Taken:
    return taken(side.pid, lambda: side.keep(TEXT, callers=callers, calls=calls))


def _one_by_one(side: Side, *, text: str, calls: int, think: float = 0.0) -> Taken:
    def work() -> list[int]:
        took = []
        for _ in range(calls):
            if think:
                time.sleep(think)
            begun = time.perf_counter_ns()
            side.call(text)
            took.append(time.perf_counter_ns() - begun)
        return took

    return taken(side.pid, work)


def _in_turns(
    round_of: Callable[[Side], Taken], *, timers: bool = False, foreign: int = 0
) -> Result:
    with both() as (low, high, served):
        for side in (low, high):
            _litter(side.folder, foreign)
        if timers:
            high.latest()
        result = _rounds(round_of, low, high)
        if timers:
            result["timer_late_ms"], result["timer_late_own_ms"] = high.latest()
    return {**result, "scans_per_call": scans_per_call(served.counters)}


def _rounds(round_of: Callable[[Side], Taken], low: FloorSide, high: RelaySide) -> Result:
    floors, relays = [], []
    for _ in range(_ROUNDS):
        floors.append(round_of(low))
        relays.append(round_of(high))
    return compared(together(floors), together(relays))


def _litter(folder: str, count: int) -> None:
    for number in range(count):
        with open(os.path.join(folder, f"foreign-{number}.txt"), "wb"):
            continue
