"""The follower: a thread in which one process follows its fleet, and what it knows for the others.

Nothing here can stop the process or hold it up: what fails is logged once and tried again. What is
known is one immutable record behind one reference, so that any thread may read it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress

from relayconf import report
from relayconf.errors import FleetUnavailable
from relayconf.fleet import waiting
from relayconf.fleet.ended import SILENT_MS, ended
from relayconf.fleet.engine import Engine, InstanceRecord
from relayconf.fleet.keeping import Keeper
from relayconf.fleet.known import UNKNOWN, Known, Moment
from relayconf.fleet.lingering import Lingering
from relayconf.fleet.merging import merge
from relayconf.fleet.opening import open_engine
from relayconf.fleet.options import FleetOptions
from relayconf.fleet.pending import Pending
from relayconf.fleet.pursuit import Pursuit
from relayconf.fleet.reading import FleetReading, reading_of
from relayconf.fleet.record import Position
from relayconf.fleet.view import View
from relayconf.instances.listing import Listing
from relayconf.problems import Problem
from relayconf.state.clock import SYSTEM, Clock

#: How long a process that starts waits for the first answer, in seconds: a kill that is in force
#: then counts from the beginning, and a server that is away holds nobody up for long.
FIRST_ANSWER = 1.0

#: How long a process that ends waits to sign off, in seconds.
_LAST_WORD = 1.0

#: How long changes that wait are left to the command that made them, in seconds.
_COURTESY = 0.3

#: Within this time after a change one process of the host writes it down, in seconds: those that
#: come later find it written, and nobody writes while others still have to apply it.
_LATER = 0.2

log = logging.getLogger("relayconf")


class Follower:
    """Follows the fleet of one process.

    Args:
        options: how it is reached.
        path: the state directory, if any.
        group: the group that shares it.
        changed: called in the follower's thread whenever there is news; it must not raise.
        opening: makes an engine.
        clock: of this host.
    """

    def __init__(
        self,
        options: FleetOptions,
        *,
        path: str | None,
        group: str | None,
        changed: Callable[[], None],
        opening: Callable[[FleetOptions], Engine] = open_engine,
        clock: Clock = SYSTEM,
    ) -> None:
        self.options = options
        self._changed = changed
        self._opening = opening
        self._clock = clock
        self._keeper = Keeper(path, group=group, clock=clock)
        self._view = View(heartbeat_ms=options.heartbeat_ms, clock=clock)
        self._fault = self._keeper.load(self._view)
        self._begun: Moment = self._view.moment()
        self._refused: tuple[str, ...] = ()
        self._unavailable: str | None = None
        self._record: InstanceRecord | None = None
        self._signing_off: set[str] = set()
        self._kept: Position | None = None
        self._keep_at: float | None = None
        self._swept = 0
        self._sweep_at: float | None = None
        self._lingering = Lingering(clock=clock)
        self._lingers = threading.Lock()
        self._answered = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._pursuit: Pursuit | None = None

    @property
    def known(self) -> Known:
        """What is known of the fleet."""
        return self._view.known

    @property
    def reconnects(self) -> int:
        """How often a connection was begun after the first."""
        pursuit = self._pursuit
        return 0 if pursuit is None else max(0, pursuit.connections - 1)

    def reading(self) -> FleetReading:
        """Return what the fleet says now, with what waits on this host on top."""
        faults = () if self._fault is None else (self._fault,)
        unavailable = self._unavailable
        known = self._view.known
        if unavailable is not None:
            # Another process of this host may have a connection, and keep what it learns.
            known = self._keeper.newer(known)
        with self._lingers:
            queue = self._lingering.take(self._queue(), known)
        reading = reading_of(
            known,
            queue,
            self.options,
            clock=self._clock,
            since=self._begun,
            faults=faults,
        )
        added = [_problem("fleet-refused", text) for text in self._refused]
        if unavailable not in (None, self.options.fault):
            added.append(_problem("fleet-unavailable", str(unavailable)))
        return reading._replace(problems=(*reading.problems, *added))

    def begin(self, earlier: Follower) -> None:
        """Begin with what another follower knew."""
        self._view.begin(earlier.known)
        self._lingering = earlier._lingering

    def resume(self, reading: FleetReading) -> None:
        """Go on by what waited when this process looked last, whoever has taken it off since."""
        with self._lingers:
            self._lingering.take(waiting.Queue(reading.waits), UNKNOWN)

    def start(self, *, wait: bool = True) -> None:
        """Begin to follow, and wait a moment for the first answer where that is wanted."""
        self._thread = threading.Thread(target=self._run, name="relayconf-fleet", daemon=True)
        self._thread.start()
        if wait:
            self._answered.wait(FIRST_ANSWER)

    def say(self, record: InstanceRecord) -> None:
        """Say what the process has applied; the fleet hears of it at once."""
        before, self._record = self._record, record
        if before is not None and before.id != record.id:
            self._signing_off.add(before.id)
        if before != record:
            self.nudge()

    def bury(self, instance: str) -> None:
        """Take an instance off the fleet's list, whose death is known on this host."""
        self._signing_off.add(instance)
        self.nudge()

    def nudge(self) -> None:
        """Look at once for what is due."""
        loop, pursuit = self._loop, self._pursuit
        if loop is not None and pursuit is not None:
            try:
                loop.call_soon_threadsafe(pursuit.wake.set)
            except RuntimeError:
                # RACE: a loop that is closed by now follows nothing any more.
                return

    def stop(self) -> None:
        """Sign off, and end the thread."""
        loop, thread, self._thread = self._loop, self._thread, None
        if loop is None or thread is None or thread is threading.current_thread():
            return
        try:
            loop.call_soon_threadsafe(self._end)
        except RuntimeError:
            return
        thread.join(_LAST_WORD)

    def abandon(self) -> None:
        """Let go of what belongs to the process that this one was forked from."""
        pursuit = self._pursuit
        engines = () if pursuit is None else pursuit.engines
        for engine in engines:
            _let_go(getattr(engine, "descriptor", lambda: None)())
        # Kept for good: closing or collecting any of it could reach into the parent's connection.
        _abandoned.append((self._loop, self._task, pursuit))
        self._loop = self._task = self._pursuit = self._thread = None

    def record(self) -> InstanceRecord | None:
        """See ``pursuit.Owner``."""
        return self._record

    def changed(self) -> None:
        """See ``pursuit.Owner``."""
        if self._unavailable is not None:
            # It went by its host's file, which may have kills that the server has lost meanwhile.
            self._keeper.absorb(self._view)
        self._unavailable = None
        for remark in self._view.remarked():
            report.warn(remark)
        self._answered.set()
        self._changed()

    def failed(self, error: FleetUnavailable) -> None:
        """See ``pursuit.Owner``."""
        first = self._unavailable is None
        self._unavailable = str(error)
        self._answered.set()
        if first:
            self._changed()

    async def tend(self, engine: Engine) -> None:
        """See ``pursuit.Owner``."""
        self._unavailable = None
        while self._signing_off:
            instance = next(iter(self._signing_off))
            await engine.sign_off(instance)
            self._signing_off.discard(instance)
        await self._sweep(engine)
        self._hold_the_lost()
        try:
            await self._merge(engine)
            self._keep()
        except OSError as error:
            text = f"what is known of the fleet cannot be kept: {error.strerror or error}"
            report.once([Problem("state-directory", "fleet.json", text, raw=text)])

    def _hold_the_lost(self) -> None:
        """Hold the kills that were merged and that the server lost before they arrived here."""
        with self._lingers:
            lost = self._lingering.lost
        if not lost:
            return
        # As new as all that is known: whatever is written from now on settles it.
        at_ms = self._view.known.latest_ms + 1
        self._view.absorb(Known(held=tuple(w.entry._replace(at_ms=at_ms) for w in lost)))
        with self._lingers:
            self._lingering.release(lost)
        self._kept = None
        self._changed()

    async def _sweep(self, engine: Engine) -> None:
        """After each connection sign off whom the server lists and this host knows to have ended.

        A little later, when those who live have been heard of again: the list of who has not is
        short then, however many live.
        """
        now, begun = asyncio.get_running_loop().time(), self.reconnects + 1
        if begun != self._swept:
            self._swept = begun
            self._sweep_at = now + SILENT_MS / 1000 * (1 + _draw())
        if self._sweep_at is None or now < self._sweep_at:
            return
        self._sweep_at = None
        directory = self._keeper.open()
        if directory is None:
            return
        try:
            records = await engine.instances(silent_ms=SILENT_MS)
            for instance in ended(Listing(directory), records):
                await engine.sign_off(instance)
        finally:
            directory.close()

    def _keep(self) -> None:
        """Write the last good file: after a change a little later, when everybody has applied it.

        Raises:
            OSError: it cannot be written.
        """
        position, now = self._view.known.position, asyncio.get_running_loop().time()
        if position != self._kept:
            if self._keep_at is None:
                delay = _LATER * _draw()
                self._keep_at = now + delay
                asyncio.get_running_loop().call_later(delay, self.nudge)
            if now < self._keep_at:
                return
        self._keeper.keep(self._view)
        self._kept, self._keep_at, self._fault = position, None, None

    async def _merge(self, engine: Engine) -> None:
        """Bring the changes that wait to the server, unless their command does so just now."""
        if not self._queue().changes:
            return
        await asyncio.sleep(_COURTESY * (0.5 + 0.5 * _draw()))
        directory = self._keeper.open()
        if directory is None:
            return
        try:
            done = await merge(
                engine, Pending(directory), self._view.known.latest_ms, clock=self._clock
            )
        finally:
            directory.close()
        refused = [each.refused for each in done if each.refused is not None]
        for text in refused:
            report.warn(f"a change that was made while the fleet's server was away: {text}")
        self._refused = (*self._refused, *refused)[-20:]
        if done:
            self._changed()

    def _queue(self) -> waiting.Queue:
        directory = self._keeper.open()
        if directory is None:
            return waiting.EMPTY
        try:
            return waiting.read(directory)
        finally:
            directory.close()

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                self._loop = runner.get_loop()
                runner.run(self._follow())
        except Exception:
            # Nobody foresaw it. What is known stays in force, and goes stale for all to see.
            log.exception("following the fleet ended")
        finally:
            self._answered.set()
            self._loop = None

    async def _follow(self) -> None:
        self._task = asyncio.ensure_future(self._for_ever())
        try:
            await self._task
        except asyncio.CancelledError:
            with suppress(OSError):
                self._keeper.keep(self._view)
            await self._sign_off()

    async def _for_ever(self) -> None:
        while True:
            try:
                self._pursuit = Pursuit(
                    lambda: self._opening(self.options), self._view, self, clock=self._clock
                )
                await self._pursuit.run()
            except FleetUnavailable as error:
                # The url, or the client library: nothing that a moment could change.
                self.failed(error)
            except Exception:
                log.exception("following the fleet failed; trying again")
                self._answered.set()
            await asyncio.sleep(self.options.heartbeat_ms / 1000)

    async def _sign_off(self) -> None:
        record = self._record
        if record is None or self._unavailable is not None:
            return
        try:
            engine = self._opening(self.options)
            async with asyncio.timeout(_LAST_WORD):
                await engine.sign_off(record.id)
                await engine.close()
        except (FleetUnavailable, TimeoutError) as error:
            log.info("could not sign off from the fleet: %s", error)

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()


def _draw() -> float:
    return int.from_bytes(os.urandom(4)) / 2**32


def _problem(code: str, text: str) -> Problem:
    return Problem(code, "fleet", text, raw=text)


def _let_go(descriptor: int | None) -> None:
    """Make a connection's descriptor mean nothing in this process; its number stays taken."""
    if descriptor is None or descriptor < 0:
        return
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.dup2(null, descriptor, inheritable=False)
    finally:
        os.close(null)


_abandoned: list[object] = []
