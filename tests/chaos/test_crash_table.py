"""The crash table: what a caller hears of a runner that died, at every operation of a call.

A real runner kills itself before the k-th file operation of a call, for every k. What it leaves on
disk says which row of the table applies; then the next runner starts, or a peer that was alive all
along acts, and the caller hears what the row says. The tool leaves a byte each time it runs.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from relay.engine.runner import Runner
from relay.protocol import Request, Response, decode_response, encode_request
from relay.settings import Mode, RelaySettings

#: Deadline of everything that is waited for; far above what it takes.
PATIENCE = 20.0

#: What is on disk after the crash (request, claim, response) and the row that it stands for.
ROWS = {
    (True, False, False): "nothing yet",
    (False, True, False): "claimed",
    (False, True, True): "answered",
    (False, False, True): "done",
}


class Heard(NamedTuple):
    """How one call ended: the row of its crash, what its caller heard, how often it ran."""

    row: str
    response: Response
    ran: int


class Scene:
    """One session directory, and a process that forks runners which die in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session = folder / "session"
        self.session.mkdir(mode=0o700)
        self._forks = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("crashing.py")), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the forking process."""
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.close()
        self._forks.wait()
        self._forks.stdout.close()

    def _tell(self, number: int) -> None:
        assert self._forks.stdin is not None
        self._forks.stdin.write(f"{number}\n")
        self._forks.stdin.flush()

    def _hear(self) -> str:
        assert self._forks.stdout is not None
        return self._forks.stdout.readline().strip()

    def crash(self, number: int) -> str:
        """Call the tool through a runner that dies at its ``number``-th operation."""
        (self.folder / "ran").unlink(missing_ok=True)
        self._tell(number)
        assert self._hear() == "ready"
        data = encode_request(Request("mark", "c", {}, 60_000))
        temp = self.session / "c.req.json.tmp.0"
        temp.write_bytes(data)
        temp.rename(self.session / "c.req.json")
        return self._hear()

    def row(self) -> str:
        """Return which row of the table the directory shows."""
        names = [path.name for path in self.session.iterdir()]
        claims = [name for name in names if ".claim." in name]
        return ROWS["c.req.json" in names, len(claims) == 1, "c.res.json" in names]

    def ran(self) -> int:
        """Return how often the tool has run."""
        path = self.folder / "ran"
        return len(path.read_bytes()) if path.exists() else 0

    def runner(self, settings: RelaySettings | None = None) -> Runner:
        """Return a runner with the same tool, in this process."""

        def mark() -> str:
            with (self.folder / "ran").open("ab") as file:
                file.write(b".")
            return "marked"

        return Runner(
            self.session,
            tools={"mark": mark},
            settings=settings or RelaySettings(),
            state=self.folder / "state",
        )

    async def response(self) -> Response:
        """Wait for the response, take it as a writer does, and see that nothing else comes."""
        path = self.session / "c.res.json"
        deadline = time.monotonic() + PATIENCE
        while not path.exists():
            assert time.monotonic() < deadline, sorted(p.name for p in self.session.iterdir())
            await asyncio.sleep(0.005)
        response = decode_response(path.read_bytes())
        path.unlink()
        while any(".claim." in path.name for path in self.session.iterdir()):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.005)
        return response


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """Give a session directory with runners that die in it."""
    made = Scene(tmp_path)
    yield made
    made.close()


async def by_next_runner(scene: Scene, number: int) -> Heard | None:
    """Crash with nobody else there, and start the next runner afterwards."""
    if scene.crash(number) == "survived":
        return None
    row = scene.row()
    async with scene.runner():
        return Heard(row, await scene.response(), scene.ran())


async def by_live_peer(scene: Scene, number: int) -> Heard | None:
    """Crash beside a runner that is alive, and would not look by itself for a minute."""
    slow = RelaySettings(mode=Mode.POLL, poll=timedelta(minutes=1))
    async with scene.runner(slow):
        # It holds up the loop, and with it the peer, until it is known what the crash has left.
        if scene.crash(number) == "survived":
            return None
        row = scene.row()
        return Heard(row, await scene.response(), scene.ran())


class TestCrashTable:
    def expected(self, heard: Heard, unclaimed: tuple[str, int]) -> tuple[str, tuple[int, ...]]:
        """Return what the table says: the text or code that is heard, and how often it may run."""
        code, ran = unclaimed
        return {
            "nothing yet": (code, (ran,)),
            "claimed": ("interrupted", (0, 1)),
            "answered": ("marked", (1,)),
            "done": ("marked", (1,)),
        }[heard.row]

    def test_the_next_runner_tells_the_caller(self, scene: Scene) -> None:
        """Whenever a runner dies, its successor answers as the table says, and runs nothing."""
        rows = set()
        for number in range(100):
            heard = asyncio.run(by_next_runner(scene, number))
            if heard is None:
                break
            said, ran = self.expected(heard, ("not_executed", 0))
            assert (heard.response.text or heard.response.code, heard.ran in ran) == (said, True)
            rows.add(heard.row)
        assert set(ROWS.values()) - {"done"} <= rows
        assert "survived" == scene.crash(100)

    def test_a_live_peer_tells_the_caller(self, scene: Scene) -> None:
        """Whenever a runner dies, a living one answers for it, and runs what was not claimed."""
        rows = set()
        for number in range(100):
            heard = asyncio.run(by_live_peer(scene, number))
            if heard is None:
                break
            said, ran = self.expected(heard, ("marked", 1))
            assert (heard.response.text or heard.response.code, heard.ran in ran) == (said, True)
            rows.add(heard.row)
        assert set(ROWS.values()) - {"done"} <= rows
