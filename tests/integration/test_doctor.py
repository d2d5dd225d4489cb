"""``relay doctor``: what it finds, what it says to do, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relay.engine.checkup import _clock
from tests.namespaces import NO_INSTANCE, NO_WATCH, inside, that_work


def doctor(
    folder: Path, *arguments: str, prefix: tuple[str, ...] = (), **environment: str
) -> tuple[int, dict[str, Any]]:
    """Run it with ``--json``, and return its exit code and what it printed."""
    own = {n: t for n, t in os.environ.items() if not n.startswith(("RELAY", "AGENTA"))}
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "relay", "doctor", "--json", *arguments],
        cwd=folder,
        env={**own, "RELAYCONF_STATE_DIR": str(folder / "state"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "" == done.stderr
    return done.returncode, json.loads(done.stdout)


def of(body: dict[str, Any], check: str, status: str) -> list[dict[str, str]]:
    """Return the findings of one check with one status."""
    return [f for f in body["findings"] if (f["check"], f["status"]) == (check, status)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with a session and a tools file."""
    (tmp_path / "session").mkdir(mode=0o700)
    (tmp_path / "tools.toml").write_text('[tools.upper]\ncommand = ["tr", "a-z", "A-Z"]\n')
    return tmp_path


class TestHealthy:
    @pytest.mark.parametrize("option", ["--dir", "--root"])
    def test_all_is_well(self, folder: Path, option: str) -> None:
        """Where a runner would do its work, everything is ok, and the directory is as it was."""
        code, body = doctor(folder, option, "session", "--tools", "tools.toml")
        assert (0, True, set()) == (
            code,
            body["ok"],
            {f["message"] for f in body["findings"] if f["status"] != "ok"},
        )
        assert [] == os.listdir(folder / "session")
        assert not (folder / "state").exists()

    def test_for_a_person(self, folder: Path) -> None:
        """Without --json there is a line for each finding, and one more for what to do."""
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "relay",
                "doctor",
                "--dir",
                "session",
                "--set",
                "RELAY_POLL_MS=1",
            ],
            cwd=folder,
            env={**os.environ, "RELAYCONF_STATE_DIR": str(folder / "state")},
            capture_output=True,
            text=True,
            check=False,
        )
        lines = done.stdout.splitlines()
        at = next(n for n, line in enumerate(lines) if line.startswith("warning  settings: RELAY_"))
        assert lines[at + 1].startswith("         relayconf explain")
        assert 0 == done.returncode

    def test_what_is_not_there_yet(self, folder: Path) -> None:
        """A directory that relay serve would make is no problem."""
        code, body = doctor(folder, "--dir", "later", "--tools", "tools.toml")
        assert (0, 1) == (code, len(of(body, "directory", "ok")))
        assert not (folder / "later").exists()

    def test_the_environment_names_it(self, folder: Path) -> None:
        """RELAY_DIR and RELAY_TOOLS_FILE count as they do for a runner."""
        code, body = doctor(folder, RELAY_DIR="session", RELAY_TOOLS_FILE="tools.toml")
        assert (0, 1, 1) == (code, len(of(body, "events", "ok")), len(of(body, "tools", "ok")))


class TestProblems:
    def test_a_missing_parent(self, folder: Path) -> None:
        """A directory that cannot be made is a problem."""
        code, body = doctor(folder, "--dir", "no/session")
        assert (1, 1) == (code, len(of(body, "directory", "problem")))

    def test_a_file(self, folder: Path) -> None:
        """A file is no directory."""
        code, body = doctor(folder, "--dir", "tools.toml")
        assert (1, 1) == (code, len(of(body, "directory", "problem")))

    def test_a_broken_tools_file(self, folder: Path) -> None:
        """Each fault of the tools file is a problem of its own."""
        (folder / "tools.toml").write_text('[tools.a]\nnope = 1\n\n[tools.b]\npython = "no"\n')
        code, body = doctor(folder, "--dir", "session", "--tools", "tools.toml")
        assert (1, 2) == (code, len(of(body, "tools", "problem")))

    def test_a_state_directory_for_everybody(self, folder: Path) -> None:
        """A state directory that cannot be trusted is a problem."""
        (folder / "state").mkdir()
        (folder / "state").chmod(0o777)
        code, body = doctor(folder, "--dir", "session")
        assert (1, 1) == (code, len(of(body, "state", "problem")))

    def test_a_root_for_everybody(self, folder: Path) -> None:
        """A root in which everybody can make a session is a problem."""
        (folder / "session").chmod(0o1777)
        code, body = doctor(folder, "--root", "session")
        assert (1, 1) == (code, len(of(body, "root", "problem")))

    def test_too_few_open_files(self, folder: Path) -> None:
        """A hard limit under what the sessions need is a problem."""
        for number in range(10):
            (folder / "session" / f"s{number}").mkdir()
        prefix = ("sh", "-c", 'ulimit -n 100; exec "$@"', "sh")
        code, body = doctor(folder, "--root", "session", prefix=prefix)
        assert (1, 1) == (code, len(of(body, "open-files", "problem")))

    def test_settings(self, folder: Path) -> None:
        """What is wrong with a value is a warning: a runner starts all the same."""
        code, body = doctor(folder, "--dir", "session", RELAY_POLL_MS="1s1h", RELAY_MOD="poll")
        assert (0, 2) == (code, len(of(body, "settings", "warning")))

    def test_clocks_that_differ(self) -> None:
        """A file system whose clock is another is a problem."""
        assert ["problem", "ok"] == [next(_clock("x", skew)).status for skew in (3.0, -0.01)]

    @pytest.mark.parametrize(
        "prefix",
        that_work(inside("mkdir -p session && mount -t tmpfs -o ro none session", "--mount")),
    )
    def test_a_read_only_directory(self, folder: Path, prefix: tuple[str, ...]) -> None:
        """A directory on a read-only file system is a problem."""
        code, body = doctor(folder, "--dir", "session", prefix=prefix)
        assert (1, 1) == (code, len(of(body, "directory", "problem")))

    @pytest.mark.parametrize("mode", ["auto", "watch"])
    @pytest.mark.parametrize("prefix", that_work(inside(NO_INSTANCE), inside(NO_WATCH)))
    def test_no_file_events(self, folder: Path, prefix: tuple[str, ...], mode: str) -> None:
        """Without watches requests are polled: a warning; a problem where RELAY_MODE is watch."""
        given = ("--dir", "session", "--set", f"RELAY_MODE={mode}")
        code, body = doctor(folder, *given, prefix=prefix)
        severity = "problem" if mode == "watch" else "warning"
        assert ("problem" in severity, 1, 1) == (
            bool(code),
            len(of(body, "inotify", severity)),
            len(of(body, "events", severity)),
        )
