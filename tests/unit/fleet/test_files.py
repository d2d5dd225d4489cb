"""What a host keeps of its fleet: the last good file, the queue, and what both come to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from relayconf.fleet import lastgood, waiting
from relayconf.fleet.conformance import kill, restore
from relayconf.fleet.engine import Change
from relayconf.fleet.keeping import Keeper
from relayconf.fleet.known import Known
from relayconf.fleet.memory import MemoryServer
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.pending import Pending
from relayconf.fleet.reading import FleetReading, read_fleet
from relayconf.fleet.record import NOWHERE, Position
from relayconf.fleet.view import Next, View
from relayconf.overrides.ttl import end_after
from relayconf.state.clock import SYSTEM, Clock
from relayconf.state.directory import StateDirectory, make

OPTIONS = FleetOptions("redis://127.0.0.1:1")


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    """Return a state directory."""
    directory = make(str(tmp_path / "state"))
    yield directory
    directory.close()


def viewed(*changes: Change) -> View:
    """Return a view of a server with some changes."""
    server = MemoryServer()
    for change in changes:
        assert server.change(change).accepted
    view = View(heartbeat_ms=1000)
    view.take_snapshot(server.snapshot(), view.moment())
    return view


def read(state: StateDirectory) -> FleetReading:
    return read_fleet(state.path, OPTIONS)


class Host:
    """Processes of one host and their server, where a millisecond passes before each step."""

    def __init__(self, directory: StateDirectory) -> None:
        self.path = directory.path
        self.now = 1000
        self.boot = "one"
        self.clock = Clock(lambda: self.now / 1000, lambda: self.now, lambda: self.boot)
        self.server = MemoryServer(now_ms=lambda: self.now)
        self.server.change(kill("A", "k1"))

    def write(self, change: Change) -> None:
        """Write a change of the one entry."""
        self.now += 1
        (item,) = self.server.snapshot().items
        assert self.server.change(replace(change, expected=item.position)).accepted

    def view(self) -> View:
        """Return what a process that begins now knows."""
        view = View(heartbeat_ms=1000, clock=self.clock)
        self.now += 1
        view.take_snapshot(self.server.snapshot(), view.moment())
        return view

    def compare(self, view: View) -> None:
        """Let a process compare, and find all as it was."""
        self.now += 1
        assert view.compare(self.server.standing(), view.moment()) is Next.FOLLOW

    def arrive(self, view: View) -> None:
        """Let a process take in what it does not know yet."""
        self.now += 1
        assert view.take(self.server.after(view.known.position.revision)) is Next.FOLLOW

    def keep(self, view: View) -> None:
        """Let a process keep what it knows."""
        Keeper(self.path, clock=self.clock).keep(view)

    def newer(self, view: View) -> list[str]:
        """Return the ids of what is in force for a process that has no connection."""
        found = Keeper(self.path, clock=self.clock).newer(view.known)
        return [entry.override.id for entry in found.in_force(self.clock)]

    def kept(self) -> list[str]:
        """Return the ids of the entries in the file."""
        directory = make(self.path)
        try:
            known, _ = lastgood.read(directory)
        finally:
            directory.close()
        return [entry.override.id for entry in known.entries]


@pytest.fixture
def host(state: StateDirectory) -> Host:
    """Return a host whose server has one kill."""
    return Host(state)


class TestLastGood:
    def test_it_comes_back_as_it_was(self) -> None:
        """Entries, held kills, position and stamp survive the file, not what was taken in."""
        known = viewed(kill("A", "k1"), replace(kill("B", "k2"), ttl_ms=60_000)).known
        known = known._replace(held=known.entries[:1], lost=True)
        assert known._replace(taken=()) == lastgood.parse(lastgood.render(known))

    @pytest.mark.parametrize("damage", ["cut", "changed", "empty", "no object", "deep"])
    def test_a_damaged_file_is_none(self, state: StateDirectory, damage: str) -> None:
        """Any damage is noticed, said, and followed by starting from nothing."""
        data = lastgood.render(viewed(kill("A", "k1")).known)
        damaged = {
            "cut": data[:-20],
            "changed": data.replace(b'"A"', b'"B"'),
            "empty": b"",
            "no object": b"[1]",
            "deep": b"[" * 100_000,
        }[damage]
        Path(state.path, lastgood.NAME).write_bytes(damaged)
        reading = read(state)
        assert () == reading.entries
        assert ["fleet-damaged"] == [p.code for p in reading.problems if p.severity == "error"]

    def test_a_stamp_makes_a_file_fresh(self, state: StateDirectory) -> None:
        """The stamp beside the file tells that what it says is still all there is."""
        view = viewed(kill("A", "k1"))
        boot, now = view.moment()
        lastgood.write(state, view.known._replace(checked=(boot, max(0, now - 60_000))))
        assert "stale" == read(state).freshness
        lastgood.write_stamp(state, view.known.position, (boot, now))
        assert "fresh" == read(state).freshness
        lastgood.write_stamp(state, view.known.position._replace(head="other"), (boot, now))
        assert "stale" == read(state).freshness

    def test_many_processes_write_it_once(self, state: StateDirectory) -> None:
        """Who finds the file as it would write it leaves it alone."""
        view = viewed(kill("A", "k1"))
        keeper = Keeper(state.path)
        keeper.keep(view)
        before = os.stat(Path(state.path, lastgood.NAME)).st_ino
        keeper.keep(view)
        assert before == os.stat(Path(state.path, lastgood.NAME)).st_ino

    def test_who_is_behind_overwrites_nothing(self, state: StateDirectory) -> None:
        """A process whose last answer is older leaves what a later one wrote."""
        server = MemoryServer()
        server.change(kill("A", "k1"))
        behind = View(heartbeat_ms=1000)
        boot, now = behind.moment()
        behind.take_snapshot(server.snapshot(), (boot, max(0, now - 500)))
        server.change(kill("B", "k2"))
        ahead = View(heartbeat_ms=1000)
        ahead.take_snapshot(server.snapshot(), (boot, now))
        Keeper(state.path).keep(ahead)
        Keeper(state.path).keep(behind)
        known, _ = lastgood.read(state)
        assert 2 == known.position.revision
        assert {"A", "B"} == {e.override.name for e in behind.known.in_force(SYSTEM)}


class TestOneHost:
    def test_who_has_not_heard_of_the_last_change(self, host: Host) -> None:
        """Whoever compared last before a change puts that over no file of one that has it."""
        ahead, behind = host.view(), host.view()
        host.compare(behind)
        host.write(restore("A", "r1"))
        host.arrive(ahead)
        host.keep(ahead)
        host.keep(behind)
        assert ["r1"] == host.kept()

    def test_who_has_no_connection(self, host: Host) -> None:
        """One that goes by the file goes by a change in it at once, compared since or not."""
        ahead, behind = host.view(), host.view()
        host.compare(behind)
        host.write(restore("A", "r1"))
        host.arrive(ahead)
        host.keep(ahead)
        assert [] == host.newer(behind)

    def test_who_loses_the_connection_after_the_last_change(self, host: Host) -> None:
        """One that has a change goes back to no file of one that compared last before it."""
        ahead, behind = host.view(), host.view()
        host.compare(behind)
        host.keep(behind)
        host.write(restore("A", "r1"))
        host.arrive(ahead)
        assert ["k1"] == host.kept()
        assert [] == host.newer(ahead)

    @pytest.mark.parametrize("boot", ["one", "another"])
    def test_a_server_that_went_back(self, host: Host, boot: str) -> None:
        """What a later comparison has found counts, though its revision is lower."""
        dump = host.server.dump()
        ahead = host.view()
        host.write(restore("A", "r1"))
        host.arrive(ahead)
        host.keep(ahead)
        host.server.restore(dump)
        host.boot = boot
        host.keep(host.view())
        assert ["k1"] == host.kept()

    def test_a_server_that_went_back_without_one(self, host: Host) -> None:
        """One that has no connection goes back to that with the others of its host."""
        dump = host.server.dump()
        ahead = host.view()
        host.write(restore("A", "r1"))
        host.arrive(ahead)
        host.server.restore(dump)
        host.keep(host.view())
        found = host.newer(ahead)
        assert ["k1"] == found

    def test_a_restore_after_a_boot(self, host: Host) -> None:
        """One that knows what was kept before the boot goes by the file of one that has asked."""
        host.keep(host.view())
        host.boot = "another"
        behind = View(heartbeat_ms=1000, clock=host.clock)
        Keeper(host.path, clock=host.clock).load(behind)
        assert ["k1"] == host.newer(behind)
        ahead = host.view()
        host.write(restore("A", "r1"))
        host.arrive(ahead)
        host.keep(ahead)
        assert [] == host.newer(behind)
        # Its server is empty, say, so that it has nothing newer to keep.
        host.keep(behind)
        assert ["r1"] == host.kept()

    def test_what_was_kept_before_the_boot(self, host: Host) -> None:
        """One that has asked since goes back to no file from before."""
        before, ahead = host.view(), host.view()
        host.write(restore("A", "r1"))
        host.arrive(ahead)
        host.keep(before)
        host.boot = "another"
        host.compare(ahead)
        assert [] == host.newer(ahead)


class TestQueue:
    def test_it_is_in_force_at_once(self, state: StateDirectory) -> None:
        """A kill that waits is in force on this host, and named."""
        Pending(state).add([kill("A", "k1")])
        reading = read(state)
        assert ["k1"] == [entry.override.id for entry in reading.entries]
        assert ("k1",) == reading.pending
        assert "fleet-pending.json#k1" == reading.entries[0].override.origin
        assert "fleet-pending" in {problem.code for problem in reading.problems}

    def test_a_restore_that_waits_releases(self, state: StateDirectory) -> None:
        """A tombstone that waits takes the fleet's kill out of force on this host."""
        known = viewed(kill("A", "k1")).known
        lastgood.write(state, known)
        Pending(state).add([restore("A", "r1", known.position)])
        assert () == read(state).entries

    def test_the_last_change_counts(self, state: StateDirectory) -> None:
        """Of several that wait for one entry the last is in force; all of them are kept."""
        pending = Pending(state)
        pending.add([kill("A", "k1")])
        pending.add([restore("A", "r1")])
        assert () == read(state).entries
        assert ["k1", "r1"] == [each.id for each in pending.read()]

    def test_an_end_that_waits(self, state: StateDirectory) -> None:
        """A change that waits ends by this host's clocks."""
        change = kill("A", "k1")
        override = change.entry.override._replace(end=end_after(-1, SYSTEM))
        ended = replace(change, entry=change.entry._replace(override=override))
        Pending(state).add([ended])
        assert () == read(state).entries

    def test_what_waits_behind_builds_upon_it(self, state: StateDirectory) -> None:
        """Once the first is merged, the next is made in view of it, whoever merges that."""
        pending = Pending(state)
        pending.add([kill("A", "k1"), kill("B", "k2"), restore("A", "r1", Position("old", 1))])
        pending.settle(pending.read()[0], Position("new", 7))
        found = {each.id: each.expected for each in pending.read()}
        assert {"k2": NOWHERE, "r1": Position("new", 7)} == found

    def test_what_is_settled_late(self, state: StateDirectory) -> None:
        """Who settles what another one has taken off already leaves alone what was made since."""
        pending = Pending(state)
        pending.add([kill("A", "k1")])
        (change,) = pending.read()
        pending.settle(change, Position("new", 7))
        pending.add([restore("A", "r2", Position("new", 9))])
        pending.settle(change, Position("new", 7))
        assert [Position("new", 9)] == [each.expected for each in pending.read()]

    @pytest.mark.parametrize("body", ["", "[]", '{"version": 1}', '{"version": 2, "changes": []}'])
    def test_a_queue_that_is_none(self, state: StateDirectory, body: str) -> None:
        """A file that cannot be used is said to be, and holds up nothing."""
        Path(state.path, waiting.NAME).write_text(body)
        assert "fleet-damaged" in {problem.code for problem in read(state).problems}

    @pytest.mark.parametrize("change", [None, "", "a b", 7])
    def test_a_change_without_an_id(self, state: StateDirectory, change: object) -> None:
        """What could not be merged once does not wait, and is named."""
        Pending(state).add([kill("A", "k1")])
        file = Path(state.path, waiting.NAME)
        body = json.loads(file.read_text())
        body["changes"][0]["id"] = change
        file.write_text(json.dumps(body))
        reading = read(state)
        assert () == reading.entries
        assert "fleet-damaged" in {problem.code for problem in reading.problems}

    def test_a_bad_change_spoils_no_other(self, state: StateDirectory) -> None:
        """Changes are judged one by one."""
        Pending(state).add([kill("A", "k1")])
        file = Path(state.path, waiting.NAME)
        body = json.loads(file.read_text())
        body["changes"].insert(0, {"kind": "set"})
        file.write_text(json.dumps(body))
        assert ["k1"] == [entry.override.id for entry in read(state).entries]

    def test_what_the_server_has_waits_no_more(self, state: StateDirectory) -> None:
        """A change that was merged, and could not be taken off the queue, counts once."""
        lastgood.write(state, viewed(kill("A", "k1")).known)
        Pending(state).add([kill("A", "k1")])
        reading = read(state)
        assert ((), 1) == (reading.pending, len(reading.entries))


class TestNothing:
    def test_nothing_is_known(self, tmp_path: Path) -> None:
        """A host without any file knows nothing, and makes no directory."""
        reading = read_fleet(str(tmp_path / "none"), OPTIONS)
        assert ((), "stale") == (reading.entries, reading.freshness)
        assert not (tmp_path / "none").exists()
        assert Known() == lastgood.parse(lastgood.render(Known()))
