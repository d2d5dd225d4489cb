"""What is shipped, as a stranger gets it: checkout to sdist to wheel to an empty environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

TOOLS = """
[tools.shout]
python = "shouting:shout"

[tools.cat]
command = ["cat"]
description = "Give the arguments back."
"""

SHOUTING = '''
async def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()
'''


def clean_environment() -> dict[str, str]:
    """Return the environment without anything that leads back to the checkout or to a relay."""
    foreign = ("RELAY", "AGENTA", "PYTHON", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def run(*command: str | Path, within: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with the clean environment."""
    return subprocess.run(
        command, cwd=within, env=clean_environment(), capture_output=True, text=True, check=False
    )


def succeed(*command: str | Path, within: Path) -> str:
    """Run a command that has to succeed and return what it printed."""
    done = run(*command, within=within)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def hatch(kind: str, *, source: Path, out: Path) -> None:
    """Build one kind of distribution without an environment of its own."""
    succeed(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", out, within=source)


@pytest.fixture(scope="module")
def sdist(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the source distribution, built from the checkout."""
    out = tmp_path_factory.mktemp("sdist")
    hatch("sdist", source=root, out=out)
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built from the source distribution as an installer would."""
    out = tmp_path_factory.mktemp("wheel")
    (out / "source").mkdir()
    succeed("tar", "-xf", sdist, "-C", out / "source", within=out)
    (source,) = (out / "source").iterdir()
    hatch("wheel", source=source, out=out / "dist")
    (built,) = (out / "dist").iterdir()
    return built


@pytest.fixture(scope="module")
def installed(supported_python: str, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of commands of an environment that holds the wheel and what it needs."""
    place = tmp_path_factory.mktemp("installed")
    python = place / "bin" / "python"
    succeed(supported_python, "-m", "venv", "--without-pip", place, within=place)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python))
    succeed(*pip, "install", "--quiet", "--no-compile", wheel, within=place)
    return place / "bin"


class TestSdist:
    def test_is_complete(self, root: Path, sdist: Path) -> None:
        """Who has the source distribution can build, test and read everything."""
        with tarfile.open(sdist) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
        folders = ("docs", "relay", "relayconf", "schema", "tests", ".ci")
        wanted = {
            str(path.relative_to(root))
            for folder in folders
            for path in (root / folder).rglob("*")
            if path.is_file() and not {"__pycache__", "secrets", ".hypothesis"} & set(path.parts)
        }
        wanted |= {"LICENSE", "Makefile", "README.md", "CHANGELOG.md", "pyproject.toml"}
        assert set() == wanted - names

    def test_holds_nothing_by_accident(self, sdist: Path) -> None:
        """No cache, environment or local secret travels along."""
        with tarfile.open(sdist) as archive:
            parts = {part for name in archive.getnames() for part in name.split("/")}
        assert set() == parts & {"__pycache__", ".venv", ".git", "secrets", ".hypothesis", "build"}


class TestWheel:
    def test_holds_the_two_packages_and_nothing_beside_them(self, wheel: Path) -> None:
        """Installing adds relay and relayconf to site-packages: no tests, no schema, no docs."""
        with zipfile.ZipFile(wheel) as archive:
            tops = {name.partition("/")[0] for name in archive.namelist()}
        metadata = f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info"
        assert {"relay", "relayconf", metadata} == tops

    def test_is_typed(self, wheel: Path) -> None:
        """A user's type checker reads the annotations of both packages."""
        with zipfile.ZipFile(wheel) as archive:
            assert {"relay/py.typed", "relayconf/py.typed"} <= set(archive.namelist())

    def test_carries_the_published_contract(self, root: Path, wheel: Path) -> None:
        """What the checkout publishes in schema/ is in the package, byte for byte."""
        published = {
            f"relayconf/schema/{p.name}": p.read_bytes() for p in (root / "schema").iterdir()
        }
        with zipfile.ZipFile(wheel) as archive:
            carried = {
                name: archive.read(name)
                for name in archive.namelist()
                if name.startswith("relayconf/schema/")
            }
        assert "relayconf/schema/relay.schema.json" in carried
        assert published == carried

    def test_carries_every_module(self, root: Path, wheel: Path) -> None:
        """Nothing that works in the checkout is missing once installed."""
        modules = {
            str(path.relative_to(root))
            for package in ("relay", "relayconf")
            for path in (root / package).rglob("*.py")
        }
        with zipfile.ZipFile(wheel) as archive:
            carried = {name for name in archive.namelist() if name.endswith(".py")}
        assert modules == carried

    def test_carries_the_licence(self, wheel: Path) -> None:
        """The licence travels with the code."""
        with zipfile.ZipFile(wheel) as archive:
            assert [] != [name for name in archive.namelist() if name.endswith("/licenses/LICENSE")]


class TestInstalled:
    """The wheel in an empty environment, once for each interpreter at hand."""

    def test_comes_from_the_environment(self, installed: Path, tmp_path: Path) -> None:
        """What runs is what was installed, not the checkout."""
        code = "import relay, relayconf; print(relay.__file__); print(relayconf.__file__)"
        files = succeed(installed / "python", "-c", code, within=tmp_path).split()
        assert [True, True] == [file.startswith(str(installed.parent)) for file in files]

    @pytest.mark.parametrize("command", ["relayconf", "relay"])
    def test_helps(self, installed: Path, tmp_path: Path, command: str) -> None:
        """Both commands say what they can do."""
        done = run(installed / command, "--help", within=tmp_path)
        assert done.returncode == 0
        assert done.stderr == ""
        assert f"usage: {command}" in done.stdout

    @pytest.mark.parametrize("command", ["relayconf", "relay"])
    def test_says_its_version(
        self, installed: Path, tmp_path: Path, wheel: Path, command: str
    ) -> None:
        """Both commands say which version is installed."""
        version = wheel.name.split("-")[1]
        said = succeed(installed / command, "--version", within=tmp_path)
        assert f"{command} {version}" == said.strip()

    def test_shows_the_settings(self, installed: Path, tmp_path: Path) -> None:
        """The contract is found inside the package."""
        (tmp_path / "my.env").write_text("RELAY_POLL_MS=250ms\n")
        show = ("show", "relay", "--env-file", "my.env", "--json")
        answer = json.loads(succeed(installed / "relayconf", *show, within=tmp_path))
        settings = {setting["name"]: setting for setting in answer["settings"]}
        assert answer["problems"] == []
        assert settings["RELAY_POLL_MS"]["value"] == 250
        assert settings["RELAY_POLL_MS"]["source"] == {"layer": "env-file", "origin": "my.env:1"}

    def test_registers_its_targets(self, installed: Path, tmp_path: Path) -> None:
        """Both settings classes are found by their names, and can be imported."""
        code = (
            "from importlib.metadata import entry_points as e\n"
            "print(*sorted(p.name for p in e(group='relayconf.targets') if p.load()))"
        )
        registered = succeed(installed / "python", "-c", code, within=tmp_path)
        assert ["relay", "relayconf"] == registered.split()

    def test_serves_and_calls(self, installed: Path, tmp_path: Path) -> None:
        """A runner from the wheel answers calls made from the wheel, and stops when told."""
        (tmp_path / "tools.toml").write_text(TOOLS)
        (tmp_path / "shouting.py").write_text(SHOUTING)
        (tmp_path / "session").mkdir(mode=0o700)
        (tmp_path / "state").mkdir(mode=0o700)
        environment = {**clean_environment(), "RELAYCONF_STATE_DIR": str(tmp_path / "state")}
        relay = str(installed / "relay")
        serve = [relay, "serve", "--dir", "session", "--tools", "tools.toml"]
        with (tmp_path / "log").open("wb") as log:
            runner = subprocess.Popen(serve, cwd=tmp_path, env=environment, stderr=log)
        try:
            call = (relay, "call", "--dir", "session")
            shouted = succeed(*call, "shout", '{"text": "hello"}', within=tmp_path)
            echoed = succeed(*call, "cat", '{"n": 1}', within=tmp_path)
            runner.send_signal(signal.SIGTERM)
            status = runner.wait(timeout=60)
        finally:
            runner.kill()
            runner.wait()
        assert shouted.rstrip("\n") == "HELLO"
        assert json.loads(echoed) == {"n": 1}
        assert status == 0, (tmp_path / "log").read_text()
