"""The protocol as a state machine: whatever happens in whatever order, no request runs twice.

Requests are published, withdrawn, cancelled and waited for, runners are started, stopped and
killed, in orders that hypothesis makes up. After each step it holds that no tool has run twice; at
the end a runner is there, every request that nobody took back has one answer that agrees with what
has run, and no runner has anything any more.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from relay.protocol import Request, Response, decode_response, encode_request

PATIENCE = 30.0


class Machine(RuleBasedStateMachine):
    """One session directory, its requests, and its runners."""

    #: Requests are told apart over all examples, as are the digits of real ones.
    published: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="relay-machine-"))
        self.session = self.folder / "session"
        self.session.mkdir(mode=0o700)
        self.forks = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("forking.py")), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.runners: list[int] = []
        self.open: list[int] = []
        self.answers: dict[int, Response] = {}
        self.withdrawn: set[int] = set()

    @rule(tool=st.sampled_from(["quick", "slow"]))
    def publish(self, tool: str) -> None:
        """A writer asks."""
        Machine.published += 1
        number = Machine.published
        data = encode_request(Request(tool, str(number), {"number": number}, 60_000))
        temp = self.session / f"n{number}.req.json.tmp.0"
        temp.write_bytes(data)
        temp.rename(self.session / f"n{number}.req.json")
        self.open.append(number)

    # No precondition: what is still open depends on the runners, and must not steer hypothesis.
    @rule(choice=st.integers(0, 99))
    def withdraw(self, choice: int) -> None:
        """A writer takes a request back, where no runner has it."""
        if not self.open:
            return
        number = self.open[choice % len(self.open)]
        try:
            (self.session / f"n{number}.req.json").unlink()
        except FileNotFoundError:
            return
        self.open.remove(number)
        self.withdrawn.add(number)

    @rule(choice=st.integers(0, 99))
    def cancel(self, choice: int) -> None:
        """A writer gives up what a runner has, or has answered in this moment."""
        if not self.open:
            return
        number = self.open[choice % len(self.open)]
        if (self.session / f"n{number}.req.json").exists():
            return
        (self.session / f"n{number}.cancel").touch()
        self.open.remove(number)

    @precondition(lambda self: len(self.runners) < 3)
    @rule()
    def start(self) -> None:
        """A runner starts."""
        assert self.forks.stdin is not None
        assert self.forks.stdout is not None
        self.forks.stdin.write("start\n")
        self.forks.stdin.flush()
        word, pid = self.forks.stdout.readline().split()
        assert "ready" == word
        self.runners.append(int(pid))

    @precondition(lambda self: self.runners)
    @rule(choice=st.integers(0, 99))
    def kill(self, choice: int) -> None:
        """A runner dies."""
        os.kill(self.runners.pop(choice % len(self.runners)), signal.SIGKILL)

    @rule(seconds=st.sampled_from([0.0, 0.001, 0.01, 0.1]))
    def wait(self, seconds: float) -> None:
        """Time passes; this decides about nothing but the order of things."""
        time.sleep(seconds)

    @rule()
    def collect(self) -> None:
        """Writers take what was answered."""
        for number in tuple(self.open):
            path = self.session / f"n{number}.res.json"
            if path.exists():
                self.answers[number] = decode_response(path.read_bytes())
                path.unlink()
                self.open.remove(number)

    @invariant()
    def nothing_runs_twice(self) -> None:
        """No request has run more than once."""
        assert max(self.marks().values(), default=0) <= 1

    def marks(self) -> Counter[int]:
        """Return how often each request's tool has run."""
        path = self.folder / "marks"
        return Counter(map(int, path.read_text().split())) if path.exists() else Counter()

    def teardown(self) -> None:
        """Let everything be answered, compare answers with what has run, and end the runners."""
        try:
            if not self.runners:
                self.start()
            deadline = time.monotonic() + PATIENCE
            while self.open or any(self.session.glob("*.claim.*")):
                self.collect()
                assert time.monotonic() < deadline, sorted(p.name for p in self.session.iterdir())
                time.sleep(0.005)
            self.compare()
        finally:
            for pid in self.runners:
                os.kill(pid, signal.SIGKILL)
            assert self.forks.stdin is not None
            assert self.forks.stdout is not None
            self.forks.stdin.close()
            self.forks.wait()
            self.forks.stdout.close()
            shutil.rmtree(self.folder)

    def compare(self) -> None:
        """Each answer agrees with how often its tool has run."""
        marks = self.marks()
        may = {"": {1}, "not_executed": {0}, "interrupted": {0, 1}}
        wrong = {
            number: (response, marks[number])
            for number, response in self.answers.items()
            if marks[number] not in may[response.code]
            or (response.ok and response.text != str(number))
        }
        assert {} == wrong
        assert [] == [number for number in self.withdrawn if marks[number]]


TestProtocol = Machine.TestCase
TestProtocol.settings = settings(
    max_examples=12,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
