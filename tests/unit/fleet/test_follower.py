"""What a process goes by while changes arrive in its follower's thread, in an order that is set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from relayconf.fleet.view import Next
from relayconf.fleet.waiting import Queue
from relayconf.overrides.document import Override
from relayconf.overrides.ttl import end_after
from relayconf.state.clock import SYSTEM
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
        outcome = self.server.change(change)
        if outcome.current is not None:
            outcome = self.server.change(replace(change, expected=outcome.current.position))
        assert outcome.accepted

    def expect(self, change: Change) -> Change:
        """Return a change in view of what the follower knows, as a command makes it."""
        seen = self.follower.reading()
        return replace(change, expected=seen.expected(change.entry.key))

    def applied(self) -> tuple[bool, list[str]]:
        """Return whether the process says that it has all of the server, and what it goes by."""
        reading = self.follower.reading()
        ids = [entry.override.id for entry in reading.entries]
        return reading.position == self.server.standing().position, ids

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


def value(change: Change) -> Change:
    """Return a change of a value in the place of one of a kill."""
    return replace(change, entry=change.entry._replace(override=_set(change.entry.override)))


def _set(override: Override) -> Override:
    return override._replace(kind="set", value="7")


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


class TestOvertaken:
    @pytest.mark.parametrize("kind", [lambda change: change, value], ids=["kill", "value"])
    @pytest.mark.parametrize("waits", [kill, restore], ids=["a change", "a restore"])
    def test_what_another_host_has_written_meanwhile(
        self,
        scene: Scene,
        kind: Callable[[Change], Change],
        waits: Callable[[str, str], Change],
    ) -> None:
        """Who says that it has a change of another host goes by that, and not by what waits here.

        A kill that waits is written on top, and is one in any case.
        """
        scene.write(kind(kill("A", "k1")))
        scene.arrive()
        own = scene.expect(kind(waits("A", "own")))
        scene.pending.add([own])
        before = [] if own.entry.tombstone else ["own"]
        assert (True, before) == scene.applied()
        scene.write(kind(kill("A", "k2")))
        assert (False, before) == scene.applied()
        scene.arrive()
        after = ["own"] if own.entry.is_kill else ["k2"]
        assert (True, after) == scene.applied()
        waiting_here = scene.follower.reading().pending
        assert (("own",) if own.entry.is_kill else ()) == waiting_here
        # The server refuses it, and it leaves the queue.
        scene.pending.remove(["own"])
        assert (True, after) == scene.applied()

    def test_a_kill_whose_time_is_over(self, scene: Scene) -> None:
        """One that never gets to the server hides no kill that is there."""
        own = kill("A", "own")
        override = own.entry.override._replace(end=end_after(-1, SYSTEM))
        own = replace(own, entry=own.entry._replace(override=override))
        scene.pending.add([scene.expect(own)])
        scene.write(kill("A", "k1"))
        scene.arrive()
        assert (True, ["k1"]) == scene.applied()

    @pytest.mark.parametrize("there", [kill, restore], ids=["a kill", "a restore"])
    def test_a_restore_of_a_kill_of_this_host(
        self, scene: Scene, there: Callable[[str, str], Change]
    ) -> None:
        """It takes back that one, and none that another host has written meanwhile."""
        scene.pending.add([scene.expect(kill("A", "own"))])
        scene.pending.add([scene.expect(restore("A", "back"))])
        assert (True, []) == scene.applied()
        change = there("A", "other")
        scene.write(change)
        scene.arrive()
        assert (True, ["other"] if change.entry.is_kill else []) == scene.applied()

    def test_what_is_built_upon_a_change_that_has_arrived(self, scene: Scene) -> None:
        """A restore behind a kill of this host counts while that is taken off the queue."""
        first, last = scene.expect(kill("A", "k1")), scene.expect(restore("A", "r1"))
        scene.pending.add([first, last])
        found = [scene.applied()[1]]
        scene.write(first)
        found.append(scene.applied()[1])
        scene.arrive()
        found.append(scene.applied()[1])
        scene.pending.settle(scene.pending.read()[0], scene.server.standing().position)
        found.append(scene.applied()[1])
        scene.write(last)
        scene.pending.remove(["r1"])
        found.append(scene.applied()[1])
        scene.arrive()
        assert [[]] * 6 == [*found, scene.applied()[1]]

    def test_what_is_built_upon_a_change_that_has_not_arrived(self, scene: Scene) -> None:
        """Nor is it another one's where the kill has left the queue and has not arrived."""
        first, last = scene.expect(kill("A", "k1")), scene.expect(restore("A", "r1"))
        scene.pending.add([first, last])
        found = [scene.applied()[1]]
        scene.write(first)
        scene.pending.settle(scene.pending.read()[0], scene.server.standing().position)
        found.append(scene.applied()[1])
        scene.arrive()
        assert [[]] * 3 == [*found, scene.applied()[1]]

    def test_it_is_named(self, scene: Scene) -> None:
        """A person hears that it is not in force."""
        scene.pending.add([scene.expect(restore("A", "own"))])
        scene.write(kill("A", "k1"))
        scene.arrive()
        (text,) = (
            p.message for p in scene.follower.reading().problems if p.code == "fleet-pending"
        )
        assert text == (
            "1 change(s) wait for the fleet's server, not in force, since others have changed the "
            "same meanwhile: A"
        )
