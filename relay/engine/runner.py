"""The runner of local session directories, as a program embeds it."""

from __future__ import annotations

import os

from relay.engine.given import NothingToServe, Path, Tools, given_settings, what_to_serve
from relay.engine.guard import Guard
from relay.engine.life import BaseRunner
from relay.engine.loop import Loop
from relay.engine.opening import answered, flush, open_session
from relay.engine.root import Root
from relay.engine.shared import Shared
from relay.engine.telemetry import token
from relay.settings import RelaySettings
from relayconf.errors import StateError
from relayconf.live.snapshot import Live
from relayconf.state.directory import FIX


class Runner(BaseRunner[Loop]):
    """Serves one session directory, or all in a root.

    Args:
        dir: the directory; its last component is made where missing. Without it: RELAY_DIR.
        root: instead, a directory whose sub-directories are sessions, served as they come and go;
            made likewise. Without it: RELAY_ROOT. The process's limit of open files is raised to
            its hard limit, since each session holds one.
        tools: a registry, tools, or names with callables. Without it: the file RELAY_TOOLS_FILE.
        settings: live settings, or settings that stay; without it, the process environment's.
        guard: called with each request before its tool is looked up; a text that it returns, or
            an exception, refuses the call. It may be asynchronous; else it runs in a thread.
        state: the state directory. Without it: RELAYCONF_STATE_DIR, else the user's own.

    Raises:
        RelayError: the directory or the tools cannot be used; here or at the start.
        RelayconfError: the settings or the state directory cannot be; likewise.
    """

    _cancels = True

    def __init__(
        self,
        dir: Path | None = None,  # noqa: A002 - the name of the setting
        *,
        root: Path | None = None,
        tools: Tools | None = None,
        settings: Live[RelaySettings] | RelaySettings | None = None,
        guard: Guard | None = None,
        state: Path | None = None,
    ) -> None:
        live = given_settings(settings, state)
        _refuse_remote(live.current)
        path, self._serves_many = what_to_serve(dir, root, live.current)
        self._path = _absolute(path)
        super().__init__(live, tools=tools, guard=guard, state=state)
        self._root: Root | None = None

    async def start(self) -> None:
        """See ``BaseRunner.start``."""
        seconds = self._live.current.file_op_timeout.total_seconds()
        await answered(self._path, lambda: _refuse_within(self._state, self._path), seconds=seconds)
        await super().start()

    def _new_loop(self, shared: Shared) -> Loop:
        return Loop(shared, self._tools, self._guard)

    async def _join(self, shared: Shared, loop: Loop) -> None:
        if self._serves_many:
            self._root = Root(self._path, shared, loop)
            await self._root.start()
            return
        session = await open_session(self._path, shared, loop)
        loop.add(session)
        await session.start()

    def _where(self) -> str:
        return f"dir={token(self._path)}"

    def _many(self) -> str:
        return f" sessions={len(self.sessions)}" if self._serves_many else ""

    async def _leave(self, loop: Loop) -> None:
        await flush(loop.sessions, self._live.current.drain_timeout.total_seconds())

    def _close(self, shared: Shared, loop: Loop) -> None:
        if self._root is not None:
            self._root.stop()
        # All watches end at once, which is quicker than one by one.
        shared.hub.close()
        for session in loop.sessions:
            session.stop()
        shared.mounts.close()


def _refuse_remote(settings: RelaySettings) -> None:
    if settings.backend != "local":
        raise NothingToServe(
            f"RELAY_BACKEND is {settings.backend}: a directory behind it is served by "
            "relay.remote.runner.RemoteRunner, or by relay serve"
        )


def _absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except FileNotFoundError:
        raise NothingToServe(
            f"{path} is relative, and the working directory is gone; give an absolute path"
        ) from None


def _refuse_within(state: str, session: str) -> None:
    """Refuse a state directory that the session's writer could reach."""
    outer, inner = os.path.realpath(session), os.path.realpath(state)
    if inner == outer or inner.startswith(outer.rstrip("/") + "/"):
        raise StateError(f"the state directory {state} lies in the session directory: {FIX}")
