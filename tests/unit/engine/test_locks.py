"""Who is alive, told by locks: in this process and in others, killed and forked ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.engine.locks import Locks

SESSION = (7, 42)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[list[Locks]]:
    """Give two runners' locks in one state directory."""
    both = [Locks(str(tmp_path / "state")), Locks(str(tmp_path / "state"))]
    yield both
    for locks in both:
        locks.close()


class Other:
    """A runner in a process of its own."""

    def __init__(self, folder: Path, *, fork: bool = False) -> None:
        forks = "if os.fork() == 0: time.sleep(60)\n" if fork else ""
        script = (
            "import os, sys, time\nfrom relay.engine.locks import Locks\n"
            f"locks = Locks({str(folder / 'state')!r})\nlocks.mark({SESSION!r})\n"
            f"{forks}print(locks.runner, flush=True)\ntime.sleep(60)\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.runner = self.process.stdout.readline().strip()

    def kill(self) -> None:
        """Kill that one process, and not what it forked."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End everything of it."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        finally:
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()


class TestLiveness:
    def test_a_living_one(self, made: list[Locks]) -> None:
        """Each sees itself and the other alive; nobody of another name."""
        one, two = made
        assert [True, True, False] == [one.is_alive(r) for r in (one.runner, two.runner, "nobody")]

    @pytest.mark.parametrize("fork", [False, True])
    def test_a_killed_one(self, made: list[Locks], tmp_path: Path, *, fork: bool) -> None:
        """A runner is dead from the moment its process is, whatever it forked lives on."""
        one, _ = made
        other = Other(tmp_path, fork=fork)
        try:
            assert one.is_alive(other.runner)
            one.mark(SESSION)
            assert {SESSION: {other.runner}} == one.look().served
            other.kill()
            deadline = time.monotonic() + 20
            while one.is_alive(other.runner):
                # A child lets go of its parent's lock with the first thing that it does.
                assert time.monotonic() < deadline
            assert {other.runner} <= one.look().dead
            assert not one.is_alive(other.runner)
        finally:
            other.close()

    def test_strangers(self, made: list[Locks], tmp_path: Path) -> None:
        """Whoever serves other directories alone is looked at by those who share one with it."""
        one, two = made
        two.mark(SESSION)
        other = Other(tmp_path, fork=False)
        try:
            assert {two.runner, other.runner} == one.look().served[SESSION]
            other.kill()
            assert (set(), {other.runner}) == (one.look().dead, two.look().dead)
        finally:
            other.close()

    def test_one_that_left(self, made: list[Locks]) -> None:
        """A runner that signs off is not alive, and leaves no mark."""
        one, two = made
        two.mark(SESSION)
        assert {two.runner} == one.peers_on(SESSION)
        two.close()
        assert set() == one.peers_on(SESSION)
        self.wait_until_known(one, {})

    def test_marks(self, made: list[Locks]) -> None:
        """A mark is for one directory; a dead one's can be removed by another."""
        one, two = made
        two.mark(SESSION)
        two.mark((7, 43))
        both = {SESSION: {two.runner}, (7, 43): {two.runner}}
        self.wait_until_known(one, both)
        assert {} == two.look().served
        one.unmark(SESSION, two.runner)
        self.wait_until_known(one, {(7, 43): {two.runner}})

    def test_what_the_dead_left(self, tmp_path: Path) -> None:
        """Marks of the dead go where nobody serves the directory any more, and only there."""
        folder = tmp_path / "state" / "locks"
        other = Other(tmp_path)
        other.kill()
        elsewhere = (1 << 60, 9)
        for identity in (SESSION, (7, 43), (7, 44), elsewhere):
            (folder / f"{identity[0]:x}-{identity[1]:x}.{other.runner}").touch()
        (folder / "7-2d.start").touch()
        long_ago = time.time() - 26 * 3600
        (folder / f"{1 << 60:x}-a.{other.runner}").touch()
        os.utime(folder / f"{1 << 60:x}-a.{other.runner}", (long_ago, long_ago))
        (folder / f"{1 << 60:x}-a.nobody").touch()
        os.utime(folder / f"{1 << 60:x}-a.nobody", (long_ago, long_ago))
        one, two = Locks(str(tmp_path / "state")), Locks(str(tmp_path / "state"))
        one.mark(SESSION)
        two.mark((7, 43))
        one.look()
        left = {name for name in os.listdir(folder) if name != "runners"}
        assert {
            f"7-2a.{one.runner}",
            f"7-2a.{other.runner}",
            f"7-2b.{two.runner}",
            f"7-2b.{other.runner}",
            f"{1 << 60:x}-9.{other.runner}",
            f"{1 << 60:x}-a.{other.runner}",
        } == left
        one.close()
        two.close()
        other.close()

    def test_many_that_the_dead_left(self, tmp_path: Path) -> None:
        """However many there are, each look removes a bounded number, until none is left."""
        one = Locks(str(tmp_path / "state"))
        folder = tmp_path / "state" / "locks"
        for number in range(1200):
            (folder / f"7-{number:x}.nobody").touch()
        looks = 0
        while marks := len(os.listdir(folder)) - 1:
            one.look()
            looks += 1
            assert len(os.listdir(folder)) - 1 >= marks - 500
        assert 3 == looks
        one.close()

    def wait_until_known(self, locks: Locks, served: object) -> None:
        """Wait until a runner knows who serves what: fresh changes are looked at again."""
        deadline = time.monotonic() + 20
        while served != locks.look().served:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def test_the_newest(self, made: list[Locks]) -> None:
        """Of two runners one is newer, and both agree which."""
        one, two = made
        one.look()
        two.look()
        answers = [one.newest_of({two.runner}), two.newest_of({one.runner})]
        assert [False, True] == sorted(answers)
        assert one.newest_of(set())


class TestStartLock:
    def test_one_at_a_time(self, made: list[Locks]) -> None:
        """A directory's start lock has one holder, and leaves no file."""
        one, two = made
        held = one.try_start(SESSION)
        assert held is not None
        assert two.try_start(SESSION) is None
        other = two.try_start((7, 43))
        assert other is not None
        other.release()
        held.release()
        again = two.try_start(SESSION)
        assert again is not None
        again.release()

    def test_it_dies_with_its_holder(self, made: list[Locks], tmp_path: Path) -> None:
        """A start lock whose holder was killed is free."""
        one, _ = made
        script = (
            f"import os\nfrom relay.engine.locks import Locks\n"
            f"held = Locks({str(tmp_path / 'state')!r}).try_start({SESSION!r})\n"
            f"os.kill(os.getpid(), 9)\n"
        )
        subprocess.run([sys.executable, "-c", script], check=False)
        held = one.try_start(SESSION)
        assert held is not None
        held.release()
