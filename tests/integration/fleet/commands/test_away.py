"""The server away, paused, emptied, or back with an old dump: what the commands say is true."""

from __future__ import annotations

import signal
import threading
from typing import Any


class TestAway:
    def test_a_kill_acts_here_and_is_merged_later(self, fleet: Any) -> None:
        """Exit 3 with a reason; the processes of this host obey; the others once it is back."""
        a, b = fleet.host("a"), fleet.host("b")
        here, there = a.start(), b.start()
        fleet.until_fresh(a, b)
        fleet.server.kill()
        done = a.kill("--json")
        assert (3, 1, False) == (
            done.code,
            done.answer["fleet"]["pending"],
            done.answer["fleet"]["reached"],
        )
        assert [here.process.pid] == [each["pid"] for each in done.answer["instances"]]
        here.until(fast=False)
        assert (False, "fleet") == (a.flag()["value"], a.flag()["layer"])
        assert (True, 1) == (b.flag()["value"], a.fleet()["pending"])
        fleet.server.start()
        there.until(fast=False)
        a.until(lambda: a.fleet()["pending"] == 0)
        assert (1, 1) == (a.fleet()["revision"], b.fleet()["revision"])

    def test_the_next_command_merges_it_where_nobody_follows(self, fleet: Any) -> None:
        """A host without any process leaves nothing behind for ever."""
        a, b = fleet.host("a"), fleet.host("b")
        program = b.start()
        fleet.until_fresh(b)
        fleet.server.kill()
        assert 3 == a.kill().code
        fleet.server.start()
        fleet.until_fresh(b)
        assert program.last["fast"]
        assert 0 == a.command("set", "APP_N=6", "--reason", "r", "--wait", "20s").code
        program.until(fast=False, n=6)

    def test_the_next_command_merges_a_kill_and_its_restore(self, fleet: Any) -> None:
        """What waits behind a change of the same entry builds upon it, whoever merges both."""
        a, b = fleet.host("a"), fleet.host("b")
        program = b.start()
        fleet.until_fresh(b)
        fleet.server.kill()
        assert (3, 3) == (a.kill().code, a.restore().code)
        fleet.server.start()
        fleet.until_fresh(b)
        done = a.command("set", "APP_N=6", "--reason", "r", "--wait", "20s")
        assert (0, False) == (done.code, "not merged" in done.err)
        program.until(fast=True, n=6)

    def test_waiting_outlasts_a_short_absence(self, fleet: Any) -> None:
        """A server that comes back while a command waits takes the change, and the proof is 0."""
        a = fleet.host("a")
        a.start()
        fleet.until_fresh(a)
        fleet.server.kill()
        back = threading.Timer(1.0, fleet.server.start)
        back.start()
        assert 0 == a.kill("--wait", "20s").code
        back.join()

    def test_a_restore_while_it_is_away(self, fleet: Any) -> None:
        """It acts here at once, and no merge brings the kill back."""
        a, b = fleet.host("a"), fleet.host("b")
        here, there = a.start(), b.start()
        fleet.until_fresh(a, b)
        assert 0 == a.kill("--wait", "20s").code
        fleet.server.kill()
        assert 3 == a.restore().code
        here.until(fast=True)
        assert not b.flag()["value"]
        fleet.server.start()
        there.until(fast=True)
        fleet.until_fresh(a, b)
        assert (True, True) == (a.flag()["value"], b.flag()["value"])

    def test_a_kill_and_its_restore_while_it_is_away(self, fleet: Any) -> None:
        """Both are merged, in their order."""
        a, b = fleet.host("a"), fleet.host("b")
        a.start()
        there = b.start()
        fleet.until_fresh(a, b)
        fleet.server.kill()
        assert (3, 3) == (a.kill().code, a.restore().code)
        fleet.server.start()
        a.until(lambda: a.fleet()["pending"] == 0 and a.fleet()["revision"] == 2)
        b.until(lambda: b.fleet()["revision"] == 2)
        assert b.flag()["value"]
        assert there.process.poll() is None

    def test_a_paused_server(self, fleet: Any) -> None:
        """One that takes connections and says nothing is as good as away, within the limit."""
        a = fleet.host("a")
        here = a.start()
        fleet.until_fresh(a)
        fleet.server.freeze()
        done = a.kill("--json")
        assert (3, False) == (done.code, done.answer["fleet"]["reached"])
        here.until(fast=False)
        fleet.server.thaw()
        a.until(lambda: a.fleet()["pending"] == 0)
        assert 0 == a.kill("--wait", "20s").code

    def test_freshness_is_reckoned_by_who_reads(self, fleet: Any) -> None:
        """With the server away a host is STALE, then BLIND, and FRESH again when it is back."""
        a = fleet.host("a", RELAYCONF_FLEET_BLIND_AFTER_MS="6s")
        a.start()
        fleet.until_fresh(a)
        fleet.server.kill()
        a.until(lambda: a.fleet()["state"] == "STALE")
        assert not a.fleet()["reached"]
        row = a.row(a.programs[0].process.pid)
        assert (False, None, "STALE") == (row["gone"], row["fleet"]["epoch"], row["fleet"]["state"])
        assert "fleet-unavailable" in {each["code"] for each in a.status()["problems"]}
        a.until(lambda: a.fleet()["state"] == "BLIND")
        fleet.server.start()
        a.until(lambda: a.fleet()["state"] == "FRESH")

    def test_a_stopped_process_is_not_fresh(self, fleet: Any) -> None:
        """What it wrote of itself counts for nothing: the reader tells its state."""
        a = fleet.host("a")
        stuck = a.start()
        fleet.until_fresh(a)
        stuck.process.send_signal(signal.SIGSTOP)
        a.until(lambda: a.fleet()["state"] == "BLIND")
        assert (True, "BLIND") == (a.fleet()["reached"], a.row(stuck.process.pid)["fleet"]["state"])


