"""The compose example, read as data: it keeps up with the contract, and the sandbox stays one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

#: Settings that the example does not hand through, and why it has no use for them.
NOT_HANDED_THROUGH = {
    "RELAYCONF_CONFIG_DIR": "this deployment has no settings files",
    "RELAYCONF_ENV_FILE": "Compose reads the env file, the container never sees it",
    "RELAYCONF_FLEET_BLIND_AFTER_MS": "fleet",
    "RELAYCONF_FLEET_CA_FILE": "fleet",
    "RELAYCONF_FLEET_DURABILITY": "fleet",
    "RELAYCONF_FLEET_HEARTBEAT_MS": "fleet",
    "RELAYCONF_FLEET_PASSWORD": "fleet",
    "RELAYCONF_FLEET_PREFIX": "fleet",
    "RELAYCONF_FLEET_TIMEOUT_MS": "fleet",
    "RELAYCONF_FLEET_URL": "one host; the example of a fleet is beside this one",
    "RELAYCONF_FLEET_USER": "fleet",
    "RELAYCONF_SECRETS_DIR": "secrets are where Compose puts them",
    "RELAY_BACKEND": "the directory is local",
    "RELAY_BACKOFF_BASE_MS": "remote",
    "RELAY_BACKOFF_MAX_MS": "remote",
    "RELAY_DAEMON_TOKEN": "remote",
    "RELAY_DAEMON_URL": "remote",
    "RELAY_DEMOTE_AFTER": "remote",
    "RELAY_FILE_OP_TIMEOUT_MS": "remote",
    "RELAY_REMOTE_RESCAN_MS": "remote",
    "RELAY_REMOTE_WATCH_ENABLED": "remote",
    "RELAY_REMOTE_WATCH_GRACE_MS": "remote",
    "RELAY_REMOTE_WATCH_WINDOW_MS": "remote",
    "RELAY_ROOT": "one session, named by RELAY_DIR",
    "RELAY_SAFETY_POLL_MS": "remote",
    "RELAY_SSH_KEY_FILE": "remote",
    "RELAY_SSH_KNOWN_HOSTS": "remote",
    "RELAY_SSH_TARGET": "remote",
}

NAME = re.compile(r"\bRELAY(?:CONF)?_[A-Z][A-Z_]*\b")


@pytest.fixture(scope="module")
def example(root: Path) -> Path:
    """Return the example's folder."""
    return root / "docs" / "examples" / "compose"


@pytest.fixture(scope="module")
def compose(example: Path) -> dict[str, Any]:
    """Return compose.yaml, with anchors and merges resolved as YAML says."""
    loaded: dict[str, Any] = YAML(typ="safe").load(example / "compose.yaml")
    return loaded


@pytest.fixture(scope="module")
def declared(root: Path) -> set[str]:
    """Return every name of both published contracts."""
    files = [root / "schema" / f"{target}.schema.json" for target in ("relay", "relayconf")]
    return {name for file in files for name in json.loads(file.read_text())["properties"]}


