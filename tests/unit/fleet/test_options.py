"""What relayconf's own settings say of a fleet, from the environment and secret files."""

from __future__ import annotations

from pathlib import Path

import pytest

from relayconf.fleet.options import FleetOptions
from relayconf.process import read_process

PASSWORD = "kanari3nvogel"


def options(tmp_path: Path, **own: str) -> FleetOptions | None:
    """Return what an environment says."""
    environ = {"RELAYCONF_SECRETS_DIR": str(tmp_path), **own}
    return read_process(environ).sources.fleet


class TestWhere:
    def test_without_a_url_there_is_no_fleet(self, tmp_path: Path) -> None:
        """A password alone makes none."""
        assert options(tmp_path, RELAYCONF_FLEET_PASSWORD=PASSWORD) is None

    def test_everything_arrives(self, tmp_path: Path) -> None:
        """Each setting has its place, in milliseconds where it is a time."""
        found = options(
            tmp_path,
            RELAYCONF_FLEET_URL="rediss://r.example:6380/2",
            RELAYCONF_FLEET_USER="me",
            RELAYCONF_FLEET_PASSWORD=PASSWORD,
            RELAYCONF_FLEET_CA_FILE="/ca.pem",
            RELAYCONF_FLEET_PREFIX="mine",
            RELAYCONF_FLEET_HEARTBEAT_MS="500ms",
            RELAYCONF_FLEET_BLIND_AFTER_MS="5s",
            RELAYCONF_FLEET_DURABILITY="disk",
            RELAYCONF_FLEET_TIMEOUT_MS="1s",
            RELAYCONF_DEPLOYMENT="prod",
        )
        assert found == FleetOptions(
            "rediss://r.example:6380/2",
            "me",
            PASSWORD,
            ca_file="/ca.pem",
            prefix="mine",
            deployment="prod",
            heartbeat_ms=500,
            blind_after_ms=5000,
            durability="disk",
            timeout_ms=1000,
        )

    def test_a_file_holds_the_url(self, tmp_path: Path) -> None:
        """A secret file alone turns the fleet on, since a url may hold a password."""
        (tmp_path / "relayconf_fleet_url").write_text(f"redis://me:{PASSWORD}@r/0\n")
        found = options(tmp_path)
        assert found is not None
        assert f"redis://me:{PASSWORD}@r/0" == found.url

    def test_a_fleet_that_is_meant_and_cannot_be_has_a_fault(self, tmp_path: Path) -> None:
        """A url that is none never turns into silence on this host alone."""
        for url, ca_file, fault in (
            ("r.example:6379", "", "no url that can be used"),
            ("https://r.example", "", "redis or rediss"),
            ("redis://r.example", "/ca.pem", "write rediss://"),
            ("redis://r.example", "", None),
            ("unix:///run/redis.sock", "", None),
        ):
            found = options(tmp_path, RELAYCONF_FLEET_URL=url, RELAYCONF_FLEET_CA_FILE=ca_file)
            assert found is not None
            assert fault in found.fault if fault and found.fault else found.fault == fault


class TestSecrets:
    @pytest.mark.parametrize("url", [f"redis://me:{PASSWORD}@r:1/0", f"redis://me:{PASSWORD}"])
    def test_nothing_shows_a_password(self, tmp_path: Path, url: str) -> None:
        """Neither the record, nor its address, nor the sources that it travels in."""
        environ = {"RELAYCONF_FLEET_URL": url, "RELAYCONF_FLEET_PASSWORD": PASSWORD}
        process = read_process({"RELAYCONF_SECRETS_DIR": str(tmp_path), **environ})
        found = process.sources.fleet
        assert found is not None
        shown = [repr(found), found.address, str(found.fault), repr(process), repr([found])]
        assert [] == [text for text in shown if PASSWORD in text]

    def test_the_address_is_what_is_left(self, tmp_path: Path) -> None:
        """Host, port and database are shown; who logs in is not."""
        found = options(tmp_path, RELAYCONF_FLEET_URL=f"redis://me:{PASSWORD}@r.example:1/0")
        assert "redis://r.example:1/0" == getattr(found, "address", None)

    def test_a_file_is_read_again(self, tmp_path: Path) -> None:
        """A password that is changed in its file is the one of the next connection."""
        file = tmp_path / "password"
        file.write_text("one\n")
        found = options(
            tmp_path, RELAYCONF_FLEET_URL="redis://r", RELAYCONF_FLEET_PASSWORD_FILE=str(file)
        )
        assert found is not None
        assert ("one", "one") == (found.password, found.secret())
        file.write_text("two\n")
        assert "two" == found.secret()
        file.unlink()
        assert "one" == found.secret()
