"""What MCP adds to the relay's own round trip, and what one file adds to the start of a call.

The two sides take turns: one tool, called by a writer in this process and through ``relay mcp``
by a client that does nothing but write a line and read one. Starts alternate likewise: the
installed ``relay call``, the bundle's, and a connection of an MCP client up to its list of tools.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relay.bench.measure import percentile
from relay.bench.sides import environment, serving, workplace
from relay.bundle import bundle
from relay.client import Writer

TEXT = "x" * 100
ROUNDS = 20
CALLS = 50
RUNS = 25
LARGE = 1_500_000


class Client:
    """The least that speaks MCP over a pipe."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=-1
        )
        self._id = 0

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request and return the answer's result."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        self._id += 1
        body = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        process.stdin.write(json.dumps(body).encode() + b"\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())["result"]

    def call(self, text: str) -> str:
        """Call the tool."""
        said = self.ask("tools/call", name="echo", arguments={"text": text})
        result: str = said["content"][0]["text"]
        return result

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def timed(work: Callable[[], object]) -> float:
    """Return the milliseconds of one piece of work."""
    begun = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - begun) / 1e6


def calls(session: str, pyz: str) -> dict[str, Any]:
    """Compare round trips."""
    writer = Writer(session, environ={})
    client = Client(sys.executable, "-I", "-S", pyz, "mcp", "--dir", session)
    client.ask("tools/list")
    found: dict[str, Any] = {}
    sides = {"relay": lambda text: writer.call("echo", {"text": text}), "mcp": client.call}
    for name, text, rounds, count in (("small", TEXT, ROUNDS, CALLS), ("large", "x" * LARGE, 3, 3)):
        took: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side, call in sides.items():
                took[side] += [timed(lambda: call(text)) for _ in range(count)]  # noqa: B023 - used at once
        low, high = (percentile(took[side], 0.5) for side in ("relay", "mcp"))
        found[name] = {"relay_ms": low, "mcp_ms": high, "added_ms": high - low}
    client.close()
    return found


def starts(session: str, pyz: str, folder: str) -> dict[str, Any]:
    """Compare starts."""
    words = ("call", "echo", '{"text": "x"}', "--dir", session)
    installed = os.path.join(os.path.dirname(sys.executable), "relay")
    commands = {
        "bare": (sys.executable, "-c", "pass"),
        "relay call": (installed, *words),
        "relay.pyz call": (sys.executable, pyz, *words),
        "relay.pyz call, python -I -S": (sys.executable, "-I", "-S", pyz, *words),
    }
    took: dict[str, list[float]] = {name: [] for name in (*commands, "connect")}
    for _ in range(RUNS):
        for name, command in commands.items():
            took[name].append(timed(lambda: _run(command, folder)))  # noqa: B023 - used at once
        took["connect"].append(timed(lambda: _connect(session, pyz)))
    medians = {name: percentile(each, 0.5) for name, each in took.items()}
    ratio = medians["relay.pyz call"] / medians["relay call"]
    return {**medians, "relay.pyz call / relay call": ratio}


def _run(command: tuple[str, ...], folder: str) -> None:
    subprocess.run(command, env=environment(folder), capture_output=True, check=True)


def _connect(session: str, pyz: str) -> None:
    client = Client(sys.executable, "-I", "-S", pyz, "mcp", "--dir", session)
    client.ask("initialize", protocolVersion="2025-11-25", capabilities={})
    client.ask("tools/list")


def main() -> None:
    """Measure, and print the figures as JSON; milliseconds, medians."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", metavar="FILE", help="also write them there")
    arguments = parser.parse_args()
    with workplace() as folder:
        session, pyz = os.path.join(folder, "session"), os.path.join(folder, "relay.pyz")
        Path(pyz).write_bytes(bundle(pythons=[sys.executable]))
        with serving(folder, "--dir", session):
            figures = {"calls": calls(session, pyz), "starts": starts(session, pyz, folder)}
    text = json.dumps(figures, indent=2)
    if arguments.json is not None:
        Path(arguments.json).write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
