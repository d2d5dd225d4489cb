"""What the tests of live overrides share: a state directory, programs that follow it, commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

#: Deadline of everything that is waited for; far above what it takes.
PATIENCE = 30.0

#: A service with a flag that can be killed, a value, and one that needs a restart. It prints each
#: snapshot as a line of JSON, and obeys a few words on its standard input.
SERVICE = """
import json, os, sys, threading
from typing import Annotated
from relayconf import Settings, load
from relayconf.declare import AppliesLive, Clamp, Flag, Groups

class AppSettings(Settings, target="app", prefix="APP_"):
    fast: Annotated[
        bool, AppliesLive(), Groups("speed"),
        Flag(kind="kill-switch", kill=False, owner="app", why="permanent"),
    ] = True
    n: Annotated[int, AppliesLive(), Clamp("1", "100")] = 5
    port: int = 80

def say(snapshot):
    settings = snapshot.settings
    print(json.dumps({
        "pid": os.getpid(), "number": snapshot.number, "fast": settings.fast, "n": settings.n,
        "port": settings.port, "pending": list(snapshot.pending),
    }), flush=True)

if __name__ == "__main__":
    live = load(AppSettings)
    live.subscribe(lambda old, new: say(new))
    live.follow()
    say(live.snapshot)
    for line in sys.stdin:
        if line == "fork\\n":
            if os.fork() == 0:
                say(live.snapshot)
                threading.Event().wait()
        elif line == "close\\n":
            live.close()
            print("{}", flush=True)
"""


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


class Program:
    """A running process that prints JSON lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.last: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        """Return its next line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.wait(PATIENCE)
        self.last = json.loads(line)
        return self.last

    def until(self, **facts: Any) -> dict[str, Any]:
        """Read on until a line says so."""
        while True:
            line = self.read()
            if facts.items() <= line.items():
                return line

    def tell(self, word: str) -> None:
        """Write a word to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()


class Place:
    """A folder with a state directory, the service and whatever else a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        (folder / "service.py").write_text(SERVICE)
        self.environment = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("RELAY", "AGENTA", "APP_"))
        }
        self.environment["RELAYCONF_STATE_DIR"] = str(self.state)
        self.programs: list[Program] = []

    def run(self, *words: str, **options: Any) -> Done:
        """Run a relayconf command."""
        environment = {**self.environment, **options.pop("environment", {})}
        done = subprocess.run(
            [*options.pop("prefix", ()), sys.executable, "-m", "relayconf", *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            **options,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def command(self, word: str, *words: str, **options: Any) -> Done:
        """Run a command on the service's settings."""
        return self.run(word, *words, "--target", "service:AppSettings", **options)

    def kill(self, *words: str, **options: Any) -> Done:
        """Kill the service's flag."""
        return self.command("kill", "APP_FAST", "--reason", "a test", *words, **options)

    def restore(self, *words: str, **options: Any) -> Done:
        """Restore the service's flag."""
        return self.command("restore", "APP_FAST", "--reason", "a test", *words, **options)

    def status(self, **options: Any) -> Any:
        """Return what status says."""
        return self.command("status", "--json", **options).answer

    def start(
        self,
        *words: str,
        environment: Mapping[str, str] | None = None,
        prefix: tuple[str, ...] = (),
    ) -> Program:
        """Start the service, or another Python program, and wait for its first line."""
        program = Program(
            subprocess.Popen(
                [*prefix, sys.executable, *(words or ("service.py",))],
                cwd=self.folder,
                env={**self.environment, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        )
        self.programs.append(program)
        program.read()
        return program

    def settle(self) -> None:
        """Make the state directory look as if it had been there for a while."""
        self.until((self.state / "instances" / "born").is_file)
        (self.state / "instances" / "born").write_text('{"boot": "another", "boot_ms": 0}')

    def until(self, condition: Callable[[], object]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def write(self, *entries: Any, name: str = "overrides.json") -> Path:
        """Write a document by hand."""
        self.state.mkdir(mode=0o700, exist_ok=True)
        path = self.state / name
        path.write_text(json.dumps({"version": 1, "entries": list(entries)}))
        return path

    def close(self) -> None:
        """End every program, and what it has forked."""
        for program in self.programs:
            if program.process.poll() is None:
                program.process.send_signal(signal.SIGCONT)
                program.process.kill()
            for pipe in (program.process.stdin, program.process.stdout):
                if pipe is not None:
                    pipe.close()
            program.process.wait()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Return a place of the test's own."""
    made = Place(tmp_path)
    yield made
    made.close()


#: The entry that kills the service's flag, as somebody may write it by hand.
KILL = {"target": "app", "name": "APP_FAST", "kind": "kill"}


@pytest.fixture
def a_kill() -> dict[str, str]:
    """Return the shortest kill of the service's flag."""
    return dict(KILL)
