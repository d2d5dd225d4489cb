"""What is measured and how it is written down: clocks, percentiles, pairs of figures."""

from __future__ import annotations

import ctypes
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

#: A figure in a result: a number, or the floor's, the relay's and how many times the floor's it is.
Figure = dict[str, float]

#: The results of one part: names, and figures or further names.
Result = dict[str, Any]


class Taken(NamedTuple):
    """What calls took: nanoseconds of each, of all, and of CPU on each side."""

    calls: list[int]
    wall: int
    caller_cpu: int
    runner_cpu: int


def cpu_clock(pid: int) -> int:
    """Return the id of the clock that counts a process's CPU time, to the nanosecond.

    Raises:
        OSError: there is no such process.
    """
    clock = ctypes.c_int()
    error = ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock))
    if error:
        raise OSError(error, os.strerror(error))
    return clock.value


def taken(pid: int, work: Callable[[], list[int]]) -> Taken:
    """Do some calls that the process ``pid`` answers, and return what they took."""
    clock = cpu_clock(pid)
    runner, caller = time.clock_gettime_ns(clock), time.process_time_ns()
    begun = time.perf_counter_ns()
    calls = work()
    wall = time.perf_counter_ns() - begun
    return Taken(
        calls, wall, time.process_time_ns() - caller, time.clock_gettime_ns(clock) - runner
    )


def together(rounds: Sequence[Taken]) -> Taken:
    """Put rounds together."""
    return Taken(
        [call for each in rounds for call in each.calls],
        sum(each.wall for each in rounds),
        sum(each.caller_cpu for each in rounds),
        sum(each.runner_cpu for each in rounds),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that ``share`` of all are not above."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return statistics.quantiles(values, n=1000, method="inclusive")[round(share * 1000) - 1]


FIGURES: dict[str, Callable[[Taken], float]] = {
    "p50_ms": lambda each: percentile(each.calls, 0.5) / 1e6,
    "p95_ms": lambda each: percentile(each.calls, 0.95) / 1e6,
    "p99_ms": lambda each: percentile(each.calls, 0.99) / 1e6,
    "calls_per_s": lambda each: len(each.calls) * 1e9 / each.wall,
    "caller_cpu_ms": lambda each: each.caller_cpu / len(each.calls) / 1e6,
    "runner_cpu_ms": lambda each: each.runner_cpu / len(each.calls) / 1e6,
}


def compared(low: Taken, high: Taken, *names: str) -> Result:
    """Return the named figures of the floor and the relay, and how they compare."""
    return {name: pair(FIGURES[name](low), FIGURES[name](high)) for name in names or FIGURES}


def pair(low: float, high: float) -> Figure:
    """Return two figures and how many times the floor's the relay's is."""
    return {"floor": shortened(low), "relay": shortened(high), "ratio": round(high / low, 2)}


def shortened(value: float) -> float:
    """Return a number with four significant digits."""
    return float(f"{value:.4g}")
