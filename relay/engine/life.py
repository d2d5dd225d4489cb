"""The life of a runner, whichever way its directories are reached: started, ready, stopped.

``async with`` makes it ready, which is when everything that was left behind is cleared; leaving it
drains: nothing new is taken, what is in flight gets its time, the rest is answered and given up. A
runner belongs to one event loop. A caller in the same process must not block that loop.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from typing import Generic, Self, TypeVar

from relay.engine.announce import announcement
from relay.engine.given import Path, Tools, given_state, given_tools
from relay.engine.guard import Guard
from relay.engine.hub import Hub
from relay.engine.limits import limits_of
from relay.engine.locks import Locks
from relay.engine.obeying import Obeying
from relay.engine.served import Serving
from relay.engine.shared import Shared
from relay.engine.slots import Slots
from relay.engine.telemetry import Counters, event
from relay.errors import RelayError
from relay.settings import RelaySettings
from relayconf.live.snapshot import Live

#: The loop that serves a kind of session.
L = TypeVar("L", bound=Serving)


class BaseRunner(ABC, Generic[L]):
    """What is the same for every runner. A kind of runner says how its directories are joined.

    Args:
        live: the settings.
        tools: a registry, tools, or names with callables. Without it: the file RELAY_TOOLS_FILE.
        guard: called with each request before its tool is looked up; a text that it returns, or
            an exception, refuses the call. It may be asynchronous; else it runs in a thread.
        state: the state directory. Without it: RELAYCONF_STATE_DIR, else the user's own.

    Raises:
        RelayError: the tools cannot be used.
        StateError: no state directory is named.
    """

    #: Whether callers may take back what is in flight.
    _cancels = False

    def __init__(
        self,
        live: Live[RelaySettings],
        *,
        tools: Tools | None,
        guard: Guard | None,
        state: Path | None,
    ) -> None:
        self._live = live
        self._tools = given_tools(tools, live.current)
        self._guard = guard if guard is not None else self._tools.guard
        self._state = given_state(state, live.sources)
        self._shared: Shared | None = None
        self._loop: L | None = None
        self._task: asyncio.Task[None] | None = None
        self._obeying: Obeying | None = None

    @property
    def ready(self) -> bool:
        """Whether requests are being taken."""
        return self._task is not None and not self._task.done()

    @property
    def live(self) -> Live[RelaySettings]:
        """The settings that it goes by."""
        return self._live

    @property
    def counters(self) -> Counters:
        """What it has done since its start."""
        return self._shared.counters if self._shared is not None else self._new_counters()

    @property
    def sessions(self) -> tuple[str, ...]:
        """The paths of the session directories that it serves, or waits for."""
        return tuple(s.place.path for s in self._loop.sessions) if self._loop is not None else ()

    @property
    def shared(self) -> Shared | None:
        """Its parts; ``None`` before its start."""
        return self._shared

    @property
    def id(self) -> str:
        """The name under which it claims; empty before its start."""
        return self._shared.locks.runner if self._shared is not None else ""

    @property
    def left_behind(self) -> int:
        """How many tools go on although they were given up, and cannot be ended."""
        return self._loop.engine.left_behind if self._loop is not None else 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Join each directory, clear what was left behind, and begin to take requests.

        Raises:
            RelayError, RelayconfError: something that it needs cannot be used; nothing is left
                running.
        """
        if self._shared is not None:
            raise RelayError("this runner was started before; make another")
        self._prepare()
        await self._tools.open(self._tools_changed)
        try:
            await self._start()
        except BaseException:
            await self._tools.close(self._tools_changed)
            raise

    async def _start(self) -> None:
        limits = limits_of(self._live.snapshot)
        locks = Locks(self._state, group=self._live.sources.state_group)
        self._shared = shared = Shared(
            hub=Hub(),
            locks=locks,
            slots=Slots(limits),
            limits=limits,
            announcement=announcement(
                locks.runner, self._live.snapshot, self._tools, cancels=self._cancels
            ),
            clock=time.monotonic,
            wall=time.time,
            cancels=self._cancels,
            counters=self._new_counters(),
        )
        self._loop = loop = self._new_loop(shared)
        try:
            await self._join(shared, loop)
        except BaseException:
            await self._leave(loop)
            self._sign_off()
            raise
        self._obeying = Obeying(self._live, shared, loop, self._tools)
        self._obeying.begin()
        self._task = asyncio.create_task(loop.run(), name="relay-runner")
        event(f"stage=relay_ready {self._where()} runner={locks.runner}{self._many()}")

    def _many(self) -> str:
        """Return how many sessions there are, as words for a line, where there may be many."""
        return ""

    def _new_counters(self) -> Counters:
        return Counters()

    def _prepare(self) -> None:
        """Look whether a start makes sense, before anything is opened."""

    @abstractmethod
    def _new_loop(self, shared: Shared) -> L:
        """Return what is going to serve the sessions."""

    @abstractmethod
    async def _join(self, shared: Shared, loop: L) -> None:
        """Begin to serve what is to be served; what it raises ends the start."""

    @abstractmethod
    def _where(self) -> str:
        """Return what is served, as ``name=value`` words."""

    async def _leave(self, loop: L) -> None:
        """Do what takes time at the end, once nothing is executed any more."""

    def _close(self, shared: Shared, loop: L) -> None:
        """Let go at once of what the sessions hold."""
        del loop
        shared.hub.close()

    def _tools_changed(self) -> None:
        if self._obeying is not None:
            self._obeying.apply()

    async def wait(self) -> None:
        """Wait until it stops.

        Raises:
            Exception: whatever ended the loop, where it was no stop.
        """
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Take nothing new, let what is in flight finish for a while, then leave.

        What is not finished within RELAY_DRAIN_TIMEOUT_MS is answered ``interrupted`` and given up;
        a thread that hangs is left behind.
        """
        loop, shared, task = self._loop, self._shared, self._task
        if loop is None or shared is None or loop.stopping:
            return
        loop.stopping = True
        shared.hub.wake()
        try:
            if task is not None:
                await asyncio.wait([task])
            await loop.engine.drain(shared.limits.drain_timeout)
            await self._leave(loop)
        finally:
            self._sign_off()
            await self._tools.close(self._tools_changed)
        event(
            f"stage=relay_stopped {self._where()} runner={shared.locks.runner} "
            f"{shared.counters.line()}"
        )

    def _sign_off(self) -> None:
        """Let go of everything that is held."""
        loop, shared = self._loop, self._shared
        if loop is None or shared is None:
            return
        loop.stopping = True
        loop.engine.close()
        if self._obeying is not None:
            self._obeying.end()
        self._close(shared, loop)
        shared.locks.close()
