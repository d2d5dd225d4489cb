"""The runner of session directories behind a host, as a program embeds it.

It lives as ``relay.engine.runner.Runner`` does, from the same settings, tools, guard and state
directory; only the way to the directories is another.
"""

from __future__ import annotations

import posixpath
import time

from relay.engine.given import NothingToServe, Path, Tools, given_settings, what_to_serve
from relay.engine.guard import Guard
from relay.engine.life import BaseRunner
from relay.engine.place import WatchError
from relay.engine.shared import Shared
from relay.engine.telemetry import token
from relay.hosts.host import Host
from relay.hosts.opening import open_host
from relay.remote.counters import RemoteCounters
from relay.remote.loop import RemoteLoop
from relay.remote.root import RemoteRoot
from relay.remote.tripping import Tripping
from relay.settings import Mode, RelaySettings
from relayconf.live.snapshot import Live


class RemoteRunner(BaseRunner[RemoteLoop]):
    """Serves one session directory in a remote sandbox, or all in a root there.

    Args:
        dir: the directory's absolute path there; its last component is made where missing. Without
            it: RELAY_DIR.
        root: instead, a directory whose sub-directories are sessions, served as they come and go;
            made likewise. Without it: RELAY_ROOT.
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
        dir: Path | None = None,  # noqa: A002 - the name of the setting
        *,
        root: Path | None = None,
        host: Host | None = None,
        tools: Tools | None = None,
        settings: Live[RelaySettings] | RelaySettings | None = None,
        guard: Guard | None = None,
        state: Path | None = None,
    ) -> None:
        live = given_settings(settings, state)
        path, self._serves_many = what_to_serve(dir, root, live.current)
        self._path = _absolute(path)
        super().__init__(live, tools=tools, guard=guard, state=state)
        self._given_host = host
        self._host: Host | None = None
        self._root: RemoteRoot | None = None
        self._counters = RemoteCounters()

    _cancels = True

    @property
    def counters(self) -> RemoteCounters:
        """What it has done since its start; ``sent`` is up to date."""
        if self._loop is not None:
            self._loop.count()
        return self._counters

    @property
    def sockets(self) -> int:
        """How many connections to the host are open."""
        return self._host.sockets if self._host is not None else 0

    def _new_counters(self) -> RemoteCounters:
        return self._counters

    def _prepare(self) -> None:
        given = self._given_host
        self._host = given if given is not None else open_host(self._live.current)

    def _new_loop(self, shared: Shared) -> RemoteLoop:
        group = self._live.sources.state_group
        tripping = Tripping(self._state, group, self._counters, clock=time.monotonic)
        return RemoteLoop(
            self._reached, shared, self._tools, self._guard, self._live, tripping=tripping
        )

    @property
    def _reached(self) -> Host:
        if self._host is None:  # pragma: no cover - set before anything is started
            raise NothingToServe("this runner was not started")
        return self._host

    async def _join(self, shared: Shared, loop: RemoteLoop) -> None:
        if self._serves_many:
            self._root = RemoteRoot(self._path, shared, loop)
            await self._root.start()
        else:
            await loop.open(self._path)
        if self._live.current.mode is Mode.WATCH and loop.unwatched():
            raise WatchError(
                f"{loop.host.name}: neither python3 nor node can be run to watch {self._path}, and "
                "RELAY_MODE is watch; set it to auto to poll instead"
            )

    def _where(self) -> str:
        return f"dir={token(self._path)} host={token(self._reached.name)}"

    def _many(self) -> str:
        return f" sessions={len(self.sessions)}" if self._serves_many else ""

    async def _leave(self, loop: RemoteLoop) -> None:
        if self._root is not None:
            await self._root.stop()
        await loop.leave()


def _absolute(path: str) -> str:
    if not posixpath.isabs(path):
        raise NothingToServe(
            f"{path} is relative; name the session directory by its absolute path in the sandbox"
        )
    normal = posixpath.normpath(path)
    if normal == "/":
        raise NothingToServe("/ is no session directory; name one of its own in the sandbox")
    return normal
