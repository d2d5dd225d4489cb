"""Clean files: what is in order earns no finding, and what Compose takes earns no error."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from relayconf.check.assigned import assigned
from relayconf.check.examine import examine
from relayconf.check.finding import Finding
from relayconf.check.inspection import gather
from relayconf.compose import ComposeError, load
from relayconf.generate.compose_fragment import compose_fragment
from relayconf.targets import find_contract

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "data" / "compose.json").read_text(encoding="utf-8")
)["vectors"]

HEAD = "services:\n  app:\n    image: img\n"

#: What people write, and rightly so: each is a project that nothing is to be said about.
CLEAN: dict[str, dict[str, str]] = {
    "literals": {
        "compose.yaml": HEAD + "    environment:\n      A: text\n      N: 5\n      T: true\n"
        '      F: True\n      V: \'1.50\'\n      D: "2024-01-02"\n      E: ""\n'
    },
    "list": {"compose.yaml": HEAD + "    environment:\n      - A=text\n      - 'B=two words'\n"},
    "colour": {
        "compose.yaml": HEAD + "    env_file: a.env\n",
        "a.env": "COLOUR=#fff\nURL=http://h/#top\nWORDS=a#b\n",
    },
    "handed on": {
        "compose.yaml": HEAD + "    environment:\n      A:\n      B: ${B}\n      C: http://${C}/\n",
        ".env": "A=1\nB=2\nC=3\n",
    },
    "defaults": {
        "compose.yaml": HEAD.replace("img", "img:${TAG:-1}")
        + "    environment:\n      A: ${A:-}\n      B: ${B-x}\n      C: ${C:+y}\n"
    },
    "escaped": {
        "compose.yaml": HEAD + "    environment:\n      HASH: $$2y$$05$$abc\n"
        "    labels:\n      - users=me:$$apr1$$a$$b\n"
    },
    "layers of files": {
        "compose.yaml": HEAD + "    env_file: [a.env, b.env]\n",
        "a.env": "A=1\nB=1\n",
        "b.env": "A=2\n",
    },
    "override": {
        "compose.yaml": HEAD + "    environment:\n      A: 1\n",
        "compose.override.yaml": "services:\n  app:\n    environment:\n      A: 2\n",
    },
    "merge keys": {
        "compose.yaml": "x-a: &a\n  A: 1\n  B: 1\n" + HEAD + "    environment:\n      <<: *a\n"
        "      A: 2\n"
    },
    "extends": {
        "compose.yaml": HEAD + "    environment: [A=1]\n  web:\n    extends: app\n"
        "    environment:\n      - A=2\n"
    },
    "env file for both": {
        "compose.yaml": HEAD.replace("img", "img:${TAG}") + "    env_file: .env\n",
        ".env": "TAG=1\nOTHER=2\n",
    },
    "optional env file": {
        "compose.yaml": HEAD + "    env_file: [{path: nope.env, required: false}]\n"
    },
    "appended": {
        "compose.yaml": HEAD + "    env_file: a.env\n",
        "a.env": "OPTS='-a'\nOPTS=\"${OPTS} -b\"\n",
    },
    "build arguments": {
        "compose.yaml": "services:\n  app:\n    build:\n      context: .\n      args: [BASE]\n"
        "  web:\n    build:\n      context: .\n      args: {TAG: }\n",
        ".env": "BASE=b\nTAG=1\n",
    },
    "settings of compose": {
        "compose.yaml": HEAD,
        ".env": "COMPOSE_PROJECT_NAME=p\nDOCKER_BUILDKIT=1\n",
    },
    "inactive profile": {
        "compose.yaml": HEAD + "  debug:\n    image: img\n    profiles: [debug]\n"
        "    environment: [LEVEL]\n",
        ".env": "LEVEL=debug\n",
    },
    "secret out of the environment": {
        "compose.yaml": HEAD + "    secrets: [token]\nsecrets:\n  token:\n    environment: TOKEN\n",
        ".env": "TOKEN=abc\n",
    },
    "crlf": {"compose.yaml": HEAD + "    environment:\n      A:\n", ".env": "A=1\r\n# c\r\n"},
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def findings_of(folder: Path, command: dict[str, Any]) -> list[Finding]:
    """Check a project without contracts.

    Args:
        folder: the working directory.
        command: the options and the environment, each perhaps missing.
    """
    environ = command.get("process_env", {})
    options = {key: command.get(key, []) for key in ("files", "env_files", "profiles")}
    gathered = gather(str(folder), environ=environ, **options)
    return examine(gathered.inspection({}, environ, date(2026, 1, 1)))


class TestCleanFiles:
    @pytest.mark.parametrize("name", list(CLEAN))
    def test_nothing_is_found(self, name: str, tmp_path: Path) -> None:
        """What is right and usual earns nothing, not even a note."""
        write(tmp_path, CLEAN[name])
        found = findings_of(tmp_path, {})
        # docker run --env-file keeps quotes, of which a file that has some is told.
        others = [one for one in found if "docker run" not in one.message]
        assert [] == [(one.code, str(one.place), one.message) for one in others]


class TestObservedCases:
    @pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
    def test_errors_are_refusals(self, case: dict[str, Any], tmp_path: Path) -> None:
        """Without a contract, what Compose takes has no error, and what it refuses has one."""
        write(tmp_path, case["files"])
        refused = "expect_error" in case.get("newest", case)
        try:
            found = findings_of(tmp_path, case["command"])
        except ComposeError as error:
            told = (refused, error.origin)
        else:
            told = (any(one.severity == "error" for one in found), None)
        assert (refused, None) == told


def extending(service: str, more: str = "") -> str:
    extends = f"{{file: schema/relay.compose.yaml, service: {service}}}"
    return f"{HEAD}    extends: {extends}\n{more}"


def codes_of(project: Path) -> list[str]:
    """Return the codes of what is wrong with a project."""
    gathered = gather(str(project), files=[], env_files=[], profiles=[], environ={})
    assert gathered.project is not None
    contracts = assigned(gathered.project, options=["app=relay"], target=None, service=None)
    found = examine(gathered.inspection(contracts, {}, date(2026, 1, 1)))
    return sorted({one.code for one in found})


class TestFragments:
    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        """Return a folder with the relay's fragments as they are generated."""
        (tmp_path / "schema").mkdir()
        fragment = compose_fragment(find_contract("relay"))
        (tmp_path / "schema" / "relay.compose.yaml").write_text(fragment)
        return tmp_path

    def test_pass_delivers_every_setting(self, project: Path) -> None:
        """What .env says of any setting is in the container, by the fragment that passes."""
        names = list(find_contract("relay").settings)
        (project / "compose.yaml").write_text(extending("relay-pass"))
        (project / ".env").write_text("".join(f"{name}=x-{name}\n" for name in names))
        environment = load(directory=str(project), environ={}).environments()["app"]
        assert {name: f"x-{name}" for name in names} == environment

    def test_pass_leaves_out_what_is_not_set(self, project: Path) -> None:
        """What nobody sets does not exist in the container, so that its default is in force."""
        (project / "compose.yaml").write_text(extending("relay-pass"))
        environment = load(directory=str(project), environ={}).environments()["app"]
        assert {None} == set(environment.values())

    def test_file_delivers_every_setting(self, project: Path) -> None:
        """What the env file says of any setting is in the container, by the one that reads it."""
        names = list(find_contract("relay").settings)
        (project / "compose.yaml").write_text(extending("relay-file"))
        (project / "relay.env").write_text("".join(f"{name}=x-{name}\n" for name in names))
        environment = load(directory=str(project), environ={}).environments()["app"]
        assert {name: f"x-{name}" for name in names} == environment

    def test_file_may_be_missing(self, project: Path) -> None:
        """The fragment that reads a file starts without it."""
        (project / "compose.yaml").write_text(extending("relay-file"))
        assert {} == load(directory=str(project), environ={}).environments()["app"]

    @pytest.mark.parametrize("name", ["relay-pass", "relay-file"])
    def test_each_comes_with_the_state_directory(self, project: Path, name: str) -> None:
        """The same settings reach a service that is to obey kills; the directory is on a volume."""
        (project / "relay.env").write_text("RELAY_MODE=poll\n")
        environ = {"RELAY_POLL_MS": "50ms", "RELAYCONF_STATE_GROUP": "10010"}
        got = []
        for service in (name, f"{name}-live"):
            volumes = "volumes: {relayconf-state: }\n"
            (project / "compose.yaml").write_text(extending(service) + volumes)
            got.append(load(directory=str(project), environ=environ).environments()["app"])
        plain, live = got
        group = {"RELAYCONF_STATE_GROUP": "10010"} if name == "relay-pass" else {}
        assert {**plain, "RELAYCONF_STATE_DIR": "/var/lib/relayconf", **group} == live
        fragment = YAML(typ="safe").load(project / "schema" / "relay.compose.yaml")
        mounted = fragment["services"][f"{name}-live"]["volumes"]
        assert ["relayconf-state:/var/lib/relayconf"] == mounted
        assert not codes_of(project)

    @pytest.mark.parametrize(
        ("text", "codes"),
        [
            ("", ["mixed-fragments"]),
            ("RELAY_MODE=poll\n", ["mixed-fragments", "null-shadows-env-file"]),
        ],
        ids=["no overlap yet", "overlap"],
    )
    def test_mixing_is_found(self, project: Path, text: str, codes: list[str]) -> None:
        """Both fragments on one service are found, whether or not a value is lost today."""
        more = "    env_file: [{path: relay.env, required: false}]\n"
        (project / "compose.yaml").write_text(extending("relay-pass", more))
        (project / "relay.env").write_text(text)
        assert codes == codes_of(project)


class TestDocumentation:
    def test_every_code_has_its_section(self, root: Path) -> None:
        """The guide explains every code under a heading of its own, and no other."""
        from relayconf.check.codes import MEANING  # noqa: PLC0415 - the subject

        text = (root / "docs" / "check.md").read_text(encoding="utf-8")
        assert sorted(MEANING) == sorted(re.findall(r"^### `([a-z-]+)`$", text, re.MULTILINE))
