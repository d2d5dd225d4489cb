"""Following a fleet: two connections, one on which changes arrive and one to compare by.

Changes arrive as events. Every heartbeat, however busy, the position is compared; whatever does not
fit is answered with a snapshot. Any error ends both connections, keeps what is known, and begins
anew after a pause that is drawn, so that a fleet does not come back all at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from relayconf.errors import FleetUnavailable
from relayconf.fleet.engine import Change, Engine, InstanceRecord
from relayconf.fleet.record import FleetEntry, Position, key_text
from relayconf.fleet.view import Next, View
from relayconf.overrides.document import Override
from relayconf.state.clock import SYSTEM, Clock, stamp

#: How long one wait for changes lasts at most, in milliseconds; a new one begins at once.
BLOCK_MS = 10_000

#: The longest pause before a connection is tried again, in seconds; the first is one heartbeat.
_LONGEST_PAUSE = 5.0

#: After several snapshots in a row that did not help, in seconds.
_BREATH = 0.05


class Owner(Protocol):
    """Who is told what happens, in the thread that follows."""

    def record(self) -> InstanceRecord | None:
        """Return what the process has applied; ``None`` while it has not said so."""

    def changed(self) -> None:
        """Act on a view that has changed, at once."""

    async def tend(self, engine: Engine) -> None:
        """Do what is due at each heartbeat: merge what waits, keep the file."""

    def failed(self, error: FleetUnavailable) -> None:
        """Hear that there is no connection."""


class Pursuit:
    """Keeps a view true to its server, until it is cancelled. Belongs to one event loop.

    Args:
        connect: opens a connection.
        view: what is kept.
        owner: who is told.
        draw: a source of random numbers in [0, 1).
        clock: of this host.

    Attributes:
        connected: whether the last question was answered.
        connections: how often one was begun.
        wake: set to compare at once.
    """

    def __init__(
        self,
        connect: Callable[[], Engine],
        view: View,
        owner: Owner,
        *,
        draw: Callable[[], float] = random.random,
        clock: Clock = SYSTEM,
    ) -> None:
        self.view = view
        self.connected = False
        self.connections = 0
        self.wake = asyncio.Event()
        self.engines = (connect(), connect())
        self._owner = owner
        self._draw = draw
        self._clock = clock
        self._heartbeat = view.known.heartbeat_ms / 1000
        self._failures = 0
        self._breath = _BREATH
        self._last_snapshot = 0.0
        self._ending: dict[str, int] = {}

    async def run(self) -> None:
        """Follow, for ever."""
        while True:
            try:
                await self._follow()
            except FleetUnavailable as error:
                self.connected = False
                self._owner.failed(error)
            finally:
                await self._close()
            await asyncio.sleep(self._pause())

    async def _close(self) -> None:
        for engine in self.engines:
            await engine.close()

    def _pause(self) -> float:
        longest: float = min(_LONGEST_PAUSE, self._heartbeat * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        return longest * self._draw()

    async def _follow(self) -> None:
        engine, stream = self.engines
        self.connections += 1
        await self._take_snapshot(engine)
        self._failures = 0
        loop = asyncio.get_running_loop()
        while True:
            arriving = asyncio.ensure_future(self._arrive(stream))
            try:
                await self._beat_until(engine, arriving)
            finally:
                arriving.cancel()
                with suppress(asyncio.CancelledError, FleetUnavailable):
                    await arriving
                await stream.close()
            await self._take_snapshot(engine)
            await self._breathe(loop.time())

    async def _breathe(self, now: float) -> None:
        """Pause between snapshots that do not help, longer each time."""
        soon = now - self._last_snapshot < 2 * self._heartbeat
        self._breath = min(self._heartbeat, 2 * self._breath) if soon else _BREATH
        self._last_snapshot = now
        await asyncio.sleep(self._breath * self._draw())

    async def _take_snapshot(self, engine: Engine) -> None:
        asked = self.view.moment()
        snapshot = await engine.snapshot(self.view.known.position)
        self.view.take_snapshot(snapshot, asked)
        self.connected = True
        self._owner.changed()

    async def _arrive(self, stream: Engine) -> None:
        """Take in changes as they come; return where one does not fit."""
        while True:
            items = await stream.follow(self.view.known.position, BLOCK_MS)
            if not items:
                continue
            fits = self.view.take(items) is Next.FOLLOW
            self._owner.changed()
            if not fits:
                return

    async def _beat_until(self, engine: Engine, arriving: asyncio.Future[None]) -> None:
        """Compare at each heartbeat, and when told to; return where a snapshot is needed."""
        said: InstanceRecord | None = None
        due = 0.0
        loop = asyncio.get_running_loop()
        while not arriving.done():
            self.wake.clear()
            record = self._owner.record()
            if record is not None and (record != said or loop.time() >= due):
                if await self._compare(engine, record) is Next.SNAPSHOT:
                    return
                if loop.time() >= due:
                    due = loop.time() + self._heartbeat * (0.9 + 0.1 * self._draw())
                said = record
            await self._end_what_has_ended(engine)
            await self._owner.tend(engine)
            await self._wait(arriving, due - loop.time())
        arriving.result()

    async def _wait(self, arriving: asyncio.Future[None], seconds: float) -> None:
        waking = asyncio.ensure_future(self.wake.wait())
        try:
            await asyncio.wait(
                (arriving, waking),
                timeout=max(0.0, min(seconds, self._heartbeat)),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            waking.cancel()

    async def _compare(self, engine: Engine, record: InstanceRecord) -> Next:
        asked = self.view.moment()
        known = self.view.known
        standing = await engine.heartbeat(record)
        found = self.view.compare(standing, asked)
        if known.lost != self.view.known.lost:
            self._owner.changed()
        return found

    async def _end_what_has_ended(self, engine: Engine) -> None:
        """Write a tombstone for what has ended, so that everybody's audit has it.

        Every process may; each waits for a time that is drawn, and the first one's change is the
        one that counts.
        """
        known = self.view.known
        ended = [
            entry
            for entry in known.entries
            if not entry.tombstone and known.has_ended(entry.override.end, self._clock)
        ]
        now = self._clock.boot_ms()
        for entry in ended:
            change = _end_of(entry)
            wait_ms = round(2000 * self._heartbeat * self._draw())
            if self._ending.setdefault(change, now + wait_ms) <= now:
                await engine.change(_tombstone(entry, change, known.latest_ms, self._clock))
        wanted = {_end_of(entry) for entry in ended}
        self._ending = {name: at for name, at in self._ending.items() if name in wanted}


def _end_of(entry: FleetEntry) -> str:
    """Return the id of the change that ends an entry: the same in every process."""
    name = f"{key_text(entry.key)} {entry.epoch} {entry.revision}"
    return "end-" + hashlib.sha256(name.encode()).hexdigest()[:24]


def _tombstone(entry: FleetEntry, change: str, latest_ms: int, clock: Clock) -> Change:
    override = entry.override
    said = Override(
        change,
        override.target,
        override.name,
        override.kind,
        "",
        "its time was over",
        "auto",
        override.incident,
        stamp(clock.wall()),
        store="fleet",
    )
    expected = Position(entry.epoch, entry.revision)
    return Change(
        change, FleetEntry(said, entry.scope, tombstone=True), expected, after_ms=latest_ms
    )
