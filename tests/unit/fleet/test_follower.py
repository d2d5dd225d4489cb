"""What a process goes by while changes arrive in its follower's thread, in an order that is set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from relayconf.fleet import waiting
from relayconf.fleet.conformance import kill, restore
from relayconf.fleet.engine import Change
from relayconf.fleet.follower import Follower
from relayconf.fleet.known import Moment
from relayconf.fleet.memory import MemoryServer
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.pending import Pending
from relayconf.fleet.record import NOWHERE
from relayconf.fleet.view import Next
from relayconf.fleet.waiting import Queue
from relayconf.state.directory import StateDirectory, make

OPTIONS = FleetOptions("redis://127.0.0.1:1")


class Scene:
    """A server in memory, a host's queue, and a follower that is told each answer by hand."""

    def __init__(self, directory: StateDirectory) -> None:
        self.path = directory.path
        self.server = MemoryServer()
        self.pending = Pending(directory)
        self.follower = self.new()
        self.write(restore("A", "r0"))
        self.snapshot()

    def new(self) -> Follower:
        """Return a follower that does not run."""
        return Follower(OPTIONS, path=self.path, group=None, changed=lambda: None)

    def write(self, change: Change) -> None:
        """Write a change on the server, in view of what is there."""
        there = [item.position for item in self.server.snapshot().items]
        assert self.server.change(replace(change, expected=[*there, NOWHERE][0])).accepted

    def snapshot(self, asked: Moment | None = None) -> None:
        """Let the follower take a snapshot, which it may have asked for earlier."""
        view = self.follower._view
        snapshot = self.server.snapshot(view.known.position)
        view.take_snapshot(snapshot, view.moment() if asked is None else asked)

    def arrive(self) -> None:
        """Let everything that the follower does not know yet arrive as changes."""
        view = self.follower._view
        assert view.take(self.server.after(view.known.position.revision)) is Next.FOLLOW

    def is_killed(self) -> bool:
        """Whether the flag is killed for the process, by what its follower reads now."""
        return bool(self.follower.reading().entries)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """Return a follower that knows all that its server has: that nothing is killed."""
    directory = make(str(tmp_path / "state"))
    yield Scene(directory)
    directory.close()


class TestReading:
    def test_a_change_that_arrives_meanwhile(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that waits and arrives while the queue is read is in force all the time."""
        found = []
        read = waiting.read

        def read_and_arrive(directory: StateDirectory) -> Queue:
            queue = read(directory)
            scene.arrive()
            return queue

        for change in (kill("A", "k1"), restore("A", "r1"), kill("A", "k2")):
            scene.pending.add([change])
            found.append(scene.is_killed())
            scene.write(change)
            with monkeypatch.context() as patched:
                patched.setattr(waiting, "read", read_and_arrive)
                found.append(scene.is_killed())
            found.append(scene.is_killed())
            scene.pending.remove([change.id])
            found.append(scene.is_killed())
        assert [True] * 4 + [False] * 4 + [True] * 4 == found

    @pytest.mark.parametrize("leaves", [True, False], ids=["both have left", "the last waits"])
    @pytest.mark.parametrize("kills", [True, False], ids=["a kill", "a restore"])
    def test_a_snapshot_that_shows_only_the_last(
        self, scene: Scene, *, kills: bool, leaves: bool
    ) -> None:
        """What another change of this host has replaced comes back by no older copy of it."""
        changes = [kill("A", "k1"), restore("A", "r1")]
        first, last = reversed(changes) if kills else changes
        asked = scene.follower._view.moment()
        scene.pending.add([first])
        assert scene.is_killed() is not kills
        scene.write(first)
        scene.pending.remove([first.id])
        assert scene.is_killed() is not kills
        scene.pending.add([last])
        assert scene.is_killed() is kills
        scene.write(last)
        if leaves:
            scene.pending.remove([last.id])
            assert scene.is_killed() is kills
        # The answer is newer than all this, and the question older.
        scene.snapshot(asked)
        assert scene.is_killed() is kills
        scene.pending.remove([last.id])
        assert scene.is_killed() is kills
        scene.snapshot()
        assert scene.is_killed() is kills

    def test_a_restore_that_was_refused(self, scene: Scene) -> None:
        """One that has left the queue without effect stays before the kill that was made later."""
        first, last = restore("A", "r1"), kill("A", "k1")
        scene.pending.add([first, last])
        assert scene.is_killed()
        scene.pending.remove([first.id])
        assert scene.is_killed()
        scene.write(last)
        scene.arrive()
        assert scene.is_killed()
        scene.pending.remove([last.id])
        assert scene.is_killed()

    def test_a_forked_child(self, scene: Scene) -> None:
        """A child takes no change for open that its parent has seen come and go."""
        change = kill("A", "k1")
        scene.pending.add([change])
        assert scene.is_killed()
        scene.write(change)
        scene.arrive()
        scene.pending.remove([change.id])
        assert scene.is_killed()
        scene.write(restore("A", "r1"))
        scene.arrive()
        assert not scene.is_killed()
        child = scene.new()
        child.begin(scene.follower)
        scene.follower = child
        assert not scene.is_killed()
