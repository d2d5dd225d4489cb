"""The local round trip, divided by the floor's: latency, CPU a call on each side, scans a call.

One run measures both, in turns: a round of calls through the floor, the same round through a real
``relay serve``, and again, so that whatever else the machine does meets both alike. Two patterns:
``think`` pauses 20 ms between calls, ``closed`` calls again at once. Nothing is asserted; a figure
without the floor's beside it says little about anything but the machine.

Run it as ``python -m tests.bench.roundtrip``, or by ``make bench``.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from relay.client import Writer
from tests.bench import floor

ROOT = Path(__file__).resolve().parents[2]

TOOLS = """
[tools.echo]
python = "echoing:echo"
"""

ECHOING = '''
async def echo(text: str) -> str:
    """Give the text back."""
    return text
'''

#: What travels, both ways.
TEXT = "x" * 100

#: Calls that come first and are not counted.
WARM_UP = 30


class Pattern(NamedTuple):
    """How calls follow each other: seconds between them, calls a round, rounds."""

    think: float
    calls: int
    rounds: int


class Side(NamedTuple):
    """One of the two that are compared: how to call it, and the process that answers."""

    call: Callable[[], object]
    server: int


class Taken(NamedTuple):
    """What one side's rounds took: nanoseconds of each call, and of CPU on each side."""

    calls: list[int]
    client_cpu: int
    server_cpu: int


def cpu_clock(pid: int) -> int:
    """Return the id of the clock that counts a process's CPU time, to the nanosecond."""
    clock = ctypes.c_int()
    error = ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock))
    if error:
        raise OSError(error, os.strerror(error))
    return clock.value


def round_of(side: Side, pattern: Pattern) -> Taken:
    """Make one round of calls."""
    server = cpu_clock(side.server)
    server_before, client_before = time.clock_gettime_ns(server), time.process_time_ns()
    calls = []
    for _ in range(pattern.calls):
        if pattern.think:
            time.sleep(pattern.think)
        begun = time.perf_counter_ns()
        side.call()
        calls.append(time.perf_counter_ns() - begun)
    client_cpu = time.process_time_ns() - client_before
    return Taken(calls, client_cpu, time.clock_gettime_ns(server) - server_before)


def added(rounds: list[Taken]) -> Taken:
    """Put rounds together."""
    return Taken(
        [call for taken in rounds for call in taken.calls],
        sum(taken.client_cpu for taken in rounds),
        sum(taken.server_cpu for taken in rounds),
    )


@contextmanager
def floor_side(folder: Path) -> Iterator[Side]:
    """Start the floor's server."""
    session = folder / "floor"
    session.mkdir(mode=0o700)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.floor", session],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server, server.stdin:
        server.stdout.readline()
        client = floor.Client(str(session))
        yield Side(lambda: client.call(TEXT.encode()), server.pid)
        client.close()


@contextmanager
def relay_side(folder: Path, log: Path) -> Iterator[Side]:
    """Start a runner with one echoing tool; its log goes to a file."""
    session = folder / "relay"
    session.mkdir(mode=0o700)
    (folder / "tools.toml").write_text(TOOLS)
    (folder / "echoing.py").write_text(ECHOING)
    own = {n: v for n, v in os.environ.items() if not n.startswith(("RELAY", "AGENTA"))}
    with log.open("wb") as stderr:
        relay = (sys.executable, "-m", "relay", "serve")
        runner = subprocess.Popen(
            [*relay, "--dir", str(session), "--tools", str(folder / "tools.toml")],
            cwd=ROOT,
            env={**own, "RELAYCONF_STATE_DIR": str(folder / "state")},
            stderr=stderr,
        )
    while not (session / "relay.json").exists():
        if runner.poll() is not None:
            raise SystemExit(f"the runner did not start:\n{log.read_text()}")
        time.sleep(0.01)
    writer = Writer(session, environ={})
    try:
        yield Side(lambda: writer.call("echo", {"text": TEXT}), runner.pid)
    finally:
        runner.terminate()
        runner.wait()