class TestLoss:
    def test_an_emptied_server_clears_nothing(self, fleet: Any) -> None:
        """After FLUSHALL the kill stays in force everywhere, with an alarm."""
        a, b = fleet.host("a"), fleet.host("b")
        programs = [a.start(), b.start()]
        fleet.until_fresh(a, b)
        assert 0 == a.kill("--wait", "20s").code
        fleet.server.ask("FLUSHALL")
        for host in (a, b):
            host.until(lambda host=host: host.fleet()["state"] != "FRESH")
            assert not host.flag()["value"]
            assert "fleet-lost" in {each["code"] for each in host.status()["problems"]}
        for program in programs:
            program.until(fast=False)
        assert 1 == a.run("history", "--verify").code

    def test_a_kill_after_that_is_proven(self, fleet: Any) -> None:
        """Instances come back to an emptied server's list before anything is proven: 0 of both."""
        a, b = fleet.host("a"), fleet.host("b")
        programs = [a.start(), b.start()]
        fleet.until_fresh(a, b)
        assert 0 == a.command("set", "APP_N=7", "--reason", "r", "--wait", "20s").code
        fleet.server.ask("FLUSHALL")
        done = a.kill("--wait", "20s", "--json")
        assert (0, 2) == (done.code, len(done.answer["instances"]))
        for program in programs:
            program.until(fast=False)

    def test_an_old_dump(self, fleet: Any) -> None:
        """A server that forgets a kill does not undo it; a restore releases it."""
        a, b = fleet.host("a"), fleet.host("b")
        programs = [a.start(), b.start()]
        fleet.until_fresh(a, b)
        assert 0 == a.command("set", "APP_N=7", "--reason", "r", "--wait", "20s").code
        dump = fleet.server.dump()
        assert 0 == a.kill("--wait", "20s").code
        fleet.server.load_dump(dump)
        fleet.until_fresh(a, b)
        for host in (a, b):
            assert not host.flag()["value"]
            assert "fleet-held" in {each["code"] for each in host.status()["problems"]}
        assert 0 == b.restore("--wait", "20s").code
        for program in programs:
            program.until(fast=True)
        fleet.until_fresh(a, b)
        assert (True, True) == (a.flag()["value"], b.flag()["value"])

    def test_a_host_that_knows_of_no_kill_can_release_it(self, fleet: Any) -> None:
        """A restore leaves a tombstone even where neither server nor host hold the kill."""
        a, b = fleet.host("a"), fleet.host("b")
        program = a.start()
        fleet.until_fresh(a)
        assert 0 == a.kill("--wait", "20s").code
        fleet.server.ask("FLUSHALL")
        a.until(lambda: a.fleet()["state"] != "FRESH")
        done = b.restore("--wait", "20s")
        assert (0, True) == (done.code, "whoever still holds it lets it go" in done.out)
        program.until(fast=False)
        program.until(fast=True)


class TestGone:
    def test_one_that_falls_silent_stays_on_the_list(self, fleet: Any) -> None:
        """A process that was killed on another host is shown for what it is."""
        a, b = fleet.host("a"), fleet.host("b")
        dead = b.start()
        fleet.until_fresh(b)
        dead.kill()
        a.until(lambda: a.row(dead.process.pid)["fleet"]["state"] == "BLIND")
        assert 3 == a.kill("--wait", "1s").code
        assert a.row(dead.process.pid) is not None
