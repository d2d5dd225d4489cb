"""--wait across hosts: 0 is proof, 3 names who has not applied it, 4 says that nobody is there."""

from __future__ import annotations

import signal
import threading
from typing import Any


class TestProof:
    def test_every_host_applies_it(self, fleet: Any) -> None:
        """One kill reaches the processes of all hosts, and exits 0 with all of them by name."""
        a, b = fleet.host("a"), fleet.host("b")
        programs = [a.start(), b.start(), b.start()]
        fleet.until_fresh(a, b)
        done = a.kill("--wait", "20s", "--json")
        assert (0, "") == (done.code, done.err)
        said = {each["pid"]: each["applied"] for each in done.answer["instances"]}
        assert {program.process.pid: True for program in programs} == said
        for program in programs:
            assert not program.until(fast=False)["fast"]

    def test_a_set_and_a_restore(self, fleet: Any) -> None:
        """A value reaches other hosts, and its restore gives them their own back."""
        a, b = fleet.host("a"), fleet.host("b")
        program = b.start()
        fleet.until_fresh(b)
        done = a.command("set", "APP_N=7", "--reason", "r", "--wait", "20s")
        assert (0, 7) == (done.code, program.until(n=7)["n"])
        done = a.command("restore", "APP_N", "--reason", "r", "--wait", "20s")
        assert (0, 5) == (done.code, program.until(n=5)["n"])

    def test_a_kill_and_its_restore(self, fleet: Any) -> None:
        """Another host may restore what one has killed; both are in everybody's history."""
        a, b = fleet.host("a"), fleet.host("b")
        program = a.start()
        fleet.until_fresh(a)
        assert 0 == a.kill("--wait", "20s").code
        program.until(fast=False)
        assert 0 == b.restore("--wait", "20s").code
        program.until(fast=True)
        history = a.run("history", "--verify", "--json")
        assert (0, ["kill", "restore"]) == (
            history.code,
            [change["action"] for change in history.answer["changes"]],
        )

    def test_one_that_hangs_is_named(self, fleet: Any) -> None:
        """A stopped process on another host keeps the answer at 3; once it goes on, 0."""
        a, b = fleet.host("a"), fleet.host("b")
        moving, stuck = a.start(), b.start()
        fleet.until_fresh(a, b)
        stuck.process.send_signal(signal.SIGSTOP)
        done = a.kill("--wait", "1s", "--json")
        assert (3, 1) == (done.code, len(done.answer["missing"]))
        late = [each["pid"] for each in done.answer["instances"] if not each["applied"]]
        assert [stuck.process.pid] == late
        moving.until(fast=False)
        stuck.process.send_signal(signal.SIGCONT)
        assert 0 == a.kill("--wait", "20s").code

    def test_one_that_is_killed_meanwhile_proves_nothing(self, fleet: Any) -> None:
        """A process that dies while it is waited for has not applied it: 3, by name."""
        a, b = fleet.host("a"), fleet.host("b")
        a.start()
        stuck = b.start()
        fleet.until_fresh(a, b)
        stuck.process.send_signal(signal.SIGSTOP)
        threading.Timer(0.5, stuck.process.kill).start()
        done = a.kill("--wait", "2s")
        assert (3, True) == (done.code, f"pid {stuck.process.pid} on" in done.out)

    def test_the_death_of_a_neighbour_is_known(self, fleet: Any) -> None:
        """On its own host a dead process is known to be dead, and is waited for no longer."""
        a = fleet.host("a")
        living, dead = a.start(), a.start()
        fleet.until_fresh(a)
        dead.kill()
        assert a.row(dead.process.pid)["gone"]
        assert 0 == a.kill("--wait", "20s").code
        living.until(fast=False)

    def test_one_that_signs_off_is_asked_for_nothing(self, fleet: Any) -> None:
        """A process that ends in order leaves the list of every host."""
        a, b = fleet.host("a"), fleet.host("b")
        a.start()
        leaving = b.start()
        fleet.until_fresh(a, b)
        leaving.tell("close")
        assert {} == leaving.read()
        a.until(lambda: a.row(leaving.process.pid) is None)
        assert 0 == a.kill("--wait", "20s").code

    def test_a_server_that_lists_again_who_has_ended(self, fleet: Any) -> None:
        """One that an old dump brings back is asked for nothing: its host knows, and tells."""
        a, b = fleet.host("a"), fleet.host("b")
        living, leaving = a.start(), a.start()
        killed = b.start()
        fleet.until_fresh(a, b)
        dump = fleet.server.dump()
        leaving.tell("close")
        assert {} == leaving.read()
        killed.kill()
        assert 0 == b.kill("--wait", "20s").code
        living.until(fast=False)
        fleet.server.load_dump(dump)
        a.until(lambda: a.row(leaving.process.pid) is None)
        assert a.row(killed.process.pid) is not None
        b.until(lambda: b.row(killed.process.pid)["gone"])
        assert 0 == b.kill("--wait", "20s").code
        assert a.row(killed.process.pid) is None

    def test_nobody_is_there(self, fleet: Any) -> None:
        """Exit 4 where no host has anybody who declares it; the change is written."""
        a, b = fleet.host("a"), fleet.host("b")
        done = a.kill("--wait", "10s")
        assert (4, True) == (done.code, "no instance on any host" in done.err)
        assert not b.start().until(fast=False)["fast"]

    def test_one_without_a_connection_has_not_applied_it(self, fleet: Any) -> None:
        """A process beside the command that does not know the fleet keeps the answer at 3."""
        a = fleet.host("a")
        a.start()
        fleet.until_fresh(a)
        alone = a.start(environment={"RELAYCONF_FLEET_URL": ""})
        done = a.kill("--wait", "1s")
        assert 3 == done.code
        assert f"pid {alone.process.pid} on" in done.out.partition("no connection")[0]

    def test_no_contract_is_needed_where_an_instance_has_it(self, fleet: Any) -> None:
        """A host with nothing of the service installed can kill its flags by name."""
        a, b = fleet.host("a"), fleet.host("b")
        program = a.start()
        fleet.until_fresh(a)
        done = b.run("kill", "APP_FAST", "--reason", "r", "--wait", "20s")
        assert (0, False) == (done.code, program.until(fast=False)["fast"])


