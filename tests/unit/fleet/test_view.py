"""What a process makes of the answers of its server, one situation at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relayconf.fleet.conformance import kill, restore
from relayconf.fleet.engine import Change
from relayconf.fleet.known import BLIND, FRESH, STALE, Known
from relayconf.fleet.memory import MemoryServer
from relayconf.fleet.record import NOWHERE, Position
from relayconf.fleet.view import Next, View
from relayconf.state.clock import Clock

HEARTBEAT = 1000


class Scene:
    """A server in memory, a view of it, and time that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.server = MemoryServer(now_ms=lambda: self.now)
        self.clock = Clock(lambda: self.now / 1000, lambda: self.now, lambda: "boot")
        self.view = View(heartbeat_ms=HEARTBEAT, clock=self.clock)

    def write(self, change: Change, *, after_ms: int = 0) -> Position:
        """Write a change on top of whatever is there."""
        self.now += 1
        there = [i for i in self.server.snapshot().items if i.body["name"] == "A"]
        expected = there[0].position if there else NOWHERE
        outcome = self.server.change(replace(change, expected=expected, after_ms=after_ms))
        assert outcome.accepted
        return outcome.standing.position

    def snapshot(self) -> None:
        """Take a snapshot."""
        asked = self.view.moment()
        self.view.take_snapshot(self.server.snapshot(self.view.known.position), asked)

    def compare(self) -> Next:
        """Compare."""
        return self.view.compare(self.server.standing(), self.view.moment())

    def kills(self) -> list[str]:
        """Return the ids of the kills in force."""
        return [e.override.id for e in self.view.known.in_force(self.clock) if e.is_kill]

    def freshness(self) -> str:
        """Return how fresh the view is, where 10 s without news make it blind."""
        return self.view.known.freshness(self.clock, 10_000)


@pytest.fixture
def scene() -> Scene:
    """Return a server with one kill that the view knows of."""
    scene = Scene()
    scene.write(kill("A", "k1"))
    scene.snapshot()
    return scene


class TestLosses:
    def test_an_empty_server_clears_nothing(self, scene: Scene) -> None:
        """What a server that was flushed had held stays in force, with one remark, and is stale."""
        scene.server.flush()
        assert scene.compare() is Next.FOLLOW
        assert scene.compare() is Next.FOLLOW
        assert ["k1"] == scene.kills()
        assert scene.view.known.lost
        assert 1 == len(scene.view.remarked())
        assert STALE == scene.freshness()

    def test_a_server_that_was_always_empty_is_fresh(self) -> None:
        """A fleet that nobody has written to yet is no loss."""
        scene = Scene()
        scene.snapshot()
        scene.compare()
        assert FRESH == scene.freshness()
        assert [] == scene.view.remarked()

    def test_another_epoch_keeps_the_kill(self, scene: Scene) -> None:
        """A new history's values count; the kill of the old one is held and named as such."""
        scene.server.flush()
        scene.write(kill("B", "k2"))
        assert scene.compare() is Next.SNAPSHOT
        scene.snapshot()
        assert ["k2", "k1"] == scene.kills()
        assert ["k1"] == [entry.override.id for entry in scene.view.known.held]
        assert FRESH == scene.freshness()
        assert "another history" in scene.view.remarked()[0]

    def test_an_older_copy_keeps_the_kill(self, scene: Scene) -> None:
        """A server that came back from before the kill does not undo it."""
        scene.write(restore("A", "r1"))
        dump = scene.server.dump()
        scene.write(kill("A", "k2"))
        scene.snapshot()
        scene.server.restore(dump)
        assert scene.compare() is Next.SNAPSHOT
        scene.snapshot()
        assert ["k2"] == scene.kills()

    def test_the_same_revision_of_another_history(self, scene: Scene) -> None:
        """A server that came back and counted on to the same number is told by its head."""
        dump = scene.server.dump()
        scene.write(kill("A", "k2"))
        scene.snapshot()
        scene.server.restore(dump)
        scene.write(restore("A", "r9"))
        assert scene.view.known.position[:2] == scene.server.standing().position[:2]
        assert scene.compare() is Next.SNAPSHOT


