"""How fast a kill acts: from the rename of ``overrides.json`` to the engine having obeyed.

Real ``relay serve`` processes share one state directory. A document is renamed into place, in turns
with the kill and without; an engine has acted once it has changed its watch and published a
``relay.json`` that says so, which one bare inotify instance of the bench sees. Also: what reading a
flag costs beside a plain attribute, and how much later ``relayconf kill --wait`` returns than the
last engine has acted. Nothing is asserted.

Run it as ``python -m tests.bench.kill``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay import inotify
from relay.settings import RelaySettings
from relayconf import Sources, load
from relayconf.overrides.document import Document, Override, render
from relayconf.state.clock import seconds_of

ROOT = Path(__file__).resolve().parents[2]

TOOLS = """
[tools.echo]
command = ["cat"]
"""

FLAG = "RELAY_LOCAL_WATCH_ENABLED"

#: Runs a command in a user namespace that has no inotify instance.
DEAF = (
    *("unshare", "--user", "--map-root-user", "sh", "-c"),
    'echo 0 > /proc/sys/user/max_inotify_instances && exec "$@"',
    "sh",
)


@contextmanager
def relays(folder: Path, count: int, *, prefix: tuple[str, ...] = ()) -> Iterator[list[Path]]:
    """Start so many runners, each with a session of its own, and yield the sessions."""
    (folder / "tools.toml").write_text(TOOLS)
    own = {n: v for n, v in os.environ.items() if not n.startswith(("RELAY", "AGENTA"))}
    own["RELAYCONF_STATE_DIR"] = str(folder / "state")
    # Sessions belong on a tmpfs; the state, which outlives a restart, is on a disk.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    root = Path(tempfile.mkdtemp(dir=memory))
    sessions = [root / f"session-{number}" for number in range(count)]
    runners = []
    try:
        for session in sessions:
            command = (*prefix, sys.executable, "-m", "relay", "serve", "--dir", str(session))
            tools = ("--tools", str(folder / "tools.toml"))
            log = (folder / f"{session.name}.log").open("wb")
            with log:
                runners.append(subprocess.Popen([*command, *tools], cwd=ROOT, env=own, stderr=log))
        for session in sessions:
            while not (session / "relay.json").exists():
                time.sleep(0.02)
        time.sleep(2.5)  # a state directory that is younger proves nothing to --wait
        yield sessions
    finally:
        for runner in runners:
            runner.terminate()
        for runner in runners:
            runner.wait()
        shutil.rmtree(root)


class Eye:
    """Sees when each session's relay.json is another."""

    def __init__(self, sessions: list[Path]) -> None:
        self._fd = inotify.init()
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._of = {
            inotify.add_watch(self._fd, str(session), inotify.IN_MOVED_TO): session
            for session in sessions
        }

    def all_have_acted(self, begun: int, patience: float) -> list[float]:
        """Return the milliseconds after ``begun`` at which each has, in that order."""
        took: dict[Path, float] = {}
        until = time.perf_counter() + patience
        while len(took) < len(self._of) and time.perf_counter() < until:
            self._poll.poll(100)
            now = time.perf_counter_ns()
            for key, _, name in inotify.read_events(self._fd):
                if name == b"relay.json":
                    took.setdefault(self._of[key], (now - begun) / 1e6)
        return sorted(took.values())

    def close(self) -> None:
        """Stop looking."""
        os.close(self._fd)


def flip(state: Path, generation: int) -> int:
    """Rename a document into place, and return when that was."""
    kill = Override(f"{generation:012x}", "relay", FLAG, "kill", "false", generation=generation)
    document = Document(generation, overrides=(kill,) if generation % 2 else ())
    temp = state / "bench.tmp"
    temp.write_bytes(render(document))
    begun = time.perf_counter_ns()
    temp.rename(state / "overrides.json")
    return begun


