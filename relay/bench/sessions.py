"""Many sessions in one runner: what idle ones cost, and how long a request of any one waits.

Calls come at one rate whatever the number of sessions, each from a session drawn at random, so that
what is compared is the number alone. Pickups are the runner's own, from the request's mtime, which
the kernel keeps to a tick of its clock (1 to 10 ms); round trips are the callers', and exact.
"""

from __future__ import annotations

import asyncio
import os
import random
import time

from relay.bench.measure import Result, cpu_clock, percentile, shortened
from relay.bench.sides import pickups, serving, workplace
from relay.client import Writer

COUNTS = (1, 100, 1_000, 4_000)

#: Calls a second, of all sessions together.
RATE = 200.0

#: Seconds of calls, and of looking at a runner that has nothing to do.
_SECONDS = 6.0
_IDLE_SECONDS = 6.0

#: Seconds until idle sessions have grown their pauses to the longest (RELAY_POLL_MAX_MS).
_SETTLE = 6.0


def sessions(scale: float) -> Result:
    """Round trips, pickups and idle CPU by the number of sessions."""
    result: Result = {}
    base: Result | None = None
    for count in COUNTS:
        measured = _measure(count, scale)
        base = base or measured
        alone = base["pickup_p50_ms"]
        measured["pickup_p99_to_p50_of_one"] = (
            shortened(measured["pickup_p99_ms"] / alone) if alone else 0.0
        )
        measured["roundtrip_p99_to_p50_of_one"] = shortened(
            measured["roundtrip_p99_ms"] / base["roundtrip_p50_ms"]
        )
        result[str(count)] = measured
    return result


def _measure(count: int, scale: float) -> Result:
    with workplace() as folder:
        root = os.path.join(folder, "root")
        paths = [os.path.join(root, f"s{number}") for number in range(count)]
        for path in paths:
            os.makedirs(path, 0o700)
        begun = time.monotonic()
        with serving(folder, "--root", root) as served:
            start = time.monotonic() - begun
            took = asyncio.run(_call(paths, seconds=_SECONDS * scale))
            picked = pickups(served.log)
            time.sleep(_SETTLE)
            idle = _idle_share(served.pid, _IDLE_SECONDS * scale)
    return {
        "start_s": shortened(start),
        "idle_core_percent": shortened(idle * 100),
        "calls": len(took),
        "roundtrip_p50_ms": shortened(percentile(took, 0.5)),
        "roundtrip_p99_ms": shortened(percentile(took, 0.99)),
        "pickup_p50_ms": shortened(percentile(picked, 0.5)),
        "pickup_p99_ms": shortened(percentile(picked, 0.99)),
    }


async def _call(paths: list[str], *, seconds: float) -> list[float]:
    """Call at random, and return what each call took in milliseconds."""
    draw = random.Random(1)  # noqa: S311 - a load, not a secret
    writers: dict[str, Writer] = {}
    took: list[float] = []
    under_way: set[asyncio.Task[None]] = set()

    async def call(path: str) -> None:
        writer = writers.get(path)
        if writer is None:
            writer = writers[path] = Writer(path, environ={})
        begun = time.perf_counter()
        await writer.acall("echo", {"text": "x" * 100})
        took.append((time.perf_counter() - begun) * 1000)

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        task = asyncio.create_task(call(draw.choice(paths)))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        await asyncio.sleep(draw.expovariate(RATE))
    if under_way:
        await asyncio.wait(under_way)
    return took


def _idle_share(pid: int, seconds: float) -> float:
    """Return the share of one core that a process uses."""
    clock = cpu_clock(pid)
    cpu, wall = time.clock_gettime(clock), time.monotonic()
    time.sleep(seconds)
    return (time.clock_gettime(clock) - cpu) / (time.monotonic() - wall)