class TestReleases:
    def test_a_restore_releases(self, scene: Scene) -> None:
        """A tombstone that arrives ends the kill."""
        position = scene.view.known.position
        scene.write(restore("A", "r1"))
        assert scene.view.take(scene.server.after(position.revision)) is Next.FOLLOW
        assert [] == scene.kills()

    def test_a_restore_where_nothing_is_left(self, scene: Scene) -> None:
        """After a flush a restore still releases what is held on the hosts."""
        scene.server.flush()
        scene.compare()
        scene.write(restore("A", "r1"))
        scene.snapshot()
        assert [] == scene.kills()
        assert () == scene.view.known.held

    def test_a_restore_by_a_server_whose_clock_is_behind(self, scene: Scene) -> None:
        """Who restores a kill that is held is believed, whatever the server's clock says."""
        scene.server.flush()
        scene.compare()
        latest = scene.view.known.latest_ms
        scene.now -= 60_000
        scene.write(restore("A", "r1"), after_ms=latest)
        scene.snapshot()
        assert [] == scene.kills()

    def test_an_older_restore_releases_nothing(self, scene: Scene) -> None:
        """A tombstone from before the kill, out of another server's past, is no release of it."""
        other = Scene()
        other.write(restore("A", "r0"))
        other.now = scene.now
        scene.view.take_snapshot(other.server.snapshot(), scene.view.moment())
        assert ["k1"] == scene.kills()

    def test_an_entry_that_is_only_missing_is_held(self, scene: Scene) -> None:
        """A kill that left the state without a tombstone was lost, not restored."""
        scene.write(kill("B", "k2"))
        snapshot = scene.server.snapshot(scene.view.known.position)
        rest = tuple(item for item in snapshot.items if item.body["name"] == "B")
        scene.view.take_snapshot(replace(snapshot, items=rest), scene.view.moment())
        assert ["k2", "k1"] == scene.kills()

    def test_two_lost_kills_of_one_flag(self, scene: Scene) -> None:
        """Of two that were lost one after the other the longer stays."""
        scene.server.flush()
        scene.write(replace(kill("A", "k2"), ttl_ms=100))
        scene.snapshot()
        # The newer one replaced the older, as a command does; then that is lost too.
        assert ["k2"] == scene.kills()
        scene.server.flush()
        scene.write(kill("B", "k3"))
        scene.snapshot()
        assert ["k3", "k2"] == scene.kills()


class TestFollowing:
    @pytest.mark.parametrize("drop", [0, 1], ids=["the first", "the second"])
    def test_a_gap_asks_for_a_snapshot(self, scene: Scene, drop: int) -> None:
        """A change that is missing is noticed, whichever it is, and nothing behind it is taken."""
        position = scene.view.known.position
        for number in range(3):
            scene.write(kill(f"F{number}", f"c{number}"))
        items = scene.server.after(position.revision)
        del items[drop]
        assert scene.view.take(items) is Next.SNAPSHOT
        assert position.revision + drop == scene.view.known.position.revision

    def test_a_change_of_another_history(self, scene: Scene) -> None:
        """The next revision of the epoch that does not follow from what is known is not taken."""
        dump = scene.server.dump()
        scene.write(kill("B", "c1"))
        scene.snapshot()
        scene.server.restore(dump)
        scene.write(kill("C", "c2"))
        scene.write(kill("D", "c3"))
        (item,) = scene.server.after(scene.view.known.position.revision)
        assert scene.view.take([item]) is Next.SNAPSHOT

    def test_a_stream_that_was_cut_short(self, scene: Scene) -> None:
        """Who is behind follows first; where the changes are gone the next comparison tells."""
        scene.write(kill("B", "k2"))
        scene.server.trim()
        assert scene.compare() is Next.FOLLOW
        assert scene.view.take(scene.server.after(1)) is Next.FOLLOW
        assert scene.compare() is Next.SNAPSHOT

    def test_a_bad_entry_spoils_no_other(self, scene: Scene) -> None:
        """An entry that cannot be used is passed over with its reason, and counted on from."""
        snapshot = scene.server.snapshot()
        bad = replace(snapshot.items[0], body={"kind": "set"})
        scene.view.take_snapshot(replace(snapshot, items=(bad, *snapshot.items)), ("boot", 0))
        assert ["k1"] == scene.kills()
        assert ("its target is missing or no text",) == scene.view.known.faults