def propagation(count: int, flips: int, *, prefix: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return how long so many engines took to act on each of so many changes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with relays(folder, count, prefix=prefix) as sessions:
            eye = Eye(sessions)
            each, last, missing = [], [], 0
            for generation in range(1, flips + 1):
                begun = flip(folder / "state", generation)
                took = eye.all_have_acted(begun, 5.0)
                missing += count - len(took)
                each.extend(took)
                last.append(took[-1])
                time.sleep(0.05)
            eye.close()
            waited = [waiting(folder) for _ in range(3)] if count > 1 and not prefix else []
    return {
        "processes": count,
        "changes": flips,
        "missing": missing,
        "each_ms": spread(each),
        "last_ms": spread(last),
        "wait_after_last_ms": waited,
    }


def waiting(folder: Path) -> float:
    """Return how long after the last engine's acknowledgement ``kill --wait`` ended."""
    own = {**os.environ, "RELAYCONF_STATE_DIR": str(folder / "state")}
    command = ("kill", FLAG, "--reason", "bench", "--wait", "10s")
    subprocess.run(
        [sys.executable, "-m", "relayconf", *command],
        cwd=ROOT,
        env=own,
        check=True,
        capture_output=True,
    )
    ended = time.time()
    lines = (folder / "state/instances/applied.jsonl").read_text().splitlines()
    acknowledged = [json.loads(line) for line in lines]
    generation = max(line["generation"] for line in acknowledged)
    times = [line["at"] for line in acknowledged if line["generation"] == generation]
    return round((ended - (seconds_of(max(times)) or 0)) * 1000, 1)


def spread(values: list[float]) -> dict[str, float]:
    """Return a distribution in a few figures."""
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    named = {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98], "max": max(values)}
    return {name: round(value, 2) for name, value in named.items()}


def reading() -> dict[str, float]:
    """Return what reading a flag costs, in nanoseconds.

    ``plain`` is an attribute of a plain object and ``slotted`` of a frozen one with slots; ``live``
    is the flag, read through ``live.current``. ``model`` is the same flag of an instance that
    pydantic has made: before Python 3.12 the interpreter takes the long way to it, since pydantic's
    classes define ``__getattr__``.
    """

    class Plain:
        def __init__(self) -> None:
            self.local_watch = True

    @dataclass(frozen=True, slots=True)
    class Slotted:
        local_watch: bool = True

    live = load(RelaySettings, Sources({}), strict=False)
    model = RelaySettings.from_resolution(live.snapshot.resolution)
    names = {"plain": Plain(), "slotted": Slotted(), "model": model, "live": live}
    best = {
        name: min(timeit.repeat(_read(name), globals={**names}, number=1_000_000, repeat=5)) * 1000
        for name in names
    }
    ratios = {f"live_to_{name}": best["live"] / best[name] for name in ("plain", "slotted")}
    figures = {**{f"{name}_ns": value for name, value in best.items()}, **ratios}
    return {name: round(value, 2) for name, value in figures.items()}


def _read(name: str) -> str:
    return "live.current.local_watch" if name == "live" else f"{name}.local_watch"


def main() -> None:
    """Measure, print, and write the figures as JSON where asked."""
    parser = argparse.ArgumentParser(prog="kill", description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--json", metavar="FILE", help="also write the figures here")
    parser.add_argument("--flips", type=int, default=100, help="changes for each number (100)")
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 50], metavar="N")
    parser.add_argument("--deaf", action="store_true", help="without any inotify instance")
    arguments = parser.parse_args()
    machine = {"python": platform.python_version(), "kernel": platform.release()}
    results: dict[str, Any] = {
        "machine": {**machine, "cpus": os.cpu_count()},
        "reading": reading(),
        "propagation": [
            propagation(count, arguments.flips, prefix=DEAF if arguments.deaf else ())
            for count in arguments.processes
        ],
    }
    document = json.dumps(results, indent=2)
    if arguments.json:
        Path(arguments.json).write_text(document + "\n")
    print(document)


if __name__ == "__main__":
    main()