class TestScope:
    def test_one_deployment(self, fleet: Any) -> None:
        """A kill for one deployment leaves the others alone, and counts on nobody of theirs."""
        a = fleet.host("a", RELAYCONF_DEPLOYMENT="staging")
        b = fleet.host("b", RELAYCONF_DEPLOYMENT="prod")
        staging, prod = a.start(), b.start()
        fleet.until_fresh(a, b)
        done = a.kill("--only-deployment", "prod", "--wait", "20s", "--json")
        assert (0, [prod.process.pid]) == (
            done.code,
            [each["pid"] for each in done.answer["instances"]],
        )
        prod.until(fast=False)
        assert (True, False) == (a.flag()["value"], b.flag()["value"])
        assert 0 == a.restore("--wait", "20s").code
        prod.until(fast=True)
        assert staging.last["fast"]

    def test_this_host_alone(self, fleet: Any) -> None:
        """--local is what kill was without a fleet."""
        a, b = fleet.host("a"), fleet.host("b")
        here = a.start()
        b.start()
        fleet.until_fresh(a, b)
        a.settle()
        assert 0 == a.kill("--local", "--wait", "20s").code
        here.until(fast=False)
        assert (False, True) == (a.flag()["value"], b.flag()["value"])
        assert "override" == a.flag()["layer"]
        done = a.restore()
        assert (0, True) == (done.code, "relayconf restore APP_FAST --local" in done.err)
        others = ("RELAY_LOCAL_WATCH_ENABLED", "--local", "--reason", "r", "--wait", "1s")
        assert 4 == a.run("kill", *others).code

    def test_options_of_a_fleet_need_one(self, fleet: Any) -> None:
        """--only-host without a fleet would be for everybody here; it is refused."""
        a = fleet.host("a")
        assert 2 == a.kill("--local", "--only-host", "b").code
        done = a.kill("--only-host", "b", environment={"RELAYCONF_FLEET_URL": ""})
        assert (2, True) == (done.code, "RELAYCONF_FLEET_URL" in done.err)
        assert not a.state.exists()

    def test_a_dry_run_changes_nothing(self, fleet: Any) -> None:
        """It says what would change and who is there, on every host."""
        a, b = fleet.host("a"), fleet.host("b")
        program = b.start()
        fleet.until_fresh(b)
        done = a.kill("--dry-run", "--json")
        assert (0, True, [program.process.pid]) == (
            done.code,
            done.answer["dry_run"],
            [each["pid"] for each in done.answer["instances"]],
        )
        assert (0, True) == (a.fleet()["revision"], b.flag()["value"])
        assert not a.state.exists()


class TestTwoAtOnce:
    def test_both_stand(self, fleet: Any) -> None:
        """Two hosts change different settings at the same time; neither is lost."""
        a, b = fleet.host("a"), fleet.host("b")
        program = a.start()
        fleet.until_fresh(a)
        codes: list[int] = []
        work = [
            lambda: codes.append(a.kill("--wait", "20s").code),
            lambda: codes.append(
                b.command("set", "APP_N=9", "--reason", "r", "--wait", "20s").code
            ),
        ]
        threads = [threading.Thread(target=each) for each in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        program.until(fast=False, n=9)
        assert [0, 0] == codes

    def test_the_same_setting(self, fleet: Any) -> None:
        """Two values for one setting: both commands end with 0, and one value is everywhere."""
        a, b = fleet.host("a"), fleet.host("b")
        fleet.until_fresh(*[host for host in (a, b) if host.start()])
        codes: list[int] = []

        def put(host: Any, value: int) -> None:
            done = host.command("set", f"APP_N={value}", "--reason", "r", "--wait", "20s")
            codes.append(done.code)

        threads = [threading.Thread(target=put, args=each) for each in ((a, 8), (b, 9))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [0, 0] == codes
        values = {
            flag["value"]
            for host in (a, b)
            for flag in host.status()["flags"]
            if flag["name"] == "APP_N"
        }
        assert 1 == len(values)
