"""The example of a fleet in Compose: server, service and README, without the containers.

The server is started by the example's own script, the service by its own program, each with the
environment that compose.yaml gives it; paths and addresses of a container are replaced by a test's.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.integration.overrides.conftest import PATIENCE
from tests.servers.fleetserver import program
from tests.servers.running import free_port

SECRET = "kanari3nvogel"


class Deployment:
    """The example, as far as it runs without containers."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.example = root / "docs" / "examples" / "fleet"
        self.compose = YAML(typ="safe").load(self.example / "compose.yaml")
        self.folder = folder
        self.port = free_port()
        self.secrets = folder / "secrets"
        self.secrets.mkdir()
        (self.secrets / "relayconf_fleet_password").write_text(f"{SECRET}\n")
        self.server: subprocess.Popen[bytes] | None = None
        self.shops: dict[str, subprocess.Popen[str]] = {}

    def start_server(self) -> None:
        """Start the server as its container does."""
        own = {
            "PATH": os.environ["PATH"],
            "SERVER": str(program()),
            "PASSWORD_FILE": str(self.secrets / "relayconf_fleet_password"),
            "ACL_FILE": str(self.folder / "users.acl"),
            "BIND": "127.0.0.1",
            "PORT": str(self.port),
            "DATA": str(self.folder),
        }
        script = self.example / "server" / "start.sh"
        assert ["sh", f"/etc/fleet/{script.name}"] == self.compose["services"]["fleet"]["command"]
        log = (self.folder / "server.log").open("ab")
        with log:
            self.server = subprocess.Popen(["sh", script], env=own, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                assert time.monotonic() < deadline, (self.folder / "server.log").read_text()
                time.sleep(0.02)
            else:
                return

    def stop_server(self) -> None:
        """Stop it, as ``docker compose stop`` does."""
        if self.server is not None:
            self.server.terminate()
            self.server.wait()

    def environment(self, service: str) -> dict[str, str]:
        """Return what a service's container gets, with this test's paths and address."""
        given = dict(self.compose["services"][service]["environment"])
        given["RELAYCONF_STATE_DIR"] = str(self.folder / f"{service}-state")
        given["RELAYCONF_FLEET_URL"] = given["RELAYCONF_FLEET_URL"].replace(
            "fleet:6379", f"127.0.0.1:{self.port}"
        )
        # Where Compose mounts secrets.
        given["RELAYCONF_SECRETS_DIR"] = str(self.secrets)
        quick = {"RELAYCONF_FLEET_HEARTBEAT_MS": "200ms", "RELAYCONF_FLEET_BLIND_AFTER_MS": "2s"}
        return {**given, **quick, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}

    def start_shop(self, service: str) -> None:
        """Start the service on one host, and wait for its first line."""
        shop = subprocess.Popen(
            [sys.executable, "shop.py"],
            cwd=self.example / "service",
            env=self.environment(service),
            stdout=subprocess.PIPE,
            text=True,
        )
        self.shops[service] = shop
        assert self.line(service) == "checkout is open, 4 worker(s)"

    def line(self, service: str) -> str:
        """Return the next line of a service."""
        stdout = self.shops[service].stdout
        assert stdout is not None
        return stdout.readline().rstrip("\n")

    def until(self, service: str, words: str) -> None:
        """Read on until a service says something."""
        while words not in (line := self.line(service)):
            assert line, f"{service} ended"

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run ``exec SERVICE relayconf ...`` in a service's environment."""
        service, word, *words = shlex.split(command)
        assert word == "relayconf"
        return subprocess.run(
            [sys.executable, "-m", "relayconf", *words],
            cwd=self.example / "service",
            env=self.environment(service),
            capture_output=True,
            text=True,
            check=False,
        )

    def close(self) -> None:
        """End everything."""
        for shop in self.shops.values():
            shop.kill()
            shop.wait()
            if shop.stdout is not None:
                shop.stdout.close()
        self.stop_server()


@pytest.fixture
def deployment(root: Path, tmp_path: Path) -> Iterator[Deployment]:
    made = Deployment(root, tmp_path)
    made.start_server()
    for service in ("blue", "green"):
        made.start_shop(service)
    yield made
    made.close()


def commands(root: Path) -> list[str]:
    """Return the commands in services of the example's README, in their order."""
    page = (root / "docs/examples/fleet/README.md").read_text()
    wanted = r"^\$ docker compose (?:exec )?(.*relayconf .*|stop .*|start .*)$"
    return re.findall(wanted, page, re.MULTILINE)


class TestReadme:
    def test_every_command_does_what_it_says(self, deployment: Any, root: Path) -> None:
        """A kill on blue closes green; with the server away blue closes alone, green once blind."""
        found = commands(root)
        assert 10 == len(found)
        for command in found[:6]:
            done = deployment.run(command)
            assert (0, "") == (done.returncode, done.stderr), command
        for service in ("blue", "green"):
            deployment.until(service, "closed")
            deployment.until(service, "open, 8 worker(s)")
        assert "stop fleet" == found[6]
        deployment.stop_server()
        done = deployment.run(found[7])
        assert (3, True) == (done.returncode, "this host alone" in done.stdout)
        deployment.until("blue", "closed")
        deployment.until("green", "closed")
        deployment.start_server()
        deadline = time.monotonic() + PATIENCE
        while "FRESH, revision 4" not in (done := deployment.run("green relayconf status")).stdout:
            assert time.monotonic() < deadline, done
        assert "killed" in done.stdout

    def test_the_password_stays_where_it_is(self, deployment: Any) -> None:
        """No process has it among its arguments or in its environment, and no answer shows it."""
        done = deployment.run("blue relayconf status --json")
        assert SECRET not in done.stdout + done.stderr
        for process in (deployment.server, *deployment.shops.values()):
            for name in ("cmdline", "environ"):
                assert SECRET.encode() not in Path(f"/proc/{process.pid}/{name}").read_bytes()

    def test_the_user_can_do_no_more_than_it_needs(self, deployment: Any) -> None:
        """With the service's password nobody reads other keys, flushes, or changes the server."""
        with socket.create_connection(("127.0.0.1", deployment.port), 5) as line:
            for command, answer in (
                (f"AUTH relayconf {SECRET}", b"+OK"),
                ("GET somebody-elses", b"-NOPERM"),
                ("FLUSHALL", b"-NOPERM"),
                ("CONFIG GET dir", b"-NOPERM"),
                ("KEYS *", b"-NOPERM"),
            ):
                line.sendall(f"{command}\r\n".encode())
                assert line.recv(4096).startswith(answer), command


class TestCompose:
    def test_what_it_asks_of_the_server(self, root: Path) -> None:
        """What docs/fleet.md asks for stands in the script that starts the server."""
        script = (root / "docs/examples/fleet/server/start.sh").read_text()
        for words in (
            "noeviction",
            "--appendonly yes",
            "~{relayconf}:*",
            "user default off ~* &* +@all",
        ):
            assert words in script

    def test_both_hosts_share_nothing_but_the_network(self, root: Path) -> None:
        """Each has a volume of its own; the password reaches them as a secret, never as a value."""
        services = YAML(typ="safe").load(root / "docs/examples/fleet/compose.yaml")["services"]
        blue, green = services["blue"], services["green"]
        assert not {*blue["volumes"]} & {*green["volumes"]}
        for service in (blue, green, services["fleet"]):
            assert ["relayconf_fleet_password"] == service["secrets"]
            assert not [name for name in service.get("environment", {}) if "PASSWORD" in name]
