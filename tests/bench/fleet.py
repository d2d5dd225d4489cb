"""How fast a kill reaches a fleet, and what a fleet costs its server.

A real server on loopback, started by the bench. *Propagation*: real processes, forked from one that
has loaded everything, each with a state directory of its own as if on a host of its own; one writer
kills and restores; a process has applied a change when its subscriber runs. *Idle*: instances that
only follow, many to a process (the same pursuit in one event loop, since a thousand interpreters do
not fit on two cores); the server counts the commands, also those that its scripts run. *Storm*: the
same instances after the server was killed and started again; the bench counts the connections that
it takes, two for each, by tenths of a second. Nothing is asserted.

Run it as ``python -m tests.bench.fleet``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from relayconf.fleet.changing import puts, restores
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.reading import NOTHING
from relayconf.fleet.record import NOWHERE, Position
from relayconf.fleet.session import Session
from relayconf.overrides.changes import Assignment, Because
from tests.bench.kill import spread
from tests.servers.fleetserver import FleetServer

ROOT = Path(__file__).resolve().parents[2]

WHY = Because("bench", "bench")
FLAG = Assignment("app", "APP_FAST", "false")
KEY = ("app", "APP_FAST", "kill", None, None)

#: Forks processes that follow. Each writes ``NUMBER NANOSECONDS 0|1`` whenever its flag changes.
NURSERY = """
import os, sys, threading, time
from typing import Annotated
from relayconf import Settings, load
from relayconf.declare import AppliesLive, Flag
import redis.asyncio

class AppSettings(Settings, target="app", prefix="APP_"):
    fast: Annotated[
        bool, AppliesLive(), Flag(kind="kill-switch", kill=False, owner="app", why="permanent")
    ] = True

def say(number, fast):
    os.write(1, f"{number} {time.monotonic_ns()} {int(fast)}\\n".encode())

def follow(number):
    os.environ["RELAYCONF_STATE_DIR"] = os.path.join(sys.argv[1], f"host-{number}")
    live = load(AppSettings)
    live.subscribe(lambda old, new: say(number, new.settings.fast))
    live.follow()
    say(number, live.current.fast)
    threading.Event().wait()

for number in range(int(sys.argv[2])):
    if os.fork() == 0:
        follow(number)
os.read(0, 1)
"""


@contextmanager
def nursery(folder: Path, server: FleetServer, count: int) -> Iterator[Lines]:
    """Run so many processes that follow, and yield what they say."""
    process = subprocess.Popen(
        [sys.executable, "-c", NURSERY, str(folder), str(count)],
        cwd=ROOT,
        env=environment(server),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(folder / "nursery.log").open("wb"),
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        lines = Lines(process.stdout.fileno())
        lines.collect(count, fast=True, patience=120)
        yield lines
    finally:
        # Its own session: the nursery and all that it has forked.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Lines:
    """What the processes say, as it comes."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""

    def collect(self, count: int, *, fast: bool, patience: float) -> dict[int, int]:
        """Return when each process said that its flag is so, in monotonic nanoseconds."""
        said: dict[int, int] = {}
        until = time.monotonic() + patience
        while len(said) < count and time.monotonic() < until:
            if not select.select([self._fd], [], [], 0.1)[0]:
                continue
            *whole, self._rest = (self._rest + os.read(self._fd, 1 << 16)).split(b"\n")
            for line in whole:
                number, at, state = map(int, line.split())
                if bool(state) == fast:
                    said.setdefault(number, at)
        return said


def environment(server: FleetServer) -> dict[str, str]:
    """Return the environment of a process that follows."""
    own = {n: v for n, v in os.environ.items() if not n.startswith(("RELAY", "AGENTA", "APP_"))}
    return {**own, "RELAYCONF_FLEET_URL": server.url, "PYTHONPATH": str(ROOT)}


def propagation(count: int, changes: int) -> dict[str, Any]:
    """Return how long it takes from a command's first byte until each process has applied it."""
    with served() as (folder, server), nursery(folder, server, count) as lines:
        time.sleep(2.0)  # first heartbeats
        each: list[float] = []
        last: list[float] = []
        missing = 0
        options = FleetOptions(server.url)
        with Session(options) as session:
            session.snapshot()
            position = NOWHERE
            for number in range(changes):
                killed = number % 2 == 0
                begun = time.monotonic_ns()
                position = change(session, position, killed=killed)
                said = lines.collect(count, fast=not killed, patience=10)
                took = sorted((at - begun) / 1e6 for at in said.values())
                missing += count - len(took)
                each.extend(took)
                last.append(took[-1] if took else float("nan"))
                time.sleep(0.1)
    return {
        "processes": count,
        "changes": changes,
        "missing": missing,
        "each_ms": spread(each),
        "last_ms": spread(last),
    }


