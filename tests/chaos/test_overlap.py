"""Runners that overlap, die and come again on one directory, while callers go on calling.

Real ``relay serve`` processes, killed with SIGKILL at random moments. The tool writes the number
of each call to one file as it runs, so that a call that ran twice shows.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.client import Writer
from relay.errors import CallError, Interrupted

TOOLS = """
[tools.mark]
python = "marking:mark"
"""

MARKING = """
import os

async def mark(number: int) -> str:
    fd = os.open(os.environ["MARKS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, f"{number}\\n".encode())
    os.close(fd)
    return str(number)
"""

PATIENCE = 60.0


class Runners:
    """Runner processes on one directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session = folder / "session"
        (folder / "tools.toml").write_text(TOOLS)
        (folder / "marking.py").write_text(MARKING)
        self.running: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        """Start one and wait until it is ready."""
        runner = subprocess.Popen(
            [sys.executable, "-m", "relay", "serve", "--dir", str(self.session)],
            env={
                **os.environ,
                "MARKS": str(self.folder / "marks"),
                "RELAY_TOOLS_FILE": str(self.folder / "tools.toml"),
                "RELAYCONF_STATE_DIR": str(self.folder / "state"),
                "RELAY_LOG_LEVEL": "info",
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        assert runner.stderr is not None
        lines = []
        for line in runner.stderr:
            lines.append(line)
            if line.startswith("stage=relay_ready"):
                break
        else:
            raise AssertionError("".join(lines))
        # Its log is not read any further: a runner must not wait for anybody to do it.
        self.running.append(runner)
        return runner

    def end(self, runner: subprocess.Popen[str], number: signal.Signals) -> int:
        """Send a signal and wait for the end."""
        runner.send_signal(number)
        assert runner.stderr is not None
        runner.stderr.close()
        self.running.remove(runner)
        return runner.wait(PATIENCE)

    def marks(self) -> Counter[int]:
        """Return how often each call's tool has run."""
        path = self.folder / "marks"
        return Counter(map(int, path.read_text().split())) if path.exists() else Counter()


@pytest.fixture
def runners(tmp_path: Path) -> Iterator[Runners]:
    """Give a directory for runners, and end those that are left."""
    made = Runners(tmp_path)
    yield made
    for runner in tuple(made.running):
        made.end(runner, signal.SIGKILL)


class Callers:
    """Threads that call the tool with numbers of their own, and note how each call ended."""

    def __init__(self, session: Path, threads: int) -> None:
        self.ended: dict[int, str] = {}
        self.stop = threading.Event()
        self._writer = Writer(session, environ={})
        self._threads = [
            threading.Thread(target=self._call, args=(n * 1_000_000,)) for n in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def _call(self, number: int) -> None:
        while not self.stop.is_set():
            number += 1
            try:
                text = self._writer.call("mark", {"number": number}, timeout=PATIENCE)
                self.ended[number] = "answered" if text == str(number) else f"wrong: {text}"
            except Interrupted:
                self.ended[number] = "interrupted"
            except CallError as error:
                self.ended[number] = f"{error.code}: {error}"

    def finish(self) -> dict[int, str]:
        """Let the calls that are under way end, and return how all ended."""
        self.stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)
        return self.ended


def wait_for_calls(callers: Callers, number: int) -> None:
    """Wait until so many calls have ended."""
    deadline = time.monotonic() + PATIENCE
    while len(callers.ended) < number:
        assert time.monotonic() < deadline, Counter(callers.ended.values())
        time.sleep(0.01)


class TestTwoRunners:
    def test_none_of_thousands_of_calls_runs_twice(self, runners: Runners) -> None:
        """Two runners share a directory; every call is answered, and its tool has run once."""
        for _ in range(2):
            runners.start()
        callers = Callers(runners.session, threads=8)
        wait_for_calls(callers, 3000)
        ended = callers.finish()
        assert {"answered"} == set(ended.values())
        assert Counter(dict.fromkeys(ended, 1)) == runners.marks()

    def test_a_rolling_restart_loses_nothing(self, runners: Runners) -> None:
        """A new runner joins before the old one is told to stop; no caller notices."""
        old = runners.start()
        callers = Callers(runners.session, threads=4)
        for _ in range(3):
            wait_for_calls(callers, len(callers.ended) + 100)
            new = runners.start()
            wait_for_calls(callers, len(callers.ended) + 100)
            assert 0 == runners.end(old, signal.SIGTERM)
            old = new
        ended = callers.finish()
        assert {"answered"} == set(ended.values())
        assert Counter(dict.fromkeys(ended, 1)) == runners.marks()


class TestKilledRunners:
    def test_each_call_runs_at_most_once_and_ends(self, runners: Runners) -> None:
        """Runners are killed and started at random; each call is answered or interrupted."""
        chance = random.Random(2)
        for _ in range(2):
            runners.start()
        callers = Callers(runners.session, threads=8)
        for _ in range(8):
            wait_for_calls(callers, len(callers.ended) + chance.randrange(20, 200))
            runners.end(chance.choice(runners.running), signal.SIGKILL)
            if chance.random() < 0.3 and runners.running:
                runners.end(runners.running[0], signal.SIGKILL)
            while len(runners.running) < 2:
                runners.start()
        ended = callers.finish()
        marks = runners.marks()
        assert {"answered", "interrupted"} >= set(ended.values())
        assert max(marks.values()) == 1
        assert {n for n, how in ended.items() if how == "answered"} <= set(marks)
