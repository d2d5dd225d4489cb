"""What befalls a fleet: its server dies, forgets, hangs; its connections break. Nobody is misled.

A kill that was seen stays until it is released, and whoever says that it is fresh is.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from relayconf.fleet.conformance import kill, restore
from relayconf.fleet.pending import Pending
from relayconf.fleet.session import Session
from relayconf.state.directory import make
from tests.chaos.fleetscene import Scene
from tests.servers.fleetserver import FleetServer
from tests.servers.running import free_port

WRITES = 10_000


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """Return a fleet whose readers are fresh and know of one kill."""
    scene = Scene(tmp_path)
    try:
        scene.until_fresh()
        scene.kill("A")
        scene.until_killed("A")
        yield scene
    finally:
        scene.close()


class TestServer:
    def test_killed_and_started(self, scene: Scene) -> None:
        """With the server dead the kill stays and staleness is told; afterwards all goes on."""
        scene.server.ask("SAVE")
        scene.server.kill()
        scene.until(lambda reader: not reader.is_fresh(), "fresh without a server")
        scene.until(lambda reader: "fleet-unavailable" in reader.codes(), "no complaint")
        scene.until_killed("A")
        scene.server.start()
        scene.until_fresh()
        scene.kill("B")
        scene.until_killed("A", "B")
        scene.until(lambda reader: not reader.codes(), "complaints stay")

    def test_a_process_that_starts_without_it(self, scene: Scene) -> None:
        """What a host has kept is in force from the start, and stale."""
        scene.until(lambda reader: '"A"' in reader.kept(), "the kill was not kept")
        scene.server.kill()
        for reader in scene.readers:
            reader.restart()
            assert {"A"} == reader.kills()
            assert not reader.is_fresh() or reader.follower.known.checked is not None
        scene.until(lambda reader: not reader.is_fresh(), "fresh without a server")

    def test_flushed(self, scene: Scene) -> None:
        """An emptied server clears nothing, with an alarm; a restore then releases."""
        scene.server.ask("FLUSHALL")
        scene.lose_history()
        scene.until(lambda reader: "fleet-lost" in reader.codes(), "no alarm")
        scene.until_killed("A")
        scene.until(lambda reader: not reader.is_fresh(), "fresh, and the server has lost all")
        scene.kill("B")
        scene.until_killed("A", "B")
        scene.until(lambda reader: "fleet-held" in reader.codes(), "what is held is not told")
        scene.restore("A")
        scene.until_killed("B")
        scene.until_fresh()

    def test_started_from_an_old_dump(self, scene: Scene) -> None:
        """A kill that a dump does not know stays, and one that was released does not come back."""
        dump = scene.server.dump()
        scene.restore("A")
        scene.kill("B")
        scene.until_killed("B")
        scene.lose_history()
        scene.server.load_dump(dump)
        scene.until(lambda reader: "fleet-held" in reader.codes(), "what is held is not told")
        # The dump's own kill is in force again: nobody can tell that it was released.
        scene.until_killed("A", "B")
        scene.restore("A", "B")
        scene.until_killed()
        scene.until_fresh()

    def test_an_old_dump_that_counts_on(self, scene: Scene) -> None:
        """The same revision with another content is noticed."""
        dump = scene.server.dump()
        scene.kill("B")
        scene.until_killed("A", "B")
        scene.lose_history()
        scene.server.kill()
        (scene.server.folder / "dump.rdb").write_bytes(dump)
        scene.server.start()
        scene.kill("C")
        scene.until_killed("A", "B", "C")
        scene.until_fresh()

    def test_trimmed(self, scene: Scene) -> None:
        """Changes that are gone from the stream are made up for by a snapshot."""
        for name in ("B", "C"):
            scene.server.freeze()
            scene.line.cut()
            scene.server.thaw()
            scene.kill(name)
            scene.server.ask("XTRIM", "{relayconf}:stream", "MAXLEN", "0")
        scene.until_killed("A", "B", "C")
        scene.server.ask("DEL", "{relayconf}:stream")
        scene.kill("D")
        scene.until_killed("A", "B", "C", "D")
        scene.until_fresh()

    def test_paused(self, scene: Scene) -> None:
        """A server that hangs makes everybody stale in time, and nobody wrong."""
        scene.server.freeze()
        scene.until(lambda reader: not reader.is_fresh(), "fresh with a server that hangs")
        scene.until_killed("A")
        scene.server.thaw()
        scene.kill("B")
        scene.until_killed("A", "B")
        scene.until_fresh()

    def test_a_lost_entry(self, scene: Scene) -> None:
        """A kill that somebody deletes from the server by hand stays in force, with an alarm."""
        scene.server.ask("DEL", "{relayconf}:state")
        scene.line.cut()
        scene.until(lambda reader: "fleet-held" in reader.codes(), "no alarm")
        scene.until_killed("A")

    def test_junk_in_the_stream(self, scene: Scene) -> None:
        """What somebody else adds to the stream holds up nothing, and goes with the next change."""
        scene.server.ask("XADD", "{relayconf}:stream", "9-0", "no", "change")
        scene.until(lambda reader: not reader.codes(), "complaints")
        scene.kill("B")
        scene.until_killed("A", "B")
        scene.until_fresh()

    def test_a_lost_position(self, scene: Scene) -> None:
        """A server that loses where it stood begins another history, and drops no kill."""
        scene.server.ask("DEL", "{relayconf}:meta")
        scene.lose_history()
        scene.until(lambda reader: "fleet-lost" in reader.codes(), "no alarm")
        scene.until_killed("A")
        scene.kill("B")
        scene.until_killed("A", "B")
        scene.restore("A", "B")
        scene.until_killed()
        scene.until_fresh()


class TestConnections:
    def test_cut(self, scene: Scene) -> None:
        """Connections that are reset again and again delay a kill, and lose none."""
        for name in "BCDEF":
            scene.line.cut()
            scene.kill(name)
            scene.line.cut()
        scene.until_killed(*"ABCDEF")
        scene.until_fresh()

    def test_half_open(self, scene: Scene) -> None:
        """A line that swallows everything makes nobody believe that all is well."""
        scene.line.proxy.blackhole = True
        scene.kill("B")
        scene.until(lambda reader: not reader.is_fresh(), "fresh on a dead line")
        scene.until(lambda reader: "fleet-unavailable" in reader.codes(), "no complaint")
        scene.line.proxy.blackhole = False
        scene.until_killed("A", "B")
        scene.until_fresh()

    def test_delayed(self, scene: Scene) -> None:
        """Answers that are under way for longer than a heartbeat count as old as they are."""
        scene.line.proxy.delay = 0.15
        for name in "BCD":
            scene.kill(name)
        scene.until_killed(*"ABCD")
        scene.line.proxy.delay = 0.0
        scene.until_fresh()


class TestFailover:
    def test_acknowledged_writes_are_lost(self, tmp_path: Path) -> None:
        """A replica that lacks a kill takes over: who has seen the kill holds it, and says so."""
        primary = FleetServer(tmp_path / "primary")
        scene = Scene(tmp_path, server=primary)
        replica = FleetServer(
            tmp_path / "replica", options=("--replicaof", f"127.0.0.1 {primary.port}")
        )
        replica.start()
        try:
            scene.until_fresh()
            scene.kill("A")
            scene.until_killed("A")
            scene.until(lambda _: b"link_status:up" in replica.ask("INFO"), "no replication")
            primary.ask("WAIT", "1", "10000")
            # The link breaks, and what is written from now on never gets there.
            replica.ask("REPLICAOF", "127.0.0.1", str(free_port()))
            scene.kill("B")
            scene.until_killed("A", "B")
            primary.kill()
            scene.lose_history()
            replica.ask("REPLICAOF", "NO", "ONE")
            scene.server = replica
            scene.line.proxy.target = replica.port
            scene.line.cut()
            scene.until(lambda reader: "fleet-held" in reader.codes(), "what is held is not told")
            scene.until_killed("A", "B")
            scene.restore("A", "B")
            scene.until_killed()
        finally:
            scene.close()
            replica.kill()

    def test_a_replica_is_no_server(self, tmp_path: Path) -> None:
        """Who is led to a replica is told to name the primary, and is never fresh."""
        primary = FleetServer(tmp_path / "primary")
        primary.start()
        options = ("--replicaof", f"127.0.0.1 {primary.port}")
        scene = Scene(tmp_path, readers=1, server=FleetServer(tmp_path / "r", options=options))
        try:
            (reader,) = scene.readers
            scene.until(lambda _: "fleet-unavailable" in reader.codes(), "no complaint")
            texts = [p.message for p in reader.follower.reading().problems]
            assert any("name the primary" in text for text in texts), texts
        finally:
            scene.close()
            primary.kill()


class TestAway:
    def test_changes_made_meanwhile_are_merged(self, scene: Scene) -> None:
        """What was changed on a host while the server was away gets there once, in its order."""
        host = scene.readers[0]
        scene.server.ask("SAVE")
        scene.server.kill()
        scene.until(lambda reader: not reader.is_fresh(), "fresh without a server")
        known = host.follower.reading()
        directory = make(str(host.folder))
        pending = Pending(directory)
        key = kill("A", "x").entry.key
        pending.add([kill("B", "away-1"), restore("A", "away-2", known.expected(key))])
        pending.add([kill("C", "away-3"), restore("C", "away-4")])
        directory.close()
        assert {"B"} == host.kills()
        scene.server.start()
        scene.until_killed("B")
        scene.until(lambda _: not host.follower.reading().pending, "the queue stays")
        with Session(scene.direct()) as session:
            ids = [line["entry"]["id"] for line in session.audit()]
        assert ["change-1", "away-1", "away-2", "away-3", "away-4"] == ids

    def test_everybody_merges_at_once(self, scene: Scene) -> None:
        """Several processes of one host that come back together have one effect."""
        host = scene.readers[0]
        scene.server.ask("SAVE")
        scene.server.kill()
        directory = make(str(host.folder))
        Pending(directory).add([kill("B", "away-1")])
        directory.close()
        others = [type(host)(scene.options, host.folder) for _ in range(3)]
        scene.server.start()
        try:
            scene.until_killed("A", "B")
            scene.until(lambda _: not host.follower.reading().pending, "the queue stays")
            with Session(scene.direct()) as session:
                ids = [line["entry"]["id"] for line in session.audit()]
            assert ["change-1", "away-1"] == ids
        finally:
            for other in others:
                other.follower.stop()


class TestManyWrites:
    def test_no_fresh_reader_is_behind(self, scene: Scene) -> None:
        """Through ten thousand writes and broken connections, whoever is fresh knows what holds."""
        done = threading.Event()
        source = random.Random(9)

        def disturb() -> None:
            while not done.wait(source.uniform(0.05, 0.4)):
                if source.random() < 0.5:
                    scene.line.cut()
                else:
                    scene.line.proxy.delay = source.choice((0.0, 0.01, 0.1))

        disturber = threading.Thread(target=disturb, daemon=True)
        disturber.start()
        with Session(scene.direct()) as session:
            for number in range(WRITES):
                name = f"F{number % 50}"
                change = kill(name, f"w{number}")
                scene.write(session, change)
        done.set()
        disturber.join()
        scene.line.proxy.delay = 0.0
        scene.until_killed("A", *(f"F{number}" for number in range(50)))
        scene.until_fresh()
