"""show, explain and history of what the fleet overrides: who, why, since when, how fresh."""

from __future__ import annotations

from typing import Any

#: A service whose flag takes its safe value where nothing was heard of the fleet for too long.
WARY = """
from typing import Annotated
from relayconf import Settings
from relayconf.declare import AppliesLive, Flag
from service import AppSettings as _App

class AppSettings(_App, target="app", prefix="APP_"):
    fast: Annotated[
        bool, AppliesLive(),
        Flag(kind="kill-switch", kill=False, owner="app", why="permanent", blind="safe"),
    ] = True
"""


def setting(host: Any, name: str) -> Any:
    """Return what show says of one setting."""
    settings = host.command("show", "--json").answer["settings"]
    return next(each for each in settings if each["name"] == name)


class TestExplain:
    def test_who_and_why(self, fleet: Any) -> None:
        """The layer, the origin, the revision, who did it, why, and for which incident."""
        a, b = fleet.host("a"), fleet.host("b")
        b.start()
        fleet.until_fresh(b)
        done = a.command(
            *("set", "APP_N=7", "--reason", "more load", "--incident", "INC-9"),
            *("--actor", "nadia", "--ttl", "1h", "--wait", "20s", "--json"),
        )
        assert 0 == done.code
        made = done.answer["made"][0]
        assert {"layer": "fleet", "origin": f"fleet#{made['id']}"} == setting(b, "APP_N")["source"]
        fleet_of = b.command("explain", "APP_N", "--json").answer["fleet"]
        (entry,) = fleet_of["overrides"]
        assert ("FRESH", 1, "nadia", "more load", "INC-9", True) == (
            fleet_of["state"],
            *(entry[key] for key in ("revision", "actor", "reason", "incident", "applies")),
        )
        text = b.command("explain", "APP_N").out
        for words in ("set to 7 by nadia", "more load", "INC-9", "revision 1", "FRESH"):
            assert words in " ".join(text.split())

    def test_what_is_for_others(self, fleet: Any) -> None:
        """An entry for another deployment is told of, and is not in force here."""
        a = fleet.host("a", RELAYCONF_DEPLOYMENT="staging")
        a.start()
        fleet.until_fresh(a)
        assert 4 == a.kill("--only-deployment", "prod", "--wait", "20s").code
        a.until(lambda: a.fleet()["revision"] == 1)
        text = a.command("explain", "APP_FAST").out
        assert "deployment prod alone; not for this process" in " ".join(text.split())
        assert setting(a, "APP_FAST")["value"]

    def test_a_kill_that_waits(self, fleet: Any) -> None:
        """Its origin says that it is not yet on the server."""
        a = fleet.host("a")
        fleet.server.kill()
        assert 3 == a.kill().code
        assert setting(a, "APP_FAST")["source"]["origin"].startswith("fleet-pending.json#")
        assert "not yet on the server" in a.command("explain", "APP_FAST").out

    def test_a_flag_that_is_blind(self, fleet: Any) -> None:
        """One that declares it takes its safe value while its process is blind."""
        a = fleet.host("a")
        (a.folder / "wary.py").write_text(WARY)
        code = (
            "import service, wary; service.AppSettings = wary.AppSettings; "
            + "exec({!r})".format(
                "live = service.load(service.AppSettings)\n"
                "live.subscribe(lambda old, new: service.say(new))\n"
                "live.follow()\n"
                "service.say(live.snapshot)\n"
                "import threading; threading.Event().wait()\n"
            )
        )
        program = a.start("-c", code)
        assert program.last["fast"]
        a.until(lambda: a.fleet()["state"] == "FRESH")
        fleet.server.kill()
        program.until(fast=False)
        explained = a.run("explain", "APP_FAST", "--target", "wary:AppSettings", "--json").answer
        assert ("BLIND", "safe", "killed") == (
            explained["fleet"]["state"],
            explained["fleet"]["blind"],
            explained["status"],
        )
        fleet.server.start()
        program.until(fast=True)


class TestHistory:
    def test_both_kinds_of_changes_in_one(self, fleet: Any) -> None:
        """Changes of the host and of the fleet stand in their order, with who applied them."""
        a, b = fleet.host("a"), fleet.host("b")
        programs = [a.start(), b.start()]
        fleet.until_fresh(a, b)
        assert 0 == a.command("set", "APP_N=6", "--local", "--reason", "here").code
        assert 0 == b.kill("--incident", "INC-1", "--wait", "20s").code
        assert 0 == a.restore("--wait", "20s").code
        history = a.command("history", "--verify", "--json").answer
        assert ([], ["set", "kill", "restore"]) == (
            history["faults"],
            [each["action"] for each in history["changes"]],
        )
        kill = history["changes"][1]
        a.until(
            lambda: (
                {each["pid"] for each in self.applied(a, kill["id"])}
                == {program.process.pid for program in programs}
            )
        )
        assert all(each["took_ms"] >= 0 and each["at"] for each in self.applied(a, kill["id"]))
        only = a.command("history", "--incident", "INC-1", "--json").answer["changes"]
        assert [kill["id"]] == [each["id"] for each in only]

    def applied(self, host: Any, change: str) -> list[Any]:
        """Return who has applied a change of the fleet, as the history has it."""
        changes = host.command("history", "--json").answer["changes"]
        return next(each["applied"] for each in changes if each["id"] == change)

    def test_an_audit_that_was_altered(self, fleet: Any) -> None:
        """--verify names the first line of the fleet's audit that does not fit, and exits 1."""
        a = fleet.host("a")
        for _ in range(3):
            a.kill()
        assert 0 == a.run("history", "--verify").code
        code = (
            "local e = redis.call('XRANGE', KEYS[1], '-', '+'); "
            "return redis.call('XDEL', KEYS[1], e[2][1])"
        )
        assert b":1\r\n" == fleet.server.ask("EVAL", code, "1", "{relayconf}:audit")
        done = a.run("history", "--verify")
        assert (1, True) == (done.code, "lines are missing" in done.out)

    def test_it_cannot_be_verified_while_the_server_is_away(self, fleet: Any) -> None:
        """What cannot be read is not said to be whole."""
        a = fleet.host("a")
        a.kill()
        fleet.server.kill()
        done = a.run("history", "--verify")
        assert (1, True) == (done.code, "cannot be read" in done.out)
        assert 0 == a.run("history").code
