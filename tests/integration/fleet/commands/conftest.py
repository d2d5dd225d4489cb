"""A fleet for tests of the commands: a real server, hosts with state directories of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.overrides.conftest import Done, Place
from tests.servers.fleetserver import PASSWORD, USER, FleetServer

__all__ = ["Done", "Fleet", "Host"]


class Host(Place):
    """One host: what it runs shares a state directory, and a fleet with the other hosts."""

    def __init__(self, folder: Path, **own: str) -> None:
        folder.mkdir()
        super().__init__(folder)
        self.environment.update(own)

    def fleet(self) -> Any:
        """Return what status says of the fleet."""
        return self.status()["fleet"]

    def is_fresh(self) -> bool:
        """Whether the host and each of its own processes has caught up."""
        status = self.status()
        own = {program.process.pid for program in self.programs}
        rows = [each for each in status["instances"] if each["pid"] in own and not each["gone"]]
        states = [status["fleet"]["state"], *((row["fleet"] or {}).get("state") for row in rows)]
        return set(states) == {"FRESH"}

    def row(self, pid: int) -> Any:
        """Return what status says of one process, on whichever host; ``None`` for nothing."""
        found = [each for each in self.status()["instances"] if each["pid"] == pid]
        return found[0] if found else None

    def flag(self) -> Any:
        """Return what status says of the service's flag."""
        return next(each for each in self.status()["flags"] if each["name"] == "APP_FAST")


class Fleet:
    """A server, and hosts that use it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.server = FleetServer(folder / "server", password=PASSWORD)
        self.hosts: list[Host] = []
        self.secret = folder / "password"
        self.secret.write_text(f"{PASSWORD}\n")

    def own(self) -> dict[str, str]:
        """Return the settings by which a process finds the fleet."""
        return {
            "RELAYCONF_FLEET_URL": self.server.url,
            "RELAYCONF_FLEET_USER": USER,
            "RELAYCONF_FLEET_PASSWORD_FILE": str(self.secret),
            "RELAYCONF_FLEET_HEARTBEAT_MS": "200ms",
            "RELAYCONF_FLEET_TIMEOUT_MS": "500ms",
            "RELAYCONF_FLEET_BLIND_AFTER_MS": "2s",
        }

    def host(self, name: str, **own: str) -> Host:
        """Return a new host."""
        made = Host(self._folder / name, **{**self.own(), **own})
        self.hosts.append(made)
        return made

    def until_fresh(self, *hosts: Host) -> None:
        """Wait until each host's processes have caught up, as status tells it."""
        for host in hosts:
            host.until(host.is_fresh)

    def close(self) -> None:
        """End everything."""
        for host in self.hosts:
            host.close()
        if self.server.process is not None:
            self.server.thaw()
        self.server.kill()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """Return a fleet whose server runs."""
    made = Fleet(tmp_path)
    made.server.start()
    yield made
    made.close()


def everything(host: Host, done: Done) -> str:
    """Return all that a command has said and all that a host has written, for a search."""
    files = [path for path in host.state.rglob("*") if path.is_file()]
    texts = [path.read_bytes().decode("utf-8", "replace") for path in files]
    return "\n".join([done.out, done.err, *texts])


@pytest.fixture
def said() -> Callable[[Host, Done], str]:
    """Return ``everything``."""
    return everything


def lines(done: Done) -> list[Any]:
    """Return the JSON documents of a command's output."""
    return [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
