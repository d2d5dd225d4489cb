"""``relay demo``: what a stranger sees first."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it with a few calls, with nothing of ours in its environment."""
    return subprocess.run(
        [sys.executable, "-m", "relay", "demo", "--calls", "5", *arguments],
        env={"PATH": os.defpath, "HOME": str(folder), "TMPDIR": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def wakes(said: str) -> list[int]:
    """Return how often file events woke the runner in each round, in order."""
    return [int(found) for found in re.findall(r"(\d+) wakes by file events", said)]


class TestDemo:
    def test_shows_the_whole_job(self, tmp_path: Path) -> None:
        """Each line of the env file has its row and its verdict, a tool answers, a poll is felt."""
        done = demo(tmp_path)
        assert (0, "") == (done.returncode, done.stderr)
        rows = [line.split() for line in done.stdout.splitlines() if line.startswith("   RELAY_")]
        assert ["RELAY_DRAIN_TIMEOUT_MS", "5", "seconds", "3s", "invalid"] in rows
        assert ["RELAY_MAX_IN_FLIGHT", "250000", "100000", "clamped"] in rows
        assert ["RELAY_POLL_MS", "40ms", "40ms", "ok"] in rows
        assert re.search(r"demo.env:\d+\)", done.stdout)
        assert "   HELLO\n" in done.stdout
        on, off, again = wakes(done.stdout)
        assert (True, 0, True) == (on > 0, off, again > 0)
        assert re.search(r"(\d+) of \1 calls came back right", done.stdout)
        assert [] == list(tmp_path.glob("relay-demo-*"))

    def test_takes_a_file_of_ones_own(self, tmp_path: Path) -> None:
        """An own env file is judged; one that says how to watch does not spoil what is shown."""
        (tmp_path / "own.env").write_text(
            "RELAY_MODE=watch\nRELAY_POLL_MS=200ms\nRELAY_DAEMON_TOKEN=hush\n"
        )
        done = demo(tmp_path, "--env-file", "own.env")
        assert 0 == done.returncode, done.stderr
        assert "hush" not in done.stdout
        on, off, again = wakes(done.stdout)
        assert (True, 0, True) == (on > 0, off, again > 0)

    def test_what_it_cannot_use(self, tmp_path: Path) -> None:
        """A missing env file, a directory that cannot be made: one message, exit 2."""
        for arguments in (("--env-file", "none.env"), ("--dir", "none/session"), ("--calls", "0")):
            done = demo(tmp_path, *arguments)
            assert (2, 1) == (done.returncode, len(done.stderr.splitlines())), done.stderr
