"""What tests of every kind share: the checkout, the Pythons at hand, and how hypothesis runs.

An interpreter counts where PATH has it under its own name (``python3.12``). Outside continuous
integration a missing one is simply not tested; there, with pyenv present, it is a failure.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.servers import fuse, node

# No example is judged by the time it takes: the machine may be busy with something else. In CI the
# examples are the same in every run, so that a change is never blamed for an older fault.
settings.register_profile(
    "house",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("house")

ROOT = Path(__file__).resolve().parent.parent


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what is not to be tested here, in the only conftest that a run with workers reads."""
    node.say_what_is_missing(terminalreporter, node.SERVER, *node.CLIENTS)
    if not fuse.prefixes():
        terminalreporter.write_line(
            "NOT TESTED: sessions on a file system that stalls; it takes /dev/fuse, and user "
            "namespaces that may mount",
            yellow=True,
        )


def _on_path(version: str) -> str | None:
    """Find ``pythonX.Y`` on PATH, past pyenv's shims, which exist for versions that do not run."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        candidate = Path(folder) / f"python{version}"
        if Path(folder).name != "shims" and os.access(candidate, os.X_OK):
            return str(candidate)
    return None


def _interpreters(*versions: str) -> list[object]:
    """Make one parameter for this interpreter and one for each other version found."""
    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    found: dict[str, str] = {this: sys.executable}
    for version in versions:
        path = _on_path(version)
        if version != this and path is not None:
            found[version] = path
    return [pytest.param(path, id=version) for version, path in found.items()]


@pytest.fixture(scope="session", autouse=True)
def state_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the overrides and the instances of the machine that the tests run on out of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("RELAYCONF_STATE_DIR", raising=False)
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the checkout."""
    return ROOT


@pytest.fixture(scope="session", params=_interpreters("3.11", "3.12", "3.13"))
def supported_python(request: pytest.FixtureRequest) -> str:
    """Return each interpreter at hand that the packages support, this one among them."""
    return str(request.param)


@pytest.fixture(scope="session", params=_interpreters("3.9"))
def sandbox_python(request: pytest.FixtureRequest) -> str:
    """Return each interpreter that the ground floor is tried on: this one and the oldest."""
    return str(request.param)


@pytest.fixture(scope="session")
def missing_pythons() -> list[str]:
    """Return the versions that continuous integration promises and PATH lacks; elsewhere none."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    if not os.environ.get("CI") or not pyenv.is_dir():
        return []
    this = f"{sys.version_info.major}.{sys.version_info.minor}"
    wanted = [version for version in ("3.9", "3.11", "3.12", "3.13") if version != this]
    return [version for version in wanted if _on_path(version) is None]
