"""Two hundred relays in one runner, in a time of their own: what they send, and when."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from relay.engine.announce import Announcement
from relay.engine.hub import Hub
from relay.engine.limits import limits_of
from relay.engine.locks import Locks
from relay.engine.shared import Shared
from relay.engine.slots import Slots
from relay.hosts.host import Done
from relay.hosts.memory import MemoryHost
from relay.remote.counters import RemoteCounters
from relay.remote.loop import RemoteLoop
from relay.remote.root import RemoteRoot
from relay.settings import RelaySettings
from relay.tools.registry import Registry
from relayconf.layers import Entry, Layer, Sources
from relayconf.live.rereading import Rereader
from relayconf.live.snapshot import Live, Snapshot, load
from relayconf.resolve import resolve
from relayconf.settings import contract_of
from tests.unit.remote.conftest import Leaping

RELAYS = 200


class Sandboxes(MemoryHost):
    """A host whose ``python3`` does as the program does where nothing ever happens."""

    def __init__(self, *directories: str) -> None:
        super().__init__(*directories, commands={"python3": self._probe, "/bin/python3": self._run})
        self.sent: list[tuple[float, str, str]] = []
        self.open = self.most = 0

    async def _begin(self, operation: str, kind: str | None = None) -> None:
        self._note(kind or operation, "")
        await super()._begin(operation, kind)

    def _note(self, kind: str, path: str) -> None:
        self.sent.append((asyncio.get_running_loop().time(), kind, path))

    async def _probe(self, _argv: Sequence[str], _seconds: float) -> Done:
        return Done(0, "/bin/python3\n", "")

    async def _run(self, argv: Sequence[str], _seconds: float) -> Done:
        asked = dict(word.split("=", 1) for word in argv if "=" in word[:12])
        window = float(asked.get("window", "0"))
        self._note("window" if window else "look", asked["dir"])
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            await asyncio.sleep(window)
        finally:
            self.open -= 1
        status = "expired" if window else "released" if "release" in asked else "idle"
        if asked.get("since") == "0":
            status = "changed"
        return Done(0, f'{{"status":"{status}","now":0,"mtime":1}}\n', "")


def live() -> Live[RelaySettings]:
    """Return settings by which every relay watches."""
    contract = contract_of(RelaySettings)
    layers = [Layer("option", (Entry("RELAY_REMOTE_WATCH_ENABLED", "true", "test"),))]
    resolution = resolve(contract, layers)
    sources = Sources({})
    settings = load(RelaySettings, sources).current.model_copy(update={"remote_watch": True})
    rereader = Rereader(contract, sources, fixed=layers)
    return Live(Snapshot(1, settings, resolution), sources, rereader=rereader)


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Sandboxes:
    """Serve two hundred relays for a while in which nothing happens; return their host."""
    paths = [f"/srv/relay-{number}" for number in range(RELAYS)]
    host = Sandboxes("/srv", *paths)

    async def main() -> None:
        settings, clock = live(), asyncio.get_running_loop().time
        limits = limits_of(settings.snapshot)
        locks = Locks(str(tmp_path_factory.mktemp("state")))
        shared = Shared(
            hub=Hub(),
            locks=locks,
            slots=Slots(limits),
            limits=limits,
            announcement=Announcement(b"{}", b"{}"),
            clock=clock,
            wall=clock,
            counters=RemoteCounters(),
        )
        rand = random.Random(7).random
        loop = RemoteLoop(host, shared, Registry.of([]), None, settings, rand=rand)
        root = RemoteRoot("/srv", shared, loop)
        await root.start()
        serving = asyncio.ensure_future(loop.run())
        await asyncio.sleep(780)
        loop.stopping = True
        shared.hub.wake()
        await serving
        await root.stop()
        await loop.leave()
        loop.engine.close()
        shared.hub.close()
        locks.close()

    with asyncio.Runner(loop_factory=Leaping) as runner:
        runner.run(main())
    return host


class TestIdle:
    def test_requests_a_minute(self, idle: Sandboxes) -> None:
        """An idle relay, and the root, send 4.7 requests a minute at most, on average."""
        begun = 1000.0 + 120
        sent = [at for at, _, path in idle.sent if begun <= at < begun + 600 and not path]
        assert len(sent) / 10 <= 4.75 * (RELAYS + 1)

    def test_each_minute(self, idle: Sandboxes) -> None:
        """No relay sends more than three windows in any minute; two safety polls are the rest."""
        times: dict[str, list[float]] = {}
        for at, kind, path in idle.sent:
            if kind == "window":
                times.setdefault(path, []).append(at)
        assert RELAYS + 1 == len(times)
        for sent in times.values():
            assert all(later - early >= 59.9 for early, later in zip(sent, sent[3:], strict=False))

    def test_no_lockstep(self, idle: Sandboxes) -> None:
        """Windows that began together are sent at times of their own soon, and stay so."""
        late = [at for at, kind, _ in idle.sent if kind == "window" and at >= 1000.0 + 480]
        seconds = Counter(int(at) for at in late)
        assert max(seconds.values()) <= RELAYS / 7

    def test_programs_at_once(self, idle: Sandboxes) -> None:
        """One program waits for each relay, and one for the root."""
        assert idle.most <= RELAYS + 1
