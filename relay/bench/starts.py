"""How long the commands take to start, in multiples of ``python3 -c pass``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence

from relay.bench.measure import Result, pair, percentile
from relay.bench.sides import environment, serving, workplace

_RUNS = 15


def starts(scale: float) -> Result:
    """Run each command in turn, many times; the floor is an empty Python."""
    with workplace() as folder:
        session = os.path.join(folder, "session")
        with serving(folder, "--dir", session):
            commands: dict[str, Sequence[str]] = {
                "relay call": (
                    *_program("relay"),
                    "call",
                    "echo",
                    '{"text": "x"}',
                    "--dir",
                    session,
                ),
                "relay tools": (*_program("relay"), "tools", "--dir", session),
                "relayconf show relay": (*_program("relayconf"), "show", "relay"),
            }
            bare = (sys.executable, "-c", "pass")
            took: dict[str, list[float]] = {name: [] for name in ("bare", *commands)}
            for _ in range(max(3, round(_RUNS * scale))):
                took["bare"].append(_run(bare, folder))
                for name, command in commands.items():
                    took[name].append(_run(command, folder))
    floor = percentile(took.pop("bare"), 0.5)
    return {name: {"start_ms": pair(floor, percentile(each, 0.5))} for name, each in took.items()}


def _program(name: str) -> tuple[str, ...]:
    """Return the installed command, or its module where it is not installed."""
    installed = os.path.join(os.path.dirname(sys.executable), name)
    return (installed,) if os.access(installed, os.X_OK) else (sys.executable, "-m", name)


def _run(command: Sequence[str], folder: str) -> float:
    """Return how many milliseconds a command takes."""
    begun = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, check=True)
    return (time.perf_counter() - begun) * 1000
