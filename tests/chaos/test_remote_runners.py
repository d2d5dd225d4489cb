"""Two runner processes on one remote directory: who serves, and who answers for the dead.

On one machine they share a state directory; on two they know each other by the sandbox alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay.hosts.memory import MemoryHost
from tests.servers.box import PATIENCE, Box, play
from tests.servers.running import Server, available, daemon

#: Notes that it ran, then gives its text back; a slow one takes as long as its runner lives.
_TOOL = """\
import json, os, sys, time
asked = json.load(sys.stdin)
with open(sys.argv[1], "a") as notes:
    notes.write(asked["text"] + "\\n")
parent = os.getppid()
while asked["text"].startswith("slow") and os.getppid() == parent:
    time.sleep(0.05)
print(asked["text"])
"""


class Pair:
    """A session behind a daemon, and runners of it as processes."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder = folder
        self.box = Box(folder, MemoryHost)
        self.box.session.mkdir(mode=0o700)
        self.notes = folder / "notes"
        self.server = server
        self.running: list[subprocess.Popen[bytes]] = []
        (folder / "tool.py").write_text(_TOOL)
        command = json.dumps([sys.executable, str(folder / "tool.py"), str(self.notes)])
        (folder / "tools.toml").write_text(f"[tools.note]\ncommand = {command}\n")

    def start(self, machine: str) -> subprocess.Popen[bytes]:
        """Start a runner on a machine of this name, and wait until it has the lease."""
        own = {n: v for n, v in os.environ.items() if not n.startswith(("RELAY", "AGENTA"))}
        environ = {
            **own,
            "RELAY_BACKEND": "daemon",
            "RELAY_DAEMON_URL": f"http://127.0.0.1:{self.server.port}",
            "RELAY_REMOTE_WATCH_ENABLED": "true",
            "RELAY_SAFETY_POLL_MS": "6s",
            "RELAY_DIR": str(self.box.session),
            "RELAY_TOOLS_FILE": str(self.folder / "tools.toml"),
            "RELAYCONF_STATE_DIR": str(self.folder / machine),
        }
        log = (self.folder / f"log-{len(self.running)}").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "relay", "serve"], env=environ, stderr=log
        )
        log.close()
        self.running.append(process)
        return process

    def log(self, number: int) -> str:
        """Return what a runner has said."""
        return (self.folder / f"log-{number}").read_text()

    async def ready(self, number: int) -> None:
        """Wait until a runner is ready."""

        def ready() -> bool:
            assert self.running[number].poll() is None, self.log(number)
            return "stage=relay_ready" in self.log(number)

        await self.box.until(ready)

    def ran(self) -> list[str]:
        """Return what ran, in its order."""
        return self.notes.read_text().split() if self.notes.exists() else []

    def end(self) -> None:
        """End them all."""
        for process in self.running:
            process.kill()
            process.wait()


if "daemon" in available():

    @pytest.fixture
    def pair(tmp_path: Path) -> Iterator[Pair]:
        """Give a session behind a daemon of its own."""
        server = daemon(tmp_path)
        server.start()
        pair = Pair(tmp_path, server)
        yield pair
        pair.end()
        server.kill()

    class TestTwoMachines:
        def test_the_newer_serves_and_the_older_comes_back(self, pair: Pair) -> None:
            """The newer takes the lease; once it stops, the older serves again. All run once."""

            async def story() -> None:
                pair.start("here")
                await pair.ready(0)
                assert (await pair.box.call("a", "note")).ok
                second = pair.start("there")
                await pair.ready(1)
                assert (await pair.box.call("b", "note")).ok
                await pair.box.until(lambda: "standing by" in pair.log(0))
                second.send_signal(signal.SIGTERM)
                await asyncio.to_thread(second.wait, PATIENCE)
                assert (await pair.box.call("c", "note")).ok
                assert ["a", "b", "c"] == pair.ran()
                assert "id=call-2" in pair.log(1)
                assert "id=call-3" in pair.log(0)

            play(story)

        def test_killed_on_another_machine(self, pair: Pair) -> None:
            """What it had claimed is never run again and answered at its caller's deadline.

            So is what its last drain still claims, for nobody. That it is dead is not known here:
            what lies there for a safety poll and more tells.
            """

            async def story() -> None:
                box = pair.box
                pair.start("here")
                await pair.ready(0)
                second = pair.start("there")
                await pair.ready(1)
                box.ask("held", "note", timeout_ms=20_000, text="slow")
                await box.until(lambda: pair.ran() == ["slow"])
                second.send_signal(signal.SIGKILL)
                second.wait()
                box.ask("orphaned", "note", timeout_ms=10_000, text="x")
                await box.until(lambda: "orphaned.req.json" not in box.names())
                box.ask("next", "note", text="b")
                assert "b\n" == (await box.answer("next")).text
                for request in ("held", "orphaned"):
                    assert "interrupted" == (await box.answer(request)).code
                assert ["slow", "b"] == pair.ran()
                await box.until(lambda: [] == box.names())

            play(story)

    class TestOneMachine:
        def test_killed_here(self, pair: Pair) -> None:
            """One that shares the state directory knows the dead: it answers for it at once."""

            async def story() -> None:
                box = pair.box
                pair.start("here")
                await pair.ready(0)
                second = pair.start("here")
                await pair.ready(1)
                box.ask("held", "note", timeout_ms=3_600_000, text="slow")
                await box.until(lambda: pair.ran() == ["slow"])
                second.send_signal(signal.SIGKILL)
                second.wait()
                assert "interrupted" == (await box.answer("held")).code
                assert (await box.call("b", "note")).ok
                assert ["slow", "b"] == pair.ran()

            play(story)

        def test_stopped_and_continued(self, pair: Pair) -> None:
            """One that stood still while another took over claims nothing when it goes on."""

            async def story() -> None:
                box = pair.box
                first = pair.start("here")
                await pair.ready(0)
                assert (await box.call("a", "note")).ok
                first.send_signal(signal.SIGSTOP)
                pair.start("here")
                await pair.ready(1)
                assert (await box.call("b", "note")).ok
                first.send_signal(signal.SIGCONT)
                for text in ("c", "d", "e"):
                    assert (await box.call(text, "note")).ok
                assert ["a", "b", "c", "d", "e"] == pair.ran()
                assert "id=call-5" in pair.log(1)

            play(story)
