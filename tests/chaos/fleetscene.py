"""A fleet under chaos: a real server behind a proxy, and readers that follow it.

Each reader has a state directory of its own, as one host has. A watch looks at all of them all the
time: whoever says that it is fresh knows every write that was acknowledged more than two heartbeats
ago.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from relayconf.fleet.conformance import kill, restore
from relayconf.fleet.engine import Change, InstanceRecord
from relayconf.fleet.follower import Follower
from relayconf.fleet.known import FRESH
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.record import NOWHERE, Position
from relayconf.fleet.session import Session
from relayconf.state.clock import SYSTEM
from relayconf.state.directory import make
from tests.servers.fleetserver import FleetServer
from tests.servers.proxy import Proxy

PATIENCE = 60.0
HEARTBEAT_MS = 200
OPTIONS = {"heartbeat_ms": HEARTBEAT_MS, "timeout_ms": 500, "blind_after_ms": 60_000}


class Line:
    """A proxy in a thread of its own."""

    def __init__(self, port: int) -> None:
        self.proxy = Proxy(port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.run(self.proxy.start())

    def run(self, coroutine: object) -> None:
        """Run something in the proxy's loop."""
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)  # type: ignore[arg-type]

    def cut(self) -> None:
        """Reset every connection."""

        async def cut() -> None:
            self.proxy.cut()

        self.run(cut())

    def close(self) -> None:
        """End everything."""
        self.run(self.proxy.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


class Reader:
    """One process of one host, which follows."""

    def __init__(self, options: FleetOptions, folder: Path) -> None:
        self.folder = folder
        make(str(folder)).close()
        self._options = options
        self.follower = self._new()
        self.follower.start(wait=False)

    def _new(self) -> Follower:
        path = str(self.folder)
        follower = Follower(self._options, path=path, group=None, changed=self._changed)
        record = InstanceRecord(
            self.folder.name, "target", self.folder.name, 1, NOWHERE, heartbeat_ms=HEARTBEAT_MS
        )
        self._record = record
        follower.say(record)
        return follower

    def _changed(self) -> None:
        # A process that applies at once.
        position = self.follower.known.position
        self.follower.say(replace(self._record, applied=position))

    def restart(self) -> None:
        """End without a word, and begin anew with what the host has kept."""
        self.follower.stop()
        self.follower = self._new()
        self.follower.start(wait=False)

    def kept(self) -> str:
        """Return what the host's last good file holds."""
        file = self.folder / "fleet.json"
        return file.read_text() if file.exists() else ""

    def kills(self) -> set[str]:
        """Return the names that are killed."""
        return {e.override.name for e in self.follower.reading().entries if e.is_kill}

    def codes(self) -> set[str]:
        """Return what it complains of."""
        return {problem.code for problem in self.follower.reading().problems}

    def is_fresh(self) -> bool:
        """Whether it says that it is fresh."""
        return self.follower.reading().freshness == FRESH


class Scene:
    """A server, a line to it, and readers.

    Attributes:
        liars: what a reader said that was fresh and behind.
    """

    def __init__(
        self, folder: Path, *, readers: int = 3, server: FleetServer | None = None
    ) -> None:
        self.folder = folder
        self.server = server or FleetServer(folder / "server")
        self.server.start()
        self.line = Line(self.server.port)
        url = f"redis://127.0.0.1:{self.line.proxy.port}"
        self.options = FleetOptions(url, **OPTIONS)  # type: ignore[arg-type]
        self.readers = [Reader(self.options, folder / f"host{n}") for n in range(readers)]
        self.liars: list[str] = []
        self._count = 0
        #: What was acknowledged when, in milliseconds since boot; anew with each history.
        self._written: list[tuple[int, Position]] = []
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def direct(self) -> FleetOptions:
        """Return the way to the server past the line."""
        return self.options._replace(url=self.server.url, timeout_ms=10_000)

    def write(self, session: Session, change: Change) -> Position:
        """Write a change, on top of what is there."""
        submitted = session.submit(change)
        outcome = submitted.outcome
        if outcome is not None and not outcome.accepted and outcome.current is not None:
            expected = outcome.current.position
            outcome = session.submit(replace(change, expected=expected)).outcome
        assert outcome is not None
        assert outcome.accepted
        position = outcome.standing.position
        self._written.append((SYSTEM.boot_ms(), position))
        return position

    def kill(self, *names: str) -> None:
        """Kill some flags."""
        with Session(self.direct()) as session:
            for name in names:
                self.write(session, kill(name, self._next()))

    def restore(self, *names: str) -> None:
        """Restore some flags."""
        with Session(self.direct()) as session:
            latest = max(reader.follower.known.latest_ms for reader in self.readers)
            for name in names:
                change = replace(restore(name, self._next()), after_ms=latest)
                self.write(session, change)

    def lose_history(self) -> None:
        """Note that what was written before may be gone from the server."""
        self._written.clear()

    def until(self, condition: Callable[[Reader], object], what: str) -> None:
        """Wait until something holds for every reader."""
        deadline = time.monotonic() + PATIENCE
        while not all(condition(reader) for reader in self.readers):
            assert time.monotonic() < deadline, f"{what}: {[r.kills() for r in self.readers]}"
            time.sleep(0.01)

    def until_killed(self, *names: str) -> None:
        """Wait until just these flags are killed for every reader."""
        self.until(lambda reader: reader.kills() == set(names), f"killed is not {names}")

    def until_fresh(self) -> None:
        """Wait until every reader is fresh."""
        self.until(Reader.is_fresh, "not fresh")

    def close(self) -> None:
        """End everything, and say whether anybody has lied."""
        self._done.set()
        self._watch.join(PATIENCE)
        for reader in self.readers:
            reader.follower.stop()
        self.line.close()
        if self.server.process is not None:
            self.server.thaw()
        self.server.kill()
        assert [] == self.liars[:3]

    def _next(self) -> str:
        self._count += 1
        return f"change-{self._count}"

    def _look(self) -> None:
        while not self._done.is_set():
            for reader in self.readers:
                written = list(self._written)
                now = SYSTEM.boot_ms()
                known = reader.follower.known
                if not known.is_fresh(SYSTEM):
                    continue
                # Read first, then judged by an earlier moment: what was written by then counts.
                due = [p for at, p in written if at < now - 2 * HEARTBEAT_MS]
                same = [p for p in due if p.epoch == known.position.epoch]
                if due and (not same or same[-1].revision > known.position.revision):
                    self.liars.append(f"{known.position[:2]} is fresh, {due[-1][:2]} is old")
            self._done.wait(0.002)
