"""Merging what was changed while the server was away: in order, once, whatever gets lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from relayconf.errors import FleetUnavailable
from relayconf.fleet.changing import Submitted
from relayconf.fleet.conformance import kill, restore
from relayconf.fleet.engine import Change
from relayconf.fleet.memory import ANSWER_LOST, REQUEST_LOST, MemoryEngine, MemoryServer
from relayconf.fleet.merging import merge
from relayconf.fleet.pending import Pending
from relayconf.fleet.record import NOWHERE, Position
from relayconf.overrides.ttl import end_after
from relayconf.state.clock import SYSTEM
from relayconf.state.directory import make


class Scene:
    """A server in memory, and one host's queue."""

    def __init__(self, pending: Pending) -> None:
        self.server = MemoryServer()
        self.pending = pending

    def write(self, change: Change) -> Position:
        """Write a change as another host does."""
        outcome = self.server.change(change)
        assert outcome.accepted
        return outcome.standing.position

    def merge(self, *faults: str | None) -> list[Submitted]:
        """Merge the queue, where the first calls have these faults."""
        left = list(faults)
        engine = MemoryEngine(self.server, fault=lambda _: left.pop(0) if left else None)
        return asyncio.run(merge(engine, self.pending, 0))

    def changes(self) -> list[str]:
        """Return the ids of the changes that the server has taken."""
        return [line["entry"]["id"] for line in self.server.audit(100)]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """Return a server and a queue."""
    directory = make(str(tmp_path / "state"))
    yield Scene(Pending(directory))
    directory.close()


class TestMerging:
    def test_in_their_order(self, scene: Scene) -> None:
        """A kill and its restore, both made while away, end as a restore."""
        scene.pending.add([kill("A", "k1"), kill("B", "k2"), restore("A", "r1")])
        done = scene.merge()
        assert [("k1", None), ("k2", None), ("r1", None)] == [
            (each.change.id, each.refused) for each in done
        ]
        assert () == scene.pending.read()
        assert ["k1", "k2", "r1"] == scene.changes()

    @pytest.mark.parametrize("fault", [REQUEST_LOST, ANSWER_LOST])
    @pytest.mark.parametrize("number", [0, 1, 2])
    def test_once_whatever_is_lost(self, scene: Scene, fault: str, number: int) -> None:
        """Wherever a request or an answer is lost, each change has one effect in the end."""
        scene.pending.add([kill("A", "k1"), restore("A", "r1"), kill("A", "k2")])
        with pytest.raises(FleetUnavailable):
            scene.merge(*[None] * number, fault)
        assert scene.pending.read()
        scene.merge()
        assert () == scene.pending.read()
        assert ["k1", "r1", "k2"] == scene.changes()

    def test_by_two_that_know_nothing_of_each_other(self, scene: Scene) -> None:
        """Who merges what another one has merged already changes nothing."""
        changes = [kill("A", "k1"), restore("A", "r1")]
        scene.pending.add(changes)
        scene.merge()
        scene.pending.add(changes)
        assert all(each.outcome and each.outcome.repeated for each in scene.merge())
        assert ["k1", "r1"] == scene.changes()

    def test_a_kill_is_written_on_top(self, scene: Scene) -> None:
        """A kill that was made in ignorance of another change is made all the same."""
        scene.write(restore("A", "r0"))
        scene.pending.add([kill("A", "k1")])
        scene.merge()
        assert ["r0", "k1"] == scene.changes()

    def test_a_restore_gives_way(self, scene: Scene) -> None:
        """A restore of a kill that was made anew meanwhile is refused, with a sentence."""
        seen = scene.write(kill("A", "k0"))
        scene.write(replace(kill("A", "k1"), expected=seen))
        scene.pending.add([restore("A", "r1", seen)])
        (done,) = scene.merge()
        assert "A was not restored: it was killed meanwhile by somebody" == done.refused
        assert () == scene.pending.read()
        assert ["k0", "k1"] == scene.changes()

    @pytest.mark.parametrize("fault", [None, REQUEST_LOST, ANSWER_LOST])
    def test_a_restore_takes_no_kill_away_that_it_did_not_know(
        self, scene: Scene, fault: str | None
    ) -> None:
        """Behind a kill that went on top of another host's, a restore is refused."""
        seen = scene.write(restore("A", "r0"))
        scene.write(replace(kill("A", "theirs"), expected=seen))
        scene.pending.add([replace(kill("A", "k1"), expected=seen), restore("A", "r1", seen)])
        if fault is not None:
            with pytest.raises(FleetUnavailable):
                scene.merge(None, fault)
        done = scene.merge()
        assert "A was not restored: it was killed meanwhile by somebody" == done[-1].refused
        assert () == scene.pending.read()
        assert ["r0", "theirs", "k1"] == scene.changes()

    def test_a_restore_that_knew_the_other_kill(self, scene: Scene) -> None:
        """A restore that was made once the host had heard of the other kill takes both away."""
        theirs = scene.write(kill("A", "theirs"))
        scene.pending.add([kill("A", "k1"), restore("A", "r1", theirs)])
        scene.merge()
        assert ["theirs", "k1", "r1"] == scene.changes()

    def test_a_restore_after_a_flush(self, scene: Scene) -> None:
        """A server that has lost everything takes the tombstone."""
        scene.pending.add([restore("A", "r1", Position("lost", 7))])
        scene.merge()
        assert ["r1"] == scene.changes()

    def test_what_has_ended_meanwhile(self, scene: Scene) -> None:
        """A change whose time was over before the server came back never gets there."""
        change = kill("A", "k1")
        override = change.entry.override._replace(end=end_after(-1, SYSTEM))
        ended = replace(change, entry=change.entry._replace(override=override))
        scene.pending.add([ended, kill("B", "k2")])
        scene.merge()
        assert ["k2"] == scene.changes()

    def test_what_is_left_of_its_time(self, scene: Scene) -> None:
        """A change that ends has on the server what was left of its time here."""
        change = kill("A", "k1")
        override = change.entry.override._replace(end=end_after(60_000, SYSTEM))
        scene.pending.add([replace(change, entry=change.entry._replace(override=override))])
        scene.merge()
        (item,) = scene.server.snapshot().items
        assert item.expires_ms is not None
        assert 0 < item.expires_ms - item.at_ms <= 60_000
        assert NOWHERE != item.position