def show(target: str, env_file: Path) -> dict[str, Any]:
    """Return what ``relayconf show`` says of an env file in an otherwise empty environment."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("RELAY", "AGENTA"))}
    done = subprocess.run(
        [sys.executable, "-m", "relayconf", "show", target, "--env-file", str(env_file), "--json"],
        capture_output=True,
        text=True,
        env=own,
        check=False,
    )
    assert done.stderr == ""
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


class TestNames:
    def test_every_name_is_a_setting(self, example: Path, declared: set[str]) -> None:
        """Nobody copies a variable out of the example that does not exist."""
        files = [
            path for path in example.rglob("*") if path.is_file() and "secrets" not in str(path)
        ]
        names = {name for path in files for name in NAME.findall(path.read_text())}
        assert set() == names - declared

    def test_every_setting_reaches_the_runner(
        self, compose: dict[str, Any], declared: set[str]
    ) -> None:
        """A setting in the env file takes effect, or this module says why not."""
        handed = {n for n in compose["services"]["runner"]["environment"] if NAME.fullmatch(n)}
        assert declared - set(NOT_HANDED_THROUGH) == handed

    def test_every_exception_is_still_a_setting(self, declared: set[str]) -> None:
        """The list of what is not handed through does not outlive the settings."""
        assert set() == set(NOT_HANDED_THROUGH) - declared

    def test_defaults_are_not_repeated(self, compose: dict[str, Any]) -> None:
        """A default that changes in a release changes here too."""
        assert {None} == set(compose["x-relay-pass"].values())


class TestFragments:
    def test_no_service_mixes_the_two(self, compose: dict[str, Any]) -> None:
        """No entry without a value shadows what an env_file of the same service says."""
        services = compose["services"].values()
        assert [] == [s for s in services if "env_file" in s and None in s["environment"].values()]


class TestSandbox:
    def test_has_no_network(self, compose: dict[str, Any]) -> None:
        """The sandbox reaches no host, and publishes no port."""
        sandbox = compose["services"]["sandbox"]
        assert sandbox["network_mode"] == "none"
        assert set() == {"networks", "ports", "expose", "extra_hosts", "links"} & set(sandbox)

    def test_has_no_credentials_and_no_state(self, compose: dict[str, Any]) -> None:
        """The sandbox sees the session and nothing else: no secret, no override, no switch."""
        sandbox = compose["services"]["sandbox"]
        assert ["session"] == [mount["source"] for mount in sandbox["volumes"]]
        assert set() == {"secrets", "configs", "env_file", "volumes_from"} & set(sandbox)
        assert {"RELAY_DIR": "/session"} == sandbox["environment"]

    @pytest.mark.parametrize("name", ["runner", "sandbox"])
    def test_is_confined(self, compose: dict[str, Any], name: str) -> None:
        """Neither service can write to its image, use a capability, or gain a privilege."""
        service = compose["services"][name]
        assert service["read_only"] is True
        assert ["ALL"] == service["cap_drop"]
        assert ["no-new-privileges:true"] == service["security_opt"]
        assert set() == {"privileged", "cap_add", "pid", "ipc", "devices"} & set(service)
        assert service["user"].partition(":")[0] not in ("", "0", "root")


class TestSession:
    def test_is_shared_memory_for_two_users(self, compose: dict[str, Any]) -> None:
        """Both users reach the session through its group, and nobody else reaches it at all."""
        runner, sandbox = compose["services"]["runner"], compose["services"]["sandbox"]
        session = compose["volumes"]["session"]["driver_opts"]
        options = dict(part.partition("=")[::2] for part in session["o"].split(","))
        assert "tmpfs" == session["type"]
        assert "2770" == options["mode"]
        assert runner["user"].partition(":")[0] == options["uid"]
        assert [options["gid"]] == runner["group_add"]
        assert [options["gid"]] == sandbox["group_add"]
        assert runner["user"] != sandbox["user"]

    def test_is_mounted_where_both_look(self, compose: dict[str, Any]) -> None:
        """The directory that RELAY_DIR names is the shared volume, as the volume itself made it."""
        for service in compose["services"].values():
            mounts = [m for m in service["volumes"] if isinstance(m, dict)]
            assert [service["environment"]["RELAY_DIR"]] == [m["target"] for m in mounts]
            assert [{"nocopy": True}] == [m["volume"] for m in mounts]


class TestEnvFile:
    @pytest.mark.parametrize("target", ["relay", "relayconf"])
    def test_is_right_as_it_stands(self, example: Path, target: str) -> None:
        """The env file holds no value and no name that relayconf would complain of."""
        assert [] == show(target, example / "relay.env")["problems"]

    def test_is_right_with_every_line_uncommented(self, example: Path, tmp_path: Path) -> None:
        """Whoever uncomments a suggestion gets a valid value, and where it says so, the default."""
        text = (example / "relay.env").read_text()
        loose = tmp_path / "loose.env"
        loose.write_text(re.sub(r"^# (?=[A-Z_]+=)", "", text, flags=re.MULTILINE))
        answer = show("relay", loose)
        assert [] == answer["problems"]
        suggested = set(re.findall(r"^# ([A-Z_]+)=", text, re.MULTILINE)) - {"RELAY_METRICS_ADDR"}
        shown = {s["name"]: s for s in answer["settings"]}
        wrong = [n for n in suggested & set(shown) if shown[n]["value"] != shown[n]["default"]]
        assert [] == wrong

    def test_drains_within_the_grace_period(self, example: Path, compose: dict[str, Any]) -> None:
        """Compose does not kill the runner while it still answers calls."""
        shown = {s["name"]: s for s in show("relay", example / "relay.env")["settings"]}
        grace = int(compose["services"]["runner"]["stop_grace_period"].removesuffix("s")) * 1000
        assert shown["RELAY_DRAIN_TIMEOUT_MS"]["value"] < grace


class TestImages:
    @pytest.mark.parametrize("name", ["runner", "sandbox"])
    def test_copy_only_what_the_context_holds(
        self, root: Path, example: Path, compose: dict[str, Any], name: str
    ) -> None:
        """Every file that an image copies exists, and its dockerignore lets it through."""
        build = compose["services"][name]["build"]
        assert root == (example / build["context"]).resolve()
        dockerfile = (root / build["dockerfile"]).read_text()
        sources = re.findall(r"^COPY (?!--from)(\S+)", dockerfile, re.MULTILINE)
        ignore = (root / f"{build['dockerfile']}.dockerignore").read_text().splitlines()
        let_through = [line[1:] for line in ignore if line.startswith("!")]
        assert [] == [path for path in let_through if not (root / path).exists()]
        assert [] == [path for path in sources if path != "." and path not in let_through]
