"""A runner whose session directory lies behind a host: started, ready, stopped.

It lives as ``relay.engine.runner.Runner`` does, from the same settings, tools, guard and state
directory; only the way to the directory is another.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from relay.engine.announce import announcement
from relay.engine.guard import Guard
from relay.engine.hub import Hub
from relay.engine.limits import limits_of
from relay.engine.locks import Locks
from relay.engine.obeying import Obeying
from relay.engine.place import WatchError
from relay.engine.runner import NothingToServe
from relay.engine.runner import _live as live_settings
from relay.engine.runner import _registry as registry_of
from relay.engine.runner import _state as state_of
from relay.engine.shared import Shared
from relay.engine.slots import Slots
from relay.engine.telemetry import event, token
from relay.errors import RelayError
from relay.hosts.host import Host
from relay.hosts.opening import open_host
from relay.remote.counters import RemoteCounters
from relay.remote.loop import RemoteLoop
from relay.remote.tripping import Tripping
from relay.settings import Mode, RelaySettings
from relay.tools.registry import Tool
from relayconf.live.snapshot import Live


class RemoteRunner:
    """Serves one session directory in a remote sandbox.

    Args:
        dir: the directory's absolute path there; its last component is made where missing. Without
            it: RELAY_DIR.
        host: how the sandbox is reached; without it, what RELAY_BACKEND says. It is closed at the
            end.
        tools: a registry, tools, or names with callables. Without it: the file RELAY_TOOLS_FILE.
        settings: live settings, or settings that stay; without it, the process environment's.
        guard: called with each request before its tool is looked up; a text that it returns, or
            an exception, refuses the call.
        state: the state directory. Without it: RELAYCONF_STATE_DIR, else the user's own.

    Raises:
        RelayError: the host, the directory or the tools cannot be used; here or at the start.
        RelayconfError: the settings or the state directory cannot be; likewise.
    """

    def __init__(
        self,
        dir: str | os.PathLike[str] | None = None,  # noqa: A002 - the name of the setting
        *,
        host: Host | None = None,
        tools: Mapping[str, Callable[..., Any] | Tool] | Iterable[Tool] | None = None,
        settings: Live[RelaySettings] | RelaySettings | None = None,
        guard: Guard | None = None,
        state: str | os.PathLike[str] | None = None,
    ) -> None:
        self._live = live_settings(settings, None if state is None else os.path.abspath(state))
        self._path = _path(dir, self._live.current)
        self._tools = registry_of(tools, self._live.current)
        self._guard = guard if guard is not None else self._tools.guard
        self._state = state_of(state, self._live.sources)
        self._host = host
        self._shared: Shared | None = None
        self._loop: RemoteLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._obeying: Obeying | None = None

    @property
    def live(self) -> Live[RelaySettings]:
        """Its settings."""
        return self._live

    @property
    def ready(self) -> bool:
        """Whether requests are being taken."""
        return self._task is not None and not self._task.done()

    @property
    def counters(self) -> RemoteCounters:
        """What it has done since its start; ``sent`` is up to date."""
        if self._shared is None or not isinstance(self._shared.counters, RemoteCounters):
            return RemoteCounters()
        if self._loop is not None:
            for session in self._loop.sessions:
                self._loop.count(session)
        return self._shared.counters

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
        """Reach the sandbox, take the lease, clear what was left behind, begin to take requests.

        Raises:
            RelayError, RelayconfError: something that it needs cannot be used; nothing is left
                running.
        """
        if self._shared is not None:
            raise RelayError("this runner was started before; make another")
        await self._tools.open(self._tools_changed)
        try:
            await self._start()
        except BaseException:
            await self._tools.close(self._tools_changed)
            raise

    async def _start(self) -> None:
        host = self._host if self._host is not None else open_host(self._live.current)
        limits = limits_of(self._live.snapshot)
        group, counters = self._live.sources.state_group, RemoteCounters()
        locks = Locks(self._state, group=group)
        self._shared = shared = Shared(
            hub=Hub(),
            locks=locks,
            slots=Slots(limits),
            limits=limits,
            announcement=announcement(locks.runner, self._live.snapshot, self._tools),
            clock=time.monotonic,
            wall=time.time,
            counters=counters,
        )
        self._loop = loop = RemoteLoop(shared, self._tools, self._guard, self._live)
        loop.tripping = Tripping(self._state, group, counters, clock=time.monotonic)
        try:
            await loop.open(host, self._path)
            self._refuse_without_watch(loop, host)
        except BaseException:
            await loop.leave()
            self._sign_off()
            raise
        self._obeying = Obeying(self._live, shared, loop, self._tools)
        self._obeying.begin()
        self._task = asyncio.create_task(loop.run(), name="relay-runner")
        where = f"dir={token(self._path)} host={token(host.name)}"
        event(f"stage=relay_ready {where} runner={locks.runner}")

    def _refuse_without_watch(self, loop: RemoteLoop, host: Host) -> None:
        if self._live.current.mode is Mode.WATCH and loop.unwatched():
            raise WatchError(
                f"{host.name}: neither python3 nor node can be run to watch {self._path}, and "
                "RELAY_MODE is watch; set it to auto to poll instead"
            )

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
        """Take nothing new, let what is in flight finish for a while, publish it, then leave.

        What is not finished within RELAY_DRAIN_TIMEOUT_MS is answered ``interrupted`` and given up.
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
            await loop.leave()
        finally:
            self._sign_off()
            await self._tools.close(self._tools_changed)
        event(
            f"stage=relay_stopped dir={token(self._path)} runner={shared.locks.runner} "
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
        shared.hub.close()
        shared.locks.close()


def _path(given: str | os.PathLike[str] | None, settings: RelaySettings) -> str:
    path = given if given is not None else settings.dir
    if path is None:
        raise NothingToServe("no session directory is named: give one, or set RELAY_DIR")
    text = os.fspath(path)
    if not posixpath.isabs(text):
        raise NothingToServe(
            f"{text} is relative; name the session directory by its absolute path in the sandbox"
        )
    normal = posixpath.normpath(text)
    if normal == "/":
        raise NothingToServe("/ is no session directory; name one of its own in the sandbox")
    return normal