def counters(log: str) -> dict[str, int]:
    """Return what the runner counted, from the ``name=value`` line that it ends with."""
    lines = [line for line in log.splitlines() if "scans=" in line and "requests=" in line]
    return {name: int(n) for name, n in re.findall(r"(\w+)=(\d+)\b", lines[-1])} if lines else {}


def measure(pattern: Pattern) -> dict[str, Any]:
    """Run one pattern and return its figures: the floor's, the relay's and their ratio."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        folder, log = Path(name), Path(name) / "runner.log"
        with floor_side(folder) as low, relay_side(folder, log) as high:
            sides = {"floor": low, "relay": high}
            for side in sides.values():
                round_of(side, Pattern(0, WARM_UP, 1))
            rounds = [
                {name: round_of(side, pattern) for name, side in sides.items()}
                for _ in range(pattern.rounds)
            ]
        counted = counters(log.read_text())
    took = {name: added([each[name] for each in rounds]) for name in sides}
    figures = {n: compared(*map(f, (took["floor"], took["relay"]))) for n, f in FIGURES.items()}
    scans = counted["scans"] / counted["requests"] if counted.get("requests") else None
    return {"pattern": pattern._asdict(), **figures, "scans_per_call": scans}


def at(share: float) -> Callable[[Taken], float]:
    """Return a reader of one percentile, in milliseconds."""
    return lambda taken: statistics.quantiles(taken.calls, n=1000)[round(share * 1000) - 1] / 1e6


FIGURES: dict[str, Callable[[Taken], float]] = {
    "p50_ms": at(0.5),
    "p95_ms": at(0.95),
    "p99_ms": at(0.99),
    "caller_cpu_ms": lambda taken: taken.client_cpu / len(taken.calls) / 1e6,
    "runner_cpu_ms": lambda taken: taken.server_cpu / len(taken.calls) / 1e6,
}


def compared(low: float, high: float) -> dict[str, float]:
    """Return two figures and how many times the floor's the relay's is."""
    return {"floor": round(low, 4), "relay": round(high, 4), "ratio": round(high / low, 2)}


def table(results: dict[str, dict[str, Any]]) -> str:
    """Return the results for a person."""
    lines = [f"{'':24}{'floor':>10}{'relay':>10}{'ratio':>8}"]
    for pattern, result in results.items():
        for name in FIGURES:
            row = result[name]
            label, value = f"{pattern} {name}", f"{row['floor']:>10.3f}{row['relay']:>10.3f}"
            lines.append(f"{label:24}{value}{row['ratio']:>8.2f}")
        scans = result["scans_per_call"]
        shown = "not told" if scans is None else f"{scans:.2f}"
        lines.append(f"{pattern + ' scans per call':24}{'':10}{shown:>10}")
    return "\n".join(lines)


def main() -> None:
    """Measure, print a table, and write the figures as JSON where asked."""
    parser = argparse.ArgumentParser(prog="roundtrip", description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", metavar="FILE", help="also write the figures here; - is stdout")
    parser.add_argument("--scale", type=float, default=1.0, help="times as many calls (1.0)")
    arguments = parser.parse_args()
    patterns = {
        "think": Pattern(0.02, max(2, round(60 * arguments.scale)), 4),
        "closed": Pattern(0, max(2, round(300 * arguments.scale)), 4),
    }
    results = {name: measure(pattern) for name, pattern in patterns.items()}
    machine = {"python": platform.python_version(), "kernel": platform.release()}
    document = json.dumps({"machine": {**machine, "cpus": os.cpu_count()}, **results}, indent=2)
    if arguments.json == "-":
        print(document)
        return
    if arguments.json:
        Path(arguments.json).write_text(document + "\n")
    print(table(results))


if __name__ == "__main__":
    main()
