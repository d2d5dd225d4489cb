"""The two that are compared: the floor program and a real ``relay serve``, each in a process.

Both get a directory of their own in memory, and answer every call with its own text.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from relay.bench import floor
from relay.client import Writer
from relay.errors import RelayError

TOOLS = """
[tools.echo]
python = "relay.bench.tools:echo"
[tools.late]
python = "relay.bench.tools:late"
"""

#: Calls that come first and are not counted.
WARM_UP = 30

#: How long anything that was started may take to be there, in seconds.
PATIENCE = 120.0

_clock = time.perf_counter_ns


class Side(Protocol):
    """One of the two. ``pid`` is the process that answers."""

    pid: int
    folder: str

    def call(self, text: str) -> object:
        """Call once."""

    def keep(self, text: str, *, callers: int, calls: int) -> list[int]:
        """Keep so many callers busy until so many calls are done; return nanoseconds of each."""


class FloorSide:
    """The floor."""

    def __init__(self, folder: str, pid: int) -> None:
        self.folder = folder
        self.pid = pid
        self._client = floor.Client(folder)

    def call(self, text: str) -> object:
        """Call once."""
        return self._client.call(text)

    def keep(self, text: str, *, callers: int, calls: int) -> list[int]:
        """See ``Side.keep``."""
        return self._client.keep(text, callers=callers, calls=calls, clock=_clock)

    def close(self) -> None:
        """Let go of the directory."""
        self._client.close()


class RelaySide:
    """A runner of one directory, and a writer."""

    def __init__(self, folder: str, pid: int) -> None:
        self.folder = folder
        self.pid = pid
        self._writer = Writer(folder, environ={})

    def call(self, text: str) -> object:
        """Call once."""
        return self._writer.call("echo", {"text": text})

    def keep(self, text: str, *, callers: int, calls: int) -> list[int]:
        """See ``Side.keep``: coroutines of one event loop."""
        took: list[int] = []
        left = iter(range(calls))

        async def caller() -> None:
            for _ in left:
                begun = _clock()
                await self._writer.acall("echo", {"text": text})
                took.append(_clock() - begun)

        async def all_of_them() -> None:
            await asyncio.gather(*(caller() for _ in range(callers)))

        asyncio.run(all_of_them())
        return took

    def latest(self) -> tuple[float, float]:
        """Return by how many milliseconds a 10 ms timer in the runner was late since last asked.

        By the wall, and by the CPU time that the runner used meanwhile.
        """
        wall, own = json.loads(self._writer.call("late"))
        return wall, own


@contextmanager
def workplace() -> Iterator[str]:
    """Give a folder in memory where there is such a thing, and remove it at the end."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108 - only a parent
    with tempfile.TemporaryDirectory(prefix="relay-bench-", dir=memory) as folder:
        yield folder


@contextmanager
def floor_side(folder: str) -> Iterator[FloorSide]:
    """Start the floor's server."""
    session = os.path.join(folder, "floor")
    os.mkdir(session, 0o700)
    server = subprocess.Popen(
        [sys.executable, "-m", "relay.bench.floor", session],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(folder),
    )
    with server:
        if server.stdin is None or server.stdout is None:  # pragma: no cover - both are pipes
            raise RelayError("the floor has no pipes")
        with server.stdin:
            server.stdout.readline()
            side = FloorSide(session, server.pid)
            yield side
            side.close()


class Served(Protocol):
    """A running ``relay serve``."""

    pid: int
    log: str
    counters: dict[str, int]


class _Served:
    def __init__(self, process: subprocess.Popen[bytes], log: str) -> None:
        self.pid = process.pid
        self.log = log
        #: What the runner counted; there once it has ended.
        self.counters: dict[str, int] = {}


@contextmanager
def serving(folder: str, *arguments: str) -> Iterator[Served]:
    """Run ``relay serve`` with the bench's tools until the end of the block.

    Raises:
        RelayError: it does not start.
    """
    tools, log = os.path.join(folder, "tools.toml"), os.path.join(folder, "runner.log")
    with open(tools, "w", encoding="utf-8") as file:
        file.write(TOOLS)
    with open(log, "wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "relay", "serve", "--tools", tools, *arguments],
            env=environment(folder),
            stderr=stderr,
        )
    served = _Served(process, log)
    try:
        _wait_until_ready(process, log)
        yield served
    finally:
        process.terminate()
        process.wait()
        served.counters = _counters(log)


@contextmanager
def relay_side(folder: str) -> Iterator[tuple[RelaySide, Served]]:
    """Start a runner of one directory."""
    session = os.path.join(folder, "relay")
    with serving(folder, "--dir", session) as served:
        yield RelaySide(session, served.pid), served


@contextmanager
def both() -> Iterator[tuple[FloorSide, RelaySide, Served]]:
    """Start both, and warm them up."""
    with workplace() as folder, floor_side(folder) as low, relay_side(folder) as (high, served):
        for side in (low, high):
            warm_up(side)
        yield low, high, served


def warm_up(side: Side) -> None:
    """Make the calls that are not counted."""
    for _ in range(WARM_UP):
        side.call("x")


def environment(folder: str) -> dict[str, str]:
    """Return the environment of what is measured: nobody's settings, a state of its own."""
    own = {n: v for n, v in os.environ.items() if not n.startswith(("RELAY", "AGENTA"))}
    # Whatever is measured is what is running here, also where it is not installed.
    path = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    own["PYTHONPATH"] = os.pathsep.join(filter(None, (path, own.get("PYTHONPATH"))))
    return {**own, "RELAYCONF_STATE_DIR": os.path.join(folder, "state")}


def _wait_until_ready(process: subprocess.Popen[bytes], log: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while "stage=relay_ready" not in (text := _read(log)):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RelayError(f"the runner did not start:\n{text.strip()}")
        time.sleep(0.01)


def _counters(log: str) -> dict[str, int]:
    lines = [line for line in _read(log).splitlines() if line.startswith("stage=relay_stopped")]
    return {name: int(n) for name, n in re.findall(r"(\w+)=(\d+)\b", lines[-1])} if lines else {}


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def pickups(log: str) -> list[float]:
    """Return the milliseconds from publication to pickup of each call in a runner's log."""
    return [float(n) for n in re.findall(r"pickup_ms=([\d.]+)", _read(log))]


def scans_per_call(counters: dict[str, int]) -> float | None:
    """Return how many times the runner listed its directory for each call."""
    requests = counters.get("requests")
    return round(counters["scans"] / requests, 4) if requests else None
