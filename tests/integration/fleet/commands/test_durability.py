"""How safe a change has to be, and a replica that takes over without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.servers.fleetserver import PASSWORD, FleetServer


def replica_of(server: FleetServer, folder: Path) -> FleetServer:
    """Return a running replica of a server."""
    primary = ("--replicaof", "127.0.0.1", str(server.port))
    login = ("--masteruser", "tests", "--masterauth", "of-the-tests")
    replica = FleetServer(folder, password=PASSWORD, options=(*primary, *login))
    replica.start()
    return replica


class TestDurability:
    def test_no_replica_has_it(self, fleet: Any) -> None:
        """The kill is in force everywhere; without --wait 0 with a warning, with it 3."""
        a = fleet.host("a", RELAYCONF_FLEET_DURABILITY="replica")
        program = a.start()
        fleet.until_fresh(a)
        done = a.kill()
        assert (0, True) == (done.code, "not as safe as replica" in done.err)
        program.until(fast=False)
        done = a.kill("--wait", "5s", "--json")
        assert (3, []) == (done.code, done.answer["missing"])
        durability = done.answer["fleet"]["durability"]
        assert ("replica", False) == (durability["wanted"], durability["reached"])

    def test_a_replica_has_it(self, fleet: Any, tmp_path: Path) -> None:
        """With a replica that follows the same command is proof."""
        replica = replica_of(fleet.server, tmp_path / "replica")
        try:
            # The time that a replica has for its answer is a part of this one.
            own = {"RELAYCONF_FLEET_DURABILITY": "replica", "RELAYCONF_FLEET_TIMEOUT_MS": "10s"}
            a = fleet.host("a", **own)
            a.start()
            fleet.until_fresh(a)
            a.until(lambda: b"master_link_status:up" in replica.ask("INFO", "replication"))
            a.until(lambda: b"state=online" in fleet.server.ask("INFO", "replication"))
            assert 0 == a.kill("--wait", "20s").code
        finally:
            replica.kill()

    def test_a_replica_is_no_place_for_changes(self, fleet: Any, tmp_path: Path) -> None:
        """A url that leads to one is told of; the kill waits on this host."""
        replica = replica_of(fleet.server, tmp_path / "replica")
        try:
            done = fleet.host("a", RELAYCONF_FLEET_URL=replica.url).kill()
            assert (3, True) == (done.code, "replica" in done.err)
        finally:
            replica.kill()


class TestFailover:
    @pytest.mark.parametrize("known", [True, False])
    def test_a_replica_that_lagged(self, fleet: Any, tmp_path: Path, known: bool) -> None:  # noqa: FBT001 - a parameter of the test
        """A kill that the new primary lacks stays where it was seen, and status says so."""
        replica = replica_of(fleet.server, tmp_path / "replica")
        try:
            a = fleet.host("a")
            program = a.start()
            fleet.until_fresh(a)
            assert 0 == a.command("set", "APP_N=7", "--reason", "r", "--wait", "20s").code
            a.until(lambda: b"state=online" in fleet.server.ask("INFO", "replication"))
            a.until(lambda: replica.ask("HGET", "{relayconf}:meta", "revision") == b"1")
            # From here on the replica lags.
            assert replica.ask("REPLICAOF", "NO", "ONE").startswith(b"+OK")
            if known:
                assert 0 == a.kill("--wait", "20s").code
                program.until(fast=False)
            # The address is the same: a name, or a proxy, that leads to the new primary.
            fleet.server.load_dump(replica.dump())
            fleet.until_fresh(a)
            codes = {each["code"] for each in a.status()["problems"]}
            assert (not known, known) == (a.flag()["value"], "fleet-held" in codes)
        finally:
            replica.kill()
