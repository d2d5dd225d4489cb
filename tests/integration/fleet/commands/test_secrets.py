"""Passwords and certificates: a wrong one is told for what it is, and none is ever shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.servers.authority import Authority
from tests.servers.fleetserver import PASSWORD, FleetServer


class TestPassword:
    def test_it_appears_nowhere(self, fleet: Any, said: Any) -> None:
        """Neither in any answer, nor in any file, nor with --json, nor where the server is away."""
        a = fleet.host(
            "a",
            RELAYCONF_FLEET_PASSWORD=PASSWORD,
            RELAYCONF_FLEET_URL=fleet.server.url.replace("//", f"//relayconf:{PASSWORD}@"),
        )
        a.start()
        fleet.until_fresh(a)
        commands = (
            ("kill", "APP_FAST", "--reason", "r", "--wait", "2s"),
            ("status",),
            ("history", "--verify"),
            ("show",),
            ("explain", "APP_FAST"),
            ("set", "APP_N=6", "--reason", "r"),
            ("restore", "--all", "--reason", "r"),
        )
        for away in (False, True):
            if away:
                fleet.server.kill()
            for word, *words in commands:
                for form in ((), ("--json",)):
                    text = said(a, a.command(word, *words, *form))
                    assert PASSWORD not in text, (word, form, away)

    def test_a_wrong_one(self, fleet: Any) -> None:
        """The server's refusal is told; the kill acts here, and waits."""
        a = fleet.host("a")
        wrong = {"RELAYCONF_FLEET_PASSWORD": "wrong3nvogel", "RELAYCONF_FLEET_PASSWORD_FILE": ""}
        done = a.kill(environment=wrong)
        assert (3, False) == (done.code, "wrong3nvogel" in done.out + done.err)
        assert "WRONGPASS" in done.err or "password" in done.err

    def test_a_changed_one(self, fleet: Any) -> None:
        """A password that is changed on the server and in its file needs no restart."""
        a = fleet.host("a")
        program = a.start()
        fleet.until_fresh(a)
        fleet.server.write_acl("another3nvogel")
        assert fleet.server.ask("ACL", "LOAD").startswith(b"+OK")
        fleet.server.ask("CLIENT", "KILL", "USER", "relayconf")
        a.until(lambda: a.fleet()["state"] != "FRESH")
        assert not a.fleet()["reached"]
        fleet.secret.write_text("another3nvogel\n")
        fleet.until_fresh(a)
        assert 0 == a.kill("--wait", "20s").code
        program.until(fast=False)

    def test_a_secret_is_never_set(self, fleet: Any) -> None:
        """What the fleet holds is shown to everybody; a secret is refused before it gets there."""
        a = fleet.host("a")
        done = a.run("set", "RELAY_DAEMON_TOKEN=hunter2", "--reason", "r", "--target", "relay")
        assert (2, 0) == (done.code, a.fleet()["revision"])


class TestTls:
    @pytest.fixture
    def authority(self, tmp_path: Path) -> Authority:
        """Return an authority of the test's own."""
        folder = tmp_path / "tls"
        folder.mkdir()
        return Authority(folder, "ours")

    def test_a_server_that_is_vouched_for(
        self, fleet: Any, authority: Authority, tmp_path: Path
    ) -> None:
        """Over TLS with the authority's file everything is as without."""
        server = FleetServer(tmp_path / "secure", authority=authority)
        server.start()
        try:
            own = {
                "RELAYCONF_FLEET_URL": server.url,
                "RELAYCONF_FLEET_CA_FILE": str(authority.file),
                "RELAYCONF_FLEET_USER": "",
                "RELAYCONF_FLEET_PASSWORD_FILE": "",
            }
            a = fleet.host("a", **own)
            program = a.start()
            fleet.until_fresh(a)
            assert 0 == a.kill("--wait", "20s").code
            program.until(fast=False)
        finally:
            server.kill()

    def test_a_server_that_is_not(self, fleet: Any, authority: Authority, tmp_path: Path) -> None:
        """A wrong authority ends the connection before a password is sent, and is named as such."""
        server = FleetServer(tmp_path / "secure", authority=authority)
        server.start()
        try:
            other = Authority(authority.file.parent, "other")
            own = {
                "RELAYCONF_FLEET_URL": server.url,
                "RELAYCONF_FLEET_CA_FILE": str(other.file),
                # A busy machine has to come as far as the certificate.
                "RELAYCONF_FLEET_TIMEOUT_MS": "10s",
            }
            a = fleet.host("a", **own)
            done = a.kill()
            assert (3, True) == (done.code, "certificate" in done.err)
            assert "Traceback" not in done.err
        finally:
            server.kill()

    def test_a_file_that_is_not_there(self, fleet: Any) -> None:
        """It is named, and nothing is sent."""
        own = {
            "RELAYCONF_FLEET_URL": "rediss://localhost:1",
            "RELAYCONF_FLEET_CA_FILE": "/none.pem",
        }
        done = fleet.host("a", **own).kill()
        assert (3, True) == (done.code, "/none.pem" in done.err)


class TestUrl:
    @pytest.mark.parametrize("url", ["localhost:6379", "https://localhost", "redis://h:port"])
    def test_one_that_is_none(self, fleet: Any, url: str) -> None:
        """A fleet that is meant and cannot be is never taken for this host alone: 3, and why."""
        a = fleet.host("a", RELAYCONF_FLEET_URL=url)
        done = a.kill()
        assert (3, True) == (done.code, "RELAYCONF_FLEET_URL" in done.err)
        assert "Traceback" not in done.err