def change(session: Session, position: Position, *, killed: bool) -> Position:
    """Kill the flag, or restore it, in view of the last change; return where the server stands."""
    if killed:
        (wanted,) = puts("kill", [FLAG], WHY, seen=NOTHING)
    else:
        (wanted,) = restores([KEY], WHY, seen=NOTHING)
    answer = session.submit(replace(wanted, expected=position))
    assert answer.outcome is not None, answer.refused
    assert answer.refused is None, answer.refused
    return answer.outcome.standing.position


@contextmanager
def served() -> Iterator[tuple[Path, FleetServer]]:
    """Run a server in a folder of its own."""
    # In memory: hosts have a disk each, and a hundred that share one would wait for each other.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        server = FleetServer(Path(name) / "server")
        server.start()
        try:
            yield Path(name), server
        finally:
            server.kill()


@contextmanager
def crowds(folder: Path, server: FleetServer, count: int, in_each: int) -> Iterator[None]:
    """Run so many instances that only follow, ``in_each`` of them to a process."""
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.bench.fleet_crowd", server.url),
                *(str(first), str(min(in_each, count - first))),
            ],
            cwd=ROOT,
            env=environment(server),
            stderr=(folder / f"crowd-{first}.log").open("wb"),
        )
        for first in range(0, count, in_each)
    ]
    try:
        while connected(server) < count:
            time.sleep(0.2)
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def info(server: FleetServer, section: str) -> dict[str, str]:
    """Return a section of what the server says of itself."""
    text = server.ask("INFO", section).decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def connected(server: FleetServer) -> int:
    """Return how many instances the server lists."""
    answer = server.ask("HLEN", "{relayconf}:instances")
    return int(answer[1:]) if answer.startswith(b":") else 0


def idle(count: int, seconds: float, in_each: int) -> dict[str, Any]:
    """Return what so many idle instances ask of the server, and how they come back to it."""
    with served() as (folder, server):
        alone = _memory(server)
        with crowds(folder, server, count, in_each):
            time.sleep(5.0)
            before, cpu, begun = _total(server), _cpu(server), time.monotonic()
            time.sleep(seconds)
            took = time.monotonic() - begun
            return {
                "instances": count,
                "in_each_process": in_each,
                "commands_per_second": round((_total(server) - before) / took),
                "server_cpu_percent": round((_cpu(server) - cpu) / took * 100, 1),
                "server_kib_per_instance": round((_memory(server) - alone) / count / 1024, 1),
                "storm": storm(server, count),
            }


def storm(server: FleetServer, count: int) -> dict[str, Any]:
    """Kill the server and start it again; return how the instances came back."""
    server.kill()
    time.sleep(2.0)
    server.start()
    begun = time.monotonic()
    counts: list[tuple[float, int]] = []
    until = begun + 30
    while time.monotonic() < until:
        counts.append(
            (time.monotonic() - begun, int(info(server, "stats")["total_connections_received"]))
        )
        if int(info(server, "clients")["connected_clients"]) >= 2 * count:
            break
        time.sleep(0.1)
    steps = [b[1] - a[1] for a, b in pairwise(counts)]
    return {
        "all_back_after_s": round(counts[-1][0], 1),
        "connections": counts[-1][1],
        "most_in_a_tenth_of_a_second": max(steps, default=0),
    }


def _total(server: FleetServer) -> int:
    return int(info(server, "stats")["total_commands_processed"])


def _memory(server: FleetServer) -> int:
    return int(info(server, "memory")["used_memory"])


def _cpu(server: FleetServer) -> float:
    found = info(server, "cpu")
    return float(found["used_cpu_sys"]) + float(found["used_cpu_user"])


def main() -> None:
    """Measure, print, and write the figures as JSON where asked."""
    parser = argparse.ArgumentParser(prog="fleet", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--json", metavar="FILE", help="also write the figures here")
    parser.add_argument("--changes", type=int, default=100, help="changes for each number (100)")
    parser.add_argument("--processes", type=int, nargs="*", default=[24, 100], metavar="N")
    parser.add_argument("--idle", type=int, default=1000, metavar="N", help="idle instances (1000)")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long they idle (10)")
    arguments = parser.parse_args()
    results: dict[str, Any] = {
        "machine": {
            "python": platform.python_version(),
            "kernel": platform.release(),
            "cpus": os.cpu_count(),
        },
        "propagation": [propagation(n, arguments.changes) for n in arguments.processes],
    }
    if arguments.idle:
        results["idle"] = idle(arguments.idle, arguments.seconds, 125)
    document = json.dumps(results, indent=2)
    if arguments.json:
        Path(arguments.json).write_text(document + "\n")
    print(document)


if __name__ == "__main__":
    main()