class TestTime:
    def test_freshness_is_reckoned_by_the_reader(self, scene: Scene) -> None:
        """Fresh for two heartbeats, then stale, then blind, without anybody saying so."""
        found = []
        for ms in (0, 2000, 1, 7998, 1, 1):
            scene.now += ms
            found.append(scene.freshness())
        assert [FRESH, FRESH, STALE, STALE, STALE, BLIND] == found

    def test_a_slow_answer_is_as_old_as_its_question(self, scene: Scene) -> None:
        """What was asked three seconds ago makes nobody fresh."""
        asked, standing = scene.view.moment(), scene.server.standing()
        scene.now += 3000
        scene.view.compare(standing, asked)
        assert STALE == scene.freshness()

    def test_who_catches_up_is_fresh_as_of_the_comparison(self, scene: Scene) -> None:
        """Being behind at a comparison is no freshness until its revision is reached."""
        scene.write(kill("B", "k2"))
        scene.now += 1500
        scene.compare()
        scene.now += 1000
        assert STALE == scene.freshness()
        scene.view.take(scene.server.after(1))
        assert FRESH == scene.freshness()
        scene.now += 1001
        assert STALE == scene.freshness()

    def test_a_ttl_ends_while_fresh(self) -> None:
        """An end counts from the server's time, on a clock that nobody can set."""
        scene = Scene()
        scene.write(replace(kill("A", "k1"), ttl_ms=500))
        scene.snapshot()
        scene.now += 499
        assert ["k1"] == scene.kills()
        scene.now += 1
        assert [] == scene.kills()

    def test_a_ttl_that_ends_while_stale_is_held(self) -> None:
        """Without news the end may have been moved; with news it has come."""
        scene = Scene()
        scene.write(replace(kill("A", "k1"), ttl_ms=5000))
        scene.snapshot()
        scene.now += 60_000
        assert ["k1"] == scene.kills()
        scene.compare()
        assert [] == scene.kills()
        scene.now += 60_000
        assert [] == scene.kills(), "what had ended came back"

    def test_another_boot(self, scene: Scene) -> None:
        """After a restart of the machine nothing is fresh that was known before."""
        known = scene.view.known
        later = Clock(lambda: 0.0, lambda: scene.now, lambda: "another")
        assert known.age_ms(later) is None
        assert BLIND == known.freshness(later, 10_000)
        assert STALE == known.freshness(later, 10_000, ("another", scene.now))


class TestOneHost:
    def test_kills_that_another_process_saw(self, scene: Scene) -> None:
        """A kill in the host's file that this process has never seen is held by it too."""
        fresh: Any = View(heartbeat_ms=HEARTBEAT, clock=scene.clock)
        fresh.absorb(scene.view.known)
        assert ["k1"] == [entry.override.id for entry in fresh.known.held]

    def test_kills_that_were_released_since(self, scene: Scene) -> None:
        """A file that is behind brings nothing back."""
        behind: Known = scene.view.known
        scene.write(restore("A", "r1"))
        scene.snapshot()
        scene.view.absorb(behind)
        assert [] == scene.kills()
